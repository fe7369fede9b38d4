"""Claim: a forward pass with a static bias needs little more memory than one dense copy of the bias.

The extra peak memory of ViT-B/14 at 518 px with `alibi2d`, against the same model with "none", is at most 1.5x the
bytes of one `(heads, P + N, P + N)` tensor. It includes making the bias in the first pass.

Each pass runs in a process of its own, whose peak is the kernel's high-water mark of resident memory (VmHWM), set back
before the pass. Large tensors are mapped and unmapped one by one, so freed memory does not hide a peak. Linux only.

    python benchmarks/bias_memory.py [--repeats 3] [--dtype float32]
"""

import argparse
import multiprocessing
import statistics
from pathlib import Path

import timm
import torch

import loope

MODEL, SIZE = "vit_base_patch14_dinov2", 518
BAR = 1.5
PASSES = 2  # the first makes the bias, the second uses it again


def resident(what: str) -> int:
    """Bytes of resident memory: now (VmRSS) or at the peak (VmHWM)."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[what].split()[0]) * 1024


def peak(encoder: str, dtype: str, answer) -> None:
    """Send the peak of the forward passes above what was resident before, and the bytes of one dense bias."""
    torch.manual_seed(0)
    model = loope.attach(timm.create_model(MODEL, num_classes=0), encoder).eval().to(getattr(torch, dtype))
    images = torch.randn(1, 3, SIZE, SIZE, dtype=getattr(torch, dtype))
    Path("/proc/self/clear_refs").write_text("5")  # sets VmHWM back to VmRSS
    before = resident("VmRSS")
    with torch.inference_mode():
        for _ in range(PASSES):
            model(images)
    branch = model.loope.branches[0]
    answer.put((resident("VmHWM") - before, branch.heads * (branch.prefix + branch.grid.size) ** 2 * images.itemsize))


def measure(encoder: str, dtype: str) -> tuple[int, int]:
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=peak, args=(encoder, dtype, answer))
    process.start()
    found: tuple[int, int] = answer.get()
    process.join()
    return found


def main() -> None:
    """Measure, print, and fail if the claim does not hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    arguments = parser.parse_args()
    peaks = {}
    for encoder in ("none", "alibi2d"):
        found = [measure(encoder, arguments.dtype) for _ in range(arguments.repeats)]
        peaks[encoder], dense = statistics.median(each for each, _ in found), found[0][1]
        shown = ", ".join(f"{each / 2**20:.0f}" for each, _ in found)
        print(f"{encoder:8} peak of a forward pass {shown} MB", flush=True)
    ratio = (peaks["alibi2d"] - peaks["none"]) / dense
    print(f"one dense bias {dense / 2**20:.0f} MB; extra memory {ratio:.2f}x (at most {BAR}x)")
    if ratio > BAR:
        raise SystemExit(f"the claim does not hold: {ratio:.2f} > {BAR}")


if __name__ == "__main__":
    main()
