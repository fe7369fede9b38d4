"""Results of the study's runs, made up."""

import json

from loope.core.files import write_atomic
from replication import study

CONFUSION = [[[50, 0], [0, 50]]] * 6  # each bit is set in half of the images
QUESTIONS = ("distance", "orientation", "area", "vector_sum", "average")


def result(run, average, other=None, validation=None):
    """A result of a run with this average on all questions, and on all other grids."""
    score = average + 0.001 * ((7 * run.seed + len(run.encoder.name)) % 5)  # seeds differ a little
    elsewhere = score if other is None else other
    grids = {f"average_{side}x{side}": elsewhere for side in (5, 7, 10, 14, 20)}
    pesi = {"pesi_m_u": 1 + score, "pesi_m_d": 1 + score, "pesi_a_su": 0.1}
    metrics = {"average": score if validation is None else validation}
    return {
        "run": json.loads(run.to_json()),
        "key": run.key,
        "metrics": {**dict.fromkeys(QUESTIONS, score), **grids, **pesi},
        "details": {"confusion": CONFUSION},
        "history": [{"epoch": 1, "loss": 0.5, "seconds": 1.0, "metrics": metrics}],
        "processor_seconds": 90.0,
    }


def store(tmp_path, monkeypatch, results):
    """Put results in the place of the collected ones."""
    monkeypatch.setattr(study, "FILE", tmp_path / "study.jsonl")
    monkeypatch.setattr(study, "SWAP_FILE", tmp_path / "swap.jsonl")
    write_atomic(study.FILE, "".join(json.dumps(study.compact(each)) + "\n" for each in results))
