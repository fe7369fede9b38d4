"""Every encoder in every model: what must hold for each pair. The table of docs/attach.md is made from this."""

import pytest
import torch
from torch import nn

import loope
from tests.surgery.models import MODELS, make, predict

every_model = pytest.mark.parametrize("name", MODELS)
every_encoder = pytest.mark.parametrize("encoder", loope.list_encoders())


def state_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same_state(model: nn.Module, state: dict[str, torch.Tensor]) -> bool:
    now = model.state_dict()
    return list(now) == list(state) and all(torch.equal(now[name], state[name]) for name in state)


def check(model_name: str, encoder: str) -> str:
    """ "yes", or why the pair does not work."""
    model = make(model_name)
    before, state = predict(model), state_of(model)
    try:
        loope.attach(model, encoder)
    except loope.LoopeError as refusal:
        return str(refusal)
    attached = predict(model)
    if torch.allclose(attached, before):
        return "attaching changes nothing"
    if attached.shape != before.shape or not attached.isfinite().all():
        return "wrong output"
    if not torch.equal(predict(model), attached):
        return "not deterministic"
    loope.detach(model)
    if not torch.equal(predict(model), before) or not same_state(model, state):
        return "detach does not restore"
    return "yes"


def table() -> str:
    """Encoder x model, in Markdown."""
    encoders = loope.list_encoders()
    lines = ["| model | " + " | ".join(f"`{name}`" for name in encoders) + " |", "|---" * (len(encoders) + 1) + "|"]
    reasons: list[str] = []
    for model in MODELS:
        cells = []
        for encoder in encoders:
            verdict = check(model, encoder)
            if verdict != "yes" and verdict not in reasons:
                reasons.append(verdict)
            cells.append("✓" if verdict == "yes" else f"({reasons.index(verdict) + 1})")
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return "\n".join([*lines, *(f"\n({number}) {reason}" for number, reason in enumerate(reasons, start=1))])
