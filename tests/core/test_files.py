"""Files are written whole, on disk before they have their name, and never through what someone has put in the way."""

import os
import stat

import pytest

from loope.core import files
from loope.core.files import make_folder, replacing, write_atomic, write_new


@pytest.fixture
def done(monkeypatch):
    """What reaches the disk, in order: the names of synced files and folders, and renames."""
    told, sync, replace = [], os.fsync, os.replace

    def note_sync(file):
        told.append(os.path.basename(os.readlink(f"/proc/self/fd/{file}")))
        sync(file)

    def note_replace(old, new):
        told.append("rename")
        replace(old, new)

    monkeypatch.setattr(files.os, "fsync", note_sync)
    monkeypatch.setattr(files.os, "replace", note_replace)
    return told


def test_a_file_is_on_disk_before_it_is_renamed(tmp_path, done):
    folder = tmp_path / "folder"
    folder.mkdir()
    write_atomic(folder / "file", "text")
    temporary, *rest = done
    assert temporary.startswith(".file.")
    assert rest == ["rename", "folder"]


def test_new_folders_are_on_disk_too(tmp_path, done):
    make_folder(tmp_path / "a" / "b")
    assert done == ["a", tmp_path.name]
    make_folder(tmp_path / "a" / "b")
    assert len(done) == 2


def test_nothing_waits_for_the_disk_if_it_need_not(tmp_path, done):
    write_atomic(tmp_path / "file", "text", durable=False)
    assert done == ["rename"]
    assert (tmp_path / "file").read_text() == "text"


def test_temporary_names_cannot_be_foreseen(tmp_path):
    seen = set()
    for _ in range(20):
        with replacing(tmp_path / "file"):
            seen |= {path.name for path in tmp_path.glob(".*")}
    assert len(seen) == 20


@pytest.mark.parametrize("planted", ["link", "dangling", "hard link", "file"])
def test_what_was_planted_is_not_written_through(tmp_path, monkeypatch, planted):
    """Even by someone who guesses the name."""
    monkeypatch.setattr(files.secrets, "token_hex", lambda count: "guessed")
    victim, trap = tmp_path / "victim", tmp_path / ".file.guessed.part"
    if planted != "dangling":
        victim.write_text("precious")
    if planted == "hard link":
        os.link(victim, trap)
    elif planted == "file":
        trap.write_text("precious")
    else:
        trap.symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_atomic(tmp_path / "file", "new")
    with pytest.raises(FileExistsError):
        write_new(trap, b"new")
    assert not (tmp_path / "file").exists()
    assert os.path.lexists(trap)  # what is not ours is not removed
    assert planted == "dangling" or (victim.read_text() if planted != "file" else trap.read_text()) == "precious"
    assert planted != "dangling" or not victim.exists()


def test_a_link_is_replaced_and_its_target_left_alone(tmp_path):
    victim, path = tmp_path / "victim", tmp_path / "file"
    victim.write_text("precious")
    path.symlink_to(victim)
    write_atomic(path, "new")
    assert (path.read_text(), victim.read_text(), path.is_symlink()) == ("new", "precious", False)


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomic(tmp_path / "file", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_an_error_leaves_nothing_behind(tmp_path):
    with pytest.raises(RuntimeError, match="stop"), replacing(tmp_path / "file") as file:  # noqa: PT012
        file.write(b"half")
        raise RuntimeError("stop")
    assert list(tmp_path.iterdir()) == []
