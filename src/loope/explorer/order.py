"""What Order shows: where each cell is on a curve, and how well the curve keeps neighbours together."""

from loope.core.grid import Grid
from loope.explorer.catalog import check_size
from loope.explorer.serialization import to_json
from loope.orders import create_order


def order_data(name: str, grid: Grid) -> bytes:
    """JSON: the order's index, row-major, and its locality.

    Raises:
        LoopeError: for an unknown order, or a grid that is too large.
    """
    check_size(grid)
    order = create_order(name, *grid)
    return to_json({"index": order.index.flatten().tolist(), "locality": order.locality()._asdict()})
