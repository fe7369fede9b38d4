"""Positional encodings for vision transformers.

The public names are loaded when first used, so that `import loope` and `loope --help` do not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from loope.core.plugins import register_plugin

__version__ = "0.2.0"

register_plugin("loope", "loope.segmentation")  # builds SETR and Segmenter when `loope.load` finds them in a file

_HOME = {
    "LoopeError": "loope.core.errors",
    "LoopeWarning": "loope.core.errors",
    "Order": "loope.orders",
    "create_order": "loope.orders",
    "list_orders": "loope.orders",
    "register_order": "loope.orders",
    "Positions": "loope.positions",
    "ImageRefinement": "loope.encoders",
    "PositionalEncoder": "loope.encoders",
    "create_encoder": "loope.encoders",
    "list_encoders": "loope.encoders",
    "register_encoder": "loope.encoders",
    "Adapter": "loope.surgery",
    "Branch": "loope.surgery",
    "Slot": "loope.surgery",
    "WrapperAdapter": "loope.surgery",
    "attach": "loope.surgery",
    "detach": "loope.surgery",
    "bake": "loope.surgery",
    "load": "loope.surgery",
    "register_adapter": "loope.surgery",
    "report": "loope.surgery",
    "resize": "loope.surgery",
    "save": "loope.surgery",
    "set_strength": "loope.surgery",
    "transfer": "loope.surgery",
    "use_positions": "loope.surgery",
    "HubModel": "loope.surgery.hub",
    "ThreeCell": "loope.three_cell",
    "ThreeCellScore": "loope.three_cell.metric",
    "SegmentationScore": "loope.segmentation.metric",
    "encoder_similarity": "loope.encoders.similarity",
    "pesi": "loope.pesi_metric.functional",
    "pesi_from_similarity": "loope.pesi_metric.functional",
    "cosine_similarity": "loope.pesi_metric.functional",
    "undirected_monotonicity": "loope.pesi_metric.functional",
    "directed_monotonicity": "loope.pesi_metric.functional",
    "undirected_asymmetry": "loope.pesi_metric.functional",
    "m_d_ceiling": "loope.pesi_metric.functional",
    "PesiScores": "loope.pesi_metric.functional",
    "PESI": "loope.pesi_metric.metric",
    "position_table": "loope.pesi_metric.position_table",
    "translation_consistency": "loope.pesi_metric.similarity_scores",
    "nearness_correlation": "loope.pesi_metric.similarity_scores",
    "AttentionDistance": "loope.diagnostics.attention",
    "attention_distance": "loope.diagnostics.attention",
    "audit": "loope.diagnostics.audit",
    "resolution_curve": "loope.diagnostics.resolution",
    "shift_sensitivity": "loope.diagnostics.shift",
    "rotary_spectrum": "loope.diagnostics.spectrum",
    "position_probe": "loope.diagnostics.probe",
    "PositionShare": "loope.diagnostics.share",
    "position_artifacts": "loope.diagnostics.share",
    "position_share": "loope.diagnostics.share",
}
_MOVED = {  # names of 0.1, and what they are now
    "freeze": "loope.bake",
    "Pesi": "loope.PesiScores",
    "models": "loope.segmentation",
    "load_images": "loope.lab.data.load_images",
    "ImageSource": "loope.lab.data.ImageSource",
    "data": "loope.lab.data",
    "engine": "loope.lab.engine",
    "experiments": "loope.lab.experiments",
}
_MODULES = ("plots", "segmentation")

__all__ = [*_HOME, *_MODULES, "__version__"]

if TYPE_CHECKING:
    from loope import plots as plots
    from loope import segmentation as segmentation
    from loope.core.errors import LoopeError as LoopeError
    from loope.core.errors import LoopeWarning as LoopeWarning
    from loope.diagnostics.attention import AttentionDistance as AttentionDistance
    from loope.diagnostics.attention import attention_distance as attention_distance
    from loope.diagnostics.audit import audit as audit
    from loope.diagnostics.probe import position_probe as position_probe
    from loope.diagnostics.resolution import resolution_curve as resolution_curve
    from loope.diagnostics.share import PositionShare as PositionShare
    from loope.diagnostics.share import position_artifacts as position_artifacts
    from loope.diagnostics.share import position_share as position_share
    from loope.diagnostics.shift import shift_sensitivity as shift_sensitivity
    from loope.diagnostics.spectrum import rotary_spectrum as rotary_spectrum
    from loope.encoders import ImageRefinement as ImageRefinement
    from loope.encoders import PositionalEncoder as PositionalEncoder
    from loope.encoders import create_encoder as create_encoder
    from loope.encoders import list_encoders as list_encoders
    from loope.encoders import register_encoder as register_encoder
    from loope.encoders.similarity import encoder_similarity as encoder_similarity
    from loope.orders import Order as Order
    from loope.orders import create_order as create_order
    from loope.orders import list_orders as list_orders
    from loope.orders import register_order as register_order
    from loope.pesi_metric.functional import PesiScores as PesiScores
    from loope.pesi_metric.functional import cosine_similarity as cosine_similarity
    from loope.pesi_metric.functional import directed_monotonicity as directed_monotonicity
    from loope.pesi_metric.functional import m_d_ceiling as m_d_ceiling
    from loope.pesi_metric.functional import pesi as pesi
    from loope.pesi_metric.functional import pesi_from_similarity as pesi_from_similarity
    from loope.pesi_metric.functional import undirected_asymmetry as undirected_asymmetry
    from loope.pesi_metric.functional import undirected_monotonicity as undirected_monotonicity
    from loope.pesi_metric.metric import PESI as PESI
    from loope.pesi_metric.position_table import position_table as position_table
    from loope.pesi_metric.similarity_scores import nearness_correlation as nearness_correlation
    from loope.pesi_metric.similarity_scores import translation_consistency as translation_consistency
    from loope.positions import Positions as Positions
    from loope.segmentation.metric import SegmentationScore as SegmentationScore
    from loope.surgery import Adapter as Adapter
    from loope.surgery import Branch as Branch
    from loope.surgery import Slot as Slot
    from loope.surgery import WrapperAdapter as WrapperAdapter
    from loope.surgery import attach as attach
    from loope.surgery import bake as bake
    from loope.surgery import detach as detach
    from loope.surgery import load as load
    from loope.surgery import register_adapter as register_adapter
    from loope.surgery import report as report
    from loope.surgery import resize as resize
    from loope.surgery import save as save
    from loope.surgery import set_strength as set_strength
    from loope.surgery import transfer as transfer
    from loope.surgery import use_positions as use_positions
    from loope.surgery.hub import HubModel as HubModel
    from loope.three_cell import ThreeCell as ThreeCell
    from loope.three_cell.metric import ThreeCellScore as ThreeCellScore


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(f"loope.{name}")
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in _MOVED:
        raise AttributeError(f"`loope.{name}` is `{_MOVED[name]}` since 0.2; see CHANGELOG.md")
    else:
        raise AttributeError(f"module 'loope' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
