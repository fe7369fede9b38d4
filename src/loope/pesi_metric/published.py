"""The published scores (Table 5): 14x14, D = 768, 60 directions."""

from typing import NamedTuple

from loope.core.grid import Grid


class Row(NamedTuple):
    """A row of Table 5."""

    called: str
    m_u: float
    m_d: float
    a_su: float


GRID, DIM, DIRECTIONS = Grid(14, 14), 768, 60

# By our names. "Static" is the Gilbert order without offsets; its settings reproduce the row "LOOPE".
ROWS = {
    "learned": Row("Learnable", 1.7493, 1.2003, -0.7272),
    "sinusoid": Row("1D Sinusoid", 1.9567, 1.4905, 0.1243),
    "fourier": Row("LFF", 1.9623, 1.5230, 0.2683),
    "gilbert": Row("Static", 1.9670, 1.2897, 0.0945),
    "loope": Row("LOOPE", 1.9674, 1.2900, 0.0939),
}


def published(name: str, grid: Grid, dim: int, directions: int) -> Row | None:
    """Return the paper's row for an encoder if the settings are the paper's, else None."""
    return ROWS.get(name) if (grid, dim, directions) == (GRID, DIM, DIRECTIONS) else None
