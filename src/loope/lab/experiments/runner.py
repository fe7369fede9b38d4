"""Execute a run: do its experiment, and write the result into its folder."""

from __future__ import annotations

import json
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import torch as safetensors

from loope.core.errors import LoopeError, one_of
from loope.core.files import write_atomic
from loope.core.plain import to_json
from loope.lab.engine.lock import RunningElsewhereError
from loope.lab.engine.signals import Interrupted
from loope.lab.experiments.classification import ImageClassification
from loope.lab.experiments.experiment import Experiment, is_first_process
from loope.lab.experiments.measurement import Measurement
from loope.lab.experiments.provenance import provenance
from loope.lab.experiments.results import FAILED, PICTURES, RESULT, SPEC, folder_of, read_result
from loope.lab.experiments.segmentation import Segmentation
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.spec import PHOTOGRAPHS, Run
from loope.lab.experiments.three_cell import ThreeCellProbe

# Name of the data -> the experiment that uses it.
EXPERIMENTS: dict[str, type[Experiment]] = {
    "grid": Measurement,
    "three_cell": ThreeCellProbe,
    **dict.fromkeys((*PHOTOGRAPHS, "fake"), ImageClassification),
    **dict.fromkeys(("camvid", "cityscapes", "fake_segmentation"), Segmentation),
}


def create_experiment(run: Run, settings: Settings) -> Experiment:
    """Create the experiment of a run.

    Raises:
        LoopeError: for unknown data, or data that does not go with the rest of the run.
    """
    one_of("data set", run.data.name, EXPERIMENTS)
    return EXPERIMENTS[run.data.name](run, settings)


def execute(text: str, out: str, settings: Settings) -> None:
    """Execute a run, unless it is done or another process is training it. Failures are recorded and raised.

    Takes plain arguments and returns nothing, so that any executor can run it.

    Args:
        text: the run, as JSON.
        out: the folder of all runs.
        settings: settings of this machine.
    """
    run = Run.from_json(text)
    folder = folder_of(run, Path(out))
    if read_result(folder) is not None:
        return
    write_atomic(folder / SPEC, json.dumps(json.loads(text), indent=2) + "\n")
    try:
        began = time.time()
        found, tensors = create_experiment(run, settings).execute(folder)
        if is_first_process():
            _keep(folder, tensors)
            result = {"run": json.loads(text), "key": run.key, **found, **provenance(began)}
            write_atomic(folder / RESULT, to_json(result, indent=1) + "\n")
            (folder / FAILED).unlink(missing_ok=True)
    except Interrupted:
        raise
    except RunningElsewhereError:
        return
    except Exception as error:
        kind = "" if isinstance(error, LoopeError) else f"{type(error).__name__}: "
        failure = {"error": f"{kind}{error}", "traceback": traceback.format_exc(), "when": time.time()}
        with suppress(OSError):  # a full disk is the error to report
            write_atomic(folder / FAILED, json.dumps(failure, indent=1) + "\n")
        raise


def _keep(folder: Path, tensors: dict[str, Any]) -> None:
    """Save tensors for the report's figures beside the result."""
    if tensors:
        flat = {
            name: tensor.float().contiguous().cpu() if tensor.is_floating_point() else tensor
            for name, tensor in tensors.items()
        }
        write_atomic(folder / PICTURES, safetensors.save(flat))
