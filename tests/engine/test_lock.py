"""One process at a time trains into a folder, and looking at it is not training."""

import subprocess
import sys
from contextlib import contextmanager

import pytest

from loope import LoopeError
from loope.engine import lock

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, getattr(fcntl, sys.argv[2]))
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def held(folder, how):
    """Another process holds the lock; it lets go of it when told."""
    folder.mkdir(exist_ok=True)
    (folder / "lock").touch()
    command = [sys.executable, "-c", HOLD, str(folder / "lock"), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        if process.poll() is None:
            process.communicate("\n")


def test_who_trains_is_seen_and_named(tmp_path):
    assert not lock.is_locked(tmp_path)
    with held(tmp_path, "LOCK_EX"):
        assert lock.is_locked(tmp_path)
        with pytest.raises(LoopeError, match="is training into"), lock.locked(tmp_path):
            pass
    assert not lock.is_locked(tmp_path)
    with lock.locked(tmp_path):
        assert lock.is_locked(tmp_path)


def test_several_may_look_at_once(tmp_path):
    with held(tmp_path, "LOCK_SH"):
        assert not lock.is_locked(tmp_path)


def test_one_that_looks_does_not_keep_a_run_from_starting(tmp_path, monkeypatch):
    def let_go(seconds):
        if seconds:
            looking.communicate("\n")

    with held(tmp_path, "LOCK_SH") as looking:
        monkeypatch.setattr(lock.time, "sleep", let_go)
        with lock.locked(tmp_path):
            assert lock.is_locked(tmp_path)


def test_who_may_only_read_can_look(tmp_path):
    with lock.locked(tmp_path):
        pass
    (tmp_path / "lock").chmod(0o444)
    assert not lock.is_locked(tmp_path)
