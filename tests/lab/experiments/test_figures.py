"""Drawings of tables, from the files of runs."""

import json

from loope.lab.experiments.figures import draw
from loope.lab.experiments.results import RESULT, Results, folder_of
from loope.lab.experiments.table import get_table


def test_scores_stand_over_the_size_of_the_offsets(tmp_path):
    table = get_table("inputs")
    for number, entry in enumerate(table.entries("laptop")):
        sizes = {} if entry.row == "Static" else {"offset_size": number / 10}
        place = folder_of(entry.run, tmp_path) / RESULT
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps({"metrics": {**sizes, "average": (90 + number) / 100}, "history": []}))
    (panel,) = draw(table, "laptop", [0], Results.in_folder(tmp_path))["inputs-offsets"].axes
    drawn = {line.get_label(): [round(value, 6) for value in line.get_xydata()[0]] for line in panel.lines}
    assert drawn["Static"] == [0.0, 90.0]  # it moves no patch
    assert drawn["LOOPE (RGB only)"] == [0.1, 91.0]
    assert len(drawn) == len(table.entries("laptop"))


def test_without_runs_nothing_is_drawn(tmp_path):
    assert draw(get_table("inputs"), "laptop", [0], Results.in_folder(tmp_path)) == {}
