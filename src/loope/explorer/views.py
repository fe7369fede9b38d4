"""Everything that handlers need torch for, behind one import.

Worker threads that import this at once wait for each other; importing torch from different modules at once can fail.
"""

from loope.core.grid import Grid
from loope.explorer import checkpoints, compare, diagnosis, model
from loope.explorer.catalog import catalog, check_size
from loope.explorer.files import describe_file, read_named
from loope.explorer.offsets import offsets_data, read_encoder
from loope.explorer.serialization import to_json
from loope.explorer.uploads import read_weights
from loope.orders import create_order

__all__ = [
    "catalog",
    "checkpoints",
    "compare",
    "describe_file",
    "diagnosis",
    "model",
    "offsets_data",
    "order_data",
    "read_encoder",
    "read_named",
    "read_weights",
    "to_json",
]


def order_data(name: str, grid: Grid) -> bytes:
    """Return the index of each cell on an order's curve, row-major, and the order's locality, as JSON.

    Raises:
        LoopeError: if the order is unknown or the grid too large.
    """
    check_size(grid)
    order = create_order(name, *grid)
    return to_json({"index": order.index.flatten().tolist(), "locality": order.locality()._asdict()})
