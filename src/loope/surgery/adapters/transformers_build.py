"""How files describe models of transformers, and how they are built again: by their configuration."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from loope.core.errors import MissingPackageError, require
from loope.core.grid import Grid
from loope.surgery.adapters.base import Adapter
from loope.surgery.adapters.timm import check_timm
from loope.surgery.adapters.transformers_families import FAMILIES, WRAPPERS

# Entries of a configuration that make transformers look for code, or for a backbone and its weights.
REMOTE = {"auto_map", "backbone", "backbone_kwargs", "use_timm_backbone", "use_pretrained_backbone"}


class BuiltByTransformers(Adapter):
    """Describes and builds models by their configuration."""

    model: Any
    library: ClassVar[str] = "transformers"

    def describe_config(self, size: Grid) -> dict[str, Any]:
        """Return the model's configuration for images of `size`."""
        raise NotImplementedError

    def init_options(self) -> dict[str, bool]:
        """Return arguments of the model's constructor that its configuration does not have."""
        return {}

    def describe(self, size: Grid, args: dict[str, Any]) -> dict[str, Any]:
        name = type(self.model).__name__
        require(
            _is_buildable(type(self.model)),
            f"loope.save cannot describe a {name}; attach to the vision model inside it and save that.",
        )
        options = self.init_options()
        about = {"class": name, "config": self.describe_config(size)}
        return {**about, "options": options} if options else about

    @classmethod
    def build(cls, about: dict[str, Any]) -> nn.Module:
        found, config, options = _recipe(about)
        model: nn.Module = found(config, **options)
        return model


def with_weights(about: dict[str, Any], state: dict[str, Tensor]) -> nn.Module:
    """Build a described model with weights that are named as in transformers' files, not as in the model.

    Raises:
        LoopeError: if weights are missing, unknown or of another shape.
    """
    cls, config, options = _recipe(about)
    model, found = cls.from_pretrained(None, config=config, state_dict=state, output_loading_info=True, **options)
    wrong = sorted(str(key) for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") for key in found[kind])
    require(
        not wrong,
        f"The weights are not those of a {cls.__name__} with this configuration; see {', '.join(wrong[:3])}.",
    )
    made: nn.Module = model
    return made


def _recipe(about: dict[str, Any]) -> tuple[Any, Any, dict[str, bool]]:
    """Return the class, the configuration and the constructor's options of a described model, after checks."""
    cls = model_class(about["class"])
    _require_local({**about["config"], "model_type": cls.config_class.model_type})
    options = dict(about.get("options", {}))
    if about.get("mask_token") is True:  # of older files
        options["use_mask_token"] = True
    known = {name for family in FAMILIES for name in family.init_options}
    for name, value in options.items():
        require(name in known and isinstance(value, bool), f"The file's model has an unknown option {name!r}.")
    return cls, cls.config_class.from_dict(_without_attention(about["config"])), options


def model_class(name: str) -> Any:
    """Return a class of transformers whose models `loope.load` may build.

    Raises:
        LoopeError: if it is none of these.
    """
    try:
        import transformers
    except ImportError:
        raise MissingPackageError("The file's model is one of transformers': pip install 'loope[models]'.") from None

    cls = getattr(transformers, name, None)
    require(
        isinstance(cls, type) and issubclass(cls, transformers.PreTrainedModel) and _is_buildable(cls),
        f"{name!r} is no class of transformers with a vision transformer that loope supports.",
    )
    return cls


def _without_attention(config: Any) -> Any:
    if isinstance(config, dict):
        return {
            key: _without_attention(value) for key, value in config.items() if "attn_implementation" not in str(key)
        }
    return config


def _require_local(config: dict[str, Any]) -> None:
    """Refuse a configuration that would make transformers or timm read a file or an address.

    Raises:
        LoopeError: naming the entry.
    """
    for key, value in config.items():
        require(key not in REMOTE or not value, f"A model cannot be built with {key}={value!r} from a file.")
        if isinstance(value, dict):
            _require_local(value)
    kind = config.get("model_type")
    require(kind != "timm_backbone", "A model with a backbone of timm cannot be built from a file.")
    if kind == "timm_wrapper":
        check_timm(config["architecture"], config.get("model_args") or {})


def _is_buildable(cls: type) -> bool:
    return cls.__name__ in WRAPPERS or cls.__module__ in {family.module for family in FAMILIES}


def config_of(config: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the part of a configuration that is of one kind of model: the whole, or the one inside."""
    if config.get("model_type") == kind:
        return config
    inside = [value for value in config.values() if isinstance(value, dict) and value.get("model_type") == kind]
    require(len(inside) == 1, f"Expected one configuration of {kind!r} in the model's configuration.")
    return inside[0]
