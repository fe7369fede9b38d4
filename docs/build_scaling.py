"""Tables of docs/scaling.md: what a forward pass costs, and from it the GPU-hours of the paper's preset."""

from collections.abc import Iterable
from functools import cache

import timm
import torch
from torch.utils.flop_counter import FlopCounterMode

from loope.lab.experiments.names import DATA, MODELS
from loope.lab.experiments.spec import Run
from loope.lab.experiments.table import get_table, table_names

SUSTAINED = 100e12  # FLOP/s of one GPU: an assumption
TRAINED_ON = 0.8  # of the images

# Labelled images, the official splits together: the paper splits them anew.
IMAGES = {
    "pets": 7_349,
    "cifar100": 60_000,
    "imagenet": 1_281_167 + 50_000,
    "imagenet100": 126_689 + 5_000,
    "three_cell": 10_000,
    "cityscapes": 2_975 + 500,
}
CALLED = {ours: theirs for theirs, ours in {**MODELS, **DATA}.items()}


def paper_runs() -> dict[str, list[Run]]:
    """Every table's runs that train something, each once, by table; not of tables that a laptop does in full."""
    found = {}
    for name in table_names():
        entries = get_table(name).entries("paper")
        if entries == get_table(name).entries("laptop"):
            continue
        runs = {entry.run.key: entry.run for entry in entries if entry.run.recipe}
        if runs:
            found[name] = list(runs.values())
    return found


def once(tables: dict[str, list[Run]]) -> list[Run]:
    """The runs of several tables, those that stand in more than one of them once."""
    return list({run.key: run for runs in tables.values() for run in runs}.values())


def backbone(run: Run) -> str:
    """The timm model that does the work."""
    return str(run.model.options.get("backbone", run.model.name)).split(".")[0]


def image_size(run: Run) -> tuple[int, int]:
    """Height and width of what the model sees."""
    options = run.data.options
    if run.data.name == "three_cell":
        given = options["grid"] * options["cell"]
    else:
        given = options.get("image_size") or timm.get_pretrained_cfg(backbone(run)).input_size[-1]
    return (given, given) if isinstance(given, int) else tuple(given)


def hours(run: Run) -> float:
    """GPU-hours: forward and backward are three times the forward pass."""
    images = TRAINED_ON * IMAGES[run.data.name] * run.recipe.epochs
    return images * 3 * forward_flops(backbone(run), image_size(run)) / SUSTAINED / 3600


@cache
def forward_flops(name: str, size: tuple[int, int]) -> int:
    """Floating-point operations of one image's way through a timm model: two for each multiply-add."""
    options = {"img_size": size} if "patch16" in name else {}  # the others are used at their own size, or any
    with torch.device("meta"):
        model = timm.create_model(name, **options).eval().requires_grad_(False)
        image = torch.empty(1, 3, *size)
    with FlopCounterMode(display=False) as counter:
        model(image)
    return counter.get_total_flops()


def models_table() -> str:
    """What a forward pass costs."""
    used = dict.fromkeys((backbone(run), image_size(run)) for run in once(paper_runs()))
    lines = ["| in timm | image | GFLOP forward | images/s in training |", "|---|---:|---:|---:|"]
    for name, size in used:
        flops = forward_flops(name, size)
        lines.append(f"| `{name}` | {size[0]}x{size[1]} | {flops / 1e9:.1f} | {SUSTAINED / (3 * flops):,.0f} |")
    return "\n".join(lines)


def hours_table() -> str:
    """GPU-hours of each table for one seed."""
    lines = ["| table | runs | GPU-hours | of which ImageNet-1k | longest run |", "|---|---:|---:|---:|---:|"]
    tables = paper_runs()
    for name, runs in tables.items():
        imagenet = [run for run in runs if run.data.name == "imagenet"]
        longest = max(runs, key=hours)
        lines.append(
            f"| `{name}` | {len(runs)} | {_shown(total(runs))} | {_shown(total(imagenet)) if imagenet else '-'} | "
            f"{_shown(hours(longest))}: {CALLED.get(longest.model.name, longest.model.name)}, "
            f"{CALLED.get(longest.data.name, longest.data.name)} |"
        )
    lines.append(f"| all, each run once | {len(once(tables))} | {_shown(total(once(tables)))} | | |")
    return "\n".join(lines)


def total(runs: Iterable[Run]) -> float:
    """GPU-hours of some runs."""
    return sum(map(hours, runs))


def _shown(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}"


TABLES = {("docs/scaling.md", "models"): models_table, ("docs/scaling.md", "gpu-hours"): hours_table}
