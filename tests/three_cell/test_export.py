"""Exports: what is in the files, interrupted ones resume, two are never mixed."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import loope
from loope.three_cell import export as three_cell_export
from loope.three_cell.export import export
from loope.three_cell.files import png


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(three_cell_export, "PART", 8)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def read(file: Path | io.BytesIO) -> np.ndarray:
    with Image.open(file) as image:
        assert image.mode == "RGB"
        return np.asarray(image)


def expected_pixels(data: loope.ThreeCell) -> np.ndarray:
    return (data.render(data.cells).permute(0, 2, 3, 1) * 255).byte().numpy()


def test_images_and_table(tmp_path):
    data = loope.ThreeCell(20, (4, 6), cell=3, seed=5)
    card = export(data, tmp_path / "new" / "folder")
    folder = card.parent
    rows = list(csv.DictReader((folder / "labels.csv").read_text().splitlines()))
    assert len(rows) == 20
    for row, image, cells, label in zip(rows, expected_pixels(data), data.cells, data.labels, strict=True):
        assert np.array_equal(read(folder / row["file"]), image)
        places = [row[f"{colour}_{axis}"] for colour in ("red", "green", "blue") for axis in ("row", "column")]
        assert list(map(int, places)) == cells.flatten().tolist()
        bits = list(row.values())[7:]
        assert list(map(int, bits)) == label.tolist()
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "export.json", "images", "labels.csv"]


def test_one_archive_without_pickles(tmp_path):
    data = loope.ThreeCell(20, (4, 6), cell=3, seed=5, split="train")
    export(data, tmp_path, "npz")
    with np.load(tmp_path / "three-cell.npz", allow_pickle=False) as archive:
        assert np.array_equal(archive["images"], expected_pixels(data))
        assert archive["images"].dtype == np.uint8
        assert np.array_equal(archive["cells"], data.cells.numpy())
        assert np.array_equal(archive["labels"], data.labels.numpy())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "export.json", "three-cell.npz"]


def test_the_card_has_seed_counts_and_rates(tmp_path):
    data = loope.ThreeCell(200, 5, cell=1, seed=17)
    text = export(data, tmp_path).read_text()
    assert "| seed | 17 |" in text
    assert "200 synthetic images" in text
    ones = data.labels[:, 5].sum().item()
    assert f"| 5 | sum_outside | {ones} | {ones / 200:.4f} |" in text
    assert f"| average | {data.majority_rates()['average']:.4f} |" in text
    assert json.loads((tmp_path / "export.json").read_text())["seed"] == 17


class Stopped(BaseException):
    """Raised in place of Ctrl-C."""


def stop_after(monkeypatch, name: str, calls: int) -> list:
    """Interrupt the exporter after a number of calls of one of its functions; return the list of calls."""
    seen: list = []
    real = getattr(three_cell_export, name)

    def counted(*arguments, **named):
        if len(seen) == calls:
            raise Stopped
        seen.append(arguments[0])
        return real(*arguments, **named)

    monkeypatch.setattr(three_cell_export, name, counted)
    return seen


@pytest.mark.parametrize(("file_format", "writer"), [("png", "write_atomic"), ("npz", "pixels")])
@pytest.mark.parametrize("moment", [0, 1, 2])
def test_an_interrupted_export_resumes(tmp_path, monkeypatch, file_format, writer, moment):
    data = loope.ThreeCell(20, 4, cell=2)
    export(data, tmp_path / "whole", file_format)
    with monkeypatch.context() as patch:
        stop_after(patch, writer, moment * (10 if file_format == "png" else 1))
        with pytest.raises(Stopped):
            export(data, tmp_path / "stopped", file_format)
        assert not (tmp_path / "stopped" / "README.md").exists()
    there = {path for suffix in ("png", "npz") for path in (tmp_path / "stopped").rglob(f"*.{suffix}")}
    if file_format == "png" and there:  # what a power cut leaves of a file
        there.pop().write_bytes(b"")
    unfinished = there if file_format == "png" else {tmp_path / "stopped" / "three-cell.npz"}
    for path in unfinished:  # what a killed process leaves behind
        path.with_name(f".{path.name}.999.part").write_bytes(b"half")
    shares: list[float] = []
    again = stop_after(monkeypatch, writer, 1000)
    export(data, tmp_path / "stopped", file_format, shares.append)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")
    assert not there & set(again)  # what was there was not written twice
    assert shares == sorted(shares)
    assert shares[-1] == 1


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"seed": 1}, "seed 0 instead of 1; use another folder"),
        ({"size": 21}, "size 20 instead of 21"),
        ({"grid": 5}, r"grid \[4, 4\] instead of \[5, 5\]"),
        ({"cell": 3}, "cell 2 instead of 3"),
        ({"split": "train"}, "split None instead of 'train'"),
        ({"sampler": "paper"}, "sampler 'exact' instead of 'paper'"),
    ],
)
def test_another_export_is_refused(tmp_path, other, message):
    export(loope.ThreeCell(20, 4, cell=2), tmp_path)
    before = contents(tmp_path)
    with pytest.raises(loope.LoopeError, match=f"holds another export, with .*{message}"):
        export(loope.ThreeCell(**{"size": 20, "grid": 4, "cell": 2, **other}), tmp_path)
    with pytest.raises(loope.LoopeError, match="format 'png' instead of 'npz'"):
        export(loope.ThreeCell(20, 4, cell=2), tmp_path, "npz")
    assert contents(tmp_path) == before


def test_other_cells_under_the_same_settings_are_refused(tmp_path):
    data = loope.ThreeCell(20, 4, cell=2)
    export(data, tmp_path)
    data.cells = data.cells.flip(0)
    with pytest.raises(loope.LoopeError, match="with sha256"):
        export(data, tmp_path)


def test_folders_that_hold_something_else(tmp_path):
    data = loope.ThreeCell(5, 4, cell=2)
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(loope.LoopeError, match="a folder of its own"):
        export(data, tmp_path)
    with pytest.raises(loope.LoopeError, match="a folder of its own"):
        export(data, tmp_path / "thesis.tex")
    assert contents(tmp_path) == {"thesis.tex": b"mine"}
    (tmp_path / "empty").mkdir()
    for broken in ("{", "[]"):
        (tmp_path / "empty" / "export.json").write_text(broken)
        with pytest.raises(loope.LoopeError, match="cannot be read"):
            export(data, tmp_path / "empty")
    with pytest.raises(loope.LoopeError, match="Unknown format 'jpg'; use one of: png, npz"):
        export(data, tmp_path / "new", "jpg")


@pytest.mark.parametrize("shape", [(1, 1, 3), (5, 3, 3), (40, 70, 3)])
def test_png_files_are_read_by_others(shape):
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    assert np.array_equal(read(io.BytesIO(png(image))), image)
