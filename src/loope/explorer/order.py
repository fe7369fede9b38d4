"""The data of the Order view: each cell's index on the curve, and the curve's locality."""

from loope.core.grid import Grid
from loope.explorer.catalog import check_size
from loope.explorer.serialization import to_json
from loope.orders import create_order


def order_data(name: str, grid: Grid) -> bytes:
    """Return the order's index, row-major, and its locality, as JSON.

    Raises:
        LoopeError: if the order is unknown or the grid too large.
    """
    check_size(grid)
    order = create_order(name, *grid)
    return to_json({"index": order.index.flatten().tolist(), "locality": order.locality()._asdict()})
