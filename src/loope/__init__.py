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
    "LoopeWarning": "loope.core.errors",
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
    "WrapperAdapter": "loope.attach",
    "attach": "loope.attach",
    "detach": "loope.attach",
    "freeze": "loope.attach",
    "load": "loope.attach",
    "register_adapter": "loope.attach",
    "resize": "loope.attach",
    "save": "loope.attach",
    "HubModel": "loope.attach.hub",
    "ImageSource": "loope.data.images.source",
    "load_images": "loope.data.images.catalog",
    "ThreeCell": "loope.data.three_cell",
    "ThreeCellScore": "loope.metrics.three_cell",
    "SegmentationScore": "loope.metrics.segmentation",
    "plots": "loope.reports.plots",
    "encoder_similarity": "loope.encoders.similarity",
    "pesi": "loope.metrics.pesi",
    "pesi_from_similarity": "loope.metrics.pesi",
    "cosine_similarity": "loope.metrics.pesi",
    "undirected_monotonicity": "loope.metrics.pesi",
    "directed_monotonicity": "loope.metrics.pesi",
    "undirected_asymmetry": "loope.metrics.pesi",
    "m_d_ceiling": "loope.metrics.pesi",
    "Pesi": "loope.metrics.pesi",
    "PESI": "loope.metrics.modules",
    "position_table": "loope.metrics.tables",
    "translation_consistency": "loope.metrics.beyond",
    "nearness_correlation": "loope.metrics.beyond",
}
_MODULES = {"models": "loope.models", "plots": "loope.reports.plots"}

__all__ = [*_HOME, *_MODULES, "__version__"]

if TYPE_CHECKING:
    import loope.models as models  # noqa: F401
    import loope.reports.plots as plots  # noqa: F401
    from loope.attach import Adapter as Adapter
    from loope.attach import Branch as Branch
    from loope.attach import Slot as Slot
    from loope.attach import WrapperAdapter as WrapperAdapter
    from loope.attach import attach as attach
    from loope.attach import detach as detach
    from loope.attach import freeze as freeze
    from loope.attach import load as load
    from loope.attach import register_adapter as register_adapter
    from loope.attach import resize as resize
    from loope.attach import save as save
    from loope.attach.hub import HubModel as HubModel
    from loope.core.errors import LoopeError as LoopeError
    from loope.core.errors import LoopeWarning as LoopeWarning
    from loope.data.images.catalog import load_images as load_images
    from loope.data.images.source import ImageSource as ImageSource
    from loope.data.three_cell import ThreeCell as ThreeCell
    from loope.encoders import PositionalEncoder as PositionalEncoder
    from loope.encoders import create_encoder as create_encoder
    from loope.encoders import list_encoders as list_encoders
    from loope.encoders import register_encoder as register_encoder
    from loope.encoders.similarity import encoder_similarity as encoder_similarity
    from loope.metrics.beyond import nearness_correlation as nearness_correlation
    from loope.metrics.beyond import translation_consistency as translation_consistency
    from loope.metrics.modules import PESI as PESI
    from loope.metrics.pesi import Pesi as Pesi
    from loope.metrics.pesi import cosine_similarity as cosine_similarity
    from loope.metrics.pesi import directed_monotonicity as directed_monotonicity
    from loope.metrics.pesi import m_d_ceiling as m_d_ceiling
    from loope.metrics.pesi import pesi as pesi
    from loope.metrics.pesi import pesi_from_similarity as pesi_from_similarity
    from loope.metrics.pesi import undirected_asymmetry as undirected_asymmetry
    from loope.metrics.pesi import undirected_monotonicity as undirected_monotonicity
    from loope.metrics.segmentation import SegmentationScore as SegmentationScore
    from loope.metrics.tables import position_table as position_table
    from loope.metrics.three_cell import ThreeCellScore as ThreeCellScore
    from loope.orders import Order as Order
    from loope.orders import create_order as create_order
    from loope.orders import list_orders as list_orders
    from loope.orders import register_order as register_order


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = import_module(_MODULES[name])
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'loope' has no attribute {name!r}")
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
