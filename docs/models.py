"""Try each kind of encoder in every model of timm and transformers, and write docs/models.csv and docs/models.md.

`make models` runs it. Models are built on the `meta` device, so nothing is downloaded and no weights are allocated.
"""

import csv
import importlib
import io
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import timm
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

import loope
from loope.core.files import write_atomic

FILE = Path(__file__).with_suffix(".csv")
# One encoder for each kind, without restrictions on the width of tokens.
KINDS = {"additive": "learned", "rotary": "rope_axial", "bias": "alibi2d", "conditional": "peg"}
MOST_SIDE = 224  # pixels; larger models are built for this size if they can be
MOST_PREFIX = 16  # class, distillation and register tokens
SOFTMAX = (torch.softmax, Tensor.softmax, F.softmax)


class Row(NamedTuple):
    """What was found out about a model; the kinds of encoders are "yes", or the reason why not.

    The family is the class of a timm model, or the folder of a transformers class.
    """

    library: str
    name: str
    family: str
    vit_like: str
    additive: str
    rotary: str
    bias: str
    conditional: str

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return what was found out about each kind of encoder."""
        return self[4:]


class Scores(TorchFunctionMode):
    """Notes the sizes (queries, keys) of all matrices of scores in a forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: set[tuple[int, int]] = set()

    @property
    def attend(self) -> bool:
        """Return whether there was attention from more than one query."""
        return any(queries > 1 for queries, _ in self.sizes)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func is F.scaled_dot_product_attention:
            given = dict(zip(("query", "key"), args, strict=False)) | (kwargs or {})
            self.sizes.add((given["query"].shape[-2], given["key"].shape[-2]))
        elif (
            func in SOFTMAX and made.dim() > 2 and (args[1] if len(args) > 1 else kwargs["dim"]) in (-1, made.dim() - 1)
        ):
            self.sizes.add(tuple(made.shape[-2:]))
        return made


@torch.no_grad()
def try_kinds(model: nn.Module, forward: Callable[[], Any]) -> list[str]:
    """Attach an encoder of each kind, run the model and detach; return "yes" or the reason why not for each."""
    expected = forward()
    return [try_one(model, encoder, forward, expected) for encoder in KINDS.values()]


def try_one(model: nn.Module, encoder: str, forward: Callable[[], Any], expected: Any) -> str:
    """Attach one encoder, run the model and detach; return "yes" or the reason why not."""
    try:
        loope.attach(model, encoder)
    except loope.LoopeError as refusal:
        return str(refusal).partition(";")[0].removesuffix(".").replace(type(model).__name__, "this class")
    made = forward()
    loope.detach(model)
    return "yes" if made == expected else "the shape of the output changes"


def shapes(made: Any) -> Any:
    """Return the shapes of all tensors of a model's output."""
    if isinstance(made, Tensor):
        return tuple(made.shape)
    if isinstance(made, dict):
        return {key: shapes(value) for key, value in made.items()}
    return [shapes(each) for each in made] if isinstance(made, (list, tuple)) else None


def timm_rows(names: list[str]) -> Iterator[Row]:
    """Try the timm architectures that attend."""
    for name in names:
        model, pixels, scores = build_timm(name)
        if scores.attend:
            alike = "yes" if is_vit_like(model, pixels.shape[-1], scores.sizes) else "no"
            found = try_kinds(model, lambda model=model, pixels=pixels: shapes(model(pixels)))
            yield Row("timm", name, type(model).__name__, alike, *found)


@torch.no_grad()
def build_timm(name: str) -> tuple[nn.Module, Tensor, Scores]:
    """Build an architecture on `meta`, for smaller images if it can be; return it, images and its scores."""
    own = timm.get_pretrained_cfg(name).input_size[-1]
    with torch.device("meta"):
        for args in ([{"img_size": MOST_SIDE}] if own > MOST_SIDE else []) + [{}]:
            try:
                model = timm.create_model(name, **args).eval()
                pixels = torch.empty(1, getattr(model, "in_chans", 3), *[args.get("img_size", own)] * 2)
                with Scores() as scores:
                    model(pixels)
                return model, pixels, scores
            except (TypeError, AssertionError, ValueError, RuntimeError):
                if not args:  # else it has no `img_size`, or not this one
                    raise
    raise AssertionError("unreachable")


def is_vit_like(model: Any, size: int, scores: set[tuple[int, int]]) -> bool:
    """Return whether all blocks have the same grid of patches, and attend between all of its patches."""
    info = getattr(model, "feature_info", None) or []
    reductions = {each["reduction"] for each in info}
    if len(reductions) != 1:
        return False
    patches = (size // next(iter(reductions))) ** 2
    return any(queries == keys and 0 <= queries - patches <= MOST_PREFIX for queries, keys in scores)


def transformers_rows(classes: list[type]) -> Iterator[Row]:
    """Try the model classes of transformers that attend, or need more than images to tell."""
    for cls in classes:
        family = cls.__module__.split(".")[-2]
        try:
            model, forward = build_transformers(cls)
        except Exception as error:  # configurations that need a part that has no default
            reason = f"its default configuration builds no model ({type(error).__name__})"
            yield Row("transformers", cls.__name__, family, "", *[reason] * len(KINDS))
            continue
        if forward is not None:
            yield Row("transformers", cls.__name__, family, "", *try_kinds(model, forward))


def vision_classes() -> list[type]:
    """Return the model classes of transformers whose main input is images."""
    found: list[type] = []
    for package in pkgutil.iter_modules(transformers.models.__path__):
        folder = Path(transformers.models.__path__[0]) / package.name
        for file in sorted(folder.glob("modeling_*.py")):
            if "pixel_values" in file.read_text():
                module = importlib.import_module(f"transformers.models.{package.name}.{file.stem}")
                found += [each for each in vars(module).values() if is_vision_class(each, module.__name__)]
    return found


def is_vision_class(cls: Any, module: str) -> bool:
    """Return whether an object of a module is a class of models for images, defined there and not abstract."""
    return (
        isinstance(cls, type)
        and issubclass(cls, transformers.PreTrainedModel)
        and cls.__module__ == module
        and cls.main_input_name == "pixel_values"
        and cls.config_class is not None
        and not cls.__name__.endswith(("PreTrainedModel", "PretrainedModel"))
        and hasattr(transformers, cls.__name__)
    )


def build_transformers(cls: Any) -> tuple[nn.Module, Callable[[], Any] | None]:
    """Build a class with its default configuration and two layers on `meta`; return it and its forward pass.

    The forward pass returns the shapes of the output, or None where the class needs more than images. There is none if
    the class does not attend.
    """
    config = cls.config_class()
    vision = getattr(config, "vision_config", config)
    for part in (config, vision):
        if isinstance(getattr(part, "num_hidden_layers", None), int):
            part.num_hidden_layers = 2
    with torch.device("meta"):
        model = cls(config).eval()
    size = getattr(vision, "image_size", MOST_SIDE)
    sides = tuple(size) if isinstance(size, (list, tuple)) else (size, size)
    pixels = torch.empty(1, getattr(vision, "num_channels", 3), *sides, device="meta")
    try:
        with torch.no_grad(), Scores() as scores:
            model(pixels)
    except Exception:  # it needs text, boxes, ...
        return model, lambda: None
    return model, (lambda: shapes(model(pixels))) if scores.attend else None


def read() -> tuple[dict[str, str], list[Row]]:
    """Read docs/models.csv: the versions of the libraries, and the models."""
    with FILE.open(newline="") as file:
        versions, _, *rows = csv.reader(file)
    return dict(zip(versions[::2], versions[1::2], strict=True)), [Row(*row) for row in rows]


def main() -> None:
    """Walk both registries and write the results."""
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    writer = csv.writer(text := io.StringIO(), lineterminator="\n")
    writer.writerow(["timm", timm.__version__, "transformers", transformers.__version__])
    writer.writerow(Row._fields)
    writer.writerows(timm_rows(timm.list_models()))
    writer.writerows(transformers_rows(vision_classes()))
    write_atomic(FILE, text.getvalue())
    sys.path.insert(0, str(FILE.parent.parent))
    from docs import build_models

    print(f"Written: {FILE} and {build_models.write()}")


if __name__ == "__main__":
    main()
