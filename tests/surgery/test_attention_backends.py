"""Biases, wider queries and half precision in every attention kernel that attached models use."""

import pytest
import timm
import torch
from torch._dynamo.testing import CompileCounter
from torch.nn import functional as F

import loope
from loope.positions import Positions
from tests.surgery.models import TIMM, images, make, predict

flex_warns = pytest.mark.filterwarnings("ignore")  # torch's own, of FlexAttention and of how transformers calls it
BIASES = [("alibi2d", {}), ("irpe", {"mode": "bias"})]


@pytest.fixture
def uncompiled():
    """FlexAttention as a plain function: compiling its kernel takes several seconds."""
    with torch.compiler.set_stance("force_eager"):
        yield


@pytest.fixture
def masks(monkeypatch):
    """The masks that the fused kernel is given, call by call."""
    called, fused = [], F.scaled_dot_product_attention

    def record(*args, **kwargs):
        called.append(kwargs["attn_mask"])
        return fused(*args, **kwargs)

    monkeypatch.setattr(F, "scaled_dot_product_attention", record)
    return called


def randomize(model):
    """Give tables that start from zero other values."""
    torch.manual_seed(1)
    for parameter in model.loope.parameters():
        torch.nn.init.normal_(parameter)
    return model


class TestFlexAttention:
    @flex_warns
    @pytest.mark.parametrize("masked", [False, True])
    @pytest.mark.parametrize("encoder", ["alibi2d", "irpe", ["alibi2d", "rope_axial"]])
    def test_agrees_with_sdpa(self, encoder, masked, uncompiled):
        model = randomize(loope.attach(make("HF ViT"), encoder))
        mask = torch.ones(2, 17, dtype=torch.long)
        mask[:, -3:] = 0
        options = {"attention_mask": mask} if masked else {}
        with torch.no_grad():
            expected = model(images(model), **options).logits
            model.set_attn_implementation("flex_attention")
            torch.testing.assert_close(model(images(model), **options).logits, expected, atol=1e-5, rtol=1e-4)

    @flex_warns
    @pytest.mark.slow
    def test_agrees_with_sdpa_when_compiled(self):
        model = loope.attach(make("HF ViT"), "alibi2d")
        expected = predict(model)
        model.set_attn_implementation("flex_attention")
        torch.testing.assert_close(predict(model), expected, atol=1e-5, rtol=1e-4)

    @flex_warns
    def test_refuses_an_interface_that_would_ignore_the_bias(self, monkeypatch, uncompiled):
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        model = loope.attach(make("HF ViT"), "alibi2d")
        model.set_attn_implementation("flex_attention")
        older = {"flex_attention": lambda module, query, key, value, attention_mask, **kwargs: (value, None)}
        monkeypatch.setattr(ALL_ATTENTION_FUNCTIONS, "_local_mapping", older)
        with pytest.raises(loope.LoopeError, match="flex_attention"):
            predict(model)


class TestFlashAttention:
    @pytest.mark.parametrize("kernel", ["flash_attention_2", "kernels-community/vllm-flash-attn3"])
    def test_is_refused_for_a_bias_and_told_what_it_takes(self, kernel):
        for attached_first in (False, True):
            model = make("HF ViT")
            if attached_first:
                loope.attach(model, "alibi2d")
            model.config._attn_implementation = kernel
            with pytest.raises(loope.LoopeError, match=f"{kernel}.*additive, conditional, rotary"):
                predict(loope.attach(model, "alibi2d") if not attached_first else model)

    @pytest.mark.parametrize("encoder", ["sincos2d", "peg", "rope_axial", "pape"])
    def test_takes_the_other_kinds(self, encoder, monkeypatch):
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        flash = {"flash_attention_2": ALL_ATTENTION_FUNCTIONS["sdpa"]}  # stands in for a kernel of another device
        monkeypatch.setattr(ALL_ATTENTION_FUNCTIONS, "_local_mapping", flash)
        model = make("HF ViT")
        model.config._attn_implementation = "flash_attention_2"
        loope.attach(model, encoder)
        flash = predict(model)
        model.config._attn_implementation = "sdpa"
        torch.testing.assert_close(predict(model), flash)


class Widening(loope.PositionalEncoder):
    """Appends channels of zeros to queries and keys, which must not change anything."""

    def rotate(self, q, k, positions, layer):
        return F.pad(q, (0, 5)), F.pad(k, (0, 5))


@flex_warns
@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        *((name, None) for name in ("ViT, registers", "ViT, no class token", "CaiT", "EVA", "BEiT")),
        *(("HF ViT", kernel) for kernel in ("eager", "sdpa", "flex_attention")),
    ],
)
def test_encoders_may_widen_queries_and_keys(name, kernel, uncompiled):
    loope.register_encoder("widening", replace=True)(Widening)
    model = make(name)
    if kernel:
        model.set_attn_implementation(kernel)
    own = predict(model)
    loope.attach(model, "widening", keep_own=True)
    torch.testing.assert_close(predict(model), own, atol=1e-5, rtol=1e-4)


class DenseParabolas(loope.encoders.pape.Parabolic):
    """PaPE as a bias."""

    rotate = loope.PositionalEncoder.rotate

    def bias(self, q, positions, layer):
        none = torch.zeros_like(q)
        wide_q, wide_k = self._widened(q, none, positions, layer, None)
        return wide_q @ wide_k.mT * self.width**-0.5


@flex_warns
@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        *((name, None) for name in ("ViT, registers", "ViT, no class token", "CaiT", "EVA", "BEiT")),
        *(("HF ViT", kernel) for kernel in ("eager", "sdpa", "flex_attention")),
    ],
)
def test_channels_of_pape_act_as_its_bias(name, kernel, uncompiled):
    loope.register_encoder("dense_parabolas", replace=True)(DenseParabolas)
    outputs = []
    for encoder in ("pape", "dense_parabolas"):
        model = make(name)
        if kernel:
            model.set_attn_implementation(kernel)
        outputs.append(predict(randomize(loope.attach(model, encoder))))
    torch.testing.assert_close(*outputs, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("encoders", [["pape", "rope_axial"], ["rope_axial", "pape"], ["pape", "alibi2d"]])
def test_pape_goes_with_other_encoders(encoders):
    alone, both = (predict(loope.attach(make("ViT"), chosen)) for chosen in ("pape", encoders))
    assert both.isfinite().all()
    assert not torch.allclose(alone, both)


class TestOneBias:
    def test_blocks_share_one_tensor_and_so_do_forward_passes(self, masks):
        model = loope.attach(make("ViT, registers"), "alibi2d")
        predict(model)
        predict(model)
        assert len(masks) == 4
        assert len({mask.data_ptr() for mask in masks}) == 1
        assert masks[0].shape == (1, 3, 21, 21)

    def test_blocks_of_a_baked_model_share_one_tensor(self, masks):
        model = loope.attach(make("ViT, registers"), "alibi2d")
        expected = predict(model)
        loope.bake(model, (32, 32))
        masks.clear()
        assert torch.equal(predict(model), expected)
        predict(model)
        assert len({mask.data_ptr() for mask in masks}) == 1
        assert len(masks) == 4

    def test_blocks_share_the_sum_of_two(self, masks):
        loope.register_encoder("twice", replace=True)(type("Twice", (loope.encoders.alibi2d.Alibi2d,), {}))
        model = loope.attach(make("ViT"), ["alibi2d", "twice"])
        predict(model)
        one, two = masks
        assert one is two
        alone = model.loope.encoders[0][0].bias_with_prefix(torch.zeros(1, 3, 16, 1), Positions.grid(4, 4), 0, 1)
        assert torch.equal(one, 2 * alone)

    def test_blocks_share_that_of_other_positions_until_the_next_batch(self, masks):
        model = loope.attach(make("ViT"), "alibi2d")
        for rows in (0, 1):
            with loope.use_positions(model, Positions.grid(4, 4).scale(1.0 + rows)):
                predict(model)
        assert masks[0] is masks[1]
        assert masks[2] is masks[3]
        torch.testing.assert_close(masks[2], 2 * masks[0])

    def test_tables_for_each_block_are_not_shared(self, masks):
        predict(randomize(loope.attach(make("ViT"), "irpe", mode="bias")))
        assert not torch.equal(*masks)

    def test_checkpointed_blocks_get_the_bias_of_their_own_batch(self):
        gradients = []
        for checkpointed in (False, True):
            model = loope.attach(make("ViT"), "alibi2d")
            model.set_grad_checkpointing(checkpointed)
            model.train()
            total = 0
            for factor in (1.0, 3.0):
                with loope.use_positions(model, Positions.grid(4, 4).scale(factor)):
                    total = total + model(images(model)).square().mean()
            total.backward()
            gradients.append(model.blocks[0].attn.qkv.weight.grad)
        torch.testing.assert_close(*gradients)


class TestPaddingAndPacking:
    @pytest.mark.parametrize(("encoder", "options"), BIASES)
    def test_the_class_token_does_not_see_padding(self, encoder, options, masks):
        model = randomize(loope.attach(make("ViT, registers"), encoder, **options))
        valid = torch.ones(2, 16, dtype=torch.bool)
        valid[1, 13:] = False
        positions = Positions.at(Positions.grid(4, 4).coordinates.expand(2, -1, -1), (4, 4), valid=valid)
        changed = images(model)
        changed[1, :, -8:, -24:] += 5  # the last three patches
        with loope.use_positions(model, positions):
            one, other = predict(model), predict(model, changed)
        assert torch.equal(one, other)
        assert not torch.allclose(predict(model), predict(model, changed))
        seen = masks[0].isfinite()
        assert seen[0].all()
        assert seen[1, :, :, :18].all()  # prefix tokens and valid patches
        assert not seen[1, :, :18, 18:].any()

    @pytest.mark.parametrize("encoder", ["alibi2d", "rope_axial", "sincos2d"])
    def test_prefix_tokens_before_a_packed_sequence_are_refused(self, encoder):
        packed = Positions.packed([(2, 4), (2, 4)])
        model = loope.attach(make("ViT, registers"), encoder)
        with loope.use_positions(model, packed), pytest.raises(loope.LoopeError, match="5 prefix tokens"):
            predict(model)
        model = loope.attach(make("ViT, no class token"), encoder)
        with loope.use_positions(model, packed):
            assert predict(model).isfinite().all()


@pytest.mark.parametrize(("encoder", "options"), [*BIASES, ("irpe", {})])
class TestPrecision:
    def test_the_bias_has_the_dtype_of_the_queries_in_half_precision(self, encoder, options, masks):
        model = loope.attach(make("ViT"), encoder, **options).bfloat16()
        assert predict(model, images(model).bfloat16()).isfinite().all()
        assert {mask.dtype for mask in masks} == {torch.bfloat16}

    @pytest.mark.parametrize("name", ["ViT", "BEiT"])  # BEiT adds its own table, which stays in float32
    def test_the_mask_has_the_dtype_of_the_queries_under_autocast(self, encoder, options, name, monkeypatch):
        seen, fused = [], F.scaled_dot_product_attention

        def record(q, k, v, attn_mask, **kwargs):
            seen.append((q.dtype, attn_mask.dtype))
            return fused(q, k, v, attn_mask=attn_mask, **kwargs)

        monkeypatch.setattr(F, "scaled_dot_product_attention", record)
        model = loope.attach(make(name), encoder, keep_own=True, **options)
        with torch.autocast("cpu", torch.bfloat16):
            assert predict(model).isfinite().all()
        assert set(seen) == {(torch.bfloat16, torch.bfloat16)}


@pytest.mark.parametrize("encoder", ["sincos2d", "rope_axial", "alibi2d"])
def test_three_sizes_compile_once_each(encoder):
    torch._dynamo.reset()
    counter = CompileCounter()
    model = timm.create_model("vit_tiny_patch16_224", **TIMM, dynamic_img_size=True).eval()
    compiled = torch.compile(loope.attach(model, encoder), fullgraph=True, backend=counter)
    sizes = [(32, 32), (32, 48), (64, 40)]
    for _ in range(2):
        for size in sizes:
            pixels = images(model, size)
            torch.testing.assert_close(predict(compiled, pixels), predict(model, pixels), atol=1e-5, rtol=1e-4)
    assert counter.frame_count <= len(sizes)
