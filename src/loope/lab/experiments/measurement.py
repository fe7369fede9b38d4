"""Measurements: PESI of an untrained encoder, or of the position table of a pretrained model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from loope.core.grid import Grid
from loope.encoders import create_encoder
from loope.encoders.similarity import encoder_similarity
from loope.lab.experiments.experiment import Experiment
from loope.lab.experiments.timm_models import create_timm
from loope.pesi_metric.position_table import position_table
from loope.pesi_metric.summary import summarize


class Measurement(Experiment):
    """PESI of an untrained encoder, for each number of directions; a learned table is that of the pretrained model."""

    def execute(self, folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the scores by name, and tensors: the `(N, N)` similarity, and the grid's (height, width)."""
        options = dict(self.run.data.options)
        directions = options.pop("directions")
        if self.run.encoder.name == "learned":
            similarity, grid = self._own_table()
        else:
            torch.manual_seed(self.run.seed)
            encoder = create_encoder(self.run.encoder.name, **options, **self.run.encoder.options)
            similarity, grid = encoder_similarity(encoder), encoder.grid
        found = {count: summarize(similarity, grid, count) for count in directions}
        scores = found[directions[-1]]._asdict()
        for count, each in found.items():
            scores |= {f"m_d_{count}": each.m_d, f"m_d_ceiling_{count}": each.m_d_ceiling}
        return {"metrics": scores, "history": []}, {"similarity": similarity, "grid": torch.tensor(tuple(grid))}

    def _own_table(self) -> tuple[Tensor, Grid]:
        table = position_table(create_timm(self.run.model).state_dict()).double()
        unit = table.flatten(0, 1) / table.flatten(0, 1).norm(dim=-1, keepdim=True)
        return unit @ unit.T, Grid(*table.shape[:2])
