import dataclasses
import json
import subprocess
import sys

import pytest

import loope
from loope.lab.engine.recipe import Recipe
from loope.lab.experiments.spec import Data, Encoder, Model, Run

RUN = Run(
    model=Model(name="vit_tiny_patch16_224", options={"depth": 2}),
    encoder=Encoder(name="loope", options={"inputs": "xy"}),
    data=Data(name="pets", options={"split": "official"}),
    recipe=Recipe(epochs=3),
    seed=1,
)


def test_json_brings_the_same_run_back():
    again = Run.from_json(RUN.to_json())
    assert again == RUN
    assert again.key == RUN.key
    measured = dataclasses.replace(RUN, recipe=None)
    assert Run.from_json(measured.to_json()) == measured


def test_the_key_does_not_depend_on_the_order_of_options():
    one = dataclasses.replace(RUN, data=Data(name="pets", options={"a": 1, "b": 2}))
    other = dataclasses.replace(RUN, data=Data(name="pets", options={"b": 2, "a": 1}))
    assert one.key == other.key


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 2},
        {"recipe": Recipe(epochs=4)},
        {"recipe": None},
        {"encoder": Encoder(name="loope")},
        {"encoder": Encoder(name="gilbert", options={"inputs": "xy"})},
        {"model": Model(name="vit_tiny_patch16_224")},
        {"model": Model(name="vit_tiny_patch16_224", options={"depth": 2}, weights="pretrained")},
        {"data": Data(name="pets")},
    ],
)
def test_whatever_decides_the_outcome_changes_the_key(changed):
    assert dataclasses.replace(RUN, **changed).key != RUN.key


def test_the_name_says_what_it_is_and_is_a_good_folder_name():
    assert RUN.name == f"pets-vit_tiny_patch16_224-loope-s1-{RUN.key}"
    assert RUN.with_seed(5).name.startswith("pets-vit_tiny_patch16_224-loope-s5-")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model": 3}', json.dumps({"recipe": None, "model": {"what": 1}})])
def test_something_else_is_not_a_run(text):
    with pytest.raises(loope.LoopeError, match="not a run as loope writes it"):
        Run.from_json(text)


def test_weights_are_pretrained_or_not():
    with pytest.raises(loope.LoopeError, match="'pretrained' or 'scratch', got 'imagenet'"):
        Model(name="vit_tiny_patch16_224", weights="imagenet")


def test_tables_are_listed_and_counted_without_torch():
    program = (
        "import sys\n"
        "from loope.lab.experiments.table import PRESETS, get_table, table_names\n"
        "count = sum(len(get_table(name).entries(preset)) for name in table_names() for preset in PRESETS)\n"
        "print(count > 100, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_a_new_field_with_a_default_does_not_change_the_key():
    newer = dataclasses.make_dataclass("Recipe", [("ema", float, 0.0)], bases=(Recipe,), frozen=True, kw_only=True)
    fields = dataclasses.asdict(RUN.recipe)
    assert dataclasses.replace(RUN, recipe=newer(**fields)).key == RUN.key
    assert dataclasses.replace(RUN, recipe=newer(**fields, ema=0.9)).key != RUN.key


def test_a_changed_default_of_the_encoder_changes_the_key(monkeypatch):
    before, same = RUN.key, dataclasses.replace(RUN, encoder=Encoder(name="gilbert")).key

    def changed(self, dim, grid, patch_size, channels=3, inputs="rgb+xy", mixer="conv"): ...

    monkeypatch.setattr(loope.encoders.encoder_class("loope"), "__init__", changed)
    assert RUN.key != before
    assert dataclasses.replace(RUN, encoder=Encoder(name="gilbert")).key == same


def test_an_encoder_option_at_its_default_is_the_same_run():
    short, long = (
        dataclasses.replace(RUN, encoder=Encoder(name="fourier", options=options))
        for options in ({}, {"amplitude": "unit"})
    )
    assert short.key == long.key


def test_classes_and_skipped_images_are_part_of_the_run():
    run = dataclasses.replace(RUN, data=Data(name="imagenet100"))
    keys = {run.with_images(classes, skip).key for classes in (None, ["a", "b"], ["a", "c"]) for skip in (False, True)}
    assert len(keys) == 6
    assert run.with_images(["b", "a"], False) == run.with_images(["a", "b"], False)
    assert RUN.with_images(["a"], False) == RUN  # other data has its own classes
    probe = dataclasses.replace(RUN, data=Data(name="three_cell"))
    assert probe.with_images(["a"], True) == probe


def test_an_option_that_came_later_and_changes_nothing_keeps_the_key(monkeypatch):
    def plain(self, dim, grid, patch_size=None, channels=3, order="raster"): ...

    def later(self, dim, grid, patch_size=None, channels=1, heads=2, order="raster", refine=None): ...

    def other(self, dim, grid, order="raster", refine="image"): ...

    keys = []
    for made in (plain, later, other):
        monkeypatch.setattr(loope.encoders.encoder_class("sinusoid"), "__init__", made)
        keys.append(dataclasses.replace(RUN, encoder=Encoder(name="sinusoid")).key)
    assert keys[0] == keys[1] != keys[2]
