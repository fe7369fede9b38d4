"""Names and colours of segmentation classes."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loope.core.errors import require
from loope.core.grid import as_size
from loope.core.limits import MOST_LETTERS

if TYPE_CHECKING:
    from torch import Tensor

VOID = 255  # in masks: no class, ignored by losses and scores
GOLDEN_TURN = 0.618034  # of the colour circle: consecutive hues always differ

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Labels:
    """Names and colours of classes 0, 1, 2, ... of a dataset.

    Examples:
        >>> shapes = Labels("shapes", ("square", "circle"), ((255, 0, 0), (0, 0, 255)))
        >>> len(shapes), shapes.names[1]
        (2, 'circle')

    Raises:
        LoopeError: if names and colours do not match.
    """

    name: str
    names: tuple[str, ...]
    colours: tuple[Colour, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))
        object.__setattr__(self, "colours", tuple(tuple(colour) for colour in self.colours))
        require(
            1 <= len(self.names) <= VOID and len(self.names) == len(self.colours),
            f"Labels need 1 to {VOID} names and a colour each, got {len(self.names)} names and "
            f"{len(self.colours)} colours.",
        )
        require(
            all(isinstance(name, str) and len(name) <= MOST_LETTERS for name in (self.name, *self.names)),
            f"Names of labels are text of up to {MOST_LETTERS} letters; use shorter ones.",
        )
        require(
            all(
                len(colour) == 3 and all(isinstance(part, int) and 0 <= part <= 255 for part in colour)
                for colour in self.colours
            ),
            "A colour is three whole numbers from 0 to 255: red, green, blue.",
        )

    def __len__(self) -> int:
        return len(self.names)

    @property
    def palette(self) -> list[int]:
        """Return red, green and blue of each of 256 mask values as a flat list; unused values map to black."""
        shown = [part for colour in self.colours for part in colour]
        return shown + [0] * (3 * 256 - len(shown))

    def paint(self, mask: Tensor) -> Tensor:
        """Convert `(..., H, W)` classes to `(..., H, W, 3)` uint8 colours."""
        import torch

        return torch.tensor(self.palette, dtype=torch.uint8, device=mask.device).view(256, 3)[mask.long()]


def as_labels(classes: int | Labels) -> Labels:
    """Return labels, numbered ones if only their number is given.

    Raises:
        LoopeError: if it is not a valid number of classes.
    """
    if isinstance(classes, Labels):
        return classes
    count = as_size(classes, "classes")
    colours = [colorsys.hsv_to_rgb(n * GOLDEN_TURN % 1, 0.75, 0.9 if n % 2 else 0.6) for n in range(count)]
    shown = tuple((round(255 * red), round(255 * green), round(255 * blue)) for red, green, blue in colours)
    return Labels("classes", tuple(f"class {n}" for n in range(count)), shown)
