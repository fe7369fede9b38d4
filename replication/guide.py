"""The decision guide of docs/which-encoding.md: statements are made from the numbers, or say that they are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import fmean
from typing import NamedTuple

from replication import again, refined, transfer
from replication.ceilings import BOUND, WANTED, ceiling
from replication.evidence import ENOUGH, OWN_SIZE, Evidence
from replication.power import paired_interval, welch_interval
from replication.rules import FAILS, HOLDS, OPEN

UNKNOWN = "not known yet"
SURE = 90.0  # percent on Three-Cell, on every grid: "works on other grids"
CONSTANT = 60.0  # percent: at or below what answers that ignore the image can reach
SLOWER = 1.05  # of the time of a training step
UNFITTED = ("rotary", "bias", "conditional")  # kinds that cannot imitate a position table


class Advice(NamedTuple):
    """A question, the answer in a sentence, and what it rests on; without evidence the answer is `UNKNOWN`."""

    question: str
    answer: str
    because: str = ""

    def line(self) -> str:
        """Return it as an item of a list."""
        return f"- **{self.question}**: {self.answer}. {self.because}".rstrip()

    def short(self) -> str:
        """Return the answer alone as an item of a list."""
        return f"- **{self.question}**: {self.answer}."


def names(encoders: Iterable[str], most: int = 6) -> str:
    """Return names as code, and how many more there are."""
    listed = [f"`{name}`" for name in encoders]
    if len(listed) > most:
        return f"{', '.join(listed[: most - 1])} and {len(listed) - most + 1} more"
    return ", ".join(listed)


def pretrained(found: Evidence) -> Advice:
    """A pretrained model whose weights are not trained at all."""
    question = "A pretrained model, no training at all"
    at_own = {name: sizes[OWN_SIZE] for name, sizes in found.sizes.items() if name != "own" and OWN_SIZE in sizes}
    kept = [name for name, each in at_own.items() if each.no_loss]
    if not kept:
        return Advice(question, UNKNOWN)
    shown = ", ".join(f"`{name}` {each.more:+.1f} ± {each.half:.1f}" for name, each in at_own.items())
    alone = [
        each.at_once for each in found.encoders.values() if each.at_once is not None and each.what.kind in UNFITTED
    ]
    rest = f" Rotary, bias and conditional encoders cannot be fitted: untrained they keep at most {max(alone):.0f} %."
    return Advice(
        question,
        f'{names(kept)} with `init="own"` lose nothing that can be measured',
        f"Points of top-1 against the own table at {OWN_SIZE} px: {shown}.{rest if alone else ''}",
    )


def other_resolution(found: Evidence) -> Advice:
    """A pretrained model that is used at another resolution."""
    question = "A pretrained model, also at another resolution"
    every = {name: sizes for name, sizes in found.sizes.items() if name != "own"}
    kept = [name for name, sizes in every.items() if all(each.no_loss for each in sizes.values())]
    if not kept:
        return Advice(question, UNKNOWN)
    sizes = sorted({size for name in kept for size in every[name]})
    return Advice(
        question,
        f'{names(kept)} with `init="own"`, which scales coordinates: '
        f"no measurable loss from {sizes[0]} to {sizes[-1]} px",
        "Without training, against the own table resampled as timm does.",
    )


def handed_over(found: Evidence) -> Advice:
    """Encoders that cannot be fitted, in a pretrained model."""
    question = "A rotary, bias or conditional encoder in a pretrained model"
    top1 = {
        name: each.handed_over
        for name, each in found.encoders.items()
        if each.handed_over is not None and each.what.kind in UNFITTED
    }
    if not top1 or found.own_at_once is None:
        return Advice(question, UNKNOWN)
    steps = sorted({count for count, _ in top1.values()})
    first, *more = sorted(top1, key=lambda name: -top1[name][1])
    shown = ", ".join(f"`{name}` {top1[name][1]:.1f}" for name in (first, *more))
    return Advice(
        question,
        f"`loope.transfer`, without labels: of {found.own_at_once:.1f} % top-1, `{first}` keeps {top1[first][1]:.1f}",
        f"After {' or '.join(f'{count:,}' for count in steps)} steps of {transfer.BATCH} images: {shown}.",
    )


def fine_tuned(found: Evidence) -> Advice:
    """A pretrained model that is fine-tuned after the swap."""
    question = "Fine-tune a pretrained model after the swap (Pets)"
    more = {}
    for name, each in found.encoders.items():
        seeds = sorted(each.pets.keys() & found.own_pets.keys())
        if len(seeds) >= ENOUGH:
            more[name] = paired_interval([each.pets[seed] - found.own_pets[seed] for seed in seeds])
    if not more:
        return Advice(question, UNKNOWN)
    ordered = sorted(more.items(), key=lambda item: -item[1].mean)
    # Rounded first: -0.04 is 0.0, not -0.0.
    shown = ", ".join(
        f"`{name}` {round(each.mean, 1) + 0.0:+.1f} ± {each.high - each.mean:.1f}" for name, each in ordered
    )
    own = fmean(found.own_pets.values())
    return Advice(question, f"points of top-1 against the own table ({own:.1f} %), same seeds: {shown}")


def leaders(found: Evidence) -> list[str]:
    """Return the encoder with the best mean on Three-Cell, and those that are not measurably behind."""
    scores = {name: each.scores for name, each in found.with_enough_seeds().items()}
    ordered = sorted(scores, key=lambda name: -fmean(scores[name]))
    return [name for name in ordered if welch_interval(scores[ordered[0]], scores[name]).low <= 0]


def from_scratch(found: Evidence) -> Advice:
    """Training from scratch at one resolution, as far as Three-Cell tells."""
    question = "From scratch, one resolution (Three-Cell)"
    means = {name: fmean(each.scores) for name, each in found.encoders.items() if each.scores}
    compared = found.with_enough_seeds()
    if len(compared) < 2:
        return Advice(question, UNKNOWN, f"{_first(means)}{_so_far(found)}")
    ordered = sorted(compared, key=lambda name: -means[name])
    best, *level = leaders(found)
    low = [name for name in ordered if ceiling(name) > BOUND and means[name] < WANTED]
    led = f"`{best}` is the best" + (f"; {names(level)} not measurably behind" if level else "")
    below = f"Below {WANTED:.0f} %, though more is possible: {names(low)}. " if low else ""
    return Advice(question, led, f"{_first({name: means[name] for name in ordered})}{below}{_so_far(found)}".rstrip())


def other_grids(found: Evidence) -> Advice:
    """Grids that were not trained on."""
    question = "Other grids than it was trained on, without training (Three-Cell)"
    lowest = {
        name: min(grid.mean for grid in each.grids.values()) for name, each in found.encoders.items() if each.grids
    }
    compared = {name: each for name, each in found.with_enough_seeds().items() if name in lowest}
    if len(compared) < 2:
        return Advice(question, UNKNOWN, f"{_first(lowest, 'lowest of 5x5, 10x10, 14x14')}{_so_far(found)}")
    sure = sorted((name for name in compared if lowest[name] >= SURE), key=lambda name: -lowest[name])
    lost = [name for name in compared if lowest[name] <= CONSTANT < SURE <= fmean(compared[name].scores)]
    verb = "stays" if len(sure) < 2 else "stay"
    answer = f"{names(sure) or 'none'} {verb} above {SURE:.0f} % on 5x5, 10x10 and 14x14"
    shown = _first({name: lowest[name] for name in compared}, "lowest of the three")
    fall = f"At {CONSTANT:.0f} % or less, though above {SURE:.0f} % on 7x7: {names(lost)}. " if lost else ""
    return Advice(question, answer, f"{shown}{fall}{_so_far(found)}".rstrip())


def _first(scores: Mapping[str, float], what: str = "percent", most: int = 6) -> str:
    ordered = sorted(scores, key=lambda name: -scores[name])[:most]
    shown = ", ".join(f"`{name}` {scores[name]:.1f}" for name in ordered)
    return f"The first, {what}: {shown}. " if ordered else ""


def export(found: Evidence) -> Advice:
    """Flash attention and ONNX."""
    dense = [name for name, each in found.encoders.items() if not each.what.flash]
    baked = [name for name, each in found.encoders.items() if each.what.onnx != "yes"]
    slow = {name: each.training for name, each in found.encoders.items() if (each.training or 0) > SLOWER}
    shown = ", ".join(f"`{name}` {time:.2f}" for name, time in slow.items())
    return Advice(
        "Flash attention, ONNX",
        f"anything but {names(dense)} (no flash attention) and {names(baked)} (ONNX after `loope.bake`)",
        f"A training step takes more than {SLOWER:.2f} times as long with {shown}." if slow else "",
    )


def loope(found: Evidence) -> Advice:
    """The encoder that this library is named after."""
    words = {HOLDS: "measurably above", FAILS: "measurably below", OPEN: "not measurably above"}
    judged = {each.before.claim: each for each in again.again()}
    others = {"1D Sinusoid": "1D sinusoids", "Static": "the curve that it refines"}
    pairs = {other: judged[f"LOOPE beats {row} (Three-Cell)"] for row, other in others.items()}
    new = all(pair.now.verdict in words for pair in pairs.values())
    verdicts = {other: pair.now.verdict if new else pair.before.verdict for other, pair in pairs.items()}
    told = " and ".join(f"{words[verdict]} {other}" for other, verdict in verdicts.items())
    use = "worth a try" if set(verdicts.values()) == {HOLDS} else "for research on LOOPE"
    helped = refined.does_it_help(refined.scores())
    tested = [pair.verdict for pair in helped.values() if pair.verdict != refined.WAITING]
    helps, hurts = (tested.count(verdict) for verdict in (refined.HELPS, refined.HURTS))
    because = f"Refinement on other bases: {UNKNOWN}."
    if tested:
        because = (
            f"In {len(tested)} tests of `refine` against the same encoder without it, {helps} gains and {hurts} losses "
            "are measurable; `loope` with its own defaults is not one of them."
        )
    recipe = "under the new recipe" if new else "by the replication's recipe"
    return Advice("`loope`", f"{use}; on Three-Cell it is {told} ({recipe})", because)


def _so_far(found: Evidence) -> str:
    enough = len(found.with_enough_seeds())
    return "" if enough == len(found.encoders) else f"({enough} of {len(found.encoders)} encoders have {ENOUGH} seeds.)"


RULES: tuple[Callable[[Evidence], Advice], ...] = (
    pretrained,
    other_resolution,
    handed_over,
    fine_tuned,
    from_scratch,
    other_grids,
    export,
    loope,
)
IN_README = 4  # the first of these that are known
FIRST = (other_resolution, handed_over, fine_tuned, from_scratch, export, other_grids, pretrained)


def advise(found: Evidence) -> list[Advice]:
    """Return all advice."""
    return [rule(found) for rule in RULES]


def advise_in_short(found: Evidence) -> list[Advice]:
    """Return what the README has room for."""
    return [advice for rule in FIRST if (advice := rule(found)).answer != UNKNOWN][:IN_README]
