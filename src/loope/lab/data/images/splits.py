"""Training, validation and test parts: the paper's 80-10-10, or the published ones.

The paper says no more than "80-10-10 data split". Here it is drawn by seed over all labelled images, in each class
alike: small parts then hold every class, and accuracies of different seeds differ less by chance.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from loope.core.errors import require
from loope.core.grid import as_size
from loope.core.seeds import derive

PARTS = ("train", "valid", "test")
HELD_OUT = (90, 10)  # of a published training part: for training, for validation


def read_split(how: str) -> tuple[int, ...] | None:
    """The percentages of train, valid and test; None for "official".

    Examples:
        >>> read_split("80-10-10")
        (80, 10, 10)

    Raises:
        LoopeError: if it is neither.
    """
    if how == "official":
        return None
    shares = tuple(int(share) for share in re.findall(r"\d+", str(how)))
    require(
        re.fullmatch(r"\d+-\d+-\d+", str(how)) is not None and min(shares) > 0 and sum(shares) == 100,
        "`split` must be 'official' or three percentages (train-valid-test) from 1 up that add up to 100, "
        f"got {how!r}; use '80-10-10'.",
    )
    return shares


def assign(
    how: str, seed: int, names: Sequence[str], labels: Sequence[int], official: Sequence[str]
) -> dict[str, list[int]]:
    """The places of the images of each part, ascending."""
    shares = read_split(how)
    as_size(seed, "seed", least=0)
    # A hash of the name, not its place, decides: a listing in another order gives the same parts.
    shuffled = sorted(range(len(names)), key=lambda place: (labels[place], derive("split", seed, names[place])))
    if shares is not None:
        return apportion(shuffled, shares)
    training = [place for place in shuffled if official[place] == "train"]
    published = [place for place in range(len(names)) if official[place] == "test"]
    return {**apportion(training, HELD_OUT), "test": published}


def apportion(places: Sequence[int], shares: Sequence[int]) -> dict[str, list[int]]:
    """Deal `places` out one by one, each to the part that is furthest behind its share (in percent).

    So any run of places, such as those of a class, is shared out within one or two of what is exact, and no rounding
    adds up over classes.

    Examples:
        >>> {part: len(dealt) for part, dealt in apportion(range(25), (80, 10, 10)).items()}
        {'train': 20, 'valid': 3, 'test': 2}
    """
    dealt: list[list[int]] = [[] for _ in shares]
    for turn, place in enumerate(places, start=1):
        behind = [share * turn - 100 * len(had) for share, had in zip(shares, dealt, strict=True)]
        dealt[behind.index(max(behind))].append(place)
    return {part: sorted(had) for part, had in zip(PARTS, dealt, strict=False)}
