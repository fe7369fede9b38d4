"""Training, validation and test splits: the paper's 80-10-10, or the published ones.

The paper only says "80-10-10 data split". Here all labelled images are split at random, stratified by class, so that
small splits hold every class and accuracies vary less between seeds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from loope.core.errors import require
from loope.core.grid import as_size
from loope.core.seeds import derive

PARTS = ("train", "val", "test")
HELD_OUT = (90, 10)  # percentages of a published training split for training and validation


def read_split(how: str) -> tuple[int, ...] | None:
    """Parse the percentages of train, val and test; None for "official".

    Examples:
        >>> read_split("80-10-10")
        (80, 10, 10)

    Raises:
        LoopeError: for an invalid split.
    """
    if how == "official":
        return None
    shares = tuple(int(share) for share in re.findall(r"\d+", str(how)))
    require(
        re.fullmatch(r"\d+-\d+-\d+", str(how)) is not None and min(shares) > 0 and sum(shares) == 100,
        "`split` must be 'official' or three percentages (train-val-test) from 1 up that add up to 100, "
        f"got {how!r}; use '80-10-10'.",
    )
    return shares


def assign(
    how: str, seed: int, names: Sequence[str], labels: Sequence[int], official: Sequence[str]
) -> dict[str, list[int]]:
    """Return the image indices of each part, ascending."""
    shares = read_split(how)
    as_size(seed, "seed", least=0)
    # Ordered by a hash of the name, so that the split does not depend on the order of files.
    shuffled = sorted(range(len(names)), key=lambda place: (labels[place], derive("split", seed, names[place])))
    if shares is not None:
        return apportion(shuffled, shares)
    training = [place for place in shuffled if official[place] == "train"]
    published = [place for place in range(len(names)) if official[place] == "test"]
    return {**apportion(training, HELD_OUT), "test": published}


def apportion(places: Sequence[int], shares: Sequence[int]) -> dict[str, list[int]]:
    """Assign `places` one by one, each to the part that is furthest below its share (in percent).

    Any consecutive places, such as those of a class, are split within one or two of the exact shares, and rounding
    errors do not add up over classes.

    Examples:
        >>> {part: len(dealt) for part, dealt in apportion(range(25), (80, 10, 10)).items()}
        {'train': 20, 'val': 3, 'test': 2}
    """
    dealt: list[list[int]] = [[] for _ in shares]
    for turn, place in enumerate(places, start=1):
        behind = [share * turn - 100 * len(had) for share, had in zip(shares, dealt, strict=True)]
        dealt[behind.index(max(behind))].append(place)
    return {part: sorted(had) for part, had in zip(PARTS, dealt, strict=False)}
