"""A real run of two processes: DDP finds a gradient for every parameter, without `find_unused_parameters`."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import loope
from tests.attach.models import MODELS, images, make, output

rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
encoders = ["none", "learned", "fourier", "loope", "peg", "irpe", "rope_mixed", ["gilbert", "rope_mixed"]]
bare = {"HF ViTModel", "HF DeiTModel"}  # their poolers have no part in the last hidden state, with or without us
pairs = [("ViT", encoder) for encoder in encoders]
pairs += [(name, encoder) for name in MODELS if name not in bare for encoder in ("loope", "peg", "irpe", "rope_mixed")]
for name, encoder in pairs:
    model = make(name).train()
    loope.attach(model, encoder, prefix="learned")
    wrapped = DistributedDataParallel(model)
    for step in range(2):  # the second step is where unused parameters are reported
        output(wrapped, images(model, seed=10 * rank + step)).square().mean().backward()
    for key, parameter in model.named_parameters():
        if parameter.requires_grad:
            both = [torch.empty_like(parameter.grad) for _ in range(2)]
            dist.all_gather(both, parameter.grad)
            assert torch.equal(*both), (name, encoder, key)
    del wrapped
print("all equal", flush=True)
dist.barrier()
dist.destroy_process_group()  # its threads must not outlive the interpreter
"""


@pytest.mark.filterwarnings("ignore")
def test_ddp(tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in processes:
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        assert "all equal" in out
