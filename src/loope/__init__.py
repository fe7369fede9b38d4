"""Positional encodings for vision transformers.

The public names are loaded when first used, so that `import loope` and `loope --help` do not wait for torch.
"""

import sys
from importlib import import_module
from types import ModuleType
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
    "Adapter": "loope.attach",
    "Branch": "loope.attach",
    "Slot": "loope.attach",
    "attach": "loope.attach",
    "detach": "loope.attach",
    "freeze": "loope.attach",
    "load": "loope.attach",
    "register_adapter": "loope.attach",
    "resize": "loope.attach",
    "save": "loope.attach",
    "HubModel": "loope.attach.hub",
    "ThreeCell": "loope.data.three_cell",
    "ThreeCellScore": "loope.metrics.three_cell",
    "plots": "loope.reports.plots",
}

__all__ = [*_HOME, "__version__"]

if TYPE_CHECKING:
    import loope.reports.plots as plots  # noqa: F401
    from loope.attach import Adapter as Adapter
    from loope.attach import Branch as Branch
    from loope.attach import Slot as Slot
    from loope.attach import attach as attach
    from loope.attach import detach as detach
    from loope.attach import freeze as freeze
    from loope.attach import load as load
    from loope.attach import register_adapter as register_adapter
    from loope.attach import resize as resize
    from loope.attach import save as save
    from loope.attach.hub import HubModel as HubModel
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
    value = import_module(home) if name == "plots" else getattr(import_module(home), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Keeps `loope.attach` the function: importing the subpackage `attach` would put a module in its place."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and _HOME.get(name) == f"loope.{name}"):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted(__all__)
