"""Paths are refused in the words of the library, which checks them again."""

import pytest

from loope.cli import paths
from loope.core.errors import LoopeError
from loope.lab.data.classification import Files
from loope.lab.data.folders import read_labels, read_unlabelled
from loope.lab.experiments.swap import Swap, SwapRun


def refused(check, *arguments):
    with pytest.raises(LoopeError) as caught:
        check(*arguments)
    return str(caught.value)


def test_folders_of_images(tmp_path):
    (tmp_path / "file").touch()
    paths.require_images(tmp_path)
    for folder in (tmp_path / "none", tmp_path / "file"):
        assert refused(paths.require_images, folder) == refused(read_unlabelled, folder)


def test_labels(tmp_path):
    (tmp_path / "labels").touch()
    paths.require_labels(tmp_path / "labels")
    for path in (tmp_path / "none", tmp_path):
        assert refused(paths.require_labels, path) == refused(read_labels, path, Files(tmp_path, []))


def test_files_to_write_a_model_to(tmp_path):
    def run(to):
        SwapRun(Swap(model="test_vit", encoder="none"), Files(tmp_path, []), {}, to)

    old, folder = tmp_path / "old.safetensors", tmp_path / "folder.safetensors"
    old.symlink_to("nowhere")
    folder.mkdir()
    for to in (tmp_path / "m.pt", tmp_path / "none" / "m.safetensors", old, folder):
        assert refused(paths.require_new_model, to) == refused(run, to)
    paths.require_new_model(tmp_path / "m.safetensors")
    (tmp_path / "old.safetensors.run").mkdir()  # of a run that may go on
    paths.require_new_model(old)


def test_folders_to_write_to(tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path, tmp_path / "new"):
        paths.require_output_folder(folder, "--out")
    assert "--out takes a folder" in refused(paths.require_output_folder, tmp_path / "file", "--out")
