"""Biases as FlexAttention's `score_mod`, against the dense bias."""

import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention.flex_attention import flex_attention

import loope
from loope.positions import Positions

HEADS, WIDTH = 4, 8
BIASES = [
    ("alibi2d", {}),
    ("irpe", {"mode": "bias"}),
    ("rel_pos_mlp", {}),
    ("lookhere", {"directed": 3}),  # right, left and up
    ("fire2d", {}),
]
every_bias = pytest.mark.parametrize(("name", "options"), BIASES)
POSITIONS = {
    "whole": Positions.grid(3, 5),
    "some": Positions.grid(3, 5).take([[0, 7, 14, 3], [2, 1, 9, 9]]),
    "moved": Positions.grid(3, 20).jitter(torch.Generator().manual_seed(0)),
    "padded": Positions.batch([(2, 3), (3, 4)]),
    "packed": Positions.packed([(2, 3), (1, 2), (3, 3)]),
}


def make(name: str, **options) -> loope.PositionalEncoder:
    torch.manual_seed(0)
    encoder = loope.create_encoder(name, HEADS * WIDTH, (3, 5), heads=HEADS, depth=2, **options)
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter)
    return encoder


def tokens(positions: Positions, prefix: int) -> list[torch.Tensor]:
    shape = max(2, positions.rows), HEADS, prefix + positions.length, WIDTH
    return [torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]


@every_bias
@pytest.mark.parametrize(
    ("kind", "prefix"), [*((kind, 0) for kind in POSITIONS), *((kind, 2) for kind in POSITIONS if kind != "packed")]
)
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@torch.no_grad()
def test_flex_attention_agrees_with_the_dense_bias(name, options, kind, prefix):
    positions, encoder, layer = POSITIONS[kind], make(name, **options), 1
    if (name, kind) == ("rel_pos_mlp", "moved"):
        with pytest.raises(loope.LoopeError, match="cells only"):
            encoder.score_mod(positions)
        return
    q, k, v = tokens(positions, prefix)
    bias = encoder.bias_with_prefix(q[..., prefix:, :], positions, layer, prefix)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    with torch.compiler.set_stance("force_eager"):  # compiling the kernel takes several seconds
        out = flex_attention(q, k, v, score_mod=encoder.score_mod(positions, layer, prefix=prefix))
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(out, F.scaled_dot_product_attention(q, k, v), atol=1e-2)


@pytest.mark.slow
@every_bias
@pytest.mark.filterwarnings("ignore")  # the compiler's
@torch.no_grad()
def test_the_compiled_kernel_agrees_with_the_dense_bias(name, options):
    positions, encoder = POSITIONS["packed"], make(name, **options)
    q, k, v = tokens(positions, 0)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=encoder.bias(q, positions, 0))
    # Not dynamic: with symbolic sizes, torch 2.15 generates C++ that does not compile.
    out = torch.compile(flex_attention, dynamic=False)(q, k, v, score_mod=encoder.score_mod(positions))
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


@every_bias
def test_scores_are_hidden_exactly_where_the_dense_bias_hides(name, options):
    for kind, prefix in (("packed", 0), ("padded", 0), ("padded", 2)):
        positions, encoder = POSITIONS[kind], make(name, **options)
        size = prefix + positions.length
        q = torch.zeros(positions.rows, HEADS, positions.length, WIDTH)
        dense = encoder.bias_with_prefix(q, positions, 0, prefix)
        index = torch.meshgrid(*(torch.arange(n) for n in (positions.rows, HEADS, size, size)), indexing="ij")
        found = encoder.score_mod(positions, prefix=prefix)(torch.zeros(()), *index)
        torch.testing.assert_close(found, dense.detach())
        assert found.isinf().any()


@every_bias
def test_prefix_tokens_before_a_packed_sequence_are_refused(name, options):
    encoder, positions = make(name, **options), POSITIONS["packed"]
    with pytest.raises(loope.LoopeError, match="2 prefix tokens"):
        encoder.score_mod(positions, prefix=2)
    with pytest.raises(loope.LoopeError, match="2 prefix tokens"):
        encoder.bias_with_prefix(torch.zeros(1, HEADS, positions.length, WIDTH), positions, 0, 2)


@pytest.mark.parametrize("name", ["irpe", "rope_axial", "sincos2d"])
def test_encoders_without_a_static_bias_say_so(name):
    with pytest.raises(loope.LoopeError, match=f"'{name}' has no `score_mod`"):
        make(name).score_mod(Positions.grid(3, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_whole_grid_has_one_bias_for_all_blocks_and_callers_own_what_bias_returns(dtype):
    encoder, place = make("alibi2d"), Positions.grid(3, 5)
    q = torch.zeros(2, HEADS, 15, WIDTH, dtype=dtype)
    one, other = (encoder.bias_with_prefix(q, place, layer, 2) for layer in (0, 1))
    assert one is other
    assert one.dtype == dtype
    assert not one[:, :, :2].any()
    assert not one[..., :2].any()
    own = encoder.bias(q, place, 0)
    assert torch.equal(one[:, :, 2:, 2:], own)
    own.fill_(1)
    assert torch.equal(one[:, :, 2:, 2:], encoder.bias(q, place, 0))
