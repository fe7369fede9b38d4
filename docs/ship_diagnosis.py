"""Write the diagnosis of a model whose weights are too large to ship as a file that the explorer's Model view shows.

    python docs/ship_diagnosis.py vit_tiny_patch16_224 IMAGES src/loope/explorer/vit-tiny.json
    python docs/ship_diagnosis.py vit_tiny_patch16_224 IMAGES src/loope/explorer/vit-tiny-loope.json loope
    python docs/ship_diagnosis.py RUN/model.safetensors IMAGES src/loope/explorer/vit-tiny-loope-pets.json

The model is a pretrained timm model, by name, if wanted with an encoder fitted to its table (`init="own"`), or a file
of `loope.save`. IMAGES is a folder of photographs, of which 16 are used and none is written. See
src/loope/explorer/SHIPPED.md.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

from loope.core.errors import require
from loope.core.files import write_atomic
from loope.explorer.diagnosis import MOST_IMAGES, diagnosis_data
from loope.explorer.serialization import to_json
from loope.lab.experiments.spec import Model
from loope.lab.experiments.timm_models import create_timm
from loope.surgery.attach import attach
from loope.surgery.checkpoint import load

DIGITS = 5  # of each number, significant ones


def diagnosis(model: nn.Module, images: Path) -> bytes:
    """Return the data of the Model view, rounded, on every n-th photograph of a folder in sorted order, 16 in all.

    Raises:
        LoopeError: if there are fewer.
    """
    files = sorted(path for path in images.iterdir() if path.is_file())
    require(len(files) >= MOST_IMAGES, f"A diagnosis takes {MOST_IMAGES} images; {images} has {len(files)}.")
    chosen = [path.read_bytes() for path in files[:: len(files) // MOST_IMAGES][:MOST_IMAGES]]
    body = b"".join(len(each).to_bytes(4, "little") + each for each in chosen)
    return to_json(rounded(json.loads(diagnosis_data(model, body, "signed"))))


def model_of(name: str, encoder: str | None = None) -> nn.Module:
    """Return the model of a file, or a pretrained one of timm, in evaluation mode; with `encoder`, fitted to its table.

    Raises:
        LoopeError: if there is no such model, or the encoder cannot replace its positions.
    """
    model = load(name) if name.endswith(".safetensors") else create_timm(Model(name=name, weights="pretrained"))
    if encoder is not None:
        torch.manual_seed(0)
        attach(model, encoder, init="own")
    return model.float().eval()


def rounded(value: Any) -> Any:
    """Return JSON data with numbers of a few digits."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


if __name__ == "__main__":
    name, images, to, *encoder = sys.argv[1:]
    data = diagnosis(model_of(name, *encoder), Path(images))
    print(f"Written: {write_atomic(Path(to), data)}, {len(data):,} bytes")
