"""Where the patches of a batch are: whole grids, some of their cells, several images in one sequence."""

from loope.positions.positions import Positions, PositionsLike, as_positions

__all__ = ["Positions", "PositionsLike", "as_positions"]
