"""Specification of a run: model, encoder, data, recipe and seed. Its hash names its folder.

Does not import torch until a key is asked for, so that tables can be listed quickly.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loope.core.errors import LoopeError, require
from loope.lab.engine.recipe import Recipe

Options = Mapping[str, Any]

# Part of every key. Raise it if a default of these classes or of `Recipe` changes, or the meaning of a field.
SCHEMA = 2
# Options that encoders got after runs were stored, with the value that changes nothing; left out of keys at that value.
ADDED = {
    "refine": None,
    "policy": "sinusoid",
    "layout": "interleaved",
    "extrapolate": "none",
    "augment": None,
    "fuzzy": 0.0,
    "basis": None,
}
INITS = ("new", "own", "swapped")
PHOTOGRAPHS = ("pets", "cifar100", "imagenet", "imagenet100")


@dataclass(frozen=True, kw_only=True)
class Model:
    """A timm model by name.

    Args:
        name: name for `timm.create_model`.
        options: other arguments of `timm.create_model`.
        weights: "pretrained" (a local file if present, else timm's download) or "scratch".
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
        """Return the timm arguments of the model or its backbone, without name and image size."""
        options = self.options.get("backbone_options", {}) if "backbone" in self.options else self.options
        return {name: value for name, value in options.items() if name != "img_size"}


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """An encoder by name, with its options; "own" keeps the model's encoding.

    Args:
        name: name of the encoder.
        options: options of the encoder.
        init: "new" weights; "own" fits the encoder to the model's own encoding; "swapped" reads the model from the file
            that `loope swap` wrote, beside the pretrained weights.
    """

    name: str
    options: Options = field(default_factory=dict)
    init: str = "new"

    def __post_init__(self) -> None:
        require(self.init in INITS, f"`init` must be one of {', '.join(INITS)}, got {self.init!r}.")


@dataclass(frozen=True, kw_only=True)
class Data:
    """A data set by name, with its options (image size, split, share, classes, what to do with unreadable images)."""

    name: str
    options: Options = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A training run; or a measurement of an untrained encoder if `recipe` is None.

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
        """Hash of everything that determines the outcome, 12 hex digits.

        Fields at their default are left out, so that a new field leaves old keys alone. Options of the encoder are
        filled in, so that a changed default is another run.
        """
        options = {**_encoder_defaults(self.encoder.name), **self.encoder.options}
        full = dataclasses.replace(self, encoder=dataclasses.replace(self.encoder, options=options))
        text = json.dumps([SCHEMA, _changed_fields(full)], sort_keys=True, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """Readable name for folders and progress bars, unique by `key`."""
        return f"{self.data.name}-{self.model.name}-{self.encoder.name}-s{self.seed}-{self.key}"

    def __hash__(self) -> int:
        return hash(self.to_json())

    def with_seed(self, seed: int) -> Run:
        """Return the run with another seed."""
        return dataclasses.replace(self, seed=seed)

    def with_epochs(self, epochs: int) -> Run:
        """Return the run with another number of epochs and proportional warmup; measurements are unchanged."""
        if self.recipe is None:
            return self
        return self.with_recipe(epochs=epochs, warmup=self.recipe.warmup * epochs / self.recipe.epochs)

    def with_recipe(self, **changes: Any) -> Run:
        """Return the run with these fields of its recipe changed."""
        if self.recipe is None:
            raise LoopeError(f"A measurement of {self.encoder.name!r} has no recipe.")
        return dataclasses.replace(self, recipe=dataclasses.replace(self.recipe, **changes))

    def with_images(self, classes: Sequence[str] | None, skip_bad_images: bool) -> Run:
        """Return the run with these classes of ImageNet-100 and bad photographs skipped; other data is unchanged."""
        options = dict(self.data.options)
        if classes is not None and self.data.name == "imagenet100":
            options["classes"] = sorted(classes)
        if skip_bad_images and self.data.name in PHOTOGRAPHS:
            options["skip_bad_images"] = True
        return dataclasses.replace(self, data=Data(name=self.data.name, options=options))

    def to_json(self) -> str:
        """Return a line of JSON with sorted keys, the same on every machine."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, default=dict)

    @classmethod
    def from_json(cls, text: str) -> Run:
        """Read what `to_json` wrote.

        Raises:
            LoopeError: if the text is not a run.
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


def _changed_fields(spec: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults, with those of nested ones."""
    found = {}
    for each in dataclasses.fields(spec):
        value = getattr(spec, each.name)
        default = each.default if each.default_factory is dataclasses.MISSING else each.default_factory()
        if value != default:
            found[each.name] = _changed_fields(value) if dataclasses.is_dataclass(value) else value
    return found


def _encoder_defaults(name: str) -> dict[str, Any]:
    """Return the default options of an encoder; none for "own", or a name that the run itself will report."""
    from loope.encoders import encoder_class, list_encoders
    from loope.encoders.describe import MODEL as MODEL_ARGUMENTS

    if name not in list_encoders():
        return {}
    parameters = inspect.signature(encoder_class(name)).parameters.values()
    return {
        each.name: each.default
        for each in parameters
        if each.default is not each.empty
        and each.name not in MODEL_ARGUMENTS
        and (each.name not in ADDED or each.default != ADDED[each.name])
    }
