"""The demo's report: a page that says what came out, what was asked, and what each number means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from loope import plots
from loope.core.files import write_atomic
from loope.core.grid import Grid
from loope.lab.experiments import demo_words as words
from loope.lab.experiments.demo_swap import BATCH, TRAINED
from loope.lab.experiments.results import Results
from loope.lab.experiments.spec import Run
from loope.lab.reports import figures, html
from loope.orders import create_order
from loope.three_cell import ThreeCell, drawing
from loope.three_cell.ceilings import ceilings
from loope.three_cell.questions import answer

QUESTIONS = ("distance", "orientation", "area", "vector_sum", "average")
HEAD = ["encoder", "dist.", "orient.", "area", "v. sum", "average", "M_U", "M_D", "params", "img/s"]
SWAP_HEAD = ["encoder", "steps", "labels", "put in place", "swapped", "original"]
EXAMPLE = [[1, 2], [4, 0], [0, 4]]  # row and column of red, green and blue; the questions are easy to see on it


def rows(results: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Return a table row for each encoder, the best first."""
    made = []
    for name, result in sorted(results.items(), key=lambda item: -float(item[1]["metrics"]["average"])):
        metrics = result["metrics"]
        pesi = [f"{metrics[key]:.3f}" if key in metrics else "—" for key in ("pesi_m_u", "pesi_m_d")]
        speed = f"{result['images_per_second']:,.0f}"
        made.append([name, *_accuracies(metrics), *pesi, f"{result['parameters']['encoder']:,}", speed])
    return made


def references(run: Run) -> list[list[str]]:
    """Return rows to compare with: the best possible scores without positions, and with relative ones only."""
    known = {"constant": _majority(run, "test"), "relative": ceilings(_grid(run)).relative}
    return [[name, *_accuracies(scores), "", "", "", ""] for name, scores in known.items()]


def constant_answer(run: Run) -> float:
    """Return what the best constant answer scores on the test split, in percent."""
    return 100 * _majority(run, "test")["average"]


def swap_rows(swaps: Mapping[str, Any]) -> list[list[str]]:
    """Return a table row for each encoder that took the place of the trained one."""
    original = f"{swaps['original']['average']:.1%}"
    return [
        [name, str(each["steps"]), "none", *(f"{each[key]['average']:.1%}" for key in ("naive", "swapped")), original]
        for name, each in swaps["swaps"].items()
    ]


def write_report(
    runs: list[Run], results: dict[str, dict[str, Any]], swaps: Mapping[str, Any], out: Path, smoke: bool
) -> Path:
    """Write the report as a self-contained page."""
    found = {run.encoder.name: Results.in_folder(out / "runs").tensors(run) for run in runs}
    kept = {name: tensors for name, tensors in found.items() if tensors is not None}
    run = runs[0]
    page = html.page(
        "loope: what positions are worth",
        html.lead(words.conclusion(results, constant_answer(run))),
        *([html.note("This was a smoke test: the numbers mean nothing.")] if smoke else []),
        _one_seed(run, results),
        _question(run),
        _scores(run, results),
        _place(run, results),
        _swaps(run, swaps),
        _curves(run, results),
        _similarity(kept),
        _learned_order(kept["loope"]),
        _next_steps(),
    )
    return write_atomic(out / "report.html", page)


def _accuracies(scores: Mapping[str, float]) -> list[str]:
    return [f"{scores[key]:.1%}".replace("100.0%", "100%") for key in QUESTIONS]


def _grid(run: Run) -> Grid:
    return Grid(run.data.options["grid"], run.data.options["grid"])


def _majority(run: Run, split: str) -> dict[str, float]:
    return ThreeCell(**run.data.options, seed=0, split=split).majority_rates()


def _one_seed(run: Run, results: dict[str, dict[str, Any]]) -> str:
    samples = next(iter(results.values()))["samples"]
    epochs = run.recipe.epochs if run.recipe is not None else 0
    return html.note(
        f"One seed ({run.seed}): each encoder was trained once, from scratch, on {samples['train']:,} images in "
        f"{epochs} epochs and tested on {samples['test']:,} others; everything but the encoder was the same. Another "
        f"seed can move a score by a point or two, so nothing is read into differences below {words.CLOSE:g} points."
    )


def _question(run: Run) -> str:
    grid, triple = _grid(run), torch.tensor(EXAMPLE)
    figure = drawing.questions(triple, answer(triple[None], grid)[0], grid)
    return (
        html.text(
            "The question",
            f"A Three-Cell image is a black grid of {grid} cells, one patch each, with a red, a green and a blue cell. "
            "Four questions: Is RG longer than RB? Which way round do R, G and B run? Under which of the two segments "
            "is more area? Does the sum of the vectors from the centre to the three cells end outside the grid?",
        )
        + html.picture(plots.png(figure), "a Three-Cell image with its four questions and answers")
        + html.paragraph("All images consist of the same patches in other places: only positions can answer.")
    )


def _scores(run: Run, results: dict[str, dict[str, Any]]) -> str:
    explained = [
        (
            "Accuracy",
            "Share of right answers on the test split; distance and area have two bits each (more, less), as both can "
            "be equal. The average is over the four questions.",
        ),
        (
            "constant: the floor",
            "The most that the same answer to all images can score. To a transformer without positions all images are "
            "the same bag of patches, so none cannot beat it.",
        ),
        (
            "relative: a ceiling",
            "The most that a model could score that knows where cells are to each other, but not on the grid. The "
            "vector sum needs the grid. With full knowledge of positions the ceiling is 100 %.",
        ),
        (
            "M_U and M_D: PESI",
            "Do positions become less alike with distance? M_U averages over all directions: 2 is always, 1 is what "
            "equal vectors score. M_D looks in each direction: its ceiling on this grid is "
            f"{results['loope']['metrics']['pesi_m_d_ceiling']:.3f}. PESI looks at the encoder alone, so it need not "
            "rank as accuracy does.",
        ),
        ("params, img/s", "Parameters of the encoder, and images per second in training, on this machine."),
    ]
    return html.text("Scores") + html.table(HEAD, rows(results), references(run)) + html.terms(explained)


def _place(run: Run, results: dict[str, dict[str, Any]]) -> str:
    found = [(asked, words.step(results, *pair)) for pair, asked in words.ASKED.items()]
    late = words.rising(results)
    lines = [[asked, step.before, step.after, f"{step.points:+.1f}", words.judged(step, late)] for asked, step in found]
    curve = words.step(results, "sincos2d", "gilbert")
    order = words.step(results, "sinusoid", "gilbert")
    refinement = words.step(results, "gilbert", "loope")
    named = ", ".join(f"{name} ({points:+.1f} points)" for name, points in late.items())
    unfinished = (
        f"Too early: {named} still rose in the last epoch. Such a comparison shows how soon an encoder is learned; "
        "longer training can shrink the difference or turn it around."
    )
    return (
        html.text("Where LOOPE stands", "Each line compares two encoders that differ in one thing.")
        + html.table(["", "from", "to", "points", "a difference?"], lines)
        + html.terms(
            [
                ("The curve", words.explain_curve(curve, _grid(run))),
                ("Which curve", words.explain_order(order)),
                ("The image", words.explain_refinement(refinement, results["loope"]["metrics"])),
            ]
        )
        + (html.note(unfinished) if late else "")
    )


def _swaps(run: Run, swaps: Mapping[str, Any]) -> str:
    original, swapped = swaps["original"], swaps["swaps"]
    relative = 100 * ceilings(_grid(run)).relative["vector_sum"]
    pairs = {name: (100 * each["naive"]["average"], 100 * each["swapped"]["average"]) for name, each in swapped.items()}
    levels = {"a constant answer": constant_answer(run), f"the original, {TRAINED}": 100 * original["average"]}
    return (
        html.text(
            "The trained network with another encoder",
            f"The ViT that was trained with {TRAINED} is given another encoder, as any pretrained model can be. "
            "No label is used.",
        )
        + html.picture(plots.png(figures.changes(pairs, "accuracy, %", levels)), "accuracy before and after the swap")
        + html.table(SWAP_HEAD, swap_rows(swaps))
        + html.terms([(name, words.explain_swap(name, each, original, relative)) for name, each in swapped.items()])
        + html.code(
            'model = loope.attach(model, "fourier", init="own")  # fitted to the position table; done\n\n'
            'model = loope.attach(model, "rope_mixed", init="own")  # cannot be fitted: strength 0\n'
            f"loope.transfer(model, images, depth=1, multi_label=True)  # batches without labels, of {BATCH}"
        )
    )


def _curves(run: Run, results: dict[str, dict[str, Any]]) -> str:
    curves = {
        name: [[(each["epoch"], 100 * each["metrics"]["average"]) for each in result["history"]]]
        for name, result in results.items()
    }
    floor = 100 * _majority(run, "val")["average"]
    figure = figures.learning_curves(curves, "epoch", "accuracy, %", floor=floor)
    figure.axes[0].set_xticks(sorted({epoch for (points,) in curves.values() for epoch, _ in points}))
    shown = (
        "Average accuracy on the validation split after each epoch. What still rises would end higher in more epochs."
    )
    return html.text("Learning curves", shown) + html.picture(plots.png(figure), "learning curves")


def _similarity(kept: dict[str, dict[str, Any]]) -> str:
    height, width = next(iter(kept.values()))["grid"].tolist()
    centres = [(0, 0), (height // 2, 0), (height // 2, width // 2)]
    figure = plots.similarity_maps({name: each["similarity"] for name, each in kept.items()}, (height, width), centres)
    shown = (
        "How alike all positions are to the marked one, after training: bright is alike. A column for each encoder, "
        "seen from a corner, an edge and the centre. sincos2d sees all directions; sinusoid stays in its row, gilbert "
        "and loope on their curve."
    )
    return html.text("What positions look like", shown) + html.picture(plots.png(figure), "similarity maps")


def _learned_order(kept: dict[str, Any]) -> str:
    image = kept["images"][0] / 2 + 0.5  # back from the model's range to 0..1
    figure = plots.offsets(image, create_order("gilbert", *kept["grid"].tolist()), kept["offsets"][0])
    shown = (
        "A test image with the Gilbert curve, and by how many places the trained LOOPE moves each patch along it, X_C."
    )
    described = "an image, its curve and the offsets"
    return html.text("The order that LOOPE learned", shown) + html.picture(plots.png(figure), described)


def _next_steps() -> str:
    return html.text("Go on") + html.code(
        "loope demo --seed 1 --out out/demo-1              # another seed\n"
        "loope run encoders --preset laptop --seeds 0,1,2  # every encoder, longer, with intervals\n"
        "loope explore                                     # curves, PESI and LOOPE on your images\n"
        "loope swap vit_tiny_patch16_224 rope_mixed --images photos --to vit.safetensors"
    )
