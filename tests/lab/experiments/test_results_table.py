"""From result files to tables in every format."""

import csv
import io
import json

import pytest
from scipy import stats

import loope
from loope.lab.experiments.report import make_results_table
from loope.lab.experiments.results import RESULT, Results, folder_of
from loope.lab.experiments.table import get_table
from loope.lab.reports.formats import Cell, ResultsTable, render


def write(out, table, preset, row, seed, **metrics):
    entry = next(entry for entry in table.entries(preset) if entry.row == row)
    folder = folder_of(entry.run.with_seed(seed), out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULT).write_text(json.dumps({"metrics": metrics, "history": []}))


@pytest.fixture
def sheet(tmp_path):
    table = get_table("table4")
    scores = {"distance": 0.9, "orientation": 0.8, "area": 0.7, "vector_sum": 0.6}
    for seed, average in enumerate((0.74, 0.75, 0.76)):
        write(tmp_path, table, "laptop", "LOOPE", seed, **scores, average=average)
    write(tmp_path, table, "laptop", "Static", 0, **{**scores, "distance": 0.95}, average=0.76)
    return make_results_table(table, "laptop", [0, 1, 2], Results.in_folder(tmp_path))


def cell(sheet, row, column):
    return dict(sheet.rows)[row][sheet.columns.index(column)]


def test_means_intervals_and_what_was_published(sheet):
    found = cell(sheet, "LOOPE", "Average")
    assert (found.ours, found.n, found.published) == (pytest.approx(75.0), 3, 94.3)
    assert found.half == pytest.approx(stats.t.ppf(0.975, 2) * 1.0 / 3**0.5)  # t of 2 degrees of freedom, deviation 1 %
    assert found.difference == pytest.approx(75.0 - 94.3)
    assert cell(sheet, "Static", "Average").n == 1


def test_a_score_that_has_no_value_is_null_in_json(tmp_path):
    table = get_table("table4")
    write(tmp_path, table, "laptop", "LOOPE", 0, average=None)  # as `run.json` has it
    sheet = make_results_table(table, "laptop", [0], Results.in_folder(tmp_path))
    rows = json.loads(render(sheet, "json"), parse_constant=pytest.fail)["rows"]
    (found,) = (row["cells"]["Average"] for row in rows if row["row"] == "LOOPE")
    assert (found["mean"], found["n"]) == (None, 1)


def test_the_best_of_a_column_is_marked_and_equal_ones_all(sheet):
    assert cell(sheet, "Static", "Distance").best
    assert not cell(sheet, "LOOPE", "Distance").best
    assert cell(sheet, "Static", "Area").best
    assert cell(sheet, "LOOPE", "Area").best


def test_what_was_not_run_is_missing(sheet):
    missing = cell(sheet, "CPE", "Distance")
    assert missing.ours is None
    assert missing.n == 0
    assert missing.number() == "—"
    assert missing.comparison() == "72.8"
    assert not missing.best


def test_runs_on_different_images_are_told_of(tmp_path):
    table = get_table("table1")
    entries = [entry for entry in table.entries("laptop") if entry.row == "Oxford-IIIT / ViT-Base"]
    warning = "Runs on pets saw different images"

    def notes(*digests: str | None) -> str:
        for entry, digest in zip(entries, digests, strict=False):
            folder = folder_of(entry.run, tmp_path)
            folder.mkdir(parents=True, exist_ok=True)
            result = {"metrics": {"accuracy": 0.5}, **({"digests": {"test": digest}} if digest else {})}
            (folder / RESULT).write_text(json.dumps(result))
        return " ".join(make_results_table(table, "laptop", [0], Results.in_folder(tmp_path)).notes)

    assert warning not in notes("a", "a", None)
    assert warning in notes("a", "b", None)


def test_the_best_of_a_row(tmp_path):
    table = get_table("table6")
    for entry, score in zip(table.entries("laptop"), (0.5, 0.6, 0.7, 0.9, 0.8, 0.7) * 2, strict=True):
        folder = folder_of(entry.run, tmp_path)
        folder.mkdir(parents=True)
        (folder / RESULT).write_text(json.dumps({"metrics": {"average": score}, "history": []}))
    sheet = make_results_table(table, "laptop", [0], Results.in_folder(tmp_path))
    assert [cell.best for cell in dict(sheet.rows)["Original"]] == [False, False, True]
    assert [cell.best for cell in dict(sheet.rows)["Arithmetic"]] == [True, False, False]
    sensitivities = dict(sheet.rows)["Sensitivity"]
    # |0.9 - 0.5| + |0.5 - 0.5| + |0.9 - 0.5|, over about 5.9 at width 96
    assert sensitivities[0].ours == pytest.approx(0.8 / 5.876, rel=1e-3)
    assert sensitivities[2].ours == pytest.approx(0.0)
    assert sensitivities[0].published == 0.027760


def test_a_derived_cell_needs_all_it_is_made_of(tmp_path):
    table = get_table("table6")
    entry = table.entries("laptop")[0]
    folder = folder_of(entry.run, tmp_path)
    folder.mkdir(parents=True)
    (folder / RESULT).write_text(json.dumps({"metrics": {"average": 0.5}, "history": []}))
    sheet = make_results_table(table, "laptop", [0], Results.in_folder(tmp_path))
    assert [cell.ours for cell in dict(sheet.rows)["Sensitivity"]] == [None, None, None]


SHEET = ResultsTable(
    "Two & three",
    ["A_1", "B"],
    [("x|y", [Cell(91.25, 0.5, 3, 90.0, best=True), Cell(published=3.0)]), ("z", [Cell(80.0, n=1), Cell()])],
    ["A note of 5 %."],
)


def test_markdown():
    text = render(SHEET, "md")
    assert "| x\\|y | **91.2 ± 0.5** (n=3)<br>90.0 (+1.2) | —<br>3.0 |" in text
    assert "| z | 80.0 (n=1) | — |" in text
    assert "A note of 5 %." in text


def test_csv_can_be_read_back():
    rows = list(csv.DictReader(io.StringIO(render(SHEET, "csv"))))
    assert [row["row"] for row in rows] == ["x|y", "x|y", "z", "z"]
    assert rows[0] == {
        "row": "x|y", "column": "A_1", "mean": "91.25", "half_95": "0.5", "n": "3", "published": "90",
        "difference": "1.25",
    }  # fmt: skip
    assert rows[1]["mean"] == ""
    assert rows[3]["published"] == ""


def test_latex_escapes_and_marks():
    text = render(SHEET, "latex")
    assert r"\textbf{91.2 $\pm$ 0.5}" in text
    assert r"A\_1" in text
    assert r"Two \& three" in text
    assert r"5 \%" in text
    assert r"\shortstack{\textbf{91.2 $\pm$ 0.5} \scriptsize{(n=3)} \\ \scriptsize{90.0 (+1.2)}}" in text
    assert text.count(r"\\") == 3 + text.count("shortstack")
    assert text.count("&") == 1 + 3 * 2  # one in the title


def test_html_escapes():
    text = render(SHEET, "html")
    assert "<h2>Two &amp; three</h2>" in text
    assert "<b>91.2 ± 0.5</b>" in text


def test_an_unknown_format_lists_those_there_are():
    with pytest.raises(loope.LoopeError, match=r"Unknown format 'pdf'; use one of: .*md"):
        render(SHEET, "pdf")
