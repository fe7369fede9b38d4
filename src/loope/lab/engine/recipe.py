"""Training hyperparameters, checked on construction and convertible to JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass

from loope.core.errors import one_of, require
from loope.core.grid import as_positive, as_size

OPTIMIZERS = ("adam", "adamw", "muon")
PRECISIONS = ("float32", "bfloat16", "float16")
TRAINED = ("all", "encoder")
STARTS = ("default", "equal")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Training hyperparameters. Data sources read `batch_size`, `mixup`, `cutmix` and `augment`, the engine the rest.

    Args:
        epochs: passes over the training data.
        batch_size: global batch size over all processes.
        optimizer: "adam", "adamw", or "muon" for the matrices of blocks with AdamW for the rest.
        lr: peak learning rate.
        min_lr: learning rate of the last step; the paper decays from 1e-3 to 2.5e-5.
        warmup: epochs, possibly fractional, of linear warmup.
        weight_decay: not applied to biases, norms and parameters that the model excludes.
        layer_decay: learning-rate factor from each layer to the one before it; None for a uniform rate.
        clip: maximum global gradient norm; None for no limit.
        accumulate: batches accumulated into one step; an epoch drops an incomplete last step.
        precision: "float32", "bfloat16" or "float16" (on a GPU), by autocast: weights stay in float32.
        label_smoothing: target weight spread over all classes.
        mixup: alpha of mixup; 0 to disable.
        cutmix: alpha of cutmix; 0 to disable.
        augment: name of the augmentation, checked by the data source.
        train: "all", or "encoder" for the attached encoder's parameters alone.
        start: "default", or "equal": new encoders start with equal amplitudes; see `loope.lab.experiments.start`.
        attention_gain: factor on the initial weights of queries and keys, for models from scratch.
        beta2: decay of the optimizer's mean of squared gradients; 0.95 suits short runs at high rates.

    Examples:
        >>> Recipe(epochs=2, lr=0)
        Traceback (most recent call last):
        loope.core.errors.LoopeError: `lr` must be a positive number, got 0.

    Raises:
        LoopeError: for an invalid value.
    """

    epochs: int
    batch_size: int = 64
    optimizer: str = "adamw"
    lr: float = 1e-3
    min_lr: float = 2.5e-5
    warmup: float = 0.0
    weight_decay: float = 0.0
    layer_decay: float | None = None
    clip: float | None = None
    accumulate: int = 1
    precision: str = "float32"
    label_smoothing: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    augment: str = "none"
    train: str = "all"
    start: str = "default"
    attention_gain: float = 1.0
    beta2: float = 0.999

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate"):
            as_size(getattr(self, name), name)
        one_of("optimizer", self.optimizer, OPTIMIZERS)
        one_of("precision", self.precision, PRECISIONS)
        one_of("set of trained parameters", self.train, TRAINED)
        one_of("start", self.start, STARTS)
        as_positive(self.lr, "lr")
        as_positive(self.attention_gain, "attention_gain")
        for name in ("min_lr", "warmup", "weight_decay", "label_smoothing", "mixup", "cutmix", "beta2"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            require(number and 0 <= value < math.inf, f"`{name}` must be a number from 0 up, got {value!r}.")
        require(
            self.min_lr <= self.lr,
            f"`min_lr` must not be above `lr` = {self.lr:g}, got {self.min_lr:g}; pass min_lr={self.lr / 40:g} for the "
            "paper's ratio.",
        )
        require(
            self.warmup < self.epochs,
            f"`warmup` must be shorter than the {self.epochs} epochs of training, got {self.warmup:g} epochs.",
        )
        require(self.beta2 < 1, f"`beta2` must be below 1, got {self.beta2:g}.")
        require(self.label_smoothing < 1, f"`label_smoothing` must be below 1, got {self.label_smoothing:g}.")
        if self.clip is not None:
            as_positive(self.clip, "clip")
        if self.layer_decay is not None:
            decay = as_positive(self.layer_decay, "layer_decay")
            require(decay <= 1, f"`layer_decay` must be at most 1, got {decay:g}; 0.75 is usual.")
