"""Segmentation with SETR and Segmenter on a vision transformer whose position encoding can be replaced."""

from loope.segmentation.adapter import SegmentationAdapter
from loope.segmentation.loss import segmentation_loss
from loope.segmentation.prediction import predict
from loope.segmentation.segmenter import Segmenter
from loope.segmentation.setr import SETR

__all__ = ["SETR", "SegmentationAdapter", "Segmenter", "predict", "segmentation_loss"]
