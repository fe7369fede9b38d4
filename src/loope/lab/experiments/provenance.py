"""Provenance of a result: versions, commit, machine and duration."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import loope

PACKAGES = ("torch", "timm", "torchvision", "accelerate", "torchmetrics")


def provenance(began: float) -> dict[str, Any]:
    """Return the provenance as plain data. `seconds` covers only the last session of a resumed run."""
    return {
        "versions": {"loope": loope.__version__, "python": platform.python_version()}
        | {name: version(name) for name in PACKAGES},
        "commit": _commit(),
        "machine": _machine(),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(time.time() - began, 1),
    }


def _commit() -> str | None:
    """Return the commit of the code, with a + for uncommitted changes; None outside a repository."""
    here = Path(__file__).parent
    try:
        shown = [
            subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603, S607
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no", "."])
        ]
    except (OSError, subprocess.CalledProcessError):
        return None
    return shown[0] + ("+" if shown[1] else "")


def _machine() -> dict[str, Any]:
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": gpus,
    }
