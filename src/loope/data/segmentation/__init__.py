"""Images with a class for each pixel: Cityscapes and CamVid, and batches of them for training."""

from loope.data.segmentation.augment import Augment
from loope.data.segmentation.camvid import CamVid
from loope.data.segmentation.cityscapes import Cityscapes
from loope.data.segmentation.source import SegmentationSource

__all__ = ["Augment", "CamVid", "Cityscapes", "SegmentationSource"]
