"""A real run of two processes: DDP finds a gradient for every parameter, without `find_unused_parameters`."""

import subprocess
import sys
from itertools import product

import pytest

import loope
from tests.surgery.conftest import is_fast
from tests.surgery.distributed_families import TIMM, TRANSFORMERS
from tests.surgery.models import MODELS

PROGRAM = """
import sys
from itertools import product
import peft
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import loope
from tests.surgery.conftest import is_fast
from tests.surgery.models import MODELS, images, loss, make

rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
chosen = sys.argv[3] == "fast"
pairs = [each for each in product(MODELS, loope.list_encoders()) if is_fast("test_ddp", *each) == chosen]
lora = peft.LoraConfig(r=2, target_modules=["qkv"], modules_to_save=["loope"])
for name, encoder in [*pairs, ("ViT", ["gilbert", "rope_mixed"]), ("ViT", "PEFT")]:
    model = make(name).train()
    loope.attach(model, "rope_mixed" if encoder == "PEFT" else encoder, prefix="learned")
    wrapped = DistributedDataParallel(peft.get_peft_model(model, lora) if encoder == "PEFT" else model)
    for step in range(2):  # the second step is where unused parameters are reported
        loss(wrapped, images(model, seed=10 * rank + step)).backward()
    trained = [parameter.grad.flatten() for parameter in model.parameters() if parameter.requires_grad]
    both = [torch.empty(sum(map(len, trained))) for _ in range(2)]
    dist.all_gather(both, torch.cat(trained))
    assert torch.equal(*both), (name, encoder)
    assert both[0].any()
    del wrapped
print(len(pairs), "pairs agree", flush=True)
dist.barrier()
dist.destroy_process_group()  # its threads must not outlive the interpreter
"""


@pytest.mark.parametrize("pairs", ["fast", pytest.param("slow", marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore")
def test_ddp(pairs, tmp_path):
    count = sum(is_fast("test_ddp", *each) == (pairs == "fast") for each in product(MODELS, loope.list_encoders()))
    for out in outputs_of_two(["-c", PROGRAM], tmp_path, pairs):
        assert f"{count} pairs agree" in out


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ddp_gives_each_kind_of_family_the_gradients_of_one_process(tmp_path):
    for out in outputs_of_two(["-m", "tests.surgery.distributed_families"], tmp_path):
        assert f"{len(TIMM) + len(TRANSFORMERS)} families agree" in out


def outputs_of_two(program, folder, *args):
    """Run a program as two processes, with a rank and a file they meet at; return the lines each printed."""
    processes = [
        subprocess.Popen(
            [sys.executable, *program, str(rank), str(folder / "store"), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    lines = []
    for process in processes:
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        lines.append(out.splitlines())
    return lines
