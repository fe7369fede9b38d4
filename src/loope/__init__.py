"""Positional encodings for vision transformers.

The public names are loaded when first used, so that `import loope` and `loope --help` do not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "LoopeError": "loope.core.errors",
    "Order": "loope.orders",
    "create_order": "loope.orders",
    "list_orders": "loope.orders",
    "register_order": "loope.orders",
    "PositionalEncoder": "loope.encoders",
    "create_encoder": "loope.encoders",
    "list_encoders": "loope.encoders",
    "register_encoder": "loope.encoders",
    "ThreeCell": "loope.data.three_cell",
    "ThreeCellScore": "loope.metrics.three_cell",
    "plots": "loope.reports.plots",
}

__all__ = [*_HOME, "__version__"]

if TYPE_CHECKING:
    import loope.reports.plots as plots  # noqa: F401
    from loope.core.errors import LoopeError as LoopeError
    from loope.data.three_cell import ThreeCell as ThreeCell
    from loope.encoders import PositionalEncoder as PositionalEncoder
    from loope.encoders import create_encoder as create_encoder
    from loope.encoders import list_encoders as list_encoders
    from loope.encoders import register_encoder as register_encoder
    from loope.metrics.three_cell import ThreeCellScore as ThreeCellScore
    from loope.orders import Order as Order
    from loope.orders import create_order as create_order
    from loope.orders import list_orders as list_orders
    from loope.orders import register_order as register_order


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'loope' has no attribute {name!r}")
    home = _HOME[name]
    value = import_module(home) if home.endswith(f".{name}") else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
