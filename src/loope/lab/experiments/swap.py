"""Swap the encoder of a pretrained timm model by a run that can be resumed, and write the result to one file."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from loope.core.errors import require
from loope.core.files import write_atomic
from loope.core.grid import as_size
from loope.core.seeds import derive
from loope.encoders.base import encoder_class
from loope.lab.data.classification import Files, Images, ImageSource
from loope.lab.engine.attention import plain_attention
from loope.lab.engine.distributed import Distributed
from loope.lab.engine.progress import Display
from loope.lab.engine.recipe import Recipe
from loope.lab.engine.state import differences
from loope.lab.engine.training import train
from loope.lab.experiments.spec import Model
from loope.lab.experiments.timm_models import create_timm, preparation
from loope.lab.experiments.transfer import Parts, Transfer, answers
from loope.pesi_metric.position_table import require_timm_model
from loope.surgery.adapters.base import adapter_for
from loope.surgery.attach import attach
from loope.surgery.checkpoint import save
from loope.surgery.transfer import BETA2, CLIP, LR, WARMUP, HandOver

HELD_OUT, MOST_HELD_OUT = 10, 500  # one in ten images, and at most so many
EVALUATIONS = 5  # at most, in a run
SETTINGS = "swap.json"  # in the folder of a run, which it identifies
WRITING = "writing"  # in that folder, from when this run starts to write its file


@dataclass(frozen=True, kw_only=True)
class Swap:
    """What to swap, and how.

    Args:
        model: name of a timm model; its pretrained weights are used.
        encoder: name of the encoder.
        options: options of the encoder.
        steps: training steps; 0 to attach and fit only.
        batch_size: images per step, over all processes.
        lr: peak learning rate.
        precision: of training; one of the engine's.
        freeze_backbone: train the encoder only.
        seed: seed of new weights, held-out images and batches.
    """

    model: str
    encoder: str
    options: dict[str, Any] = field(default_factory=dict)
    steps: int = 1000
    batch_size: int = 16
    lr: float = LR
    precision: str = "float32"
    freeze_backbone: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        as_size(self.steps, "steps", least=0)
        _ = self.recipe  # checks the other numbers

    @property
    def epochs(self) -> int:
        """Number of equal parts of the run, each followed by an evaluation."""
        return max(parts for parts in range(1, EVALUATIONS + 1) if self.steps % parts == 0)

    @property
    def recipe(self) -> Recipe:
        """Hyperparameters of the run, those of `loope.transfer`."""
        return Recipe(
            epochs=self.epochs,
            batch_size=self.batch_size,
            lr=self.lr,
            min_lr=self.lr / 20,
            warmup=WARMUP * self.epochs,
            beta2=BETA2,
            clip=CLIP,
            precision=self.precision,
            train="encoder" if self.freeze_backbone else "all",
        )


class Comparison(NamedTuple):
    """A model against the original, on held-out images.

    Attributes:
        agreement: share of the images with the same answer.
        tokens: mean cosine of the last block's tokens.
        top1: accuracy on the labelled images; None if there are none.
    """

    agreement: float
    tokens: float
    top1: float | None


class Swapped(NamedTuple):
    """Result of a swap.

    Attributes:
        original_top1: top-1 accuracy of the original model; None without labels.
        before: the encoder alone, as attached and fitted.
        after: the model that was written.
        strength: of the encoder; 0 beside the model's own encoding, if it cannot be fitted and no step was taken.
        train_images: number of images trained on.
        held_out: number of images compared on.
        labelled: number of these with a label.
    """

    original_top1: float | None
    before: Comparison
    after: Comparison
    strength: float
    train_images: int
    held_out: int
    labelled: int


class SwapRun:
    """A swap whose input was checked: model, encoder and images are there.

    Args:
        swap: what to swap.
        files: images of any size.
        labels: class index of some of the images, by name.
        to: the file to write; a folder beside it, with the ending ".run", holds the run until then.

    Raises:
        LoopeError: if the file exists or cannot be written there, the model, its weights, the encoder or an option is
            unknown, an image cannot be read, there are too few, or the folder holds another run.
    """

    def __init__(self, swap: Swap, files: Files, labels: dict[str, int], to: Path):
        self.swap = swap
        require(to.suffix == ".safetensors", f"A model is written to a .safetensors file, got {str(to)!r}.")
        require(to.parent.is_dir() and not to.is_dir(), f"{to} must be a file in a folder that exists.")
        self.to = to
        self.folder = to.with_name(to.name + ".run")
        self._check_folder()
        self._check_file()
        require_timm_model(swap.model)
        encoder_class(swap.encoder)
        learnt, held = split(files.names, swap.seed, swap.steps * swap.batch_size)
        require(
            not swap.steps or len(learnt) >= swap.batch_size,
            f"A step takes {swap.batch_size} images, and {files.folder} has {len(learnt)} besides the {len(held)} held "
            "out; use more images or a smaller batch size (--batch-size).",
        )
        with torch.device("meta"):
            adapter_for(create_timm(Model(name=swap.model)))  # refuses a model before its weights are looked for
        torch.manual_seed(swap.seed)
        model = create_timm(Model(name=swap.model, weights="pretrained"))
        attach(model, [(swap.encoder, swap.options)], init="own", freeze_backbone=swap.freeze_backbone)
        self.distributed = Distributed(swap.precision)  # checks it before the folder is claimed
        self.model = model.to(self.distributed.device)
        classes = int(getattr(model, "num_classes", 0))
        for name, label in labels.items():
            require(
                0 <= label < classes,
                f"The class of {name} must be from 0 to {classes - 1}, as {swap.model} has {classes}, got {label}.",
            )
        self.truth = torch.tensor([labels.get(name, -1) for name in held])
        self.train_images = len(learnt)
        prepare = preparation(swap.model)
        self.val = ImageSource(_numbered(files.folder, held), swap.batch_size, prepare)
        self.train: Parts | None = None
        if swap.steps:
            source = ImageSource(
                _numbered(files.folder, learnt), swap.batch_size, prepare, train=True, seed=swap.seed, augment="flip"
            )
            self.train = Parts(source, swap.steps, swap.epochs)
        self.distributed.on_first(lambda: Files(files.folder, [*held, *learnt]).check())

    def execute(self, progress: bool | type[Display] = True) -> Swapped:
        """Hand the model over, and write it.

        Raises:
            Interrupted: after Ctrl-C or SIGTERM; the same swap goes on later.
            LoopeError: if the loss is not finite, or another process is training into the folder.
        """
        swap = self.swap
        work = HandOver(self.model, freeze_backbone=swap.freeze_backbone)
        work.set_progress(1.0)
        before, wanted, original = self._compare(work)
        work.set_progress(0.0)
        if self.train is not None:
            self.distributed.on_first(self._claim_folder)
            work.prepare(next(iter(self.train.batches(0)))[0].to(self.distributed.device))
            with plain_attention(swap.precision):
                train(
                    self.model,
                    Transfer(work, wanted),
                    self.train,
                    self.val,
                    swap.recipe,
                    self.folder,
                    seed=swap.seed,
                    name=f"{swap.model} {swap.encoder}",
                    progress=progress,
                )
            work.finish()
        after = self._compare(work)[0]
        require(
            math.isfinite(after.tokens),
            f"The model is no longer finite, so it was not written; delete {self.folder} and try a smaller lr.",
        )
        self.distributed.on_first(self._write)
        return Swapped(
            original_top1=original,
            before=before,
            after=after,
            strength=0.0 if work.fades and not swap.steps else 1.0,
            train_images=self.train_images,
            held_out=len(self.truth),
            labelled=int((self.truth >= 0).sum()),
        )

    def _compare(self, work: HandOver) -> tuple[Comparison, Tensor, float | None]:
        """Compare on the held-out images; also return the teacher's answers and its top-1 accuracy."""
        batches = (images.to(self.distributed.device) for images, _ in self.val.batches(0))
        with _answers_of(work.model) as ours, _answers_of(work.teacher) as theirs:
            found = work.agreement(batches)
        given, wanted = torch.cat(ours), torch.cat(theirs)
        return Comparison(found.answers, found.tokens, self._top1(given)), wanted, self._top1(wanted)

    def _top1(self, given: Tensor) -> float | None:
        known = self.truth >= 0
        right = (given.cpu() == self.truth)[known]
        return float(right.float().mean()) if len(right) else None

    def _check_file(self) -> None:
        """Check that the file is free, or that this run wrote it and stopped before it removed its folder."""
        require(
            (self.folder / WRITING).exists() or not os.path.lexists(self.to),
            f"{self.to} exists already; move or delete it, or write to another file.",
        )

    def _check_folder(self) -> None:
        """Check that the folder of the run is free, or holds this run."""
        if not self.folder.exists() or (self.folder.is_dir() and not any(self.folder.iterdir())):
            return
        try:
            old = json.loads((self.folder / SETTINGS).read_text())
        except (OSError, ValueError):
            old = None
        require(
            isinstance(old, dict),
            f"{self.folder} is needed for the run and holds something else; move it away, or write to another file.",
        )
        if [path.name for path in self.folder.iterdir()] == [SETTINGS]:
            return  # nothing was trained yet
        found = list(differences(old, json.loads(self._settings())))
        require(
            not found,
            f"{self.folder} holds an unfinished run with other settings: {'; '.join(found[:3])}. Go on as it was "
            "started, delete the folder to start over, or write to another file.",
        )

    def _claim_folder(self) -> None:
        write_atomic(self.folder / SETTINGS, self._settings())

    def _settings(self) -> str:
        return json.dumps(asdict(self.swap), indent=1, default=str) + "\n"

    def _write(self) -> None:
        self._check_file()  # it may have come up during the run, which is kept
        if self.folder.exists():
            write_atomic(self.folder / WRITING, "")
        save(self.model, self.to)
        if self.folder.exists():
            shutil.rmtree(self.folder)


def split(names: Sequence[str], seed: int, most: int) -> tuple[list[str], list[str]]:
    """Split names into at most `most` to train on and a tenth, from 1 to `MOST_HELD_OUT`, to compare on.

    Chosen by a hash of seed and name, so that neither the order nor the number of other files matters much.
    """
    chosen = sorted(names, key=lambda name: derive("held out", seed, os.fsencode(name)))
    count = min(MOST_HELD_OUT, max(1, len(names) // HELD_OUT))
    return sorted(chosen[count : count + most]), sorted(chosen[:count])


def _numbered(folder: Path, names: Sequence[str]) -> Images:
    """Return images whose label is their number."""
    return Images(Files(folder, names), range(len(names)), ["train"] * len(names), names)


@contextmanager
def _answers_of(model: nn.Module) -> Iterator[list[Tensor]]:
    """Collect the answers of all forward passes, `(B,)` int64 each."""
    seen: list[Tensor] = []
    hook = model.register_forward_hook(lambda module, args, output: seen.append(answers(output)))
    try:
        yield seen
    finally:
        hook.remove()
