"""Measure encoders, trained or not: PESI, and statistics of LOOPE's offsets."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from loope.core.grid import Grid, as_grid
from loope.encoders import PositionalEncoder, create_encoder
from loope.encoders.loope import Loope
from loope.encoders.similarity import encoder_similarity
from loope.lab.experiments.spec import Run
from loope.lab.experiments.timm_models import create_timm
from loope.pesi_metric.position_table import position_table
from loope.pesi_metric.summary import summarize


def measure_untrained(run: Run) -> tuple[dict[str, float], Tensor, Tensor]:
    """Compute PESI of an untrained encoder; for a learned table, of the pretrained model's.

    Returns:
        Scores by name, the `(N, N)` similarity, and the grid's (height, width) as a tensor.
    """
    options = dict(run.data.options)
    directions = options.pop("directions")
    if run.encoder.name == "learned":
        similarity, grid = _own_table(run)
    else:
        torch.manual_seed(run.seed)
        encoder = create_encoder(run.encoder.name, **options, **run.encoder.options)
        similarity, grid = encoder_similarity(encoder), encoder.grid
    scores = _pesi(similarity, grid, directions[-1])
    for count in directions:
        each = _pesi(similarity, grid, count)
        scores |= {f"m_d_{count}": each["m_d"], f"m_d_ceiling_{count}": each["m_d_ceiling"]}
    return scores, similarity, torch.tensor(as_grid(grid))


def measure_trained(model: nn.Module, images: Tensor) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Compute PESI of a model's encoder, and statistics of LOOPE's offsets.

    Args:
        model: with or without an attached encoder; without one nothing is measured.
        images: `(B, C, H, W)` model inputs, for encoders that read images.

    Returns:
        Scores by name with the prefix "pesi_", and tensors: the similarity, and LOOPE's offsets X_C, `(B, N)`.
    """
    attached = getattr(model, "loope", None)
    encoders = [each for each in attached.modules() if isinstance(each, PositionalEncoder)] if attached else []
    scores: dict[str, Any] = {}
    tensors: dict[str, Tensor] = {}
    for encoder in encoders[:1]:
        if encoder.name == "none":
            continue
        seen = images if isinstance(encoder, Loope) and encoder.generator.reads_image else None
        similarity = encoder_similarity(encoder, images=seen)
        scores |= {f"pesi_{name}": value for name, value in _pesi(similarity, encoder.grid, 60).items()}
        tensors |= {"similarity": similarity, "grid": torch.tensor(tuple(encoder.grid))}
        if isinstance(encoder, Loope):
            health, offsets = _offsets(encoder, images)
            scores |= health
            tensors["offsets"] = offsets
    return scores, tensors


def _offsets(encoder: Any, images: Tensor) -> tuple[dict[str, float], Tensor]:
    """Measure the size of X_C and its variation over images: a dead generator gives the same for all."""
    with torch.no_grad():
        offsets = encoder.eval().offsets(images if encoder.generator.reads_image else None)
    index = encoder.constant("_index", encoder.grid)
    swapped = ((index + offsets).argsort(-1) != index.argsort(-1)).float().mean()
    health = {
        "offset_size": offsets.abs().mean().item(),
        "offset_over_images": offsets.std(0, correction=0).mean().item(),
        "offset_swapped": swapped.item(),
    }
    return health, offsets


def _own_table(run: Run) -> tuple[Tensor, Any]:
    table = position_table(create_timm(run.model).state_dict()).double()
    unit = table.flatten(0, 1) / table.flatten(0, 1).norm(dim=-1, keepdim=True)
    return unit @ unit.T, Grid(*table.shape[:2])


def _pesi(similarity: Tensor, grid: Any, directions: int) -> dict[str, float]:
    return summarize(similarity, grid, directions)._asdict()
