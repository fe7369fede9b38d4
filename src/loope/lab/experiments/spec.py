"""What a run is: model, encoder, data, recipe and seed. Its hash names its folder, so the same run is never done twice.

Nothing here is heavy: tables are written, listed and counted without torch.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loope.core.errors import LoopeError, require
from loope.lab.engine.recipe import Recipe

Options = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model of timm by name.

    Args:
        name: as `timm.create_model` takes it.
        options: its other arguments.
        weights: "pretrained" for the weights of that name (a local file if there is one, else timm's download), or
            "scratch".
    """

    name: str
    options: Options = field(default_factory=dict)
    weights: str = "scratch"

    def __post_init__(self) -> None:
        require(
            self.weights in ("pretrained", "scratch"),
            f"`weights` must be 'pretrained' or 'scratch', got {self.weights!r}.",
        )

    def made_with(self) -> dict[str, Any]:
        """What timm's model, or the backbone around which it is built, was made with besides its name and size."""
        options = self.options.get("backbone_options", {}) if "backbone" in self.options else self.options
        return {name: value for name, value in options.items() if name != "img_size"}


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """An encoder by name, with its options; "own" leaves the model's own encoding as it is."""

    name: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Data:
    """A data set by name, with its options (image size, split, share of it)."""

    name: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training, or one measurement where `recipe` is None: nothing is trained, the encoder is measured as made.

    Examples:
        >>> run = Run(model=Model(name="vit_tiny_patch16_224"), encoder=Encoder(name="loope"), data=Data(name="pets"),
        ...           recipe=Recipe(epochs=1))
        >>> run == Run.from_json(run.to_json()), len(run.key)
        (True, 12)
    """

    model: Model
    encoder: Encoder
    data: Data
    recipe: Recipe | None = None
    seed: int = 0

    @property
    def key(self) -> str:
        """Twelve letters that no other run has: the hash of everything that decides the outcome."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """The run in a word or two for folders and progress bars; `key` makes it unique."""
        return f"{self.data.name}-{self.model.name}-{self.encoder.name}-s{self.seed}-{self.key}"

    def __hash__(self) -> int:
        return hash(self.key)

    def with_seed(self, seed: int) -> Run:
        """The same run from another seed."""
        return dataclasses.replace(self, seed=seed)

    def with_epochs(self, epochs: int) -> Run:
        """The same run trained for longer or shorter, its warm-up in proportion; a measurement stays what it is."""
        if self.recipe is None:
            return self
        warmup = self.recipe.warmup * epochs / self.recipe.epochs
        return dataclasses.replace(self, recipe=dataclasses.replace(self.recipe, epochs=epochs, warmup=warmup))

    def to_json(self) -> str:
        """One line, keys in order: the same run gives the same text on every machine."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, default=dict)

    @classmethod
    def from_json(cls, text: str) -> Run:
        """Read what `to_json` wrote.

        Raises:
            LoopeError: if it is something else.
        """
        try:
            read = json.loads(text)
            recipe = read.pop("recipe")
            return cls(
                model=Model(**read.pop("model")),
                encoder=Encoder(**read.pop("encoder")),
                data=Data(**read.pop("data")),
                recipe=None if recipe is None else Recipe(**recipe),
                **read,
            )
        except (TypeError, KeyError, AttributeError, json.JSONDecodeError) as error:
            raise LoopeError(
                f"This is not a run as loope writes it: {error}. Start it anew with `loope run`."
            ) from None
