"""Semantic segmentation: Cityscapes, CamVid and training batches."""

from loope.lab.data.segmentation.augment import Augment
from loope.lab.data.segmentation.camvid import CamVid
from loope.lab.data.segmentation.cityscapes import Cityscapes
from loope.lab.data.segmentation.source import SegmentationSource

__all__ = ["Augment", "CamVid", "Cityscapes", "SegmentationSource"]
