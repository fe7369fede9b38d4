"""One process at a time trains into a folder, and looking at it is not training."""

import os
import stat
import subprocess
import sys
from contextlib import contextmanager

import pytest

from loope import LoopeError
from loope.lab.engine import lock

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, getattr(fcntl, sys.argv[2]))
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def held(folder, how):
    """Hold the lock in another process until the context ends."""
    folder.mkdir(parents=True, exist_ok=True)
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
        with pytest.raises(lock.RunningElsewhereError, match="is training into"), lock.locked(tmp_path):
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


def test_a_lock_is_its_owners_alone(tmp_path):
    """Who can read it could lock it. One that an earlier version has made is closed too."""
    for _ in range(2):
        with lock.locked(tmp_path):
            assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600
        (tmp_path / "lock").chmod(0o644)


@pytest.mark.parametrize("there", [True, False])
def test_a_lock_that_is_a_link_is_refused(tmp_path, there):
    victim = tmp_path / "victim"
    if there:
        victim.write_text("precious")
    (tmp_path / "lock").symlink_to(victim)
    with pytest.raises(LoopeError, match="lock is a link"), lock.locked(tmp_path):
        pass
    assert not lock.is_locked(tmp_path)
    assert (victim.read_text() == "precious") if there else not victim.exists()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_lock_must_be_a_file(tmp_path, make):
    make(tmp_path / "lock")
    with pytest.raises(LoopeError, match=r"lock .*file"), lock.locked(tmp_path):
        pass
    assert not lock.is_locked(tmp_path)


def test_a_lock_of_another_user_is_told_in_words(tmp_path, monkeypatch):
    def refuse(path, flags, mode=0o777):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(lock.os, "open", refuse)
    with pytest.raises(LoopeError, match="Permission denied") as error, lock.locked(tmp_path):
        pass
    assert type(error.value) is LoopeError  # which is not the same as one that trains
    assert not lock.is_locked(tmp_path)


def test_folders_may_be_reached_through_links(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    with lock.locked(tmp_path / "link"):
        assert lock.is_locked(tmp_path / "folder")
        with pytest.raises(lock.RunningElsewhereError), lock.locked(tmp_path / "folder"):
            pass
