"""Experiments: how a run gets its data, its model and its numbers. There is a subclass for each kind of task."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from loope.core.errors import LoopeError
from loope.encoders import PositionalEncoder
from loope.encoders.loope import Loope
from loope.encoders.refine import Refinable
from loope.encoders.similarity import encoder_similarity
from loope.lab.data.batches import Source
from loope.lab.engine.attention import plain_attention
from loope.lab.engine.evaluation import evaluate
from loope.lab.engine.tasks import Task
from loope.lab.engine.training import train
from loope.lab.experiments.results import MODEL, PROGRESS
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.spec import Run
from loope.lab.experiments.start import amplify_attention, equalize
from loope.lab.experiments.timm_models import create_swapped, create_timm
from loope.pesi_metric.summary import summarize
from loope.surgery.attach import attach
from loope.surgery.checkpoint import save

IMAGES_MEASURED = 64  # test images on which encoders are measured
IMAGES_KEPT = 4  # of these, kept for figures
PARTS = ("train", "val", "test")


class Experiment(ABC):
    """What a run does on this machine."""

    def __init__(self, run: Run, settings: Settings):
        self.run = run
        self.settings = settings

    def find_data(self) -> None:  # noqa: B027  (computed data needs nothing)
        """Find the data of the run, without decoding it.

        Raises:
            LoopeError: if it is not available.
        """

    @abstractmethod
    def execute(self, folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the result as plain data, with "metrics" and "history", and tensors for figures."""


class Training(Experiment):
    """Train a model, test it and measure its encoder. Subclasses define task, data and model."""

    task: Task
    outputs: int  # of a classifier

    def __init__(self, run: Run, settings: Settings):
        super().__init__(run, settings)
        if run.recipe is None:
            raise LoopeError(f"A run on {run.data.name!r} is trained and needs a recipe.")
        self.recipe = run.recipe

    @abstractmethod
    def source(self, part: str) -> Source:
        """Return the batches of one of `PARTS`."""

    def digests(self) -> dict[str, str]:
        """Identify the images of each part, if these depend on files."""
        return {}

    def create_model(self) -> nn.Module:
        """Create the model, without its encoder."""
        size = self.run.data.options.get("image_size")
        return create_timm(self.run.model, num_classes=self.outputs, **({} if size is None else {"img_size": size}))

    def more_scores(self, model: nn.Module) -> dict[str, float]:
        """Return scores of the trained model that only this kind of task has. Must not change the model."""
        return {}

    def examples(self, model: nn.Module) -> dict[str, Tensor]:
        """Return tensors for figures that only this kind of task has."""
        return {}

    @cached_property
    def sources(self) -> dict[str, Source]:
        """The batches of all parts."""
        return {part: self.source(part) for part in PARTS}

    def build_model(self) -> nn.Module:
        """Build the model with its encoder attached, seeded by the run.

        Raises:
            LoopeError: if model, weights or encoder are not available.
        """
        torch.manual_seed(self.run.seed)
        encoder = self.run.encoder
        if encoder.init == "swapped":
            return create_swapped(self.run.model, encoder.name, num_classes=self.outputs)
        model = self.create_model()
        if encoder.name != "own":
            init = "own" if encoder.init == "own" else None
            attach(model, encoder.name, init=init, freeze_backbone=self.recipe.train == "encoder", **encoder.options)
        if self.recipe.start == "equal":
            equalize(model)
        if self.recipe.attention_gain != 1:
            amplify_attention(model, self.recipe.attention_gain)
        return model

    def execute(self, folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Train into the folder, and save the model there for `loope.load`, unless it kept its own encoding."""
        began = time.process_time()
        run, sources, model = self.run, self.sources, self.build_model()
        with plain_attention(self.recipe.precision):
            result = train(
                model,
                self.task,
                sources["train"],
                sources["val"],
                self.recipe,
                folder,
                seed=run.seed,
                name=run.name,
                trackers=self.settings.trackers,
                progress=folder / PROGRESS,
            )
            tested = evaluate(model, self.task, sources["test"], precision=self.recipe.precision)
            more = self.more_scores(model)
        images = next(iter(sources["test"].batches(0)))[0][:IMAGES_MEASURED]
        measured, tensors = measure_encoder(model, images.to(next(model.parameters()).device))
        if "offsets" in tensors:
            tensors["images"] = images[:IMAGES_KEPT]
        if run.encoder.name != "own" and is_first_process():
            save(model, folder / MODEL, model_args=run.model.made_with())
        best = {f"best_{name}": value for name, value in numbers(result.best).items()}
        found = {
            "metrics": {
                **numbers(tested),
                **more,
                **measured,
                "best_epoch": result.best_epoch,
                **best,
            },
            "details": {name: value for name, value in tested.items() if name not in numbers(tested)},
            "history": result.history,
            "images_per_second": result.images_per_second,
            "training_seconds": result.seconds,
            "processor_seconds": time.process_time() - began,  # of this process, so without what was before a resume
            "parameters": _parameters(model),
            "samples": {part: source.samples for part, source in sources.items()},
            "digests": self.digests(),
            "bad_images": {
                part: source.bad_images for part, source in sources.items() if hasattr(source, "bad_images")
            },
        }
        return found, tensors | self.examples(model)


def measure_encoder(model: nn.Module, images: Tensor) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Compute PESI of a model's encoder, and statistics of LOOPE's offsets.

    Args:
        model: with or without an attached encoder; without one nothing is measured.
        images: `(B, C, H, W)` model inputs, for encoders that read images.

    Returns:
        Scores by name, and tensors: the similarity, the grid, and LOOPE's offsets X_C, `(B, N)`.
    """
    encoder = next((each for each in model.modules() if isinstance(each, PositionalEncoder)), None)
    if encoder is None or encoder.name == "none":
        return {}, {}
    seen = images if isinstance(encoder, Loope) and encoder.generator.reads_image else None
    similarity = encoder_similarity(encoder, images=seen)
    scores = {f"pesi_{name}": value for name, value in summarize(similarity, encoder.grid)._asdict().items()}
    tensors = {"similarity": similarity, "grid": torch.tensor(tuple(encoder.grid))}
    if isinstance(encoder, Loope):
        with torch.no_grad():
            offsets = encoder.eval().offsets(seen)
        index = encoder.constant("_index", encoder.grid)
        swapped = (index + offsets).argsort(-1) != index.argsort(-1)
        scores |= {
            "offset_size": offsets.abs().mean().item(),
            "offset_over_images": offsets.std(0, correction=0).mean().item(),  # 0 if the generator is dead
            "offset_swapped": swapped.float().mean().item(),
        }
        tensors["offsets"] = offsets
    elif isinstance(encoder, Refinable) and encoder.generator is not None:
        with torch.no_grad():
            offsets = encoder.eval().offsets(images if encoder.generator.reads_image else None)
        scores |= {
            "offset_size": offsets.abs().mean().item(),
            "offset_over_images": offsets.std(0, correction=0).mean().item(),
        }
    return scores, tensors


def numbers(scores: dict[str, Any]) -> dict[str, float]:
    """Keep the scores that are single numbers."""
    return {name: float(value) for name, value in scores.items() if isinstance(value, int | float)}


def _parameters(model: nn.Module) -> dict[str, int]:
    """Count the parameters of model and encoder, without the model's replaced position embedding."""
    trained = {name: each.numel() for name, each in model.named_parameters() if not name.startswith("loope.own")}
    return {
        "model": sum(trained.values()),
        "encoder": sum(count for name, count in trained.items() if name.startswith("loope.")),
    }


def is_first_process() -> bool:
    """Return whether this process writes the files of a run that several may share."""
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0
