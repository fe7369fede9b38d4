"""Claims: what an attached encoder costs against the model's own learned table, as a ratio in one run.

LOOPE: a training step at most 1.03x on ViT-Base/16 at 224 px and 1.06x on ViT-Tiny, inference at most 1.03x on both.
Static additive encoders at most 1.01x, rotary at most 1.15x, with a learned basis too, bias with the fused kernel at
most 1.25x, `pape` at most 1.2x. `liere` has no bar: it takes a matrix exponential for each patch, head and block.
Steps of each variant alternate with steps of the model with its learned table; claims are judged by the median ratio of
neighbouring steps. The ratio of the fastest steps, and the row "own table", which compares the model with itself, show
the noise on this machine; neither excuses a miss.

    python benchmarks/attach.py [--models vit_tiny_patch16_224] [--variants pape lookhere] [--repeats 31]

`--write` puts the ratios on ViT-Base into docs/costs.csv, from which docs/build.py makes the table of encoders.
"""

import argparse
import csv
import io
import multiprocessing
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import timm
import torch
from torch import nn

import loope
from loope.core.files import write_atomic
from loope.encoders import PositionalEncoder, encoder_class

VARIANTS: dict[str, dict] = {
    "own table": {},
    **{name: {"encoder": name} for name in loope.list_encoders()},
    "orthogonal": {"encoder": "rope_axial", "basis": "orthogonal"},
    "svd": {"encoder": "rope_axial", "basis": "svd"},
    "commuting": {"encoder": "rope_axial", "basis": "commuting"},
    "irpe bias": {"encoder": "irpe", "mode": "bias"},
}
COSTS = Path(__file__).parent.parent / "docs" / "costs.csv"
WRITTEN = "vit_base_patch16_224"  # the model of docs/costs.csv
BARS = {
    ("vit_base_patch16_224", "train"): {"loope": 1.03},
    ("vit_tiny_patch16_224", "train"): {"loope": 1.06},
    ("vit_base_patch16_224", "infer"): {"loope": 1.03},
    ("vit_tiny_patch16_224", "infer"): {"loope": 1.03},
}
BY_KIND = {"none": 1.01, "additive": 1.01, "rotary": 1.15, "bias": 1.25}
# The contextual one, which reads the queries, has no claim.
SPECIAL = {
    "pape": 1.2,
    "irpe": None,
    "irpe bias": 1.25,
    "liere": None,
    "orthogonal": 1.15,
    "svd": 1.15,
    "commuting": 1.15,
}
BATCH = {"vit_base_patch16_224": 2, "vit_tiny_patch16_224": 8}


def bar_of(model: str, mode: str, variant: str) -> float | None:
    """Return the largest ratio that is claimed, or None."""
    special = {**SPECIAL, **BARS[model, mode]}
    if variant in special or variant not in loope.list_encoders():
        return special.get(variant)
    cls: type[PositionalEncoder] = encoder_class(variant)
    return BY_KIND.get(cls.kinds()[0])


def build(name: str, variant: str) -> nn.Module:
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=10)
    if VARIANTS[variant]:
        loope.attach(model, **VARIANTS[variant])
    return model


def stepper(model: nn.Module, images: torch.Tensor, mode: str) -> Callable[[], None]:
    """Return a training step (forward, backward, SGD) or an inference pass."""
    model.train(mode == "train")
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-3)

    def train() -> None:
        optimizer.zero_grad()
        model(images).square().mean().backward()
        optimizer.step()

    def infer() -> None:
        with torch.inference_mode():
            model(images)

    return train if mode == "train" else infer


def ratios(name: str, mode: str, repeats: int, variants: list[str]) -> dict[str, tuple[float, float, float]]:
    """Return median seconds, median ratio to neighbouring steps of the own table, and ratio of fastest steps."""
    images = torch.randn(BATCH[name], 3, 224, 224)
    own = stepper(build(name, "own table"), images, mode)
    found = {}
    for variant in variants:
        step = stepper(build(name, variant), images, mode)
        own(), step()  # warm up
        pairs = [_pair(own, step, turn) for turn in range(repeats)]
        fastest = min(b for _, b in pairs) / min(a for a, _ in pairs)
        found[variant] = statistics.median(b for _, b in pairs), statistics.median(b / a for a, b in pairs), fastest
    return found


def _pair(own: Callable[[], None], step: Callable[[], None], turn: int) -> tuple[float, float]:
    """Time one step of each, alternating which goes first."""
    spent = []
    for run in (own, step) if turn % 2 else (step, own):
        start = time.perf_counter()
        run()
        spent.append(time.perf_counter() - start)
    return (spent[0], spent[1]) if turn % 2 else (spent[1], spent[0])


def peak(name: str, variant: str, mode: str, answer) -> None:
    step = stepper(build(name, variant), torch.randn(BATCH[name], 3, 224, 224), mode)
    step()
    step()
    # The process's own high-water mark: that of `getrusage` is inherited from the parent.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    answer.put(int(status["VmHWM"].split()[0]) / 1024)


def peak_memory(name: str, variant: str, mode: str) -> float:
    """Measure the peak resident megabytes of two steps in a separate process."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=peak, args=(name, variant, mode, answer))
    process.start()
    megabytes = answer.get()
    process.join()
    return megabytes


def write(found: dict[str, dict[str, float]]) -> None:
    """Put ratios into docs/costs.csv, and keep those of other encoders."""
    rows = {}
    if COSTS.exists():
        with COSTS.open(newline="") as file:
            rows = {row["encoder"]: row for row in csv.DictReader(file)}
    for encoder, ratio in found.items():
        rows[encoder] = {"encoder": encoder, **{mode: f"{ratio[mode]:.2f}" for mode in ("train", "infer")}}
    writer = csv.DictWriter(text := io.StringIO(), ["encoder", "train", "infer"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows[name] for name in loope.list_encoders() if name in rows)
    write_atomic(COSTS, text.getvalue())


def main() -> None:
    """Measure, print, and fail if a claim does not hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", default=list(BATCH))
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="VARIANT")
    parser.add_argument("--repeats", type=int, default=31)
    parser.add_argument("--write", action="store_true", help="put the ratios into docs/costs.csv")
    arguments = parser.parse_args()
    missed = []
    found: dict[str, dict[str, float]] = {variant: {} for variant in arguments.variants}
    for name in arguments.models:
        for mode in ("train", "infer"):
            repeats = arguments.repeats if mode == "infer" or "tiny" in name else max(5, arguments.repeats // 2)
            print(f"\n{name}, {mode}, batch {BATCH[name]}")
            print(f"{'variant':13} {'ms':>9} {'ratio':>7} {'fastest':>8} {'bar':>6} {'peak MB':>8}")
            for variant, (seconds, ratio, fastest) in ratios(name, mode, repeats, arguments.variants).items():
                bar = bar_of(name, mode, variant)
                if name == WRITTEN:
                    found[variant][mode] = ratio
                memory = peak_memory(name, variant, mode)
                shown = f"{variant:13} {1000 * seconds:9.1f} {ratio:7.3f} {fastest:8.3f} {bar or '':>6} {memory:8.0f}"
                print(shown, flush=True)
                if bar and ratio > bar:
                    missed.append(f"{name} {mode} {variant}: {ratio:.3f}, fastest {fastest:.3f} > {bar}")
    if arguments.write:
        write({variant: each for variant, each in found.items() if each and variant in loope.list_encoders()})
    if missed:
        raise SystemExit("claims that do not hold:\n" + "\n".join(missed))


if __name__ == "__main__":
    main()
