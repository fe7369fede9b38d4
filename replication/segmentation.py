"""The tables of docs/results/segmentation.md."""

from loope.lab.data.segmentation import CamVid
from replication.figures import beside_published
from replication.results import finished


def table3() -> str:
    """Return Table 3, ours beside the published."""
    return beside_published("table3")


def classes() -> str:
    """Return the intersection over union of each class."""
    lines = [f"| IoU, % | {' | '.join(CamVid.labels.names)} |", "|---" * (1 + len(CamVid.labels)) + "|"]
    for row, result in finished("table3"):
        lines.append(f"| {row} | {' | '.join(f'{100 * value:.1f}' for value in result['details']['iou'])} |")
    return "\n".join(lines)


def minutes() -> str:
    """Return how long each run took on one core, and its best score on the validation part."""
    head = ("run", "minutes", "images/s", "best epoch, by validation", "its validation mIoU, %")
    lines = [f"| {' | '.join(head)} |", "|---|---:|---:|---:|---:|"]
    for row, result in finished("table3"):
        metrics = result["metrics"]
        cells = (
            f"{result['seconds'] / 60:.1f}",
            f"{result['images_per_second']:.1f}",
            f"{metrics['best_epoch']}",
            f"{100 * metrics['best_miou']:.1f}",
        )
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)
