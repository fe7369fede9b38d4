"""What the demo's numbers say, in sentences made from them: they hold whichever way a run comes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from loope.core.grid import Grid
from loope.orders import create_order

Results = Mapping[str, Mapping[str, Any]]

# Points of accuracy that one seed cannot show. With the study's longer recipe, the scores of these encoders have a
# standard deviation of about 1 over seeds, so that one in twenty pairs of equal quality is 3 apart.
CLOSE = 3.0
QUESTIONS = {"distance": "distance", "orientation": "orientation", "area": "area", "vector_sum": "the vector sum"}
# Pairs of encoders that differ in one thing, and what they answer.
ASKED = {
    ("none", "sincos2d"): "What are positions worth?",
    ("sincos2d", "gilbert"): "What does the curve cost?",
    ("sinusoid", "gilbert"): "Does it matter which curve?",
    ("gilbert", "loope"): "What does the image add?",
}


class Step(NamedTuple):
    """A comparison of two encoders.

    Attributes:
        before: the one encoder.
        after: the other.
        points: accuracy of `after` minus that of `before`, in percent.
    """

    before: str
    after: str
    points: float

    @property
    def close(self) -> bool:
        """Return whether the difference is too small for one seed."""
        return abs(self.points) < CLOSE


def step(results: Results, before: str, after: str) -> Step:
    """Compare the average accuracy of two encoders."""
    return Step(before, after, percent(results, after) - percent(results, before))


def percent(results: Results, name: str) -> float:
    """Return the average accuracy of an encoder in percent."""
    return 100 * float(results[name]["metrics"]["average"])


def rising(results: Results) -> dict[str, float]:
    """Return the encoders that still gained at least `CLOSE` points in the last epoch, on validation, and how many."""
    averages = {
        name: [100 * float(each["metrics"]["average"]) for each in result["history"][-2:]]
        for name, result in results.items()
    }
    gains = {name: found[-1] - found[0] for name, found in averages.items() if len(found) > 1}
    return {name: points for name, points in gains.items() if points >= CLOSE}


def judged(found: Step, late: Mapping[str, float]) -> str:
    """Return in two words whether a difference can be trusted, given the encoders that are `rising`."""
    if found.close:
        return "too close"
    return "too early" if {found.before, found.after} & set(late) else "likely"


def conclusion(results: Results, constant: float) -> str:
    """Return the result of a run in one sentence.

    Args:
        results: of each encoder.
        constant: what the best constant answer scores, in percent.
    """
    best = max(results, key=lambda name: percent(results, name))
    top = percent(results, best)
    if top - constant < CLOSE:
        return (
            f"No encoder learned in this run: the best, {best}, answers {top:.1f} % right, and a constant answer is "
            f"right in {constant:.1f} %."
        )
    curve, plane = (step(results, other, "loope") for other in ("gilbert", "sincos2d"))
    return (
        f"Positions decide: the same small ViT answers {top:.1f} % right with {best} and "
        f"{percent(results, 'none'):.1f} % without positions, where a constant answer has {constant:.1f} %; "
        f"LOOPE has {percent(results, 'loope'):.1f} %, {compared(curve, 'the fixed curve that it refines')}, and "
        f"{compared(plane, 'sincos2d')}."
    )


def compared(found: Step, other: str) -> str:
    """Return a comparison in words.

    Examples:
        >>> compared(Step("gilbert", "loope", -5.3), "the curve"), compared(Step("gilbert", "loope", 0.4), "the curve")
        ('5.3 points less than the curve', 'too close to the curve for one seed to tell')
    """
    if found.close:
        return f"too close to {other} for one seed to tell"
    return f"{abs(found.points):.1f} points {'more' if found.points > 0 else 'less'} than {other}"


def explain_curve(found: Step, grid: Grid) -> str:
    """Explain `gilbert` against `sincos2d`."""
    apart = create_order("gilbert", *grid).locality().neighbour_distance
    what = (
        "Both are the same sinusoids without parameters. sincos2d gives half of the width to the row and half to the "
        "column. gilbert numbers the patches along a curve through the grid and encodes this one number: patches side "
        f"by side are {apart:.1f} numbers apart on average, and the network has to work out row and column itself."
    )
    if found.close:
        return f"{what} In this run the difference is too small for one seed to tell ({found.points:+.1f} points)."
    if found.points < 0:
        return f"{what} In this run that costs {-found.points:.1f} points."
    return f"{what} In this run it costs nothing: the curve has {found.points:.1f} points more."


def explain_order(found: Step) -> str:
    """Explain `gilbert` against `sinusoid`."""
    what = (
        "sinusoid numbers the patches row by row; gilbert follows a curve on which successive patches are always "
        "neighbours, which is the reason to prefer it."
    )
    if found.close:
        return f"{what} In this run the two are too close for one seed to tell ({found.points:+.1f} points)."
    if found.points > 0:
        return f"{what} In this run it is worth {found.points:.1f} points."
    return (
        f"{what} In this run row by row is better, by {-found.points:.1f} points: there, one patch down is the same "
        "difference of numbers everywhere; along a curve that turns it is not."
    )


def explain_refinement(found: Step, metrics: Mapping[str, float]) -> str:
    """Explain `loope` against `gilbert`."""
    what = (
        "LOOPE starts from gilbert and moves each patch along the curve, by an offset that a small network reads from "
        f"the image: at most one place, here {metrics['offset_size']:.2f} places on average. From image to image an "
        f"offset varies by {metrics['offset_over_images']:.3f} (0 if the image played no part)."
    )
    if found.close:
        return f"{what} In this run the difference is too small for one seed to tell ({found.points:+.1f} points)."
    if found.points > 0:
        return f"{what} In this run that adds {found.points:.1f} points."
    return (
        f"{what} In this run that costs {-found.points:.1f} points. An offset of one place cannot undo the curve's "
        "detours, and a position that moves with the image is one more thing to learn."
    )


def explain_swap(name: str, swap: Mapping[str, Any], original: Mapping[str, float], relative: float) -> str:
    """Say what became of the scores when the encoder was swapped.

    Args:
        name: the new encoder.
        swap: its scores, as `swap_encoders` writes them.
        original: scores of the original.
        relative: percent of the vector sum that relative positions alone can answer.
    """
    naive, now, wanted = (100 * each["average"] for each in (swap["naive"], swap["swapped"], original))
    seconds = swap["processor_seconds"]
    how = (
        f"after {swap['steps']} steps of learning to agree with the original ({seconds:.0f} seconds of one core)"
        if swap["steps"]
        else f"when fitted to the model's own positions in closed form ({seconds:.1f} seconds, no training)"
    )
    told = f"It scores {naive:.1f} % if only put in place, and {now:.1f} % {how}; the original has {wanted:.1f} %."
    if wanted - now < CLOSE:
        return told
    lost = {question: 100 * (original[question] - swap["swapped"][question]) for question in QUESTIONS}
    worst = max(lost, key=lambda question: lost[question])
    told += f" It loses most on {QUESTIONS[worst]}: {lost[worst]:.1f} points."
    if worst == "vector_sum" and name.startswith("rope"):
        told += (
            " That question needs places on the grid. A rotary encoding gives only the places of patches to each "
            f"other, which answer {relative:.1f} %; more has to come from the border of the grid."
        )
    return told
