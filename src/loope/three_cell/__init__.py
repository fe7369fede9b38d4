"""Three-Cell, the position probe: data set, sampling, questions, rendering, export."""

from loope.three_cell.dataset import ThreeCell

__all__ = ["ThreeCell"]
