"""Three-Cell, a position probe: dataset, sampling, questions, rendering, export."""

from loope.three_cell.dataset import ThreeCell

__all__ = ["ThreeCell"]
