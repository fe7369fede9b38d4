"""The tables of docs/results/segmentation.md."""

from loope.lab.data.segmentation import CamVid
from replication.figures import beside_published
from replication.results import finished, table


def table3() -> str:
    """Return Table 3, ours beside the published."""
    return beside_published("table3")


def classes() -> str:
    """Return the intersection over union of each class."""
    rows = ((row, *(f"{100 * value:.1f}" for value in result["details"]["iou"])) for row, result in finished("table3"))
    return table(("IoU, %", *CamVid.labels.names), rows, texts=1 + len(CamVid.labels))


def minutes() -> str:
    """Return how long each run took on one core, and its best score on the validation part."""
    rows = []
    for row, result in finished("table3"):
        time, speed = f"{result['seconds'] / 60:.1f}", f"{result['images_per_second']:.1f}"
        epoch, score = (result["metrics"][name] for name in ("best_epoch", "best_miou"))
        rows.append((row, time, speed, f"{epoch}", f"{100 * score:.1f}"))
    return table(("run", "minutes", "images/s", "best epoch, by validation", "its validation mIoU, %"), rows)
