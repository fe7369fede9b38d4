"""Queries and keys in another basis: the same model, which a rotary encoder disturbs less."""

import pytest
import timm
import torch
from torch import nn

import loope
from loope.surgery.align import Moments, _bases, _stillest, align
from loope.surgery.find import sole_attachment
from tests.surgery.models import images, make, predict

# Norms of queries and keys, and rotations of the model's own.
UNCHANGED = {
    "norm": lambda: timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, qk_norm=True),
    "EVA": lambda: make("EVA"),
}


def sharp(model):
    """Enlarge queries and keys, so that attention compares content as in a trained model."""
    for name, each in model.named_parameters():
        if name.endswith(("qkv.weight", "q_proj.weight", "k_proj.weight", "query.weight", "key.weight")):
            rows = each.shape[0] * 2 // 3 if "qkv" in name else each.shape[0]
            with torch.no_grad():
                # Of low rank, as trained ones are: there is room beside what is compared.
                low = torch.randn(rows, 3) @ torch.randn(3, each.shape[1]) / 3**0.5
                each[:rows] = 0.8 * low / each.shape[1] ** 0.5 * 3 + 0.1 * each[:rows]
    return model


def attached(model, encoder, **options):
    model = loope.attach(model.eval(), encoder, init="own", prefix="none", **options)
    return model, sole_attachment(model)


def at(model, attachment, strength, own, pixels):
    attachment.set_strengths(strength, own)
    with torch.no_grad():
        found = predict(model) if pixels is None else model(pixels)
    attachment.set_strengths(0.0, 1.0)
    return found if isinstance(found, torch.Tensor) else found[0]


@pytest.mark.parametrize("encoder", ["rope_axial", "rope_mixed", "liere", "rope_dinov3"])
@pytest.mark.parametrize("name", ["ViT", "HF ViT"])
def test_the_model_stays_and_is_disturbed_less(name, encoder):
    torch.manual_seed(0)
    model, attachment = attached(sharp(make(name)), encoder)
    pixels = images(model, batch=4)
    before, turned = (at(model, attachment, strength, 1.0, pixels) for strength in (0.0, 1.0))
    weights = {name: each.clone() for name, each in model.state_dict().items()}
    assert align(model, attachment, pixels)
    after, aligned = (at(model, attachment, strength, 1.0, pixels) for strength in (0.0, 1.0))
    torch.testing.assert_close(after, before, rtol=1e-3, atol=1e-3)
    assert (aligned - before).norm() < 0.8 * (turned - before).norm()
    changed = {name for name, each in model.state_dict().items() if not torch.equal(each, weights[name])}
    assert changed
    assert all(any(part in name for part in ("qkv", "q_proj", "k_proj", "query", "key")) for name in changed)


@pytest.mark.parametrize("name", UNCHANGED)
def test_attention_that_does_more_is_left_as_it_is(name):
    model, attachment = attached(UNCHANGED[name](), "rope_axial")
    pixels = images(model, batch=2)
    with torch.no_grad():
        for each in model.parameters():  # norms with weights of their own
            each += 0.1 * torch.randn_like(each)
    before = {name: each.clone() for name, each in model.state_dict().items()}
    assert not align(model, attachment, pixels)
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())


def test_heads_that_compare_nothing_and_images_without_content():
    model, attachment = attached(make("ViT"), "rope_axial")
    pixels = images(model, batch=2)
    with torch.no_grad():
        model.blocks[0].attn.qkv.weight[:4] = model.blocks[0].attn.qkv.bias[:4] = 0
        model.head.weight.zero_()  # a new head says nothing of what changes before it
        model.head.bias.zero_()
        before = model.forward_features(pixels)
        assert align(model, attachment, pixels)
        torch.testing.assert_close(model.forward_features(pixels), before, rtol=1e-4, atol=1e-4)
        for value in (0.0, 1.0):
            align(model, attachment, torch.full_like(pixels, value))
            torch.testing.assert_close(model.forward_features(pixels), before, rtol=1e-4, atol=1e-4)
        assert not align(model, attachment, pixels * float("nan"))
        torch.testing.assert_close(model.forward_features(pixels), before, rtol=1e-4, atol=1e-4)


def test_frozen_weights_stay_and_so_do_all_after_an_error():
    model, attachment = attached(make("ViT"), "rope_axial")
    pixels = images(model, batch=2)
    model.blocks[0].requires_grad_(False)
    before = {name: each.clone() for name, each in model.state_dict().items()}
    calls = []

    def stop(*_):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    hook = model.blocks[-1].register_forward_hook(stop)
    with pytest.raises(KeyboardInterrupt):
        align(model, attachment, pixels)
    hook.remove()
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    assert attachment.strengths == (0.0, 1.0)
    assert align(model, attachment, pixels)
    changed = {name for name, each in model.state_dict().items() if not torch.equal(each, before[name])}
    assert changed
    assert not any(name.startswith("blocks.0.") for name in changed)


@pytest.mark.parametrize("encoder", ["alibi2d", "peg", "none"])
def test_encoders_without_rotations_change_nothing(encoder):
    model, attachment = attached(make("ViT"), encoder)
    before = {name: each.clone() for name, each in model.state_dict().items()}
    assert not align(model, attachment, images(model))
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())


def test_layers_that_are_not_plain_are_left_alone():
    class Scaled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    model, attachment = attached(make("ViT"), "rope_axial")
    for block in model.blocks:
        old = block.attn.qkv
        block.attn.qkv = Scaled(old.in_features, old.out_features)
    assert not align(model, attachment, images(model))


def test_scores_stay_and_their_parts_fall():
    torch.manual_seed(0)
    heads, count, width = 3, 200, 8
    mix = torch.randn(2, heads, width, width, dtype=torch.float64)
    q, k = (torch.randn(heads, count, width, dtype=torch.float64) @ each for each in mix)
    k = k - k.mean(1, keepdim=True)
    frame = torch.linalg.qr(torch.randn(heads, width, width, dtype=torch.float64))[0]
    moments = Moments(q.mT @ q / count, k.mT @ k / count)
    to_q, to_k = _bases(moments, frame)
    new_q, new_k = q @ to_q, k @ to_k
    torch.testing.assert_close(new_q @ new_k.mT, q @ k.mT)
    for new in (new_q @ frame, new_k @ frame):  # along the directions of the frame
        second = new.mT @ new / count
        sizes = second.diagonal(dim1=-2, dim2=-1)
        torch.testing.assert_close(second, torch.diag_embed(sizes), atol=1e-6, rtol=0)
        assert (sizes.diff() <= 1e-9).all()


@pytest.mark.parametrize("encoder", ["rope_axial", "rope_mixed", "liere"])
def test_the_stillest_directions_against_a_loop_over_pairs(encoder):
    torch.manual_seed(0)
    _, attachment = attached(make("ViT"), encoder)
    branch, rotary = attachment.branches[0], attachment.encoders[0][0]
    heads, grid = branch.heads, branch.grid
    width = branch.dim // heads
    frame = _stillest(attachment, 0, 1, heads, width).double()
    vectors = torch.randn(1, heads, 1, width).expand(1, heads, grid.size, width)
    with torch.no_grad():
        turned = rotary.rotate(vectors, vectors, loope.Positions((grid,)), 1)[0][0].double()
        along = [rotary.rotate(each, each, loope.Positions((grid,)), 1)[0][0].double() for each in _copies(frame, grid)]
    assert turned.shape == (heads, grid.size, width)
    kept = []
    for each in along:  # the mean score of a direction at all pairs of patches
        scores = [each[:, p] @ each[:, p2].T for p in range(grid.size) for p2 in range(grid.size)]
        kept.append((sum(scores) / grid.size**2).diagonal())
    kept = torch.stack(kept)
    assert (kept.diff(dim=0) <= 1e-5).all()
    torch.testing.assert_close(frame.mT @ frame, torch.eye(width, dtype=torch.float64).expand(heads, -1, -1))


def _copies(frame, grid):
    heads, width = frame.shape[:2]
    for column in range(width):
        yield frame[:, :, column].float()[None, :, None].expand(1, heads, grid.size, width)
