"""Adam and AdamW with weight decay and layer decay, and their state as named tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from timm.optim import param_groups_layer_decay, param_groups_weight_decay
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from loope.core.errors import require
from loope.lab.engine.recipe import Recipe


def create_optimizer(model: nn.Module, recipe: Recipe) -> Optimizer:
    """Create the recipe's optimizer over all trainable parameters.

    Weight decay skips biases, norms and parameters listed by the model's `no_weight_decay()`. Layer decay uses the
    model's `group_matcher`. Both follow timm.

    Raises:
        LoopeError: if no parameter is trainable, or layer decay is requested for a model without `group_matcher`.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    require(
        bool(trained),
        f"No parameter of {type(model).__name__} takes a gradient; set requires_grad on what is to be trained.",
    )
    kind: type[Adam] = {"adam": Adam, "adamw": AdamW}[recipe.optimizer]
    return kind(_groups(model, recipe, trained), lr=recipe.lr, weight_decay=recipe.weight_decay)


def _groups(model: nn.Module, recipe: Recipe, trained: list[nn.Parameter]) -> list[dict[str, Any]]:
    if not recipe.weight_decay and recipe.layer_decay is None:
        return [{"params": trained}]
    still = model.no_weight_decay() if hasattr(model, "no_weight_decay") else ()  # type: ignore[operator]
    if recipe.layer_decay is None:
        return list(param_groups_weight_decay(model, recipe.weight_decay, no_weight_decay_list=still))
    require(
        hasattr(model, "group_matcher"),
        f"Layer decay needs a model that tells its layers by `group_matcher`, as timm's do; {type(model).__name__} "
        "does not; pass layer_decay=None.",
    )
    decay = recipe.layer_decay
    return list(param_groups_layer_decay(model, recipe.weight_decay, no_weight_decay_list=still, layer_decay=decay))


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate of every group: `rate` times the scale set by layer decay."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("lr_scale", 1.0)


def state_tensors(optimizer: Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Return the optimizer state as "parameter.entry": tensor. Learning rates follow from recipe and step."""
    return {
        f"{name}.{entry}": value
        for name, parameter in model.named_parameters()
        for entry, value in optimizer.state.get(parameter, {}).items()
    }


def restore(optimizer: Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Restore optimizer state returned by `state_tensors` for a model with the same parameters."""
    ordered = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    number = {id(parameter): place for place, parameter in enumerate(ordered)}
    places = {name: number.get(id(parameter)) for name, parameter in model.named_parameters()}
    state: dict[Any, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        name, _, entry = key.rpartition(".")
        state.setdefault(places[name], {})[entry] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
