"""Models around a vision transformer: segmentation with SETR and Segmenter, whose encoding can be exchanged."""

from loope.models.inference import predict
from loope.models.loss import segmentation_loss
from loope.models.segmenter import Segmenter
from loope.models.setr import SETR

__all__ = ["SETR", "Segmenter", "predict", "segmentation_loss"]
