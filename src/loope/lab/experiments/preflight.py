"""Check that packages, data and weights of runs are available, before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from loope.core import hub
from loope.core.errors import LoopeError, require
from loope.core.packages import require_packages
from loope.lab.engine.tracking import chosen
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.spec import Run

PACKAGES = ("accelerate", "pandas", "safetensors", "scipy", "timm", "torchmetrics", "torchvision")


def obstacles(runs: Iterable[Run], settings: Settings) -> dict[Run, str]:
    """Return why runs cannot start on this machine, for those that cannot; each requirement is checked once.

    Missing data sets are downloaded if the settings say so.
    """
    looked: dict[object, str | None] = {}

    def once(key: object, look: Callable[..., object], *args: object) -> str | None:
        """Return the message of the `LoopeError` that a check raises, or None."""
        if key not in looked:
            try:
                look(*args)
                looked[key] = None
            except LoopeError as error:
                looked[key] = str(error)
        return looked[key]

    found = {}
    for run in runs:
        trained = run.recipe is not None
        model = str(run.model.options.get("backbone", run.model.name))
        swapped = run.encoder.init == "swapped"
        pretrained = run.model.weights == "pretrained" and (trained or run.encoder.name == "learned") and not swapped
        cause = (
            once("packages", require_packages, "A run", "train", *PACKAGES)
            or (once("trackers", chosen, settings.trackers) if trained else None)
            or once(("data", run.data.name, str(run.data.options.get("classes"))), find_data, run, settings)
            or (once(("weights", model), find_weights, model) if pretrained else None)
            or (once(("swapped", model, run.encoder.name), find_swapped, model, run.encoder.name) if swapped else None)
        )
        if cause is not None:
            found[run] = cause
    return found


def find_data(run: Run, settings: Settings) -> None:
    """Find the data of a run, without decoding it."""
    from loope.lab.experiments.runner import create_experiment  # needs the packages, which are checked first

    create_experiment(run, settings).find_data()


def find_weights(model: str) -> None:
    """Find the pretrained weights of a model, in a file or on the hub."""
    from loope.lab.experiments.timm_models import local_weights, where_to_put

    if local_weights(model) is None:
        why = hub.missing_weights(model)
        require(why is None, f"The pretrained weights of {model!r} cannot be had: {why}; {where_to_put(model)}.")


def find_swapped(model: str, encoder: str) -> None:
    """Find the file of a model that was handed over to an encoder."""
    from loope.lab.experiments.timm_models import swapped_weights

    swapped_weights(model, encoder)
