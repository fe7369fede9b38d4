"""Takes finished runs over into docs/results: `python docs/collect.py [FOLDER]`, by default out/experiments.

Their JSON files, and what seed 0 of Three-Cell kept for pictures if it is small; then the tables are laid out anew.
Pictures are drawn by `make docs`.
"""

import sys
from pathlib import Path

import build
import build_replication
from build_results import RUNS
from loope.core.files import write_atomic
from loope.experiments.results import PICTURES, RESULT

SMALL = 100_000  # bytes


def collect(folder: Path) -> int:
    """Copy what is needed; how many runs are there now."""
    wanted = {run.name for run in build_replication.planned().values()} | {path.name for path in RUNS.iterdir()}
    for result in sorted((folder / "runs").glob(f"*/{RESULT}")):
        name = result.parent.name
        if name in wanted:
            write_atomic(RUNS / name / RESULT, result.read_bytes())
            pictures = result.parent / PICTURES
            drawn = name.startswith("three_cell") and "-s0-" in name and pictures.exists()
            if drawn and pictures.stat().st_size < SMALL:
                write_atomic(RUNS / name / PICTURES, pictures.read_bytes())
    return len(list(RUNS.glob(f"*/{RESULT}")))


if __name__ == "__main__":
    count = collect(Path(sys.argv[1] if len(sys.argv) > 1 else "out/experiments"))
    for (page, mark), table in build.TABLES.items():
        if page.startswith("docs/results/") or mark == "replication":
            path = build.ROOT / page
            write_atomic(path, build.with_table(path.read_text(), mark, table()))
    print(f"{count} runs in {RUNS.relative_to(build.ROOT)}.")
