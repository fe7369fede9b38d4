"""Execute a run: build, train, test, measure, and write the result into its folder."""

from __future__ import annotations

import json
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch.distributed as dist
from safetensors import torch as safetensors

from loope.core.errors import LoopeError
from loope.core.files import write_atomic
from loope.core.plain import to_json
from loope.lab.engine import evaluate, train
from loope.lab.engine.lock import RunningElsewhereError
from loope.lab.engine.signals import Interrupted
from loope.lab.experiments.build import build_model
from loope.lab.experiments.measure import measure_trained, measure_untrained
from loope.lab.experiments.provenance import provenance
from loope.lab.experiments.results import FAILED, MODEL, PICTURES, PROGRESS, RESULT, SPEC, folder_of, read_result
from loope.lab.experiments.segmentation import keep_examples
from loope.lab.experiments.settings import Settings
from loope.lab.experiments.sources import load_data
from loope.lab.experiments.spec import Run
from loope.surgery.checkpoint import save

IMAGES_MEASURED = 64  # test images on which encoders are measured
IMAGES_KEPT = 4  # of these, kept for figures


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
        found = _measure(run, folder) if run.recipe is None else _train(run, folder, settings)
        if _is_first_process():
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


def _measure(run: Run, folder: Path) -> dict[str, Any]:
    scores, similarity, grid = measure_untrained(run)
    _keep(folder, {"similarity": similarity, "grid": grid})
    return {"metrics": scores, "history": []}


def _train(run: Run, folder: Path, settings: Settings) -> dict[str, Any]:
    assert run.recipe is not None  # noqa: S101  (for the type checker: `execute` has looked)
    data = load_data(run, settings)
    model = build_model(run, data.labels or data.outputs)
    result = train(
        model,
        data.task,
        data.train,
        data.valid,
        run.recipe,
        folder,
        seed=run.seed,
        name=run.name,
        trackers=settings.trackers,
        progress=settings.progress or folder / PROGRESS,
    )
    tested = evaluate(model, data.task, data.test, precision=run.recipe.precision)
    images = next(iter(data.test.batches(0)))[0][:IMAGES_MEASURED]
    measured, tensors = measure_trained(model, images.to(next(model.parameters()).device))
    if "offsets" in tensors:
        tensors["images"] = images[:IMAGES_KEPT]
    if data.labels is not None:
        tensors |= keep_examples(model, data)
    _keep(folder, tensors)
    _save(model, run, folder)
    return {
        "metrics": {**_numbers(tested), **measured, **_best(result)},
        "details": {name: value for name, value in tested.items() if name not in _numbers(tested)},
        "history": result.history,
        "images_per_second": result.images_per_second,
        "training_seconds": result.seconds,
        "parameters": _parameters(model),
        "samples": {part: getattr(data, part).samples for part in ("train", "valid", "test")},
        "digests": dict(data.digests),
        "bad_images": {part: getattr(source, "bad_images", 0) for part, source in data._asdict().items()
                       if hasattr(source, "bad_images")},
    }  # fmt: skip


def _save(model: Any, run: Run, folder: Path) -> None:
    """Save the trained model for `loope.load`, unless it kept its own encoding."""
    if run.encoder.name != "own" and _is_first_process():
        save(model, folder / MODEL, model_args=run.model.made_with())


def _best(result: Any) -> dict[str, float]:
    """Return the best epoch by validation, counted from 1, and its scores."""
    return {"best_epoch": result.best_epoch, **{f"best_{name}": value for name, value in _numbers(result.best).items()}}


def _numbers(scores: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in scores.items() if isinstance(value, int | float)}


def _parameters(model: Any) -> dict[str, int]:
    """Count the parameters of model and encoder, without the model's replaced position embedding."""
    trained = {name: each.numel() for name, each in model.named_parameters() if not name.startswith("loope.own")}
    return {
        "model": sum(trained.values()),
        "encoder": sum(count for name, count in trained.items() if name.startswith("loope.")),
    }


def _keep(folder: Path, tensors: dict[str, Any]) -> None:
    """Save tensors for the report's figures beside the result."""
    if tensors and _is_first_process():
        flat = {
            name: tensor.float().contiguous().cpu() if tensor.is_floating_point() else tensor
            for name, tensor in tensors.items()
        }
        write_atomic(folder / PICTURES, safetensors.save(flat))


def _is_first_process() -> bool:
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0
