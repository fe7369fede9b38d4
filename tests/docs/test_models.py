"""docs/models.csv says what `attach` does with the models of timm and transformers; docs/models.md shows it."""

import warnings

import pytest
import timm
import transformers

from docs import build_models, models

VERSIONS, ROWS = models.read()
TIMM = {row.name: row for row in ROWS if row.library == "timm"}
TRANSFORMERS = {row.name: row for row in ROWS if row.library == "transformers"}
# A small architecture for each way to attach, and for each reason not to.
SAMPLE = [
    *(
        "vit_tiny_patch16_224",
        "vit_relpos_small_patch16_224",
        "samvit_base_patch16_224",
        "vit_dpwee_patch16_reg1_gap_256",
    ),
    *(
        "vit_small_patch16_18x2_224",
        "swin_tiny_patch4_window7_224",
        "hiera_tiny_224",
        "xcit_nano_12_p16_224",
        "pvt_v2_b0",
    ),
]


def test_the_page_shows_what_was_measured():
    assert build_models.PAGE.read_text() == build_models.page(VERSIONS, ROWS), "run `make docs`"


@pytest.mark.parametrize("name", SAMPLE)
def test_what_was_measured_still_holds(name):
    assert list(models.timm_rows([name])) == [TIMM[name]], "run `make models`"


@pytest.mark.parametrize("cls", [transformers.ViTModel, transformers.DeiTForImageClassification])
def test_classes_of_transformers_are_tried_too(cls):
    found = list(models.transformers_rows([cls]))
    assert found == [row for row in ROWS if row.name == cls.__name__]
    assert found[0].kinds == ("yes",) * len(models.KINDS)


def test_models_without_attention_are_not_listed():
    assert not list(models.timm_rows(["resnet10t", "mixer_s32_224"]))
    assert not list(models.transformers_rows([transformers.ResNetModel]))


def test_vit_like_is_what_attends_between_all_patches_of_one_grid():
    for name, alike in {"vit_tiny_patch16_224": "yes", "samvit_base_patch16_224": "yes", "pvt_v2_b0": "no"}.items():
        assert TIMM[name].vit_like == alike
    assert TIMM["xcit_nano_12_p16_224"].vit_like == "no"  # over channels


def test_nearly_all_vit_like_architectures_take_additive_rotary_and_bias_encoders():
    alike = build_models.vit_like(ROWS)
    assert len(alike) > 300
    assert sum(map(build_models.takes_plain, alike)) / len(alike) >= 0.95


def test_the_registries_are_those_of_this_version():
    assert VERSIONS["timm"] == timm.__version__, "run `make models`"
    assert VERSIONS["transformers"] == transformers.__version__, "run `make models`"
    assert set(TIMM) <= set(timm.list_models())


# `make models` tries all, which takes a quarter of an hour.
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({row.family: row.name for row in reversed(TIMM.values())}.values()))
def test_an_architecture_of_each_class_of_timm(name):
    assert list(models.timm_rows([name])) == [TIMM[name]], "run `make models`"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({row.family: row.name for row in TRANSFORMERS.values()}.values()))
def test_a_class_of_each_family_of_transformers(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of default configurations
        found = list(models.transformers_rows([getattr(transformers, name)]))
    assert found == [TRANSFORMERS[name]], "run `make models`"
