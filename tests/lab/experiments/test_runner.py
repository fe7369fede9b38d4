"""Runs of the smoke preset, for real: trained, tested, measured, written down."""

import dataclasses
import errno
import json

import pytest
import torch
from safetensors.torch import load_file

import loope
from loope.lab.data import load_images
from loope.lab.engine.recipe import Recipe
from loope.lab.experiments import runner
from loope.lab.experiments.names import TINY_MODELS
from loope.lab.experiments.presets import image_run, measured, three_cell_run
from loope.lab.experiments.results import FAILED, PICTURES, RESULT, SPEC, folder_of, read_result, status_of
from loope.lab.experiments.runner import create_experiment, execute
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.spec import Data, Encoder, Model, Run
from loope.lab.experiments.timm_models import create_timm, local_weights
from tests.lab.data.dataset_files import write_folders
from tests.weights import weights

HERE = Settings(workers=0)


def do(run, out):
    execute(run.to_json(), str(out), HERE)
    return read_result(folder_of(run, out))


def build_model(run, outputs=None):
    experiment = create_experiment(run, HERE)
    if outputs:
        experiment.outputs = outputs  # without its data
    return experiment.build_model()


def test_a_run_is_trained_tested_measured_and_written_down(tmp_path):
    run = three_cell_run("smoke", "loope")
    result = do(run, tmp_path)
    assert Run.from_json(json.dumps(result["run"])) == run
    assert result["key"] == run.key
    metrics = result["metrics"]
    four = [metrics[name] for name in ("distance", "orientation", "area", "vector_sum")]
    assert metrics["average"] == pytest.approx(sum(four) / 4)
    assert {"pesi_m_u", "pesi_m_d", "pesi_a_su", "offset_size", "offset_over_images", "best_average"} <= set(metrics)
    assert metrics["best_epoch"] == 1
    assert [each["epoch"] for each in result["history"]] == [1]
    model = build_model(run)
    assert result["parameters"]["encoder"] == sum(p.numel() for n, p in model.named_parameters() if "generator" in n)
    own = sum(p.numel() for n, p in model.named_parameters() if n.startswith("loope.own"))
    assert result["parameters"]["model"] == sum(p.numel() for p in model.parameters()) - own
    assert (
        result["versions"]["torch"] == torch.__version__.split("+")[0]
        or result["versions"]["torch"] == torch.__version__
    )
    assert {"cores", "threads", "system", "gpus"} == set(result["machine"])
    assert result["seconds"] > 0
    kept = load_file(folder_of(run, tmp_path) / PICTURES)
    assert kept["similarity"].shape == (16, 16)
    assert kept["offsets"].shape == (len(kept["images"]), 16)
    assert json.loads((folder_of(run, tmp_path) / SPEC).read_text())["encoder"]["name"] == "loope"


def test_a_run_that_is_done_is_not_done_again(tmp_path):
    run = measured("smoke", "gilbert")
    do(run, tmp_path)
    file = folder_of(run, tmp_path) / RESULT
    file.write_text(json.dumps({"metrics": {"mark": 1}}))
    assert do(run, tmp_path) == {"metrics": {"mark": 1}}


def test_the_same_run_gives_the_same_numbers(tmp_path):
    run = image_run("smoke", "ViT-Base", "Oxford-IIIT", "loope")
    one, other = (do(run, tmp_path / name) for name in ("a", "b"))
    assert one["metrics"] == other["metrics"]
    assert [each["loss"] for each in one["history"]] == [each["loss"] for each in other["history"]]
    assert do(run.with_seed(1), tmp_path / "a")["history"][0]["loss"] != one["history"][0]["loss"]


def test_no_positions_score_what_a_constant_does(tmp_path):
    """None sees the same bag of tokens in every image: its answers are one constant."""
    run = three_cell_run("smoke", "none")
    data = loope.ThreeCell(**run.data.options, seed=0, split="test")
    result = do(run, tmp_path)
    share = data.labels.double().mean(0)
    counts = result["details"]["confusion"]
    for bit, ((no_no, no_yes), (yes_no, yes_yes)) in enumerate(counts):
        assert 0 in (no_no + yes_no, no_yes + yes_yes)  # one answer for all images
        assert (no_no + yes_yes) / len(data) in (pytest.approx(1 - share[bit].item()), pytest.approx(share[bit].item()))


def test_measuring_gives_the_published_rows(tmp_path):
    """Table 5 at the paper's size: "1D Sinusoid" and "LOOPE", to four decimals."""
    for name, published in (("sinusoid", (1.9567, 1.4905, 0.1243)), ("gilbert", (1.9674, 1.2900, 0.0939))):
        metrics = do(measured("paper", name), tmp_path)["metrics"]
        found = tuple(round(metrics[key], 4) for key in ("m_u", "m_d", "a_su"))
        assert found == published


def test_m_d_is_measured_for_each_number_of_directions(tmp_path):
    metrics = do(measured("smoke", "gilbert", (1, 60)), tmp_path)["metrics"]
    assert metrics["m_d_60"] == metrics["m_d"]
    assert metrics["m_d_1"] != metrics["m_d_60"]
    assert metrics["m_d_ceiling_1"] == pytest.approx(2)


def test_a_failure_is_written_down_and_forgotten_once_it_works(tmp_path, monkeypatch):
    run = three_cell_run("smoke", "gilbert")
    monkeypatch.setattr("loope.lab.experiments.experiment.create_timm", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        execute(run.to_json(), str(tmp_path), HERE)
    status = status_of(run, tmp_path)
    assert (status.state, status.error) == ("failed", "ZeroDivisionError: division by zero")
    assert "Traceback" in json.loads((folder_of(run, tmp_path) / FAILED).read_text())["traceback"]
    monkeypatch.undo()
    do(run, tmp_path)
    assert status_of(run, tmp_path).state == "done"
    assert not (folder_of(run, tmp_path) / FAILED).exists()


def test_bad_images_in_every_part_are_skipped_and_counted(tmp_path):
    data = tmp_path / "data"
    write_folders(data / "imagenet", ["n1", "n2"], {"train": 12, "val": 4})
    options = {"split": "official", "image_size": 32}
    run = Run(
        model=TINY_MODELS["ViT-Base"], encoder=Encoder(name="gilbert"), data=Data(name="imagenet", options=options),
        recipe=Recipe(epochs=1, batch_size=4),
    )  # fmt: skip
    split = load_images("imagenet", data).split("official", seed=0)
    for part in split.values():
        (part.reader.folder / part.reader.names[0]).write_text("<html>404</html>")
    with pytest.raises(loope.LoopeError, match="Cannot read the image"):
        execute(run.to_json(), str(tmp_path), dataclasses.replace(HERE, data=str(data)))
    run = run.with_images(None, skip_bad_images=True)
    execute(run.to_json(), str(tmp_path), dataclasses.replace(HERE, data=str(data)))
    result = read_result(folder_of(run, tmp_path))
    assert result["bad_images"] == {"train": 1, "val": 1, "test": 1}
    assert result["samples"] == {"train": 20, "val": 2, "test": 8}  # whole batches of the 22 for training
    assert result["digests"] == {name: part.digest() for name, part in split.items()}


def test_a_run_does_not_go_on_with_other_pixels(tmp_path):
    """Nor with another name. What goes on and what was trained at once are the same."""
    data = tmp_path / "data"
    write_folders(data / "imagenet", ["n1", "n2"], {"train": 12, "val": 4})
    run = Run(
        model=TINY_MODELS["ViT-Base"], encoder=Encoder(name="gilbert"),
        data=Data(name="imagenet", options={"split": "official", "image_size": 32}),
        recipe=Recipe(epochs=1, batch_size=4),
    )  # fmt: skip
    there = dataclasses.replace(HERE, data=str(data))
    execute(run.to_json(), str(tmp_path), there)
    result = folder_of(run, tmp_path) / RESULT
    metrics = read_result(folder_of(run, tmp_path))["metrics"]
    result.unlink()
    for part, named in (("train", "training"), ("val", "validation")):
        split = load_images("imagenet", data).split("official", seed=0)
        path = data / "imagenet" / split[part].reader.names[0]
        before = path.read_bytes()
        path.write_bytes(before[:-3] + bytes([before[-3] ^ 1]) + before[-2:])
        with pytest.raises(loope.LoopeError, match=f"data.{named}.content was"):
            execute(run.to_json(), str(tmp_path), there)
        path.write_bytes(before)
    execute(run.to_json(), str(tmp_path), there)
    assert read_result(folder_of(run, tmp_path))["metrics"] == metrics


def test_a_share_of_each_class_is_a_quarter_for_validation(tmp_path):
    write_folders(tmp_path / "imagenet", ["n1", "n2"], {"train": 40, "val": 10})
    options = {"split": "official", "image_size": 32, "per_class": 8}
    run = Run(
        model=TINY_MODELS["ViT-Base"], encoder=Encoder(name="gilbert"), data=Data(name="imagenet", options=options),
        recipe=Recipe(epochs=1, batch_size=4),
    )  # fmt: skip
    found = create_experiment(run, dataclasses.replace(HERE, data=str(tmp_path)))
    assert {part: source.samples for part, source in found.sources.items()} == {"train": 16, "val": 4, "test": 16}


def test_data_and_recipe_go_together():
    trained, measurement = three_cell_run("smoke", "gilbert"), measured("smoke", "gilbert")
    with pytest.raises(loope.LoopeError, match="needs a recipe"):
        create_experiment(dataclasses.replace(trained, recipe=None), HERE)
    with pytest.raises(loope.LoopeError, match="'moon'"):
        create_experiment(dataclasses.replace(measurement, data=Data(name="moon")), HERE)


def test_chosen_classes_are_those_of_the_run(tmp_path):
    write_folders(tmp_path / "imagenet", ["n1", "n2", "n3"], {"train": 10, "val": 4})
    run = image_run("laptop", "ViT-Base", "ImageNet-100", "gilbert", size=32).with_images(["n3", "n1"], False)
    run = dataclasses.replace(run, recipe=Recipe(epochs=1, batch_size=4))
    found = create_experiment(run, dataclasses.replace(HERE, data=str(tmp_path)))
    assert found.outputs == 2
    assert found.source("test").samples == 8
    with pytest.raises(loope.LoopeError, match="ImageNet-1k is not in"):
        create_experiment(run, dataclasses.replace(HERE, data=str(tmp_path / "nowhere"))).find_data()


def test_a_full_disk_is_the_error_that_is_told(tmp_path, monkeypatch):
    """Not that the failure could not be written down."""
    write = runner.write_atomic

    def full(path, data):
        if path.name == FAILED:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(runner, "write_atomic", full)
    run = dataclasses.replace(measured("smoke", "gilbert"), encoder=Encoder(name="gilbert", options={"nonsense": 1}))
    with pytest.raises(Exception, match="nonsense"):
        do(run, tmp_path)


def test_states_of_a_run(tmp_path):
    run = three_cell_run("smoke", "gilbert")
    assert status_of(run, tmp_path).state == "waiting"
    folder = folder_of(run, tmp_path)
    folder.mkdir()
    (folder / SPEC).write_text("{}")
    assert status_of(run, tmp_path).state == "begun"
    from loope.lab.engine.lock import locked

    with locked(folder):
        assert status_of(run, tmp_path).state == "running"
    (folder / RESULT).write_text('{"metrics": {}')  # cut off
    assert status_of(run, tmp_path).state == "begun"


def test_missing_weights_say_where_to_put_them(monkeypatch, tmp_path):
    monkeypatch.setenv("LOOPE_WEIGHTS", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(loope.LoopeError, match=r"put them into .* as deit_tiny_patch16_224\.fb_in1k\.safetensors"):
        create_timm(Model(name="deit_tiny_patch16_224.fb_in1k", weights="pretrained"))


def test_local_weights_come_before_a_download():
    """The backbone is the pretrained one; the head is new, for another number of classes."""
    assert local_weights("vit_tiny_patch16_224") == weights("vit_tiny_patch16_224.safetensors")
    run = image_run("laptop", "ViT-Base", "Oxford-IIIT", "own")
    model, other = build_model(run, 37), build_model(run.with_seed(1), 37)
    file = load_file(local_weights("vit_tiny_patch16_224"))
    assert torch.equal(model.blocks[3].mlp.fc1.weight, file["blocks.3.mlp.fc1.weight"])
    assert torch.equal(model.pos_embed, file["pos_embed"])
    assert model.head.weight.shape == (37, 192)
    assert not torch.equal(model.head.weight, other.head.weight)


def test_another_image_size_resamples_the_own_table():
    weights("vit_tiny_patch16_224.safetensors")
    run = image_run("laptop", "ViT-Base", "Oxford-IIIT", "own", size=384)
    assert build_model(run, 37).pos_embed.shape == (1, 1 + 24 * 24, 192)


def test_only_the_encoder_can_be_trained(tmp_path):
    run = three_cell_run("smoke", "learned")
    run = dataclasses.replace(run, recipe=Recipe(epochs=1, batch_size=8, train="encoder"))
    do(run, tmp_path)
    before = build_model(run).state_dict()
    after = load_file(next((folder_of(run, tmp_path) / "checkpoints").glob("*/weights.safetensors")))
    changed = {name for name, tensor in before.items() if name in after and not torch.equal(tensor, after[name])}
    assert changed
    assert all(name.startswith("loope.") for name in changed)


def test_an_unknown_encoder_or_option_is_an_error_with_a_name(tmp_path):
    run = three_cell_run("smoke", "gilbert")
    with pytest.raises(loope.LoopeError, match="Unknown encoder 'gilberto'; use one of: gilbert"):
        do(dataclasses.replace(run, encoder=Encoder(name="gilberto")), tmp_path)
    assert status_of(dataclasses.replace(run, encoder=Encoder(name="gilberto")), tmp_path).state == "failed"
