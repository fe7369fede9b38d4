"""Claim: a run of the `laptop` preset takes at most 20 minutes on one of two cores.

Each combination of model, image size and encoder in the preset is created with random weights; a few training steps and
test batches are timed on one thread and multiplied by the number of images of each run. A second process runs the same
load, as a second run would. The slowest run of each combination is shown. docs/results has the durations of whole runs.

    python benchmarks/laptop.py [--tables table1 table4] [--repeats 3]
"""

import argparse
import dataclasses
import json
import multiprocessing
import statistics
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
from loope.lab.experiments.runner import create_experiment
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.spec import Run
from loope.lab.experiments.table import get_table, table_names

BAR = 20.0
# Images for training, validation and test. Other data have `per_class` images of each class, and a quarter of that for
# validation.
PARTS = {"three_cell": (8000, 1000, 1000), "camvid": (367, 101, 233)}
CLASSES = {"pets": 37, "cifar100": 100, "imagenet": 1000, "imagenet100": 100}


def kinds(tables: list[str]) -> dict[str, list[Run]]:
    """Group the preset's runs by cost per image."""
    found: dict[str, list[Run]] = {}
    for name in tables:
        for entry in get_table(name).entries("laptop"):
            run = entry.run
            if run.recipe is not None:
                same = (run.model.name, run.model.options, shape(run), run.encoder.name, run.encoder.options)
                found.setdefault(json.dumps(same), []).append(run)
    return found


def shape(run: Run) -> tuple[int, int]:
    """Return the height and width of the run's images."""
    options, own = run.data.options, 240 if "240" in run.model.name else 224
    size = options["grid"] * options["cell"] if "grid" in options else options.get("image_size", own)
    return (size, size) if isinstance(size, int) else tuple(size)


def seconds(run: Run, repeats: int) -> tuple[float, float]:
    """Measure the seconds per image in training and in testing."""
    recipe = run.recipe
    scratch = dataclasses.replace(run, model=dataclasses.replace(run.model, weights="scratch"))
    experiment = create_experiment(scratch, Settings())
    experiment.outputs = 100  # whatever the data, which need not be here
    model = experiment.build_model()
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad])
    images = torch.randn(recipe.batch_size, 3, *shape(run))

    def step(train: bool) -> float:
        start = time.perf_counter()
        model.train(train)
        with torch.set_grad_enabled(train), torch.autocast("cpu", torch.bfloat16, recipe.precision == "bfloat16"):
            loss = model(images).float().square().mean()
        if train:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return (time.perf_counter() - start) / recipe.batch_size

    step(True)
    trained, tested = (statistics.median(step(train) for _ in range(repeats)) for train in (True, False))
    return trained, tested


def minutes(run: Run, trained: float, tested: float) -> float:
    """Estimate a run's minutes from the seconds per image in training and testing."""
    share, classes = run.data.options.get("per_class", 0), CLASSES.get(run.data.name, 0)
    train, valid, test = PARTS.get(run.data.name, (share * classes, max(1, share // 4) * classes, share * classes))
    return (run.recipe.epochs * train * trained + (run.recipe.epochs * valid + test) * tested) / 60


def measure(tables: list[str], repeats: int, shown: bool) -> bool:
    """Return whether all runs stay below the limit."""
    torch.set_num_threads(1)
    holds = True
    for runs in kinds(tables).values():
        rates = seconds(runs[0], repeats)
        took, run = max(((minutes(each, *rates), each) for each in runs), key=lambda pair: pair[0])
        holds &= took <= BAR
        if shown:
            options = " ".join(f"{name}={value}" for name, value in run.encoder.options.items())
            print(f"{took:6.1f} min  {run.model.name:24} {run.data.name:11} {run.encoder.name} {options}", flush=True)
    return holds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=table_names())
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    other = multiprocessing.get_context("spawn").Process(target=measure, args=(args.tables, args.repeats, False))
    other.start()
    holds = measure(args.tables, args.repeats, True)
    other.kill()
    print(f"At most {BAR:.0f} minutes each: {'holds' if holds else 'MISSED'}")
    sys.exit(not holds)


if __name__ == "__main__":
    main()
