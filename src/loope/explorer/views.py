"""Everything that handlers need torch for, behind one import.

Worker threads that import this at once wait for each other; importing torch from different modules at once can fail.
"""

from loope.explorer import checkpoints, compare, model
from loope.explorer.catalog import catalog
from loope.explorer.offsets import offsets_data, read_encoder
from loope.explorer.order import order_data
from loope.explorer.serialization import to_json
from loope.explorer.uploads import read_weights

__all__ = [
    "catalog",
    "checkpoints",
    "compare",
    "model",
    "offsets_data",
    "order_data",
    "read_encoder",
    "read_weights",
    "to_json",
]
