"""Adam, AdamW and Muon with weight decay and layer decay, and their state as named tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from timm.optim import param_groups_layer_decay, param_groups_weight_decay
from torch import Tensor, nn, optim
from torch.optim import Adam, AdamW, Optimizer

from loope.core.errors import require
from loope.lab.engine.recipe import Recipe

BETA1 = 0.9  # PyTorch's default
BLOCKS = ".blocks."  # in the names of parameters of timm's blocks


def create_optimizer(model: nn.Module, recipe: Recipe) -> Optimizer:
    """Create the recipe's optimizer over all trainable parameters.

    Weight decay skips biases, norms and parameters listed by the model's `no_weight_decay()`. Layer decay uses the
    model's `group_matcher`. Both follow timm. "muon" trains the matrices of the model's blocks with Muon, and the rest,
    an attached encoder included, with AdamW.

    Raises:
        LoopeError: if no parameter is trainable, or layer decay is requested for a model without `group_matcher`.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    require(
        bool(trained),
        f"No parameter of {type(model).__name__} takes a gradient; set requires_grad on what is to be trained.",
    )
    groups = _groups(model, recipe, trained)
    if recipe.optimizer == "muon":
        return MuonAdamW(*_split(groups, _matrices(model)), recipe)
    kind: type[Adam] = {"adam": Adam, "adamw": AdamW}[recipe.optimizer]
    return kind(groups, lr=recipe.lr, betas=(BETA1, recipe.beta2), weight_decay=recipe.weight_decay)


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


def _matrices(model: nn.Module) -> set[int]:
    """Return the ids of the matrices in the model's blocks, for Muon."""
    found = {
        id(parameter) for name, parameter in model.named_parameters() if parameter.ndim == 2 and BLOCKS in f".{name}"
    }
    require(
        bool(found),
        f"Muon trains the matrices of a model's `blocks`; {type(model).__name__} has none; use optimizer='adamw'.",
    )
    return found


def _split(groups: list[dict[str, Any]], chosen: set[int]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Split each group into its chosen parameters and the others."""
    parts: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    for group in groups:
        for part, wanted in zip(parts, (True, False), strict=True):
            params = [parameter for parameter in group["params"] if (id(parameter) in chosen) == wanted]
            if params:
                part.append({**group, "params": params})
    return parts


class MuonAdamW(Optimizer):
    """Muon for some groups and AdamW for the others, as one optimizer.

    Muon's updates are scaled to the size of AdamW's, so both have the same learning rate.

    Args:
        matrices: groups of 2D parameters, for Muon.
        others: the other groups.
        recipe: the hyperparameters.
    """

    def __init__(self, matrices: list[dict[str, Any]], others: list[dict[str, Any]], recipe: Recipe):
        require(hasattr(optim, "Muon"), "optimizer='muon' needs PyTorch 2.9 or newer; update it, or use 'adamw'.")
        muon = optim.Muon(matrices, lr=recipe.lr, weight_decay=recipe.weight_decay, adjust_lr_fn="match_rms_adamw")
        adamw = AdamW(others, lr=recipe.lr, betas=(BETA1, recipe.beta2), weight_decay=recipe.weight_decay)
        super().__init__([*muon.param_groups, *adamw.param_groups], {})
        self._muon, self._adamw = muon, adamw
        self._share()

    def _share(self) -> None:
        """Let the parts use this optimizer's groups and state."""
        count = len(self._muon.param_groups)
        self._muon.param_groups, self._adamw.param_groups = self.param_groups[:count], self.param_groups[count:]
        self._muon.state = self._adamw.state = self.state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of both parts."""
        super().load_state_dict(state_dict)
        self._share()

    def step(self, closure: Any = None) -> Any:
        """Take a step with both parts."""
        loss = self._muon.step(closure)  # type: ignore[no-untyped-call]
        self._adamw.step()
        return loss


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
