"""Claims about images for ViT-Tiny/16 at 224 pixels, in bfloat16, with pictures of the size of Oxford-IIIT Pet's.

- Loading and augmenting an image takes less than 10 % of the CPU time of training on it. (CPU time does not depend on
  other load on the machine.)
- Training does not wait for images: with one worker, less than 2 % of the time passes waiting for a batch.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import timm
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent.parent))

from loope.lab.data.batches import Batch
from loope.lab.data.classification import Images, ImageSource
from loope.lab.data.folders import read_folders
from tests.lab.data.dataset_files import picture

BATCH, STEPS = 16, 8


def write(folder: Path, count: int) -> Images:
    """Write noisy pictures of 500x375 pixels, about 100 kB each, like the real ones."""
    random = np.random.default_rng(0)
    for part in ("train", "test"):
        (folder / part / "all").mkdir(parents=True)
        for number in range(count if part == "train" else 1):
            smooth = np.asarray(picture(number, 500, 375), dtype=np.float32)
            noisy = (smooth + random.normal(0, 18, smooth.shape)).clip(0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(folder / part / "all" / f"{number}.jpg", quality=90)
    return read_folders(folder, "train", "test")


def trainer() -> Callable[[Batch], None]:
    """Return a training step."""
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", num_classes=37)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(batch: Batch) -> None:
        images, labels = batch
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    return step


def cost(call: Callable[[], object], images: int) -> float:
    """Measure the CPU seconds per image on one thread: the median of some calls after a warm-up."""
    call()
    spent = []
    for _ in range(STEPS):
        start = time.process_time()
        call()
        spent.append((time.process_time() - start) / images)
    return statistics.median(spent)


def processor_time(images: Images, step: Callable[[Batch], None]) -> bool:
    """Measure loading against training."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    variants = {
        "random crops": {"augment": "crop"},
        "RandAugment": {"augment": "randaugment"},
        "no augmentation": {},
    }
    times = {}
    for name, options in variants.items():
        batches = ImageSource(images, BATCH, train=True, workers=0, **options).batches(0)
        times[name] = cost(lambda batches=batches: next(batches), BATCH)
    ready = next(ImageSource(images, BATCH, workers=0).batches(0))
    training = cost(lambda: step(ready), BATCH)
    torch.set_num_threads(threads)
    for name, seconds in {**times, "a training step": training}.items():
        print(f"{name:24} {1000 * seconds:7.2f} ms an image, {seconds / training:.1%} of a training step")
    share = max(times.values()) / training
    print(f"loading takes at most {share:.1%} of a training step's CPU time (claim: under 10 %)")
    return share < 0.1


def waiting(images: Images, step: Callable[[Batch], None]) -> bool:
    """Measure how long training waits for one worker."""
    batches = ImageSource(images, BATCH, train=True, augment="crop", workers=1).batches(0)
    step(next(batches))  # waits until the worker has started
    waited, start = 0.0, time.perf_counter()
    for _ in range(STEPS):
        asked = time.perf_counter()
        batch = next(batches)
        waited += time.perf_counter() - asked
        step(batch)
    total = time.perf_counter() - start
    print(f"{BATCH * STEPS / total:.1f} images/s on {torch.get_num_threads()} threads")
    print(f"training waits for images {waited / total:.1%} of the time (claim: under 2 %)")
    return waited / total < 0.02


def main() -> None:
    """Measure, print the ratios, and fail if a claim does not hold."""
    step = trainer()
    with tempfile.TemporaryDirectory() as folder:
        images = write(Path(folder), BATCH * (STEPS + 1))
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.jpg")) / len(images)
        print(f"{len(images)} pictures of 500x375, {size / 1000:.0f} kB each")
        held = [processor_time(images, step), waiting(images, step)]
    if not all(held):
        raise SystemExit("a claim does not hold")


if __name__ == "__main__":
    main()
