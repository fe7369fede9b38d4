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
