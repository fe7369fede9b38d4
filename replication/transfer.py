"""How much of a pretrained model survives a swap: encoders fitted to its own table, and hand-overs of some steps.

    python -m replication.transfer sizes
    python -m replication.transfer hand-over rope_axial rope_mixed --steps 0 422 1689 5067

ViT-Tiny, from LOOPE_WEIGHTS; 1,000 ImageNet photographs, one a class, from LOOPE_DATA/imagenet-samples. A hand-over is
taught on every other one of them and on all photographs of Pets, half of a batch from each, without labels, and judged
on the rest. Results after several numbers of steps share the first part of one run: the learning rate is constant,
falls to zero in the last quarter of the steps, and goes on from before its fall.
"""

import argparse
import copy
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
from loope.core.files import make_folder, replacing, write_atomic
from loope.core.images import read_image
from loope.lab.engine.attention import plain_attention
from loope.lab.experiments.provenance import provenance
from loope.lab.experiments.spec import Model
from loope.lab.experiments.timm_models import create_timm, preparation
from loope.surgery.transfer import CLIP, TOKENS, HandOver
from replication.results import FOLDER, table

MODEL = "vit_tiny_patch16_224"
FILE = FOLDER / "transfer.jsonl"
SIZES = (160, 224, 288, 384)
FITTED = ("sincos2d", "fourier", "sinusoid", "gilbert", "loope")
# `rope_mixed` first took 5 and 20 minutes of a core for 422 and 1,689 steps, and would have taken 60 for 5,067. Steps
# are the same everywhere; on another day a core of the same name took twice as long.
STEPS = (0, 422, 1689, 5067)
RATE = 3e-4  # about the mean of the cosine of `loope.transfer`
START = 21  # steps in which the encoder comes in and the learning rate rises
KEEP = 422  # steps of training between two states that are kept
COOL = 0.25  # share of the steps in which the learning rate falls
BATCH = 16  # 8 and 32 were tried too, in 3 minutes with `rope_axial`: agreement 30.4, 29.6 (16) and 27.6 %


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


class Course:
    """A hand-over in training.

    Args:
        encoder: name of the encoder, attached to the pretrained model with `init="own"`.
        taught: folders of photographs to learn from, each `(n, 3, 224, 224)` uint8; a batch takes as many from each.
    """

    def __init__(self, encoder: str, *taught: Tensor):
        torch.manual_seed(0)
        self.name = encoder
        self.orders = [(folder, iter(RandomSampler(range(len(folder)), num_samples=10**9))) for folder in taught]
        self.model = loope.attach(original(), encoder, init="own")
        self.work = HandOver(self.model, fade=1.0)
        self.optimizer = torch.optim.AdamW(self.work.trained, lr=RATE, weight_decay=0.0, betas=(0.9, 0.95))
        self.view = v2.Compose([v2.RandomResizedCrop(224, scale=(0.4, 1.0)), v2.RandomHorizontalFlip()])
        self.minutes, self.steps = 0.0, 0

    def train(self, until: int, cool: int = 0) -> None:
        """Train up to a number of steps; the learning rate falls to zero in the last `cool` of them."""
        self.model.train()
        while self.steps < until:
            began = time.process_time()
            started = min(1.0, (self.steps + 1) / START)
            fall = min(1.0, (until - self.steps) / cool) if cool else 1.0
            for group in self.optimizer.param_groups:
                group["lr"] = RATE * started * fall
            self.work.set_progress(started)
            images = [self.view(folder[next(order)]) for folder, order in self.orders for _ in range(BATCH // 2)]
            with torch.autocast("cpu", torch.bfloat16), plain_attention("bfloat16"):
                loss = self.work.loss(normalized(torch.stack(images)))
            self.optimizer.zero_grad()
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(self.work.trained, CLIP)
            self.optimizer.step()
            self.minutes, self.steps = self.minutes + (time.process_time() - began) / 60, self.steps + 1
            if self.steps % 50 == 0:
                print(
                    f"{self.name}: {self.steps} steps, {self.minutes:.1f} minutes, loss {loss.item():.3f}", flush=True
                )

    def save(self, file: Path) -> None:
        """Write the state, from which `resume` goes on."""
        with replacing(file) as temporary:
            torch.save(self.state(), temporary)

    def resume(self, file: Path) -> None:
        """Go on from a file, if there is one; photographs are then drawn in another order."""
        if file.is_file():
            self.restore(torch.load(file, weights_only=True))
            torch.manual_seed(self.steps)

    def state(self) -> dict[str, Any]:
        """Return a copy of what training changes."""
        return copy.deepcopy(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "minutes": self.minutes,
                "steps": self.steps,
            }
        )

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.minutes, self.steps = state["minutes"], state["steps"]


def hand_over(encoder: str, steps: Sequence[int], pixels: Tensor, more: Tensor, to: Path) -> Iterator[dict[str, Any]]:
    """Hand the model over to an encoder, judge it after some numbers of steps, and save the last into a folder.

    A file in the folder keeps the state before the last fall of the learning rate: a run that is repeated, with more
    steps or after a stop, goes on from it.
    """
    began = time.time()
    torch.set_num_threads(1)
    judged, truth = pixels[::2], torch.arange(0, len(pixels), 2)
    course = Course(encoder, pixels[1::2], more)
    wanted, state = answers(course.work.teacher, judged), to / f"{encoder}.pt"
    course.resume(state)
    passed = [last for last in steps if last - int(COOL * last) < course.steps]
    if passed:
        print(
            f"{state} is at {course.steps} steps: not measured again after {passed}. Use another folder to start over."
        )
    ahead = sorted(last for last in steps if last - int(COOL * last) >= course.steps)
    for last in ahead:
        cool = int(COOL * last)
        while course.steps < last - cool:
            course.train(min(course.steps + KEEP, last - cool))
            course.save(state)
        before = course.state()
        course.train(last, cool)
        course.work.set_progress(1.0)
        given = answers(course.model.eval(), judged)
        yield {
            "what": "hand-over",
            "encoder": encoder,
            "steps": last,
            "minutes": course.minutes,
            "top1": (given == truth).float().mean().item(),
            "agreement": (given == wanted).float().mean().item(),
            "own": (wanted == truth).float().mean().item(),
            "settings": {"batch": BATCH, "lr": RATE, "tokens": TOKENS, "mix": course.work.mix},
            **provenance(began),
        }
        if last < ahead[-1]:
            course.restore(before)
    if ahead:
        course.work.finish()
        loope.save(course.model, to / f"{MODEL}-{encoder}.safetensors")


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
    rows = [
        (f"`{encoder}`", *(f"{100 * at['top1']:.1f}" if (at := found.get((encoder, steps))) else "" for steps in STEPS))
        for encoder in dict.fromkeys(name for name, _ in found)
    ]
    return table(("encoder", *(f"{steps:,} steps" for steps in STEPS)), rows)


def main() -> None:
    """Measure, and add the results to the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="what", required=True)
    parts.add_parser("sizes")
    handed = parts.add_parser("hand-over")
    handed.add_argument("encoders", nargs="+")
    handed.add_argument("--steps", nargs="+", type=int, default=STEPS)
    handed.add_argument("--to", type=Path, default=Path("out/transfer"), help="folder of the models and their states")
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
