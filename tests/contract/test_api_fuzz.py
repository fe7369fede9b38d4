"""Call public functions with random arguments: errors are `LoopeError` or `TypeError`, and no NaN is returned.

Seeded and bounded. Values are small or absurd, never in between: other tests check memory limits.
"""

import copy
import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import timm
import torch
from torch import Tensor

import loope
from tests.surgery.models import TIMM

SIDES = (1, 2, 3, 4, 7)
SHAPES = (
    (),
    (0,),
    (3,),
    (4, 4),
    (2, 2),
    (6, 6),
    (2, 2, 3),
    (2, 3, 8),
    (1, 4, 8),
    (0, 4, 8),
    (2, 3, 4, 5),
    (2, 3, 8, 8),
)
DTYPES = [value for value in vars(torch).values() if isinstance(value, torch.dtype)]
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, 3, -1, 2**40, 2**63, 2**64, -(10**30), 10**5000, 0.5, 1.5, -0.0, 1e308, 1j,
    float("nan"), float("inf"), "", "a", "learned", "gilbert", "loope", "rope_axial", "train", "paper", "none",
    "\x1b[31m", "★" * 300, b"x", [], [1, 2], [[]], (), (2, 2), (2, 3, 4), ("learned", {}), [["peg", {}]],
    [("learned", {"grid": 5})], {}, {"a": 1}, {1: 2}, set(), frozenset(), object(), object, int, len, ...,
    NotImplemented, slice(3), range(3), torch.nn.Linear(2, 2), torch.nn.Identity, torch.float32,
    torch.device("meta"), torch.Generator(),
)  # fmt: skip


def tensor(rng: random.Random) -> Tensor:
    shape, kind = rng.choice(SHAPES), rng.random()
    value = torch.rand(shape, generator=torch.Generator().manual_seed(rng.randrange(99)))
    if kind < 0.15:
        return value * rng.choice((0.0, float("nan"), float("inf"), 1e300, 1e-300))
    if kind < 0.2:
        return value.to("meta")
    if kind < 0.25:
        return value.to_sparse()
    if kind < 0.5:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return value.to(rng.choice(DTYPES))
        except (NotImplementedError, RuntimeError, TypeError):  # some dtypes cannot be created
            return value
    return value.requires_grad_(rng.random() < 0.2)


def anything(rng: random.Random) -> Any:
    return tensor(rng) if rng.random() < 0.3 else rng.choice(ODD)


def encoder(rng: random.Random) -> loope.PositionalEncoder:
    name = rng.choice(("learned", "sinusoid", "peg", "loope", "rope_axial", "alibi2d"))
    made = loope.create_encoder(name, 8, (2, 2), patch_size=4, heads=1, depth=1)
    return made if rng.random() < 0.9 else made.to("meta")


MODEL = timm.create_model("vit_tiny_patch16_224", **TIMM)


def model(rng: random.Random) -> torch.nn.Module:
    made = copy.deepcopy(MODEL)
    if rng.random() < 0.5:
        loope.attach(made, "learned")
    return made


def pick(*values: Any) -> Callable[[random.Random], Any]:
    return lambda rng: rng.choice(values)


grid = pick(2, (2, 2), (2, 3), 3)
side = pick(*SIDES)
square = pick(torch.rand(4, 4), torch.rand(2, 4, 4), torch.rand(6, 6).double(), torch.rand(9, 9).half())
vectors = pick(torch.rand(2, 2, 8), torch.rand(3, 2, 3, 4).double(), torch.rand(2, 2, 8).bfloat16())
encoders = pick(*loope.list_encoders())
# Each function, and for each argument a generator of likely values.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Callable[[random.Random], Any]]]] = {
    "create_order": (loope.create_order, {"name": pick(*loope.list_orders()), "height": side, "width": side}),
    "Order": (loope.Order, {"index": pick(torch.tensor([[0, 1]]), torch.tensor([[1, 1]]), torch.rand(2, 2))}),
    "list_orders": (loope.list_orders, {"pattern": pick("*", "g*")}),
    "list_encoders": (loope.list_encoders, {"pattern": pick("*", "r*")}),
    "register_order": (lambda name: loope.register_order(name, replace=True), {"name": pick("raster")}),
    "create_encoder": (
        loope.create_encoder,
        {"name": encoders, "dim": pick(8, 12), "grid": grid, "patch_size": pick(4, 2), "heads": pick(1, 2),
         "depth": pick(1, 2), "channels": pick(3, 1)},
    ),
    "encoder option": (
        lambda name, option, value: loope.create_encoder(name, 8, 2, patch_size=4, heads=1, depth=1, **{option: value}),
        {"name": encoders, "option": pick("order", "phase", "base", "dim", "grid", "heads", "activation", "kernel"),
         "value": pick("gilbert", "geometric", 100, 10.0, 3)},
    ),
    "encoder_similarity": (
        loope.encoder_similarity,
        {"encoder": encoder, "grid": pick(None, 2, (2, 3)), "images": pick(None, torch.rand(1, 3, 8, 8)),
         "tokens": pick(None, torch.rand(1, 4, 8))},
    ),
    "pesi": (loope.pesi, {"embedding": vectors, "directions": pick(1, 4, 60)}),
    "cosine_similarity": (loope.cosine_similarity, {"embedding": vectors}),
    "m_d_ceiling": (loope.m_d_ceiling, {"grid": grid, "directions": pick(1, 4)}),
    **{
        function.__name__: (function, {"similarity": square, "grid": grid})
        for function in (
            loope.pesi_from_similarity, loope.undirected_monotonicity, loope.directed_monotonicity,
            loope.undirected_asymmetry, loope.translation_consistency, loope.nearness_correlation,
        )
    },
    "PESI": (lambda embedding, n: loope.PESI(n).update(embedding), {"embedding": vectors, "n": pick(4, 60)}),
    "position_table": (
        loope.position_table,
        {"weights": pick({"pos_embed": torch.rand(1, 5, 8)}, {}, {"a": torch.rand(3)}), "grid": pick(None, 2),
         "name": pick(None, "pos_embed")},
    ),
    "ThreeCell": (
        loope.ThreeCell,
        {"size": pick(1, 5, 30), "grid": pick(3, (2, 5), 7), "cell": pick(1, 4), "seed": pick(0, 7),
         "split": pick(None, "train", "test"), "sampler": pick("exact", "paper"),
         "fractions": pick((0.8, 0.1, 0.1), (1, 0, 0))},
    ),
    "ThreeCell.render": (loope.ThreeCell(4, 3, 2).render, {"cells": pick(torch.zeros(1, 3, 2, dtype=torch.int64))}),
    "ThreeCellScore": (
        lambda preds, target: loope.ThreeCellScore().update(preds, target),
        {"preds": pick(torch.rand(2, 6)), "target": pick(torch.ones(2, 6, dtype=torch.int64))},
    ),
    "SegmentationScore": (
        lambda classes, preds, target: loope.SegmentationScore(classes).update(preds, target),
        {"classes": pick(2, 5), "preds": pick(torch.zeros(1, 4, 4, dtype=torch.int64), torch.rand(1, 2, 4, 4)),
         "target": pick(torch.ones(1, 4, 4, dtype=torch.int64))},
    ),
    "attach": (
        loope.attach,
        {"model": model, "encoder": encoders, "prefix": pick(None, "none", "learned"), "keep_own": pick(True, False)},
    ),
    "attach several": (
        lambda model, first, options: loope.attach(model, [(first, options), "peg"]),
        {"model": model, "first": encoders, "options": pick({}, {"grid": 5}, {"dim": 3}, {"base": 10})},
    ),
    "detach": (loope.detach, {"model": model}),
    "resize": (loope.resize, {"model": model, "size": pick(16, (16, 32), 17)}),
    "bake": (loope.bake, {"model": model}),
}  # fmt: skip


def finite(value: Any) -> bool:
    return not isinstance(value, Tensor) or value.is_meta or bool(value.isfinite().all())


def fuzz(seed: int, count: int) -> list[str]:
    """Make random calls; return a description of each wrong outcome."""
    rng, bad = random.Random(seed), []
    for number in range(count):
        name = rng.choice(list(CALLS))
        function, likely = CALLS[name]
        given = {key: make(rng) if rng.random() < 0.6 else anything(rng) for key, make in likely.items()}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = function(**given)
            if name in ("encoder_similarity", "cosine_similarity") and not finite(result):
                bad.append(f"seed {seed}, call {number}: {name} gave NaN")
        except (loope.LoopeError, TypeError):
            pass
        except Exception as error:
            bad.append(
                f"seed {seed}, call {number}: {name} {sorted(given)} raised {type(error).__name__}: {error}"[:300]
            )
    return bad


def test_a_sample_of_calls():
    assert fuzz(seed=0, count=400) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_ten_thousand_calls(seed):
    assert fuzz(seed, count=1000) == []
