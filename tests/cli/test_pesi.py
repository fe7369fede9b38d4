"""`loope pesi`, run as a user would."""

import json
import re
import sys

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

import loope
from loope.cli import main as cli
from loope.pesi_metric import position_table as tables
from loope.pesi_metric.summary import summarize
from tests.weights import weights

runner = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"})


def run(*arguments):
    shown = runner.invoke(cli.app, ["pesi", *map(str, arguments)])
    assert shown.exit_code == 0, shown.output
    return shown.output


def as_json(*arguments):
    return json.loads(run(*arguments, "--json"))


def test_the_papers_numbers_stand_below_ours():
    shown = run("sinusoid", "gilbert", "sincos2d")
    assert "M_D is at most 1.5321" in shown
    assert re.search(
        r"sinusoid +1\.9567 +1\.4905 +97\.3% +0\.1243 .*\n *paper: 1D Sinusoid +1\.9567 +1\.4905 +0\.1243", shown
    )
    assert re.search(
        r"gilbert +1\.9674 +1\.2900 +84\.2% +0\.0939 .*\n *paper: Static +1\.9670 +1\.2897 +0\.0945", shown
    )
    assert re.search(r"sincos2d +1\.9991 +1\.5318 +100\.0% +0\.0281 ", shown)
    assert max(map(len, shown.splitlines())) <= 80
    assert "paper" not in run("gilbert", "--grid", "7x28")
    assert "paper" not in run("gilbert", "--directions", "4")


def test_a_width_that_no_whole_number_of_64_channel_heads_fills():
    assert [row["dim"] for row in as_json("irpe", "--grid", "3x5", "--dim", 200)["rows"]] == [200]


def test_all_encoders_as_json():
    rows = as_json("--grid", "3x5", "--dim", 64)["rows"]
    assert [row["name"] for row in rows] == loope.list_encoders()
    for row in rows:
        assert row["grid"] == [3, 5]
        assert row["dim"] == 64
        assert row["m_d_ceiling"] == pytest.approx(loope.m_d_ceiling((3, 5)))
        assert row["m_d_share"] == pytest.approx(row["m_d"] / row["m_d_ceiling"])
        assert row["published"] is None
    none = next(row for row in rows if row["name"] == "none")
    assert none["smallest_mean"] is None  # infinite: no ring has a spread
    assert none["translation_consistency"] == 1
    loop = next(row for row in as_json("loope")["rows"])
    assert loop["published"] == {"called": "LOOPE", "m_u": 1.9674, "m_d": 1.29, "a_su": 0.0939}


def test_a_row_is_what_the_library_says():
    (row,) = as_json("rope_axial", "--grid", "4x6", "--dim", 64, "--directions", 8)["rows"]
    similarity = loope.encoder_similarity(loope.create_encoder("rope_axial", 64, (4, 6), heads=1))
    scores = loope.pesi_from_similarity(similarity, (4, 6), 8)
    for name in ("m_u", "m_d", "a_su", "a_su_bounded", "m_d_share", "smallest_mean"):
        assert row[name] == getattr(scores, name).item()
    assert row["translation_consistency"] == loope.translation_consistency(similarity, (4, 6)).item()
    assert row["nearness_correlation"] == loope.nearness_correlation(similarity, (4, 6)).item()


def test_the_seed_decides_what_is_untrained():
    one, again, other = (as_json("learned", "--grid", 4, "--dim", 8, "--seed", seed) for seed in (1, 1, 2))
    assert one == again != other


def test_a_checkpoint_and_an_encoder_side_by_side(tmp_path):
    path = tmp_path / "model.safetensors"
    tables = {"pos_embed_0": torch.rand(1, 13, 8) - 0.4, "pos_embed_1": torch.rand(1, 10, 8)}
    save_file(tables, path)
    first, second = as_json("gilbert", "--checkpoint", path, "--table", "pos_embed_0", "--grid", "3x4")["rows"]
    assert (first["name"], first["grid"], first["dim"]) == ("model.safetensors", [3, 4], 8)
    with pytest.warns(loope.LoopeWarning):
        assert first["m_d"] == loope.pesi(tables["pos_embed_0"][0, 1:].view(3, 4, 8)).m_d.item()
    assert (second["name"], second["grid"]) == ("gilbert", [3, 4])
    shown = run("gilbert", "--checkpoint", path, "--table", "pos_embed_1")
    assert "3x3" in shown  # grids differ, so each row names its own
    assert "14x14" in shown
    assert re.search(
        r"-?\d\*.*\n(.*\n)*\* divides by a mean near zero",
        run("--checkpoint", path, "--table", "pos_embed_0", "--grid", "3x4"),
    )


def test_the_encoder_at_work_is_measured_and_what_is_set_aside_by_name(tmp_path):
    timm = pytest.importorskip("timm")
    args = {"depth": 1, "embed_dim": 32, "num_heads": 2}
    model = timm.create_model("vit_tiny_patch16_224", img_size=64, **args)
    loope.attach(model, "rope_mixed")
    path = loope.save(model, tmp_path / "m.safetensors", model_args=args)
    output = as_json("--checkpoint", path)
    (row,) = output["rows"]
    scores = loope.pesi_from_similarity(loope.encoder_similarity(model.loope.encoders_of(0)[0]), (4, 4))
    assert (row["name"], row["m_u"]) == ("m.safetensors: rope_mixed", scores.m_u.item())
    assert output["set_aside"] == ["loope.own.pos_embed"]
    assert "--table loope.own.pos_embed" in run("--checkpoint", path)
    (own,) = as_json("--checkpoint", path, "--table", "loope.own.pos_embed")["rows"]
    table = model.loope.own.pos_embed[0, 1:].view(4, 4, 32)
    assert own["m_d"] == summarize(loope.cosine_similarity(table), (4, 4)).m_d
    assert own["m_u"] != row["m_u"]


def test_a_pretrained_vit_by_file_and_by_name():
    path = weights("vit_tiny_patch16_224.safetensors")
    (by_file,) = as_json("--checkpoint", path)["rows"]
    (by_name,) = as_json("--checkpoint", path, "--model", "vit_tiny_patch16_224")["rows"]
    assert by_name == by_file | {"name": "vit_tiny_patch16_224"}
    assert [round(by_file[name], 5) for name in ("m_u", "m_d")] == [1.94112, 1.21255]


def test_a_model_by_name_uses_its_own_grid(monkeypatch):
    timm = pytest.importorskip("timm")
    made = timm.create_model("vit_tiny_patch16_224", img_size=(64, 160), depth=1)  # 4x10 patches
    asked = []

    def create(name, pretrained):
        asked.append((name, pretrained))
        return made

    monkeypatch.setattr(tables, "missing_weights", lambda name: None)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # so that no hub is asked
    monkeypatch.setattr(timm, "create_model", create)
    (row,) = as_json("--model", "vit_tiny_patch16_224")["rows"]
    assert asked == [("vit_tiny_patch16_224", True)]
    assert row["grid"] == [4, 10]

    def offline(name, pretrained):
        raise OSError("no network")

    monkeypatch.setattr(timm, "create_model", offline)
    shown = runner.invoke(cli.app, ["pesi", "--model", "vit_tiny_patch16_224"])
    assert isinstance(shown.exception, loope.LoopeError)
    assert "cannot load 'vit_tiny_patch16_224': no network; give a file of its weights" in str(shown.exception)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gilbart"], "Unknown encoder 'gilbart'"),
        (["--grid", "1x1"], "no distances to compare"),
        (["--checkpoint", "nowhere.safetensors"], "no file 'nowhere.safetensors'"),
        (["--checkpoint", "model.pth"], "must be a .safetensors file"),
        (["--model", "vit_tini_patch16_224"], "no model 'vit_tini_patch16_224'; nearest are vit_tiny_patch16_224"),
    ],
)
def test_mistakes_end_in_a_message(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["loope", "pesi", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_a_small_file_with_a_large_table(tmp_path):
    save_file({"pos_embed": torch.rand(1, 10**6, 1)}, tmp_path / "m.safetensors")
    shown = runner.invoke(cli.app, ["pesi", "--checkpoint", str(tmp_path / "m.safetensors")])
    assert isinstance(shown.exception, loope.LoopeError)
    assert "1000x1000" in str(shown.exception)


def test_a_files_name_is_shown_as_text(tmp_path):
    path = tmp_path / "[b]a\x1b[2J.safetensors"
    save_file({"pos_embed": torch.rand(1, 9, 8)}, path)
    shown = run("--checkpoint", path)
    assert "[b]a\\x1b[2J" in shown
    assert "\x1b" not in shown
