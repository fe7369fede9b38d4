"""What a recipe may say, and the learning rate of every step against a slow drawing of the same curve."""

import dataclasses
import json
import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loope import LoopeError
from loope.lab.engine.recipe import Recipe
from loope.lab.engine.schedule import learning_rate


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "`epochs` must be a whole number from 1 up, got 0"),
        ({"batch_size": 1.5}, "`batch_size` must be a whole number"),
        ({"accumulate": 0}, "`accumulate` must be a whole number"),
        ({"optimizer": "adma"}, "Unknown optimizer 'adma'; use one of: adam"),
        ({"precision": "fp16"}, "Unknown precision 'fp16'; use one of: float16"),
        ({"train": "head"}, "Unknown set of trained parameters 'head'"),
        ({"lr": -1.0}, "`lr` must be a positive number"),
        ({"lr": 1e-5}, "`min_lr` must not be above `lr` = 1e-05"),
        ({"warmup": 5}, "`warmup` must be shorter than the 5 epochs"),
        ({"weight_decay": float("nan")}, "`weight_decay` must be a number from 0 up"),
        ({"mixup": True}, "`mixup` must be a number from 0 up"),
        ({"label_smoothing": 1.0}, "`label_smoothing` must be below 1"),
        ({"start": "random"}, "Unknown start 'random'; use one of: equal, default"),
        ({"attention_gain": 0}, "`attention_gain` must be a positive number"),
        ({"beta2": 1.0}, "`beta2` must be below 1, got 1"),
        ({"beta2": "big"}, "`beta2` must be a number from 0 up"),
        ({"clip": 0}, "`clip` must be a positive number"),
        ({"layer_decay": 1.2}, "`layer_decay` must be at most 1"),
    ],
)
def test_what_cannot_be(options, message):
    with pytest.raises(LoopeError, match=message):
        Recipe(**{"epochs": 5, **options})


def test_json_and_back():
    recipe = Recipe(epochs=3, lr=1 / 3, layer_decay=0.75, clip=1.0)
    assert Recipe(**json.loads(json.dumps(dataclasses.asdict(recipe)))) == recipe


def test_written_down_without_torch():
    program = (
        "import sys; from loope.lab.engine.recipe import Recipe; Recipe(epochs=1); assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def drawn(recipe: Recipe, steps: int) -> list[float]:
    """The curve as one draws it: a line up through equal stairs, then a half circle's shadow falling to the end."""
    warm, total = recipe.warmup * steps, recipe.epochs * steps
    rates = []
    for step in range(total):
        if step < warm:
            stairs = warm + 1  # one more than the warm-up has: the top is reached when it is over
            rates.append(recipe.lr / stairs * (step + 1))
        else:
            turned = 180 * (step - warm) / max(total - 1 - warm, 1e-12)  # degrees
            middle, radius = (recipe.lr + recipe.min_lr) / 2, (recipe.lr - recipe.min_lr) / 2
            rates.append(middle + radius * math.cos(math.radians(turned)))
    return rates


@given(st.integers(1, 6), st.integers(1, 9), st.floats(0, 0.99), st.floats(1e-5, 1), st.floats(0, 1))
def test_schedule_against_the_drawing(epochs, steps, part, lr, ratio):
    recipe = Recipe(epochs=epochs, lr=lr, min_lr=lr * ratio, warmup=epochs * part)
    rates = [learning_rate(recipe, step, steps) for step in range(epochs * steps)]
    assert rates == pytest.approx(drawn(recipe, steps), rel=1e-9)


def test_the_papers_schedule():
    """Adam, 1e-3 to 2.5e-5."""
    recipe = Recipe(epochs=20, optimizer="adam")
    rates = [learning_rate(recipe, step, 7) for step in range(140)]
    assert (rates[0], rates[-1]) == (1e-3, 2.5e-5)
    assert rates == sorted(rates, reverse=True)
    assert rates[69] + rates[70] == pytest.approx(1e-3 + 2.5e-5)  # symmetric about the middle
