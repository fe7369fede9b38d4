"""PESI as a torchmetrics metric that accumulates over batches and processes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from loope.core.errors import require
from loope.core.metric import Metric
from loope.pesi_metric.functional import pesi
from loope.pesi_metric.validation import check_directions

SCORES = ("m_u", "m_d", "m_d_share", "a_su", "a_su_bounded")


class PESI(Metric):
    """Mean and standard deviation of PESI over images.

    For encoders that read the image, such as LOOPE, whose embedding differs between images.

    Args:
        directions: number of buckets for M_D.
        options: options of `torchmetrics.Metric`.

    Examples:
        >>> import loope
        >>> encoder = loope.create_encoder("loope", dim=64, grid=7, patch_size=4).eval()
        >>> metric = PESI()
        >>> for images in torch.rand(3, 2, 3, 28, 28):  # three batches of two
        ...     metric.update(encoder(images).view(2, 7, 7, 64))
        >>> scores = metric.compute()
        >>> scores["images"].item(), bool(scores["m_u_std"] < scores["m_u"])
        (6, True)
    """

    is_differentiable = False
    higher_is_better = None
    full_state_update = False
    moments: Tensor

    def __init__(self, directions: int = 60, **options: Any):
        super().__init__(**options)
        self.directions = check_directions(directions)
        self.add_state("moments", torch.zeros(3, len(SCORES), dtype=torch.float64), dist_reduce_fx=merge)

    def update(self, embedding: Tensor) -> None:
        """Measure the images of a batch.

        Args:
            embedding: `(B, h, w, D)` or, for one image, `(h, w, D)` float; grids may differ from batch to batch.
        """
        scores = pesi(embedding, self.directions)
        values = torch.stack([getattr(scores, name).view(-1) for name in SCORES])  # (scores, B)
        count = torch.full_like(values[:, 0], values.shape[1])
        mean = values.mean(1)
        batch = torch.stack((count, mean, (values - mean[:, None]).square().sum(1)))
        self.moments = merge(torch.stack((self.moments, batch.to(self.moments))))

    def compute(self) -> dict[str, Tensor]:
        """Return the mean of each score by name, `<name>_std` (population, over images) and the number of `images`.

        Raises:
            LoopeError: before the first update.
        """
        count, mean, squares = self.moments
        require(bool(count[0] > 0), "PESI has seen no images; call update(embedding) before compute().")
        spread = (squares / count).sqrt()
        means, spreads = dict(zip(SCORES, mean, strict=True)), dict(zip(SCORES, spread, strict=True))
        return means | {f"{name}_std": value for name, value in spreads.items()} | {"images": count[0].long()}


def merge(moments: Tensor) -> Tensor:
    """Merge count, mean and sum of squared deviations of several samples (Chan, Golub and LeVeque, 1983).

    Plain sums of squares would cancel: scores of different images can agree in all but the last digits.

    Args:
        moments: `(samples, 3, scores)` float64; a sample may be empty.

    Returns:
        `(3, scores)` float64.
    """
    counts, means, squares = moments.unbind(1)
    count = counts.sum(0)
    mean = (counts * means).sum(0) / count.clamp(min=1)
    return torch.stack((count, mean, (squares + counts * (means - mean).square()).sum(0)))
