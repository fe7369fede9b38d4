"""What the results' pages claim beside the tables, which are laid out from the runs' files."""

import json
import re
import sys
from pathlib import Path
from statistics import fmean, stdev

import pytest
import torch
from safetensors.torch import load_file

import loope
from loope.core.labels import VOID
from loope.data.segmentation import CamVid, SegmentationSource
from loope.data.segmentation.camvid import LABELS
from loope.experiments.build import build_model
from loope.experiments.spec import Run
from loope.experiments.statistics import paired
from loope.experiments.table import get_table
from tests.docs import test_documents  # noqa: F401  (loads the builders)
from tests.weights import data, weights

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def replication_in_one_line() -> str:
    """The page's text, wherever its lines are broken."""
    return " ".join((RESULTS / "replication.md").read_text().split())


@pytest.mark.parametrize("file", sorted(RESULTS.glob("runs/*/run.json")), ids=lambda file: file.parent.name)
def test_a_run_is_what_its_folder_says_and_tells_nothing_of_where_it_was_done(file):
    text = file.read_text()
    found = json.loads(text)
    run = Run.from_json(json.dumps(found["run"]))
    assert file.parent.name == run.name
    assert found["key"] == run.key
    assert file.stat().st_size < 500_000
    assert not re.search(r'"/|\w+@\w+|[a-z]:\\\\', text), "a path or an address"
    assert set(found["machine"]) == {"system", "cores", "threads", "gpus"}


def test_there_are_runs_to_check():
    assert len(list(RESULTS.glob("runs/*/run.json"))) >= 4


def test_the_runs_on_pets_that_are_told_in_words():
    page = replication_in_one_line()
    stated = re.search(r"own table ([\d.]+), 1D sinusoid ([\d.]+), LOOPE ([\d.]+) %", page)
    keys = ("0e5b0e3dc683", "2c1a190478da", "9a90df8240e3")
    files = (next(RESULTS.glob(f"runs/pets-*-{key}/run.json")) for key in keys)
    found = [json.loads(file.read_text())["metrics"]["top1"] for file in files]
    assert [f"{100 * top1:.1f}" for top1 in found] == list(stated.groups())


def test_how_large_the_own_table_is_that_new_encoders_are_compared_with():
    own = load_file(weights("vit_tiny_patch16_224.safetensors"))["pos_embed"][0, 1:]  # the class token comes first
    page = replication_in_one_line()
    assert f"(the model's own table has {own.square().mean().sqrt():.2f})" in page


def test_encoders_that_end_low_are_run_for_longer():
    replication = sys.modules["build_replication"]
    ends = {}
    for row, result in sys.modules["build_results"].finished("table4"):
        ends.setdefault(row, []).append(result["history"][-1]["metrics"]["average"])
    low = {f"{row} |*" for row, found in ends.items() if sum(found) / len(found) < 0.8} - {"No PE |*"}
    assert low == set(replication.STUCK)


@pytest.mark.parametrize(("row", "alive"), [("LOOPE |*", [True] * 5), ("LOOPE, 14x14 |*", [False] * 3 + [True])])
def test_which_generators_on_three_cell_start_alive(row, alive):
    run = get_table("table4").select("laptop", row)[0].run
    shown = loope.ThreeCell(size=40, grid=run.data.options["grid"], cell=run.data.options["cell"])
    images = torch.stack([image for image, _ in shown]) * 2 - 1  # as in training
    for seed, lives in enumerate(alive):
        encoder = build_model(run.with_seed(seed), 6).loope.encoders[0][0].eval()
        with torch.no_grad():
            assert bool(encoder.offsets(images).std(0).max() > 0) == lives, f"seed {seed}"


def test_what_is_told_of_the_frequency_sets_in_words():
    page = replication_in_one_line()
    scores = sys.modules["build_results"].by_seed("table6")
    means = {cell: sum(seeds.values()) / len(seeds) for cell, seeds in scores.items()}
    lost = [means["Random", column] - means["Geometric", column] for column in ("1D Sinusoid", "Static", "LOOPE")]
    stated = re.search(r"1D sinusoids lose ([\d.]+) points, the static curve ([\d.]+), LOOPE ([\d.]+)\.", page)
    assert [f"{points:.1f}" for points in lost] == list(stated.groups())
    found = sys.modules["claim_rules"].sensitivities()
    ratios = sorted(found["1D Sinusoid"][seed] / found["LOOPE"][seed] for seed in found["LOOPE"])
    assert f"1D sinusoids are {ratios[0]:.1f} to {ratios[-1]:.1f} times as sensitive" in page


def test_what_would_be_said_if_the_original_set_were_the_default():
    rules, columns = sys.modules["claim_rules"], ("1D Sinusoid", "Static", "LOOPE")
    scores = rules.on_frequencies(default=True)
    geometric = [paired(scores["Geometric", column], scores["Original", column]) for column in columns]
    best = [
        paired(scores[row, "LOOPE"], scores[row, other])
        for row in ("Original", "Arithmetic", "Geometric", "Random")
        for other in columns[:2]
    ]
    moved = rules.sensitivities(default=True)
    sensitive = [paired(moved[other], moved["LOOPE"]) for other in columns[:2]]
    assert [rules.judge(parts) for parts in (geometric, best, sensitive)] == [rules.FAILS, rules.FAILS, rules.OPEN]


def test_which_runs_of_the_frequency_sets_were_still_learning():
    page = replication_in_one_line()
    ends, gaining = {}, []
    for entry in get_table("table6").entries("laptop"):
        (column,) = entry.cells
        for result in sys.modules["build_results"].results_of(entry):
            averages = [100 * epoch["metrics"]["average"] for epoch in result["history"]]
            ends.setdefault((entry.row, column), []).append(averages[-1])
            gaining += [column] * (averages[-1] - averages[-6] > 1)
    low = ends["Geometric", "1D Sinusoid"]
    assert f"1D sinusoids end at {min(low):.0f} to {max(low):.0f} % on validation" in page
    assert (len(gaining), gaining.count("1D Sinusoid")) == (4, 2)
    assert "Four of the 36 runs, two of them of 1D sinusoids, gain more than a point" in page


def test_by_how_much_the_convolution_mixer_is_above_loope():
    page = replication_in_one_line()
    scores = sys.modules["build_results"].by_seed("inputs")
    mixer, usual = (scores[f"LOOPE{which}", "Average"] for which in (", convolution mixer", " (RGB + coordinates)"))
    found = paired(mixer, usual)
    assert f"by {found.mean:.1f} ± {found.half:.1f} (3 seeds, p {found.p:.3f}, uncorrected)" in page


def test_how_far_the_learned_table_is_above_loope_on_pets_if_the_spread_of_all_encoders_is_taken():
    page = replication_in_one_line()
    scores = sys.modules["build_pets"].by_encoder()
    spread = stdev(found[1] - found[0] for found in scores.values())  # what seeds do to all alike is no noise
    lead = fmean(scores["Learnable"].values()) - fmean(scores["LOOPE"].values())
    assert len(scores) == 10
    assert f"({spread:.1f} points for a difference, nine degrees of freedom), {lead:.1f} points" in page
    assert 4 <= lead / (spread / 2**0.5) < 4.5


def test_what_is_told_of_14x14_in_words():
    page = replication_in_one_line()
    replication, results = sys.modules["build_replication"], sys.modules["build_results"]
    large = {row.removesuffix(", 14x14"): found for row, found in results.finished("table4", replication.LARGE_EPOCHS)}
    less = {row: large["LOOPE"]["metrics"]["average"] - found["metrics"]["average"] for row, found in large.items()}
    below = (f"{-100 * less[other]:.1f}" for other in ("2D sin/cos", "1D Sinusoid"))
    assert "LOOPE ends {} points below 2D sin/cos and {} below 1D sinusoids".format(*below) in page
    assert f"LOOPE ends {100 * less['Static']:.1f} points above it, higher on each of the four questions" in page
    assert f"the one seed has it ({100 * less['Static']:.1f})" in page
    for task in ("distance", "orientation", "area", "vector_sum"):
        assert large["LOOPE"]["metrics"][task] > large["Static"]["metrics"][task], task
    cells = results.by_seed("table4")
    small = [cells["LOOPE", "Average"][seed] - cells["Static", "Average"][seed] for seed in range(5)]
    assert f"on 7x7 the five seeds reach from {min(small):.1f} to {max(small):.1f}" in page


def test_what_a_constant_scores_on_camvid():
    data("camvid")
    targets = [masks for _, masks in SegmentationSource(CamVid("test"), 8, (240, 320)).batches(0)]
    counts = sum(masks.flatten().bincount(minlength=256) for masks in targets)
    score = loope.SegmentationScore(classes=len(LABELS))
    for masks in targets:
        score.update(torch.full_like(masks, counts[:VOID].argmax().item()), masks)
    told = score.compute()
    page = (RESULTS / "segmentation.md").read_text()
    stated = re.search(r"gives ([\d.]+) % pixel accuracy and a mIoU of ([\d.]+) %", page)
    assert f"{100 * told['accuracy']:.1f}" == stated[1]
    assert f"{100 * told['miou']:.1f}" == stated[2]
