"""The view that compares encoders, as tests open and check it."""

from tests.explorer.browser import colours, painted, pixels

GRID = (14, 14)
SHOWN = ("gilbert", "sinusoid", "sincos2d", "rope_axial")
COMPARE = "compare?grid=14x14&dim=768&patch=4,9" + "".join(f"&e={name}" for name in SHOWN)
MAPS, MINIS = 4, 3  # canvases of a card: its map, then three maps of PESI


def map_of(card):
    """Return the index of a card's similarity map among the page's canvases."""
    return card * MAPS


def assert_maps(page, similarities, patch, grid=GRID):
    """Each card has its own colour scale, over all of its similarities."""
    table = colours(page, "magma")
    for card, matrix in enumerate(similarities.values()):
        row = matrix[patch[0] * grid[1] + patch[1]].tolist()
        assert pixels(page, map_of(card), grid) == painted(row, table, matrix.min().item(), matrix.max().item())
