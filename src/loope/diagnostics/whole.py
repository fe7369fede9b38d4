"""All diagnostics of a model in one pass over the images."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from torch import Tensor, nn

from loope.core.errors import LoopeError
from loope.diagnostics.attention import AttentionCollector, AttentionDistances
from loope.diagnostics.probe import Probe, ProbeScores
from loope.diagnostics.share import PositionArtifacts, PositionShares, TokenCollector, artifacts_of, shares_of
from loope.diagnostics.shift import ShiftCollector, ShiftSensitivity
from loope.diagnostics.spectrum import RotarySpectrum, rotary_spectrum
from loope.diagnostics.tokens import Tokens, Watched

FEW = 32  # images for shifts, which take several passes each


class Diagnosis(NamedTuple):
    """What the diagnostics of a model found; `rotary` is None without a rotary encoding."""

    shares: PositionShares
    artifacts: PositionArtifacts
    probe: ProbeScores
    attention: AttentionDistances
    shift: ShiftSensitivity
    rotary: RotarySpectrum | None


def diagnose(model: nn.Module, images: Iterable[Any], done: Callable[[int], None] = lambda count: None) -> Diagnosis:
    """Run the diagnostics on the first branch of a model: what the functions of this package return, in one pass.

    Args:
        model: a model that `loope.attach` supports.
        images: batches `(B, C, H, W)`, or tuples that start with one; shifts are measured on 32 images at most.
        done: called after each forward pass, with its number of images.
    """
    watched = Watched(model)
    tokens_seen = TokenCollector(watched.layer_names)
    attention, shifts = AttentionCollector(watched), ShiftCollector(watched)

    def run(batch: Tensor) -> Tokens:
        tokens = attention.run(batch)
        tokens_seen.add(tokens)
        few = FEW - shifts.images
        if few > 0:
            shifts.add(batch[:few], _first(tokens, few))
        done(len(batch))
        return tokens

    probe = Probe(watched.layer_names).measure(watched.batches(images), run)
    try:
        rotary = rotary_spectrum(model)
    except LoopeError:  # there is none
        rotary = None
    sums = tokens_seen.found()
    return Diagnosis(shares_of(*sums), artifacts_of(*sums), probe, attention.found(), shifts.found(), rotary)


def _first(tokens: Tokens, count: int) -> Tokens:
    """Return the tokens of the first images."""
    layers = [each[:count] for each in tokens.layers]
    return Tokens(tokens.grid, layers, tokens.output[:count], tokens.images[:count])
