"""Check that packages, data and weights of runs are available, before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from loope.core import hub
from loope.core.errors import LoopeError
from loope.core.packages import require_packages
from loope.lab.engine.tracking import chosen
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.spec import Run

MADE_HERE = ("three_cell", "fake", "fake_segmentation")  # computed data
ENGINE = ("accelerate", "timm", "torchmetrics")
RESULTS = ("pandas", "safetensors", "scipy")  # to save and show results


def obstacles(runs: Iterable[Run], settings: Settings) -> dict[Run, str]:
    """Return why runs cannot start on this machine, for those that cannot; each requirement is checked once.

    Missing data sets are downloaded if the settings say so.
    """
    looked: dict[object, str | None] = {}

    def once(key: object, look: Callable[[], str | None]) -> str | None:
        if key not in looked:
            looked[key] = look()
        return looked[key]

    found = {}
    for run in runs:
        trained = run.recipe is not None
        model = str(run.model.options.get("backbone", run.model.name))
        pretrained = run.model.weights == "pretrained" and (trained or run.encoder.name == "learned")
        cause = (
            once(("packages", trained, run.data.name), partial(_packages, run))
            or (once("trackers", partial(_trackers, settings)) if trained else None)
            or (once(("data", run.data.name), partial(_data, run, settings)) if trained else None)
            or (once(("weights", model), partial(_weights, model)) if pretrained else None)
        )
        if cause is not None:
            found[run] = cause
    return found


def _packages(run: Run) -> str | None:
    needed = list(RESULTS)
    if run.recipe is not None:
        needed += [*ENGINE, *([] if run.data.name == "three_cell" else ["torchvision"])]
    return _told(partial(require_packages, "A run", "train", *needed))


def _trackers(settings: Settings) -> str | None:
    return _told(partial(chosen, settings.trackers))


def _data(run: Run, settings: Settings) -> str | None:
    """Find the data set as a run does, without decoding images. Imports here need the packages checked before."""
    name = run.data.name
    if name in MADE_HERE:
        return None
    if name in ("camvid", "cityscapes"):
        from loope.lab.experiments.segmentation import PARTS

        return _told(partial(PARTS[name], run, settings))
    from loope.lab.experiments.sources import find_images

    return _told(partial(find_images, run, settings))


def _weights(model: str) -> str | None:
    from loope.lab.experiments.timm_models import local_weights, where_to_put

    if local_weights(model) is not None:
        return None
    why = hub.missing_weights(model)
    return None if why is None else f"The pretrained weights of {model!r} cannot be had: {why}; {where_to_put(model)}."


def _told(look: Callable[[], object]) -> str | None:
    """Return the message of a `LoopeError`, or None."""
    try:
        look()
    except LoopeError as error:
        return str(error)
    return None
