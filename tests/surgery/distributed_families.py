"""One of two processes that train a model of each kind of family with DDP: `python -m ... RANK STORE`.

A kind is where an adapter does something of its own. Gradients must be those of one process with both batches.
"""

import copy
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import loope
from docs import matrix
from tests.surgery import registry, transformers_models

TIMM: dict[str, Callable[[str], nn.Module]] = {
    "NaFlexViT": matrix.make,
    "RelPos": registry.make,
    "SAM": registry.make,
    "Swin": registry.make,
}
TRANSFORMERS = (
    *("Dinov2", "DINOv3", "CLIP", "BEiT", "BEiT, shared bias", "Data2Vec", "SigLIP 2", "ViTDet", "YOLOS", "HF Swin"),
    *("YolosForObjectDetection", "TimmWrapperModel"),
)
ENCODERS = ["learned", "rope_mixed", "irpe", "peg"]  # of each kind


def make(name: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """Return a model in float64, without parameters that it does not use, and a batch."""
    if name in TIMM:
        model = TIMM[name](name).double()
        batch = {"x": matrix.images(model).double()}
    else:
        model = transformers_models.make(name).double()
        batch = transformers_models.inputs(model, dtype=torch.float64)
    loss(model, batch).backward()
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.grad is not None)  # a mask token, for example
        parameter.grad = None
    return model, batch


def loss(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Return a mean over the batch that depends on every parameter."""
    args = batch.values() if "x" in batch else ()
    made: Any = model(*args, **({} if args else batch))
    outputs = [made] if isinstance(made, Tensor) else [each for each in made.values() if isinstance(each, Tensor)]
    return sum((each.square().mean() for each in outputs), start=torch.zeros(()))


def of_rank(batch: dict[str, Tensor], rank: int) -> dict[str, Tensor]:
    """Return another batch for each process."""
    return {key: value * (1 + rank) if value.is_floating_point() else value for key, value in batch.items()}


def gradients(model: nn.Module) -> dict[str, Tensor | None]:
    return {name: each.grad for name, each in model.named_parameters() if each.requires_grad}


def check(name: str, rank: int) -> None:
    """Train two steps; in the second, DDP reports parameters that were not used in the first."""
    model, batch = make(name)
    torch.manual_seed(1)
    loope.attach(model, ENCODERS, prefix="learned")
    for parameter in model.loope.encoders.parameters():
        nn.init.normal_(parameter, std=0.3)
    alone = copy.deepcopy(model)
    both = [of_rank(batch, each) for each in (0, 1)]
    loss(alone, {key: torch.cat([each[key] for each in both]) for key in batch}).backward()
    wrapped = DistributedDataParallel(model)
    for _ in range(2):
        wrapped.zero_grad()
        loss(wrapped, both[rank]).backward()
    expected = gradients(alone)
    assert any(key.startswith("loope.encoders") for key in expected)
    torch.testing.assert_close(gradients(model), expected, msg=lambda text: f"{name}: {text}")


if __name__ == "__main__":
    rank, store = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    for name in (*TIMM, *TRANSFORMERS):
        check(name, rank)
    print(len(TIMM) + len(TRANSFORMERS), "families agree", flush=True)
    dist.barrier()
    dist.destroy_process_group()  # its threads must not outlive the interpreter
