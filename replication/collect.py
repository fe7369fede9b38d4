"""Add finished runs to the study: `python -m replication.collect [FOLDER]`, by default out/experiments."""

import json
import sys
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save

from loope.core.files import write_atomic
from loope.lab.experiments.results import PICTURES as RUN_PICTURES
from loope.lab.experiments.results import RESULT
from replication.page import write
from replication.plan import planned
from replication.results import PICTURES, RUNS, compact

SMALL = 100_000  # bytes of tensors kept for figures, of seed 0


def collect(folder: Path) -> int:
    """Add the planned runs found below `folder` to the file; return how many it holds."""
    kept = {result["key"]: result for result in map(json.loads, RUNS.read_text().splitlines())}
    pictures = load_file(PICTURES)
    for file in sorted((folder / "runs").glob(f"*/{RESULT}")):
        result = json.loads(file.read_text())
        if result["key"] not in planned():
            continue
        kept[result["key"]] = compact(result)
        tensors = file.with_name(RUN_PICTURES)
        if result["run"]["seed"] == 0 and tensors.exists() and tensors.stat().st_size < SMALL:
            pictures |= {f"{result['key']}/{name}": tensor for name, tensor in load_file(tensors).items()}
    ordered = sorted(kept.values(), key=_order)
    write_atomic(RUNS, "".join(json.dumps(each, separators=(",", ":"), sort_keys=True) + "\n" for each in ordered))
    write_atomic(PICTURES, save(pictures))
    return len(kept)


def _order(result: dict[str, Any]) -> tuple[str, str, str, int, str]:
    run = result["run"]
    return run["data"]["name"], run["model"]["name"], run["encoder"]["name"], run["seed"], result["key"]


if __name__ == "__main__":
    count = collect(Path(sys.argv[1] if len(sys.argv) > 1 else "out/experiments"))
    write()
    print(f"{count} runs in {RUNS.name}; the pages are written.")
