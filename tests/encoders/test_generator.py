"""LOOPE's generator sees the image from the start, whatever the seed."""

import os
from pathlib import Path

import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

import loope

SAMPLES = Path(os.environ.get("LOOPE_DATA", "")) / "imagenet-samples"
SEEDS = range(200)


def views(encoder, images):
    """`(B, 1, h, w)`: the one-channel map before BatchNorm."""
    generator, pixels = encoder.generator, encoder.constant("_pixel_coordinates", encoder.grid)
    with torch.no_grad():
        seen = generator._see(images, pixels if generator.reads_coordinates else None)
        return generator.refine[:-1](seen)


@pytest.mark.parametrize("inputs", ["rgb+xy", "rgb"])
def test_no_generator_starts_dead_on_three_cell(inputs):
    probe = loope.ThreeCell(size=4, grid=7, cell=4, seed=0)
    images = torch.stack([probe[number][0] for number in range(4)])
    for seed in SEEDS:
        torch.manual_seed(seed)
        encoder = loope.create_encoder("loope", 8, 7, patch_size=4, inputs=inputs)
        assert views(encoder, images).std(0).any(), f"seed {seed} does not see the image"
        encoder.offsets(images).square().sum().backward()
        assert encoder.generator.patches.weight.grad.any(), f"seed {seed} cannot learn"


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="LOOPE_DATA has no imagenet-samples")
def test_no_generator_starts_dead_on_photographs():
    files = sorted(SAMPLES.iterdir())[:3]
    prepare = v2.Compose([v2.Resize((112, 112)), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    images = torch.stack([prepare(Image.open(file).convert("RGB")) for file in files]) * 2 - 1
    for seed in SEEDS:
        torch.manual_seed(seed)
        encoder = loope.create_encoder("loope", 8, 7, patch_size=16)
        assert views(encoder, images).std(0).any(), f"seed {seed} does not see the image"


def test_pytorchs_initialization_can_start_dead():
    """So the two tests above can fail."""
    images = torch.rand(2, 3, 28, 28)
    torch.manual_seed(0)
    encoders = [loope.create_encoder("loope", 8, 7, patch_size=4, initialization="torch") for _ in range(20)]
    assert any(not views(encoder, images).any() for encoder in encoders)
