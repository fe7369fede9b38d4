"""What attached models compute, against other ways to compute it."""

import pytest
import timm
import torch
from torch import Tensor
from transformers import DeiTConfig, DeiTModel, ViTConfig, ViTForImageClassification

import loope
from tests.surgery.models import HF, TIMM, images, make, predict


def eva(**options) -> torch.nn.Module:
    return timm.models.Eva(**TIMM, use_rot_pos_emb=True, **options)


def randomised(model: torch.nn.Module) -> torch.nn.Module:
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def test_axial_rotary_is_evas_own():
    torch.manual_seed(0)
    model = randomised(eva(use_abs_pos_emb=False, rope_temperature=100.0))
    own = predict(model, images(model))
    loope.attach(model, "none")
    assert not torch.allclose(predict(model, images(model)), own)
    loope.detach(model)
    loope.attach(model, "rope_axial", temperature=100.0)
    torch.testing.assert_close(predict(model, images(model)), own, atol=1e-4, rtol=1e-4)


def test_mixed_rotary_is_evas_own_with_its_frequencies():
    torch.manual_seed(0)
    model = randomised(eva(use_abs_pos_emb=False, rope_type="mixed", rope_grid_indexing="ij"))
    own, frequencies = predict(model, images(model)), model.rope.freqs.detach().clone()
    loope.attach(model, "rope_mixed")
    assert not torch.allclose(predict(model, images(model)), own)
    with torch.no_grad():
        model.loope.encoders[0][0].frequencies.copy_(frequencies)
    torch.testing.assert_close(predict(model, images(model)), own, atol=1e-4, rtol=1e-4)


def test_dinov3s_rotary_is_evas_own_also_while_training():
    torch.manual_seed(0)
    rope = {"rope_type": "dinov3", "attn_type": "rope", "rope_rotate_half": True, "rope_temperature": 100.0}
    model = randomised(eva(use_abs_pos_emb=False, **rope, rope_rescale_coords=2.0))
    pixels, outputs = images(model, (32, 32)), {}
    for encoder in (None, "rope_dinov3"):
        if encoder:
            loope.attach(model, encoder)
        for training in (False, True):
            torch.manual_seed(3)
            outputs[encoder, training] = predict(model.train(training), pixels)
    for training in (False, True):
        torch.testing.assert_close(outputs["rope_dinov3", training], outputs[None, training], atol=1e-4, rtol=1e-4)
    assert not torch.allclose(outputs[None, True], outputs[None, False])


def test_a_bias_is_added_where_beit_adds_its_own():
    torch.manual_seed(0)
    model = randomised(timm.models.Beit(**TIMM, use_abs_pos_emb=False, use_rel_pos_bias=True))
    with torch.no_grad():
        for block in model.blocks:
            block.attn.relative_position_bias_table[-3:] = 0  # the class token has no position with us
    own = predict(model, images(model))
    biases = [block.attn._get_rel_pos_bias()[:, :, 1:, 1:].detach() for block in model.blocks]

    @loope.register_encoder("beits_bias")
    class BeitsBias(loope.PositionalEncoder):
        def bias(self, q, positions, layer):
            return biases[layer]

    loope.attach(model, "beits_bias")
    torch.testing.assert_close(predict(model, images(model)), own, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("encoder", ["alibi2d", "irpe", "rope_mixed", "as2drope"])
@pytest.mark.parametrize("name", ["ViT, registers", "ViT, qk norm", "HF DeiT"])
def test_attention_against_a_slow_softmax(name, encoder):
    model = make(name)
    loope.attach(model, encoder)
    made = model.loope.encoders[0][0]
    torch.nn.init.normal_(next(made.parameters(), torch.empty(0)))
    predict(model)  # tells the attention modules where the patches are
    branch, layer = model.loope.branches[0], 1
    attention, count = branch.attentions[layer], branch.prefix
    x = torch.randn(2, count + 16, 48)
    if hasattr(attention, "qkv"):
        q, k, v = attention.qkv(x).view(2, -1, 3, 3, 16).permute(2, 0, 3, 1, 4)
        q, k, last = attention.q_norm(q), attention.k_norm(k), attention.proj
    else:
        heads = [
            layer(x).view(2, -1, 3, 16).transpose(1, 2)
            for layer in (attention.q_proj, attention.k_proj, attention.v_proj)
        ]
        (q, k, v), last = heads, attention.o_proj
    scores = torch.zeros(2, 3, count + 16, count + 16)
    if "rotate" in made.hooks():
        q, k = q.clone(), k.clone()
        q[:, :, count:], k[:, :, count:] = made.rotate(q[:, :, count:], k[:, :, count:], made.grid, layer)
    else:
        scores[:, :, count:, count:] = made.bias(q[:, :, count:], made.grid, layer)
    for i in range(count + 16):
        for j in range(count + 16):
            scores[:, :, i, j] += (q[:, :, i] * k[:, :, j]).sum(-1) / 4  # the root of 16 channels a head
    weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
    slow = last((weights @ v).transpose(1, 2).flatten(2))
    out = attention(x)
    torch.testing.assert_close(out if isinstance(out, Tensor) else out[0], slow, atol=1e-4, rtol=1e-3)


def test_transformers_eager_and_fused_attention_agree():
    model = make("HF ViT")
    loope.attach(model, ["alibi2d", "rope_axial"])
    fused = predict(model)
    model.config._attn_implementation = "eager"
    torch.testing.assert_close(predict(model), fused, atol=1e-4, rtol=1e-4)
    with torch.no_grad():
        assert model(images(model), output_attentions=True).attentions[0].shape == (2, 3, 17, 17)


def test_the_fused_kernel_is_used(monkeypatch):
    called = []
    fused = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", lambda *a, **k: called.append(k) or fused(*a, **k)
    )
    model = make("ViT")
    loope.attach(model, "alibi2d")
    predict(model)
    assert len(called) == 2
    assert all(call["attn_mask"].shape == (1, 3, 17, 17) for call in called)


def test_loope_sees_the_pixels_the_model_sees():
    seen = {}
    model = make("ViT")
    loope.attach(model, "loope")
    encoder, pixels = model.loope.encoders[0][0], images(model)
    encoder.generator.register_forward_hook(lambda module, args, out: seen.update(images=args[0], offsets=out))
    predict(model, pixels)
    assert torch.equal(seen["images"], pixels)
    assert torch.equal(seen["offsets"], encoder.offsets(pixels))
    cross = make("CrossViT")
    loope.attach(cross, "loope")
    shapes = []
    for (each,) in cross.loope.encoders:
        each.generator.register_forward_hook(lambda module, args, out: shapes.append(tuple(args[0].shape[-2:])))
    predict(cross)
    assert shapes == [(48, 48), (32, 32)]  # each branch at its own scale


def block_diagonal(count: int, dtype: torch.dtype) -> Tensor:
    """A mask that lets the first half of the tokens see the first half, and the second the second."""
    half = torch.arange(count) < count // 2
    seen = half[:, None] == half
    return seen if dtype == torch.bool else torch.zeros(count, count).masked_fill(~seen, float("-inf"))


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_attention_masks_still_mask(dtype):
    """iRPE starts from zero, so with the own table kept the model must do what it does by itself."""
    model, mask = make("ViT"), block_diagonal(17, dtype)
    with torch.no_grad():
        own, plain = model(images(model), attn_mask=mask), model(images(model))
        loope.attach(model, "irpe", keep_own=True)
        attached = model(images(model), attn_mask=mask)
    torch.testing.assert_close(attached, own, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(own, plain)


@pytest.mark.parametrize("encoder", ["alibi2d", "irpe", "rope_axial"])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_transformers_masked_tokens_stay_unseen(encoder, implementation):
    model = make("HF ViT")
    model.config._attn_implementation = implementation
    loope.attach(model, encoder)
    mask = torch.ones(2, 17, dtype=torch.long)
    mask[:, -1] = 0  # the last patch
    pixels = images(model)
    changed = pixels.clone()
    changed[..., -8:, -8:] += 5
    with torch.no_grad():
        one, other = (model(each, attention_mask=mask).logits for each in (pixels, changed))
        assert torch.allclose(one, other)
        assert not torch.allclose(model(changed).logits, model(pixels).logits)


@pytest.mark.parametrize(
    "options",
    [
        {"scale_attn_inner": True},
        {"qk_norm": True},
        {"attn_type": "rope", "rope_rotate_half": True},
        {"attn_type": "rope", "num_kv_heads": 1, "qkv_fused": False},
    ],
)
def test_variants_of_evas_attention_are_computed_as_their_own(options):
    torch.manual_seed(0)
    model = randomised(eva(**options))
    own = predict(model, images(model))
    loope.attach(model, "irpe", keep_own=True)
    torch.testing.assert_close(predict(model, images(model)), own, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("drop", [{"attn_drop_rate": 0.9}, {"proj_drop_rate": 0.9}])
def test_dropout_still_drops(drop):
    torch.manual_seed(0)
    model = randomised(timm.models.VisionTransformer(**TIMM, **drop))
    loope.attach(model, "alibi2d")
    predict(model)  # tells the attention modules where the patches are
    attention = model.blocks[0].attn.train()
    x = torch.randn(1, 17, 48)
    assert not torch.allclose(attention(x), attention(x))
    assert torch.equal(attention.eval()(x), attention(x))


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize(("cls", "config"), [(ViTForImageClassification, ViTConfig), (DeiTModel, DeiTConfig)])
def test_transformers_dropout_is_the_models_own(cls, config, implementation):
    """iRPE starts from zero, so with the own table kept the model must draw and drop as it does by itself."""
    torch.manual_seed(0)
    model = randomised(cls(config(**HF, attention_probs_dropout_prob=0.4, attn_implementation=implementation)))

    def draw(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return predict(model, images(model))

    model.train()
    own = [draw(seed) for seed in (1, 2)]
    assert not torch.allclose(*own)
    loope.attach(model, "irpe", keep_own=True)
    for seed, expected in zip((1, 2), own, strict=True):
        torch.testing.assert_close(draw(seed), expected, atol=1e-4, rtol=1e-4)
    model.eval()
    assert torch.equal(draw(1), draw(2))


def test_beits_bias_is_resampled_along_the_right_axes():
    model = timm.models.Beit(**TIMM, use_abs_pos_emb=False, use_rel_pos_bias=True).eval()
    attention = model.blocks[0].attn
    with torch.no_grad():  # a bias that grows with the column's offset alone
        attention.relative_position_bias_table[:-3] = torch.arange(-3.0, 4).repeat(7)[:, None]
        attention.relative_position_bias_table[-3:] = torch.tensor([[7.0], [8.0], [9.0]])
    loope.resize(model, (48, 64))  # 6x8
    assert attention.window_size == (6, 8)
    offsets = attention.relative_position_bias_table[:-3].view(11, 15, 3)
    assert bool((offsets.diff(dim=1) > 0).all())
    torch.testing.assert_close(offsets, offsets[:1].expand_as(offsets), atol=1e-4, rtol=1e-4)
    assert attention.relative_position_bias_table[-3:, 0].tolist() == [7, 8, 9]
    assert predict(model, images(model, (48, 64))).shape == (2, 5)
