"""The report of `attach` against the actual changes."""

import torch
from rich.console import Console

import loope
from loope.surgery.report import BESIDE, FITTED, KEPT, POORLY_FITTED, SET_ASIDE
from tests.surgery.matrix import every_encoder, every_model
from tests.surgery.models import make, predict

# Number of prefix tokens in the blocks, and names of the model's own encoding; by default 1 and "pos_embed".
PREFIX = {
    "ViT, no class token": 0, "ViT, registers": 5, "ViT, no_embed_class": 2, "DeiT distilled": 2, "CaiT": 0,
    "HF DeiT": 2, "HF DeiTModel": 2, "SETR": 0, "NaFlexViT": 2,
}  # fmt: skip
OWN = {
    "SETR": ["backbone.pos_embed"],
    "Segmenter": ["backbone.pos_embed"],
    "CrossViT": ["pos_embed_0", "pos_embed_1"],
    "EVA": ["pos_embed", "rope"],
    "EVA, mixed rotary": ["rope"],
    "BEiT": [f"blocks.{number}.attn.relative_position_bias_table" for number in range(2)],
    "BEiT, shared bias": ["pos_embed", "rel_pos_bias"],
    "NaFlexViT": ["embeds.pos_embed"],
    "NaFlexViT, rotary": ["rope"],
    "HF ViT": ["vit.embeddings.position_embeddings"],
    "HF ViTModel": ["embeddings.position_embeddings"],
    "HF DeiT": ["deit.embeddings.position_embeddings"],
    "HF DeiTModel": ["embeddings.position_embeddings"],
}


@every_model
@every_encoder
def test_the_report_says_what_was_done(name, encoder):
    model = make(name)
    before = {key: parameter.numel() for key, parameter in model.named_parameters()}
    report = loope.report(loope.attach(model, encoder, prefix="learned"))
    after = {key: parameter.numel() for key, parameter in model.named_parameters()}
    gone = {key: count for key, count in before.items() if key not in after}
    own, tokens = OWN.get(name, ["pos_embed"]), PREFIX.get(name, 1)
    assert report.model == type(model).__name__
    assert report.encoders == [encoder]
    assert report.grids == (["4x4", "2x2"] if name == "CrossViT" else ["4x4"])
    assert report.set_aside == own
    assert all(any(f"{key}.".startswith(f"{each}.") for each in own) for key in gone)
    assert report.parameters_set_aside == sum(gone.values())
    kept = {key: count for key, count in after.items() if key.startswith("loope.own")}
    ours = {key: count for key, count in after.items() if key not in before and key not in kept}
    assert report.parameters_added == sum(ours.values())
    assert (report.prefix_tokens, report.prefix, report.keep_own) == (tokens, "learned", False)
    assert [note for note in report.notes if "contextual iRPE" in note] == report.notes[1:]
    assert len(report.notes) == 1 + (encoder == "irpe")
    console = Console(width=200, record=True)
    console.print(report)
    for shown in (str(report), console.export_text()):
        for words in (
            type(model).__name__,
            encoder,
            " and ".join(report.grids),
            f"set aside: {', '.join(own)}",
            f"{sum(gone.values()):,}",
            f"{sum(ours.values()):,}",
            f"{tokens}: a learned vector each" if tokens else "none in the blocks",
        ):
            assert words in shown


def test_the_report_counts_a_generator_and_a_table():
    report = loope.report(loope.attach(make("ViT, registers"), "loope", prefix="learned"))
    generator = sum(each.numel() for each in loope.create_encoder("loope", 48, 4, patch_size=8).parameters())
    assert report.parameters_added == generator + 5 * 48
    assert report.parameters_set_aside == (16 + 5) * 48


@every_model
def test_the_report_on_what_was_kept(name):
    report = loope.report(loope.attach(make(name), ["gilbert", "peg"], keep_own=True))
    assert report.encoders == ["gilbert", "peg"]
    assert (report.set_aside, report.parameters_set_aside, report.keep_own) == ([], 0, True)
    assert "gilbert + peg" in str(report)
    assert "kept, encoders add to it" in str(report)
    assert ("no position" in str(report)) == bool(PREFIX.get(name, 1))


def test_the_report_says_what_the_model_needs():
    """Nothing exactly if the output is as it was and the encoder is at work."""
    for name, encoder, options, expected in (
        ("ViT", "learned", {"init": "own"}, None),
        ("ViT", "learned", {"init": "own", "prefix": "none"}, FITTED),
        ("ViT, no class token", "learned", {"init": "own"}, None),
        ("CrossViT", "learned", {"init": "own"}, None),
        ("HF DeiT", "learned", {"init": "own"}, None),
        ("ViT", "sincos2d", {"init": "own"}, POORLY_FITTED),  # its table is random
        ("EVA", "learned", {"init": "own"}, BESIDE),  # it has a rotary encoding, which no table can imitate
        ("ViT", "rope_mixed", {"init": "own"}, BESIDE),
        ("ViT", "gilbert", {"keep_own": True}, KEPT),
        ("ViT", "rope_mixed", {}, SET_ASIDE),
    ):
        model = make(name)
        before = predict(model)
        report = loope.report(loope.attach(model, encoder, **options))
        same = torch.allclose(predict(model), before, atol=1e-5)
        assert report.notes == ([] if expected is None else [expected]), (name, encoder, options)
        assert same == (expected in (None, BESIDE)), (name, encoder, options)
