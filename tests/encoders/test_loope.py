"""LOOPE: the generator of the supplementary table, its options, and what it exposes."""

import pytest
import timm
import torch
from torch.nn import functional as F

import loope
from loope.core.grid import Grid
from loope.encoders.generator import _resampled


def make(grid=(3, 4), patch_size=4, dim=16, **options):
    torch.manual_seed(0)
    return loope.create_encoder("loope", dim, grid, patch_size=patch_size, **options)


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_parameters_of_the_papers_configuration():
    encoder = loope.create_encoder("loope", 768, (14, 14), patch_size=16)
    assert count(encoder) == 96_535
    parts = [40_992, 12_816, 3_208, 804, 101, 2, 38_612]
    layers = [
        encoder.generator.patches,
        *(layer for layer in encoder.generator.refine if count(layer)),
        encoder.generator.mixer,
    ]
    assert [count(layer) for layer in layers] == parts


def slow_offsets(encoder, images):
    """Supp. Table `xc-arch`, one layer after the other, on the concatenated input of five channels."""
    g, (batch, _, height, width) = encoder.generator, images.shape
    x = torch.linspace(-1, 1, width).expand(batch, 1, height, width)
    y = torch.linspace(-1, 1, height)[:, None].expand(batch, 1, height, width)
    seen = torch.cat((images, x, y), dim=1)
    out = F.conv2d(seen, g.patches.weight, g.patches.bias, stride=encoder.patch_size).relu()
    for conv in (layer for layer in g.refine if isinstance(layer, torch.nn.Conv2d)):
        out = F.conv2d(F.pad(out, (2, 2, 2, 2)), conv.weight, conv.bias).relu()
    norm = g.refine[-1]
    out = (out - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias
    return 2 * torch.sigmoid(out.flatten(1) @ g.mixer.weight.T + g.mixer.bias) - 1


@pytest.mark.parametrize(("grid", "patch_size"), [((3, 4), 4), ((14, 14), 16), ((5, 2), 7), ((1, 6), 1)])
def test_offsets_are_the_papers_layers(grid, patch_size):
    encoder = make(grid, patch_size).eval()
    norm = encoder.generator.refine[-1]
    norm.running_mean.fill_(0.05)
    norm.running_var.fill_(0.5)
    images = torch.randn(2, 3, grid[0] * patch_size, grid[1] * patch_size)
    if grid[0] * patch_size > 1:  # an axis of one pixel has its coordinate at 0, where linspace says -1
        torch.testing.assert_close(encoder.offsets(images), slow_offsets(encoder, images), atol=1e-5, rtol=1e-4)
    assert encoder.offsets(images).shape == (2, grid[0] * grid[1])


@pytest.mark.parametrize("phase", ["channel", "checkerboard"])
def test_the_encoding_is_the_equation(phase):
    encoder, images = make(phase=phase, order="spiral").eval(), torch.randn(2, 3, 12, 16)
    index = loope.create_order("spiral", 3, 4).index.flatten()
    moved = index + encoder.offsets(images)
    torch.testing.assert_close(encoder.refined_index(images), moved)
    channel = torch.arange(16)
    delta = (channel + torch.arange(len(index))[:, None]) % 2 if phase == "checkerboard" else channel % 2
    w = 10000.0 ** (-2 * (channel // 2) / 16)
    torch.testing.assert_close(encoder(images), torch.sin(moved[..., None] * w + torch.pi / 2 * delta))


@pytest.mark.parametrize("mixer", ["linear", "conv", "none"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("inputs", ["rgb+xy", "rgb", "xy"])
def test_every_combination_of_options_runs_and_zero_init_is_the_static_order(mixer, activation, inputs):
    options = {"mixer": mixer, "activation": activation, "inputs": inputs}
    images = torch.randn(2, 3, 12, 16)
    moved = make(**options).eval().offsets(images)
    assert moved.shape == ((1, 12) if inputs == "xy" else (2, 12))
    assert moved.abs().max() <= 1
    assert moved.any()
    zero = make(**options, zero_init=True)
    assert not zero.offsets(images).any()
    static = loope.create_encoder("gilbert", 16, (3, 4))(None)
    torch.testing.assert_close(zero(images), static.expand(1 if inputs == "xy" else 2, -1, -1), atol=2e-6, rtol=0)
    zero.offsets(images).sum().backward()
    last = zero.generator.refine[-1] if mixer == "none" else zero.generator.mixer
    assert last.bias.grad.any()  # it can leave zero


def test_inputs_are_what_the_generator_sees():
    images = torch.randn(2, 3, 12, 16)
    xy, rgb = make(inputs="xy").eval(), make(inputs="rgb").eval()
    assert torch.equal(xy(images), xy(None))
    assert xy.generator.patches.in_channels == 2
    assert rgb.generator.patches.in_channels == 3
    assert not torch.allclose(rgb.offsets(images)[0], rgb.offsets(images)[1])
    # Without coordinates and mixer, offsets move along with what is in the image, as long as the border is far.
    free = make((24, 24), 2, inputs="rgb", mixer="none", activation="gelu").eval()
    image = torch.zeros(1, 3, 48, 48)
    image[..., 23:25, 23:25] = 1
    still, moved = (free.offsets(each).view(24, 24) for each in (image, image.roll(2, -1)))
    assert not torch.allclose(moved, still)
    torch.testing.assert_close(moved[9:15, 10:16], still[9:15, 9:15])
    assert make(channels=1, inputs="rgb").offsets(torch.randn(2, 1, 12, 16)).shape == (2, 12)


def mixer_on(grid, weight, bias):
    encoder = make(grid, mixer="linear")
    with torch.no_grad():
        encoder.generator.mixer.weight.copy_(weight)
        encoder.generator.mixer.bias.copy_(bias)
    return encoder.generator.mixer


def test_a_resized_mixer_still_takes_the_mean():
    """A mixer that gives every cell the mean of the map does so on a grid with other numbers of cells too."""
    linear = mixer_on((6, 6), torch.full((36, 36), 1 / 36), torch.zeros(36))
    weight, _ = _resampled(linear, Grid(6, 6), Grid(6, 6))
    assert weight is linear.weight
    weight, _ = _resampled(linear, Grid(6, 6), Grid(9, 8))
    torch.testing.assert_close(weight, torch.full((72, 72), 1 / 72))


def test_a_resized_mixer_keeps_inputs_and_outputs_apart():
    """Outputs that grow with the row, whatever comes in; inputs that count the more, the further right they are."""
    row, column = (axis.float() for axis in Grid(6, 6).coordinates())
    linear = mixer_on((6, 6), row[:, None] * column[None, :], torch.linspace(0, 1, 6).repeat(6))
    weight, bias = _resampled(linear, Grid(6, 6), Grid(9, 4))
    by_cell = weight.view(9, 4, 9, 4)
    assert bool((by_cell.diff(dim=0) > 0)[..., 1:].all())  # outputs: row
    assert bool((by_cell.diff(dim=3) > 0)[1:].all())  # inputs: column
    torch.testing.assert_close(by_cell, by_cell[:, :1, :1].expand_as(by_cell), atol=1e-4, rtol=1e-4)
    across = bias.view(9, 4)
    torch.testing.assert_close(across, across[:1].expand(9, 4))
    assert bool((across.diff(dim=1) > 0).all())


def test_a_mixer_in_half_precision_is_resampled_in_full():
    linear = mixer_on((6, 6), torch.randn(36, 36), torch.randn(36)).bfloat16()
    exact = torch.nn.Linear(36, 36)
    exact.load_state_dict({key: value.float() for key, value in linear.state_dict().items()})
    weight, _ = _resampled(linear, Grid(6, 6), Grid(9, 8))
    assert torch.equal(weight, _resampled(exact, Grid(6, 6), Grid(9, 8))[0].bfloat16())


def test_a_resized_encoder_knows_its_size():
    encoder = make((3, 4)).resize((5, 6))
    assert (encoder.generator.mixer.in_features, encoder.generator.mixer.out_features) == (30, 30)
    assert encoder.generator.grid == encoder.grid == Grid(5, 6)


def test_options_change_the_layers_they_name():
    assert make(mixer="conv").generator.mixer.kernel_size == (5, 5)
    assert not list(make(mixer="none").generator.mixer.parameters())
    for name, kind, other in (("relu", torch.nn.ReLU, torch.nn.GELU), ("gelu", torch.nn.GELU, torch.nn.ReLU)):
        kinds = [type(layer) for layer in make(activation=name).generator.refine]
        assert (kinds.count(kind), kinds.count(other)) == (5, 0)


def test_half_precision_images_into_a_full_precision_encoder():
    encoder, images = make().eval(), torch.rand(2, 3, 12, 16).half()
    assert torch.equal(encoder(images), encoder(images.float()))


def test_the_released_variant_is_another_architecture():
    """GELU, no bias in the last layer, positions from 1; 196 parameters fewer at 14x14."""
    released = loope.create_encoder("loope", 768, (14, 14), patch_size=16, variant="released")
    assert count(released) == 96_535 - 196
    assert sum(isinstance(layer, torch.nn.GELU) for layer in released.generator.refine) == 5
    small, paper = make(variant="released", zero_init=True), make(zero_init=True)
    images = torch.randn(2, 3, 12, 16)
    torch.testing.assert_close(small.refined_index(images), paper.refined_index(images) + 1)
    assert small.resize((4, 5)).offsets(torch.randn(2, 3, 16, 20)).shape == (2, 20)
    assert torch.equal(small.similarity(), paper.resize((4, 5)).similarity())
    with pytest.raises(loope.LoopeError, match="Unknown variant"):
        make(variant="published")
    with pytest.raises(loope.LoopeError, match="Unknown initialization"):
        make(initialization="zero")


def test_the_released_variant_gives_the_class_token_a_vector():
    model = timm.create_model("vit_tiny_patch16_224", embed_dim=16, depth=1, num_heads=2, num_classes=0)
    loope.attach(model, "loope", variant="released")
    assert model.loope.prefixes["patches"].shape == (1, 1, 16)
    loope.detach(model)
    loope.attach(model, "loope")
    assert not len(model.loope.prefixes)


def test_similarity_is_that_of_the_static_order_with_the_same_options():
    options = {"order": "spiral", "frequencies": "geometric:0.8", "phase": "checkerboard"}
    encoder = make(**options).double()
    static = loope.create_encoder("sinusoid", 16, (3, 4), **options).double()
    torch.testing.assert_close(encoder.similarity(), static.similarity())
    assert encoder.similarity().dtype == torch.float64
    assert not torch.allclose(encoder.similarity(), make().double().similarity())


def test_an_order_object_cannot_be_resized():
    encoder = make(order=loope.create_order("hilbert", 3, 4))
    with pytest.raises(loope.LoopeError, match="for a grid of 3x4 cells, got 4x4"):
        encoder.resize((4, 4))
    assert encoder.grid == Grid(3, 4)
    assert encoder.eval()(torch.rand(1, 3, 12, 16)).shape == (1, 12, 16)


def test_batches_of_one_patch_cannot_train():
    encoder = make((1, 1)).train()
    with pytest.raises(loope.LoopeError, match="one image of one patch"):
        encoder(torch.randn(1, 3, 4, 4))
    assert encoder(torch.randn(2, 3, 4, 4)).shape == (2, 1, 16)
    assert encoder.eval()(torch.randn(1, 3, 4, 4)).shape == (1, 1, 16)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (None, "reads the image"),
        (torch.rand(3, 12, 16), r"shape \(B, 3, H, W\), got \(3, 12, 16\)"),
        (torch.rand(2, 1, 12, 16), r"shape \(B, 3, H, W\), got \(2, 1, 12, 16\)"),
        (torch.zeros(2, 3, 12, 16, dtype=torch.uint8), r"got torch.uint8; use images.float\(\) / 255"),
        (torch.rand(2, 3, 16, 12), r"12x16 pixels for 3x4 patches of 4, got 16x12; call resize\(\(4, 3\)\)"),
        (torch.rand(2, 3, 13, 17), "got 13x17; resize them to 12x16"),
        (torch.rand(2, 3, 15, 1), "got 15x1; resize them to 16x4"),
        ([[1.0]], "reads the image"),
    ],
)
def test_images_that_do_not_fit(images, message):
    with pytest.raises(loope.LoopeError, match=message):
        make()(images)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inputs": "xyz"}, "Unknown inputs 'xyz'; use one of: xy"),
        ({"mixer": "mlp"}, "Unknown mixer 'mlp'"),
        ({"activation": "tanh"}, "Unknown activation 'tanh'"),
        ({"patch_size": 0}, "`patch_size` must be a whole number from 1 up, got 0"),
        ({"patch_size": None}, "needs `patch_size`"),
    ],
)
def test_options_that_do_not_exist(options, message):
    with pytest.raises(loope.LoopeError, match=message):
        make(**options)


def test_checks_do_not_look_at_values():
    """On the meta device there are none to look at."""
    encoder = make().to("meta")
    assert encoder(torch.empty(2, 3, 12, 16, device="meta")).shape == (2, 12, 16)
    with pytest.raises(loope.LoopeError, match="got 8x8"):
        encoder(torch.empty(2, 3, 8, 8, device="meta"))


def test_compiled_code_trains_as_eager_code_does():
    """The real compiler, forward and backward."""
    torch._dynamo.reset()
    encoder, images = make(activation="gelu").eval(), torch.randn(2, 3, 12, 16)
    weight = encoder.generator.patches.weight
    eager = encoder(images)
    (gradient,) = torch.autograd.grad(eager.square().sum() + eager.sum(), weight)
    compiled = torch.compile(encoder, fullgraph=True)(images)
    torch.testing.assert_close(compiled, eager, atol=1e-4, rtol=1e-4)
    (again,) = torch.autograd.grad(compiled.square().sum() + compiled.sum(), weight)
    torch.testing.assert_close(again, gradient, atol=1e-3, rtol=1e-3)


# Offsets of seed 0 on one image, computed before the generator served other encoders too.
KNOWN = {
    "paper": [-0.0245985, -0.0917239, -0.0378523, -0.0491136, 0.1204251, -0.0579686, 0.0028993, -0.0063068],
    "released": [-0.0027876, -0.0030716, 0.0000913, -0.0013381, 0.0012491, 0.002103, -0.005756, -0.0005124],
}


@pytest.mark.parametrize("variant", KNOWN)
def test_a_seed_gives_the_numbers_it_always_gave(variant):
    encoder = make(variant=variant).eval()
    offsets = encoder.offsets(torch.linspace(-1, 1, 3 * 12 * 16).view(1, 3, 12, 16))
    torch.testing.assert_close(offsets[0, :8], torch.tensor(KNOWN[variant]), atol=1e-6, rtol=0)


def test_names_in_the_state_dict_are_those_of_older_files():
    layers = ["patches", "refine.1", "refine.3", "refine.5", "refine.7", "refine.9", "mixer"]
    parameters = {f"generator.{layer}.{part}" for layer in layers for part in ("weight", "bias")}
    assert {name for name, _ in make().named_parameters()} == parameters
    statistics = {f"generator.refine.9.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")}
    assert set(make().state_dict()) == parameters | statistics
