"""Checks of an audit that look into attention: rotary encodings and biases."""

from __future__ import annotations

import torch
from torch import Tensor

from loope.core.errors import require
from loope.core.grid import Grid
from loope.diagnostics.findings import Finding
from loope.diagnostics.spectrum import equal_queries, equal_tokens
from loope.diagnostics.subject import Subject
from loope.diagnostics.tokens import Watched
from loope.surgery.find import attachment_of

SAME = 1e-2  # relative difference of scores that rounding explains
HALF = 0.15  # relative difference of queries and tokens that bfloat16 explains
LONG = 272  # cells of a row: above 256, bfloat16 has not all whole numbers


def offsets_only(subject: Subject) -> Finding | None:
    """Give the same token to all patches: scores must be the same for pairs of patches with the same offset.

    True of rotary encodings and relative biases; of tables too, which do not act in attention.
    """
    for size in (subject.size, subject.pixels(1, 2)):
        watched = subject.at(size)
        _require_unrefined(watched)
        grid = watched.run(subject.images(size, 1)).grid
        start = watched.branch.others
        for number, seen in enumerate(equal_tokens(watched, grid, size)):
            scores = seen.scores[0, :, start:, start:].double()
            if _varies(scores, grid):
                return Finding(
                    f"in block {number + 1} at {grid} patches, scores of equal tokens differ between pairs of patches "
                    "with the same offset",
                    "patches are rotated or biased as if they were elsewhere: height and width are swapped, the class "
                    "token is counted as a patch, or channel pairs are mixed up (interleaved or half)",
                    type(watched.branch.attentions_of(number)[0]).__name__,
                )
    return None


def half_precision(subject: Subject) -> Finding | None:
    """Compare positions along a long row in bfloat16 and float32."""
    grid = subject.grid
    size = subject.pixels(2 / grid.height if grid.height > 2 else 1, -(-LONG // grid.width))
    exact = subject.at(size)
    _require_unrefined(exact)
    images = torch.zeros_like(subject.images(size, 1))
    seen = exact.run(images)
    wanted = [seen.layers[0][0], *equal_queries(exact, seen.grid, size)]
    rough = Watched(exact.model.to(torch.bfloat16), subject.number)
    rough.options = exact.options
    found = [rough.run(images.bfloat16()).layers[0][0], *equal_queries(rough, seen.grid, size)]
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        wrong = (one.float() - other).norm(dim=-1) / other.norm(dim=-1).mean().clamp(min=1e-12)
        if float(wrong.max()) > HALF:
            where = (
                type(rough.branch.attentions_of(number - 1)[0]).__name__ if number else "the input of the first block"
            )
            return Finding(
                f"in bfloat16 on {seen.grid} patches, positions are off by {float(wrong.max()):.0%}",
                "at larger sizes, neighbours get the same position in half precision; compute angles in float32",
                where,
            )
    return None


def _varies(scores: Tensor, grid: Grid) -> bool:
    """Return whether scores `(heads, N, N)` differ between pairs of patches with the same offset."""
    laid = scores.reshape(len(scores), *grid, *grid)
    down = laid[:, 1:, :, 1:, :] - laid[:, :-1, :, :-1, :]
    right = laid[:, :, 1:, :, 1:] - laid[:, :, :-1, :, :-1]
    size = float(scores.abs().max())
    return max(float(down.abs().max()), float(right.abs().max())) > SAME * max(size, 1e-12)


def _require_unrefined(watched: Watched) -> None:
    attachment = attachment_of(watched.model)
    encoders = [] if attachment is None else list(attachment.encoders.modules())
    refined = [each for each in encoders if getattr(each, "generator", None) is not None]
    require(not refined, "positions are refined by the image")
