"""Models around a vision transformer: segmentation with SETR and Segmenter, whose encoding can be exchanged."""

from loope.segmentation.loss import segmentation_loss
from loope.segmentation.prediction import predict
from loope.segmentation.segmenter import Segmenter
from loope.segmentation.setr import SETR

__all__ = ["SETR", "Segmenter", "predict", "segmentation_loss"]
