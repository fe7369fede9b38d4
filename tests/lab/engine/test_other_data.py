"""A run resumes only with the data that it was started with."""

import json
import signal

import pytest

from loope import LoopeError, LoopeWarning
from loope.lab.engine import checkpoint
from loope.lab.engine.signals import Interrupted
from tests.lab.engine.runs import Cells, sources
from tests.lab.engine.training_helpers import Asking, fit


class Fingerprinted(Asking):
    """A source with a given fingerprint; it can send this process SIGINT with its nth batch."""

    def __init__(self, source: Cells, described: dict[str, str], number: int = 0):
        super().__init__(source, number, signal.SIGINT)
        self.described = described

    def fingerprint(self) -> dict[str, str]:
        return self.described


def fingerprinted(train: dict[str, str], valid: dict[str, str], number: int = 0) -> tuple[Fingerprinted, Fingerprinted]:
    learn, check = sources()
    return Fingerprinted(learn, train, number), Fingerprinted(check, valid)


def stopped(folder, train: dict[str, str], valid: dict[str, str]) -> None:
    """Stop a run after three steps."""
    with pytest.raises(Interrupted):
        fit(folder, sources=fingerprinted(train, valid, number=3))


def test_other_data_are_refused(tmp_path):
    stopped(tmp_path, {"content": "one"}, {"content": "two"})
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    for train, valid, named in [("other", "two", "training"), ("one", "other", "validation")]:
        with pytest.raises(LoopeError, match=rf"data.{named}.content was \w+ and is other"):
            fit(tmp_path, sources=fingerprinted({"content": train}, {"content": valid}))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()} == before
    again = fit(tmp_path, sources=fingerprinted({"content": "one"}, {"content": "two"}))
    assert again.weights.read_bytes() == fit(tmp_path / "whole").weights.read_bytes()


def test_other_times_warn_once_and_do_not_stop_a_run(tmp_path):
    """Copied files have other modification times."""
    stopped(tmp_path, {"names and sizes": "a", "times": "1"}, {})
    with pytest.raises(LoopeError, match="names and sizes was a and is b"):
        fit(tmp_path, sources=fingerprinted({"names and sizes": "b", "times": "1"}, {}))
    with pytest.warns(LoopeWarning, match="other times"):
        fit(tmp_path, sources=fingerprinted({"names and sizes": "a", "times": "2"}, {}))
    fit(tmp_path, sources=fingerprinted({"names and sizes": "a", "times": "2"}, {}))


def test_a_run_of_a_version_without_fingerprints_resumes(tmp_path):
    stopped(tmp_path, {"content": "one"}, {"content": "two"})
    for path in (tmp_path / "checkpoints").glob("*/state.json"):
        state = json.loads(path.read_text())["state"]
        del state["identity"]["data"]
        path.write_text(json.dumps({"sha256": checkpoint._digest(state), "state": state}))
    fit(tmp_path, sources=fingerprinted({"content": "one"}, {"content": "two"}))
    with pytest.raises(LoopeError, match="content was one and is other"):  # known from now on
        fit(tmp_path, sources=fingerprinted({"content": "other"}, {"content": "two"}))
