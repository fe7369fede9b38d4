"""Images with a class for each pixel: Cityscapes and CamVid, and batches of them for training."""

from loope.lab.data.segmentation.augment import Augment
from loope.lab.data.segmentation.camvid import CamVid
from loope.lab.data.segmentation.cityscapes import Cityscapes
from loope.lab.data.segmentation.source import SegmentationSource

__all__ = ["Augment", "CamVid", "Cityscapes", "SegmentationSource"]
