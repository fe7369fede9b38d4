"""Patches that timm drops in training: their positions go with them, and the others keep theirs."""

import copy

import pytest
import timm
import torch
from torch import Tensor, nn

import loope
from tests.surgery.matrix import same_state, state_of
from tests.surgery.models import TIMM, images

KEPT = 7  # of 16 patches, at a rate of 0.55
ROPE = {"use_rot_pos_emb": True, "init_values": None}
MODELS = {
    "ViT": lambda **o: timm.create_model("vit_tiny_patch16_224", **TIMM, reg_tokens=2, **o),
    "EVA": lambda **o: timm.models.Eva(**TIMM, **ROPE, global_pool="token", **o),
    "EVA, mixed rotary": lambda **o: timm.models.Eva(**TIMM, **ROPE, rope_type="mixed", global_pool="token", **o),
}


def make(name: str, rate: float = 0.55) -> nn.Module:
    torch.manual_seed(0)
    model = MODELS[name](patch_drop_rate=rate)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model.double().train()


def attached(model: nn.Module, encoder: str, **options) -> nn.Module:
    torch.manual_seed(1)
    loope.attach(model, encoder, **options)
    for parameter in model.loope.encoders.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model


def drawn(batch: int = 2) -> Tensor:
    """The patches that timm keeps after `torch.manual_seed(5)`."""
    torch.manual_seed(5)
    return torch.argsort(torch.randn(batch, 16), dim=-1)[:, :KEPT]


def trained(model: nn.Module) -> Tensor:
    torch.manual_seed(5)
    return model(images(model).double())


def masked(model: nn.Module, kept: Tensor) -> Tensor:
    """Attend to the kept patches only, with all of them in their places: what dropping the others must give."""
    prefix = model.num_prefix_tokens
    seen = torch.cat((torch.ones(len(kept), prefix), torch.zeros(len(kept), 16).scatter(1, kept, 1)), dim=1).bool()
    hook = model.blocks[0].register_forward_hook(lambda module, args, out: out * seen[..., None], prepend=True)  # PEG
    out = model(images(model).double(), attn_mask=seen[:, None, None].expand(-1, -1, seen.shape[1], -1))
    hook.remove()
    return out


@pytest.mark.parametrize("keep_own", [False, True])
@pytest.mark.parametrize(
    "encoder",
    [
        "sincos2d",
        "learned",
        "loope",
        "peg",
        "irpe",
        "alibi2d",
        "rope_axial",
        "rope_mixed",
        "rel_pos_mlp",
        "lookhere",
        "fire2d",
        "pape",
        "factorized",
    ],
)
@pytest.mark.parametrize("kind", MODELS)
def test_dropping_patches_is_not_attending_to_them(kind, encoder, keep_own):
    model = attached(make(kind), encoder, keep_own=keep_own)
    whole = attached(make(kind, rate=0.0), encoder, keep_own=keep_own)
    torch.testing.assert_close(trained(model), masked(whole, drawn()), atol=1e-10, rtol=1e-10)
    assert model.loope.host.places[0].length == KEPT
    model.eval()
    whole.eval().load_state_dict(model.state_dict())  # of LOOPE's batch norm
    assert torch.equal(trained(model), whole(images(model).double()))  # nothing is dropped
    assert model.loope.host.places[0].length == 16


def test_rotary_attention_by_hand_at_the_places_of_the_kept_patches():
    model, seen = attached(make("ViT"), ["rope_axial", "alibi2d"]), {}
    attention = model.blocks[0].attn
    attention.register_forward_hook(lambda module, args, out: seen.update(x=args[0], out=out))
    trained(model)
    q, k, v = attention.qkv(seen["x"]).view(2, -1, 3, 3, 16).permute(2, 0, 3, 1, 4)
    assert q.shape[-2] == 3 + KEPT
    scores = torch.zeros(2, 3, 3 + KEPT, 3 + KEPT, dtype=torch.float64)
    for image, cells in enumerate(drawn().tolist()):
        places = [None] * 3 + [divmod(cell, 4) for cell in cells]
        for head in range(3):
            turned = [[turn(each[image, head, i], places[i]) for i in range(len(places))] for each in (q, k)]
            for i, a in enumerate(places):
                for j, b in enumerate(places):
                    far = 0.0 if a is None or b is None else ((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) ** 0.5
                    scores[image, head, i, j] = turned[0][i] @ turned[1][j] / 4 - 2 ** (-8 * (head + 1) / 3) * far
    expected = attention.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
    torch.testing.assert_close(seen["out"], expected, atol=1e-6, rtol=1e-6)


def turn(vector: Tensor, place: tuple[int, int] | None) -> Tensor:
    """Rotate 16 channels: four pairs with the row, four with the column, at 100^0, 100^(-1/4), ... a cell."""
    if place is None:
        return vector
    speed = torch.tensor([place[n // 4] * 100 ** (-(n % 4) / 4) for n in range(8)], dtype=torch.float64)
    a, b = vector[::2], vector[1::2]
    return torch.stack((a * speed.cos() - b * speed.sin(), b * speed.cos() + a * speed.sin()), dim=-1).flatten()


@pytest.mark.parametrize("kind", MODELS)
def test_draws_are_the_models_own_and_detach_restores(kind):
    """iRPE starts from zero, so with the own encoding kept the model must do what it does by itself."""
    model = make(kind)
    own, state, after = trained(model), state_of(model), torch.get_rng_state()
    forwards = [module.__dict__.get("forward") for module in model.modules()]
    loope.attach(model, "irpe", keep_own=True)
    torch.testing.assert_close(trained(model), own, atol=1e-10, rtol=1e-10)
    assert torch.equal(torch.get_rng_state(), after)
    twin = copy.deepcopy(model)
    torch.testing.assert_close(trained(twin), own, atol=1e-10, rtol=1e-10)
    loope.detach(model)
    assert torch.equal(trained(model), own)
    assert same_state(model, state)
    assert [module.__dict__.get("forward") for module in model.modules()] == forwards


def test_learned_prefix_vectors_and_checkpointed_blocks():
    model = attached(make("ViT"), ["rope_mixed", "irpe"], prefix="learned")
    trained(model).square().sum().backward()
    once = {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert once["loope.prefixes.patches"].any()
    model.zero_grad()
    model.set_grad_checkpointing()
    first = trained(model)
    with torch.no_grad():  # other patches are dropped before the blocks of the first run again
        model(images(model).double())
    first.square().sum().backward()
    for name, gradient in once.items():
        torch.testing.assert_close(model.get_parameter(name).grad, gradient, atol=1e-9, rtol=1e-9)


def test_a_hand_over_needs_all_patches():
    model = loope.attach(make("ViT"), "rope_mixed", init="own")
    with pytest.raises(loope.LoopeError, match="patch_drop_rate=0"):
        loope.transfer(model, [images(model)], steps=1)


def test_a_segmentation_backbone_needs_all_patches():
    with pytest.raises(loope.LoopeError, match="patch_drop_rate=0"):
        loope.segmentation.SETR(make("ViT"), 5)
