"""The six bits of a Three-Cell label, shared by the dataset and the metric.

Distance and area take two bits each because equality is a third outcome: 10 is more, 01 is less, 00 is equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loope.core.errors import LoopeError

BITS = ("distance_longer", "distance_shorter", "counterclockwise", "area_larger", "area_smaller", "sum_outside")
TASKS: dict[str, tuple[int, ...]] = {"distance": (0, 1), "orientation": (2,), "area": (3, 4), "vector_sum": (5,)}
COLOURS = ("red", "green", "blue")

# Each answer in words.
WORDS: dict[str, dict[tuple[int, ...], str]] = {
    "distance": {(1, 0): "RG is longer than RB", (0, 1): "RG is shorter than RB", (0, 0): "RG is as long as RB"},
    "orientation": {(1,): "R, G, B run counterclockwise", (0,): "R, G, B run clockwise"},
    "area": {
        (1, 0): "the shadow of RG is larger",
        (0, 1): "the shadow of RG is smaller",
        (0, 0): "the shadows are equal",
    },
    "vector_sum": {(1,): "the sum leaves the grid", (0,): "the sum stays in the grid"},
}


def by_task(per_bit: Sequence[Any]) -> dict[str, Any]:
    """Average per-bit scores by sub-task, and over the four sub-tasks as `average`.

    Args:
        per_bit: six numbers or tensors.

    Examples:
        >>> by_task([1.0, 0.5, 1.0, 0.0, 0.5, 0.25])
        {'distance': 0.75, 'orientation': 1.0, 'area': 0.25, 'vector_sum': 0.25, 'average': 0.5625}
    """
    scores = {task: sum(per_bit[bit] for bit in bits) / len(bits) for task, bits in TASKS.items()}
    return {**scores, "average": sum(scores.values()) / len(scores)}


def in_words(label: Sequence[int]) -> dict[str, str]:
    """Return the answer to each question in words.

    Args:
        label: six bits.

    Examples:
        >>> in_words([0, 0, 1, 0, 1, 0])["area"]
        'the shadow of RG is smaller'

    Raises:
        LoopeError: if the label is invalid: not six bits, or both longer and shorter.
    """
    bits = [int(bit) for bit in label]
    try:
        return {task: WORDS[task][tuple(bits[place] for place in places)] for task, places in TASKS.items()}
    except (KeyError, IndexError):
        raise LoopeError(
            f"A Three-Cell label is six bits, of which 0 and 1, and 3 and 4, are not both set; got {bits}."
        ) from None
