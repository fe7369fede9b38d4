"""What the models compute, against slow and obvious ways to compute it."""

import math

import pytest
import timm
import torch
from torch import Tensor, nn

import loope
from loope.segmentation import SETR, Segmenter
from tests.segmentation.tiny import DECODERS, PATCH, SIDE, images, make, vit

GRID = SIDE // PATCH
every_decoder = pytest.mark.parametrize(("cls", "decoder"), DECODERS)


def conv(x: Tensor, layer) -> Tensor:
    """A convolution as a sum over the kernel's places, with zeros around the image."""
    (side, _), (height, width) = layer.kernel_size, x.shape[-2:]
    reach = side // 2
    padded = torch.zeros(*x.shape[:2], height + 2 * reach, width + 2 * reach)
    padded[..., reach : reach + height, reach : reach + width] = x
    out = torch.zeros(len(x), layer.out_channels, height, width)
    for row in range(side):
        for column in range(side):
            seen = padded[..., row : row + height, column : column + width]
            out += torch.einsum("oc,bchw->bohw", layer.weight[:, :, row, column], seen)
    return out if layer.bias is None else out + layer.bias[:, None, None]


def unit(x: Tensor, sequence) -> Tensor:
    """Convolution, normalisation by the running statistics, ReLU."""
    convolution, norm, _ = sequence
    mean, spread = norm.running_mean[:, None, None], (norm.running_var + norm.eps).sqrt()[:, None, None]
    scaled = (conv(x, convolution) - mean) / spread * norm.weight[:, None, None] + norm.bias[:, None, None]
    return scaled.clamp(min=0)


def bilinear(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Each pixel of the result from the four around its place; centres of pixels are at one half."""
    matrices = []
    for new, old in zip(size, x.shape[-2:], strict=True):
        matrix = torch.zeros(new, old)
        for place in range(new):
            at = min(max((place + 0.5) * old / new - 0.5, 0), old - 1)
            low = min(math.floor(at), old - 1)
            matrix[place, low] += 1 - (at - low)
            matrix[place, min(low + 1, old - 1)] += at - low
        matrices.append(matrix)
    return torch.einsum("ih,bchw,jw->bcij", matrices[0], x, matrices[1])


def as_map(tokens: Tensor) -> Tensor:
    return torch.stack([tokens[:, row * GRID : (row + 1) * GRID] for row in range(GRID)], dim=1).permute(0, 3, 1, 2)


def blocks(model, x: Tensor) -> list[Tensor]:
    """The patches after each block, without norm."""
    backbone = model.backbone
    tokens = backbone.norm_pre(backbone._pos_embed(backbone.patch_embed(x)))
    out = []
    for block in backbone.blocks:
        tokens = block(tokens)
        out.append(tokens[:, backbone.num_prefix_tokens :])
    return out


def naive(model, x):
    last = as_map(model.backbone.norm(blocks(model, x)[-1]))
    return bilinear(conv(unit(last, model.decoder.reduce), model.decoder.classify), (SIDE, SIDE))


def pup(model, x):
    x = unit(as_map(model.backbone.norm(blocks(model, x)[-1])), model.decoder.reduce)
    for number, layer in enumerate(model.decoder.grow, start=1):
        x = unit(bilinear(x, (2**number * GRID, 2**number * GRID)), layer)
    return bilinear(conv(x, model.decoder.classify), (SIDE, SIDE))


def mla(model, x):
    decoder, depths = model.decoder, blocks(model, x)  # four blocks: every one is a stream
    norms = [*decoder.norms, model.backbone.norm]
    first, second, third, last = (
        unit(as_map(norm(each)), layer) for norm, each, layer in zip(norms, depths, decoder.reduce, strict=True)
    )
    sums = [first + second + third + last, second + third + last, third + last, last]
    mixed = [unit(each, layer) for each, layer in zip(sums, decoder.mix, strict=True)]
    refined = [unit(unit(each, pair[0]), pair[1]) for each, pair in zip(mixed, decoder.refine, strict=True)]
    joined = torch.cat([bilinear(each, (4 * GRID, 4 * GRID)) for each in refined], dim=1)
    return bilinear(conv(joined, decoder.classify), (SIDE, SIDE))


def linear(model, x):
    scores = model.backbone.norm(blocks(model, x)[-1]) @ model.decoder.classify.weight.T + model.decoder.classify.bias
    return bilinear(as_map(scores), (SIDE, SIDE))


def mask(model, x):
    decoder, tokens = model.decoder, model.backbone.norm(blocks(model, x)[-1])
    out = []
    for each in tokens:
        both = torch.cat((each @ decoder.enter.weight.T + decoder.enter.bias, decoder.classes.weight))[None]
        for block in decoder.blocks:
            both = block(both)
        both = decoder.norm(both)[0]
        patches = both[: len(each)] @ decoder.project_patches.weight.T
        classes = both[len(each) :] @ decoder.project_classes.weight.T
        cosine = patches @ classes.T / (patches.norm(dim=1)[:, None] * classes.norm(dim=1))
        spread = (cosine.var(dim=1, correction=0, keepdim=True) + decoder.mask_norm.eps).sqrt()
        out.append((cosine - cosine.mean(1, keepdim=True)) / spread * decoder.mask_norm.weight + decoder.mask_norm.bias)
    return bilinear(as_map(torch.stack(out)), (SIDE, SIDE))


@torch.no_grad()
@pytest.mark.parametrize(
    ("cls", "decoder", "reference"),
    [
        (SETR, "naive", naive),
        (SETR, "pup", pup),
        (SETR, "mla", mla),
        (Segmenter, "linear", linear),
        (Segmenter, "mask", mask),
    ],
)
def test_against_the_reference(cls, decoder, reference):
    model = make(cls, decoder)
    torch.testing.assert_close(model(images()), reference(model, images()), atol=1e-4, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize(("decoder", "layers"), [("naive", [10, 15, 20]), ("pup", [10, 15, 20, 24])])
def test_auxiliary_heads_read_the_papers_layers(decoder, layers):
    model = make(SETR, decoder, vit(depth=24), auxiliary=True)
    alone, depths = model(images()), blocks(model, images())
    for module in (model, model.decoder):  # trained, but with the statistics that do not depend on the batch
        module.training = True
    own, *others = model(images())
    torch.testing.assert_close(own, alone)
    assert len(others) == len(layers)
    for given, head, layer in zip(others, model.decoder.helpers, layers, strict=True):
        features = unit(as_map(head.norm(depths[layer - 1])), head.reduce)
        if decoder == "pup":  # fourfold before the classifier, then to the image's size
            features = bilinear(features, (4 * GRID, 4 * GRID))
        torch.testing.assert_close(given, bilinear(conv(features, head.classify), (SIDE, SIDE)), atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_mla_reads_and_helps_the_papers_layers():
    model = make(SETR, "mla", vit(depth=24), auxiliary=True)
    assert model.streams == [5, 11, 17, 23]
    assert make(SETR, "mla", vit(depth=12)).streams == [2, 5, 8, 11]
    for module in (model, model.decoder):
        module.training = True
    own, *others = model(images())
    last = unit(as_map(model.backbone.norm(blocks(model, images())[23])), model.decoder.reduce[3])
    expected = conv(unit(last, model.decoder.mix[3]), model.decoder.helpers[3])
    torch.testing.assert_close(others[3], bilinear(expected, (SIDE, SIDE)), atol=1e-4, rtol=1e-4)
    assert len(others) == 4
    assert own.shape == others[0].shape


@torch.no_grad()
@pytest.mark.parametrize("options", [{}, {"class_token": True, "reg_tokens": 2}, {"no_embed_class": True}])
def test_mla_drops_prefix_tokens_before_the_blocks(options):
    """As released: the class token takes its position, then only patches enter the blocks."""
    model = make(SETR, "mla", vit(**options))
    whole = vit(**options).eval()
    state = {f"backbone.{name}": value for name, value in whole.state_dict().items()}
    patches = whole.patch_embed(images())
    tokens = whole._pos_embed(patches)[:, whole.num_prefix_tokens :]
    model.load_state_dict({name: state.get(name, value) for name, value in model.state_dict().items()} | {
        "backbone.pos_embed": whole.pos_embed[:, -(GRID**2) :]
    })  # fmt: skip
    for number, block in enumerate(whole.blocks):
        tokens = block(tokens)
        torch.testing.assert_close(blocks(model, images())[number], tokens)
    assert not {"backbone.cls_token", "backbone.reg_token"} & dict(model.named_parameters()).keys()


def test_mla_takes_every_backbone():
    for name, options in (
        ("vit_tiny_patch16_224", {}),
        ("deit_tiny_distilled_patch16_224", {}),
        ("beit_base_patch16_224", {}),
        ("eva02_tiny_patch14_224", {"num_heads": 3}),
        ("cait_xxs24_224", {}),
    ):
        given = {"embed_dim": 48, "depth": 4, "num_heads": 3, **options}
        model = SETR(timm.create_model(name, img_size=SIDE, patch_size=PATCH, **given), 5, "mla").eval()
        loope.attach(model, "rope_axial")
        assert model(images()).shape == (2, 5, SIDE, SIDE)


def test_norms_are_those_of_the_originals():
    segmenter = make(Segmenter, "mask").decoder
    assert {module.eps for module in segmenter.modules() if isinstance(module, nn.LayerNorm)} == {1e-5}
    for decoder in ("naive", "pup", "mla"):
        setr = make(SETR, decoder, auxiliary=True).decoder
        assert {module.eps for module in setr.modules() if isinstance(module, nn.LayerNorm)} == {1e-6}


@every_decoder
def test_every_parameter_learns(cls, decoder):
    helped = [False, True] if cls is SETR else [None]
    for auxiliary in helped:
        model = make(cls, decoder, **({} if auxiliary is None else {"auxiliary": auxiliary})).train()
        loope.attach(model, "loope", activation="gelu")
        target = torch.randint(5, (2, SIDE, SIDE))
        loope.segmentation.segmentation_loss(model(images()), target).backward()
        silent = [
            name for name, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())
        ]
        assert not silent


def test_the_loss_is_the_mean_over_pixels_with_a_class():
    scores, target = torch.randn(2, 5, 3, 4), torch.randint(5, (2, 3, 4))
    target[0, 0] = 255
    each = [
        -scores[b, :, i, j].log_softmax(0)[target[b, i, j]]
        for b in range(2) for i in range(3) for j in range(4) if target[b, i, j] != 255
    ]  # fmt: skip
    alone = loope.segmentation.segmentation_loss(scores, target)
    torch.testing.assert_close(alone, torch.stack(each).mean())
    both = loope.segmentation.segmentation_loss((scores, scores, scores), target)
    torch.testing.assert_close(both, 1.8 * alone)
    nothing = loope.segmentation.segmentation_loss(scores.requires_grad_(), torch.full((2, 3, 4), 255))
    nothing.backward()
    assert nothing == 0
    assert not scores.grad.any()
