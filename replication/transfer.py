"""How much of a pretrained model survives a swap: encoders fitted to its own table, and hand-overs of some steps.

    python -m replication.transfer sizes
    python -m replication.transfer hand-over rope_axial rope_mixed --steps 0 500

ViT-Tiny, from LOOPE_WEIGHTS; 1,000 ImageNet photographs, one a class, from LOOPE_DATA/imagenet-samples. A hand-over is
taught on every other one of them and on all photographs of Pets, half of a batch from each, without labels, and judged
on the rest.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.progress import track
from torch import Tensor, nn
from torch.utils.data import RandomSampler
from torchvision.transforms import v2

import loope
from loope.core.files import make_folder, write_atomic
from loope.core.images import read_image
from loope.lab.engine.attention import plain_attention
from loope.lab.experiments.provenance import provenance
from loope.lab.experiments.spec import Model
from loope.lab.experiments.timm_models import create_timm, preparation
from loope.surgery.transfer import LR
from replication.results import FOLDER, table

MODEL = "vit_tiny_patch16_224"
FILE = FOLDER / "transfer.jsonl"
SIZES = (160, 224, 288, 384)
FITTED = ("sincos2d", "fourier", "sinusoid", "gilbert", "loope")
STEPS = (0, 500)  # half of the default of `loope.transfer` and `loope swap`
BATCH = 16


def photographs(size: int = 224) -> Tensor:
    """Return the ImageNet photographs, in the order of their classes, `(1000, 3, size, size)` uint8."""
    return _read(sorted((_data() / "imagenet-samples").iterdir()), size)


def pets() -> Tensor:
    """Return all photographs of Pets, `(n, 3, 224, 224)` uint8."""
    folders = (_data() / name for name in ("oxford-iiit-pet", "oxford-iiit-pet-more"))
    return _read([path for folder in folders for path in sorted(folder.rglob("*.jpg"))], 224)


def _data() -> Path:
    return Path(os.environ["LOOPE_DATA"])


def _read(paths: list[Path], size: int) -> Tensor:
    # As the model expects them, but for the normalization: bytes take a quarter of the memory.
    expected = preparation(MODEL, size)
    resize = v2.Resize(int(size / expected.crop_pct), v2.InterpolationMode(expected.interpolation))
    crop = v2.Compose([resize, v2.CenterCrop(size), v2.PILToTensor()])
    return torch.stack([crop(read_image(path)) for path in track(paths, "Photographs")])


def normalized(pixels: Tensor) -> Tensor:
    """Return pixels as the model expects them."""
    return pixels.float() / 127.5 - 1


def original() -> nn.Module:
    """Create the pretrained model."""
    return create_timm(Model(name=MODEL, weights="pretrained")).eval()


@torch.inference_mode()
def answers(model: nn.Module, pixels: Tensor) -> Tensor:
    """Return the largest logit of each photograph."""
    with torch.autocast("cpu", torch.bfloat16):
        return torch.cat([model(normalized(batch)).argmax(-1) for batch in torch.split(pixels, 50)])


def at_sizes() -> Iterator[dict[str, Any]]:
    """Top-1 of the own table, resampled by timm, and of encoders that were fitted to it, without any training."""
    for size in SIZES:
        pixels, right = photographs(size), {}
        for encoder in ("own", *FITTED):
            torch.manual_seed(0)
            model = original()
            if encoder != "own":
                loope.attach(model, encoder, init="own")
            if size != SIZES[1]:
                loope.resize(model, (size, size))
            right[encoder] = (answers(model, pixels) == torch.arange(len(pixels))).float()
            more = right[encoder] - right["own"]
            half = 1.96 * more.std() / len(more) ** 0.5
            yield {
                "what": "sizes",
                "encoder": encoder,
                "size": size,
                "top1": right[encoder].mean().item(),
                "more": more.mean().item(),
                "half": half.item(),
            }


class Views:
    """Batches of random views of photographs without end, `(BATCH, 3, 224, 224)` float32; as many of each folder.

    Args:
        folders: of photographs, `(n, 3, 224, 224)` uint8 each.
    """

    def __init__(self, *folders: Tensor):
        self.orders = [(folder, iter(RandomSampler(range(len(folder)), num_samples=10**9))) for folder in folders]
        self.view = v2.Compose([v2.RandomResizedCrop(224, scale=(0.4, 1.0)), v2.RandomHorizontalFlip()])

    def __iter__(self) -> Iterator[Tensor]:
        while True:
            images = [self.view(folder[next(order)]) for folder, order in self.orders for _ in range(BATCH // 2)]
            yield normalized(torch.stack(images))


def hand_over(encoder: str, steps: Sequence[int], pixels: Tensor, more: Tensor, to: Path) -> Iterator[dict[str, Any]]:
    """Hand the model over to an encoder in each of some numbers of steps, judge it, and save it into a folder."""
    torch.set_num_threads(1)
    judged, truth = pixels[::2], torch.arange(0, len(pixels), 2)
    wanted = answers(original(), judged)
    for count in steps:
        began, started = time.time(), time.process_time()
        torch.manual_seed(0)
        model = loope.attach(original(), encoder, init="own")
        if count:
            with torch.autocast("cpu", torch.bfloat16), plain_attention("bfloat16"):
                loope.transfer(model, Views(pixels[1::2], more), steps=count, progress=True)
        elif loope.report(model).keep_own:
            loope.set_strength(model, 1.0, own=0.0)
        minutes = (time.process_time() - started) / 60
        given = answers(model, judged)
        yield {
            "what": "hand-over",
            "encoder": encoder,
            "steps": count,
            "minutes": minutes,
            "top1": (given == truth).float().mean().item(),
            "agreement": (given == wanted).float().mean().item(),
            "own": (wanted == truth).float().mean().item(),
            "settings": {"batch": BATCH, "lr": LR},
            **provenance(began),
        }
        if count:
            loope.save(model, to / f"{MODEL}-{encoder}.safetensors")


def keep(found: dict[str, Any]) -> None:
    """Add a result to the file, in place of an earlier one of the same kind."""
    names = ("what", "encoder", "size", "steps")
    others = [each for each in results() if any(each.get(name) != found.get(name) for name in names)]
    write_atomic(FILE, "".join(json.dumps(each) + "\n" for each in [*others, found]))


def results() -> list[dict[str, Any]]:
    """Return the results of the file."""
    return [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.is_file() else []


def sizes_table() -> str:
    """Top-1 at other sizes, with the difference to the own table and its 95 % interval."""
    found = {(each["encoder"], each["size"]): each for each in results() if each["what"] == "sizes"}
    rows = []
    for encoder in ("own", *FITTED):
        cells = [found.get((encoder, size)) for size in SIZES]
        rows.append(("own table" if encoder == "own" else f"`{encoder}`", *map(_cell, cells)))
    return table(("encoder", *(f"{size} px" for size in SIZES)), rows)


def _cell(found: dict[str, Any] | None) -> str:
    if found is None:
        return "not measured"
    shown = f"{100 * found['top1']:.1f}"
    return shown if found["encoder"] == "own" else f"{shown} ({100 * found['more']:+.1f} ± {100 * found['half']:.1f})"


def steps_table() -> str:
    """Top-1 after a hand-over of some steps."""
    found = {(each["encoder"], each["steps"]): each for each in results() if each["what"] == "hand-over"}
    columns = sorted({steps for _, steps in found})
    rows = [
        (f"`{name}`", *(f"{100 * at['top1']:.1f}" if (at := found.get((name, steps))) else "" for steps in columns))
        for name in dict.fromkeys(name for name, _ in found)
    ]
    return table(("encoder", *(f"{steps:,} steps" for steps in columns)), rows)


def main() -> None:
    """Measure, and add the results to the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="what", required=True)
    parts.add_parser("sizes")
    handed = parts.add_parser("hand-over")
    handed.add_argument("encoders", nargs="+")
    handed.add_argument("--steps", nargs="+", type=int, default=STEPS)
    handed.add_argument("--to", type=Path, default=Path("out/transfer"), help="folder of the models")
    arguments = parser.parse_args()
    if arguments.what == "sizes":
        for found in at_sizes():
            keep(found)
        return
    make_folder(arguments.to)
    pixels, more = photographs(), pets()
    for encoder in arguments.encoders:
        for found in hand_over(encoder, arguments.steps, pixels, more, arguments.to):
            keep(found)


if __name__ == "__main__":
    main()
