"""Without positions a transformer ignores the order of patches; with any encoder it does not."""

import pytest
import torch
from torch import Tensor, nn

import loope
from tests.surgery.matrix import every_encoder
from tests.surgery.models import MODELS, SEGMENTERS, images, make, predict


def permuted_patches(pixels: Tensor, order: Tensor, side: int) -> Tensor:
    """Permute the patches of an image."""
    batch, channels, height, width = pixels.shape
    cut = pixels.unfold(2, side, side).unfold(3, side, side).reshape(batch, channels, -1, side, side)[:, :, order]
    rows = cut.view(batch, channels, height // side, width // side, side, side).permute(0, 1, 2, 4, 3, 5)
    return rows.reshape(batch, channels, height, width)


class Shuffle:
    """Permute the patches at the input of a patch embedding, after CrossViT has scaled its images."""

    def __init__(self, patch_embed: nn.Module, side: int, seed: int):
        self.side, self.seed = side, seed
        self.order = None
        patch_embed.register_forward_pre_hook(self)

    def __call__(self, module, args):
        pixels, *others = args
        count = (pixels.shape[-2] // self.side) * (pixels.shape[-1] // self.side)
        self.order = torch.randperm(count, generator=torch.Generator().manual_seed(self.seed))
        return permuted_patches(pixels, self.order, self.side), *others


def outputs(name: str, encoder: str) -> tuple[Tensor, Tensor]:
    """Return the outputs for images, and for the same images with permuted patches."""
    model = make(name).double()  # sums in another order round differently; float64 makes that negligible
    pixels = images(model).double()
    loope.attach(model, encoder)
    torch.manual_seed(1)
    for parameter in model.loope.encoders.parameters():
        nn.init.normal_(parameter)  # some start from zero
    straight = predict(model, pixels)
    branches = model.loope.branches
    shuffles = [Shuffle(each.patch_embed, each.patch_size, seed) for seed, each in enumerate(branches, start=3)]
    moved = predict(model, pixels)
    for shuffle in shuffles:  # check that each branch was shuffled
        assert not torch.equal(shuffle.order, torch.arange(len(shuffle.order)))
    if straight.ndim == 3:  # a model without a head returns all tokens: permute the patches as well
        prefix, patches = straight[:, : branches[0].prefix], straight[:, branches[0].prefix :]
        straight = torch.cat((prefix, patches[:, shuffles[0].order]), dim=1)
    return straight, moved


def test_patches_are_permuted_and_put_back():
    pixels, order = torch.randn(2, 3, 16, 24), torch.tensor([3, 0, 5, 1, 4, 2])
    shuffled = permuted_patches(pixels, order, 8)
    assert torch.equal(shuffled[..., :8, :8], pixels[..., 8:, :8])  # patch 3 is the first of the second row
    assert torch.equal(permuted_patches(shuffled, order.argsort(), 8), pixels)


# The decoders of segmentation look at neighbours, so there the order matters in any case.
@pytest.mark.parametrize("name", [name for name in MODELS if name not in SEGMENTERS])
@every_encoder
def test_the_order_of_patches_matters_with_every_encoder_but_none(name, encoder):
    straight, moved = outputs(name, encoder)
    difference = (moved - straight).abs().max()
    if encoder == "none":
        assert difference < 1e-12
    else:
        assert difference > 1e-7
