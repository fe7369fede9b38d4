"""Shares of position and content: known ones are found, whatever the number of images."""

import pytest
import torch

import loope
from loope import LoopeError
from loope.core.grid import Grid
from loope.diagnostics.share import PositionShare, TokenSums, artifacts_of, shares_of, token_sums
from loope.surgery.adapters.base import adapter_for
from tests.diagnostics.reference import variances
from tests.surgery.models import MODELS, images, make, vit

GRID = Grid(4, 5)


def made(position, image, local, count, seed=0, correlated=False):
    """Tokens whose parts have given variances."""
    draw = torch.Generator().manual_seed(seed)
    places = torch.randn(1, GRID.size, 64, generator=draw)
    places -= places.mean((0, 1))
    places *= (position / places.square().sum(-1).mean()) ** 0.5
    by_image = torch.randn(count, 1, 64, generator=draw) * (image / 64) ** 0.5
    rest = torch.randn(count, GRID.size, 64, generator=draw)
    if correlated:  # neighbours are alike
        rest = (rest + rest.roll(1, 1)) / 2**0.5
    return places + by_image + rest * (local / 64) ** 0.5


def shares(*batches):
    total = token_sums([batches[0]])
    for batch in batches[1:]:
        total = total.plus(token_sums([batch]))
    return shares_of(total, GRID, ["only"])


def test_the_reference_agrees():
    tokens = made(2.0, 0.5, 1.0, 7)
    found = shares(tokens[:3], tokens[3:4], tokens[4:])
    assert found.images == 7
    for value, wanted in zip(found[:3], variances(tokens), strict=True):
        assert float(value[0]) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("correlated", [False, True])
@pytest.mark.parametrize("count", [2, 5, 200])
def test_known_shares_are_found_with_few_images_too(count, correlated):
    parts = (1.0, 2.0, 3.0)
    drawn = [shares(made(*parts, count, seed, correlated)) for seed in range(60)]
    position, image, local = (torch.cat([each[number] for each in drawn]).mean() for number in range(3))
    alone = 3.0 * (2 if correlated else 1) / GRID.size  # what is local has a mean over places, too
    wanted = torch.tensor([1.0, 2.0 + alone, 3.0 - alone]).double()
    torch.testing.assert_close(torch.stack((position, image, local)), wanted, rtol=0.06, atol=0)
    assert float(position / (position + image + local)) == pytest.approx(1 / 6, rel=0.05)


def test_without_position_the_estimate_is_zero_on_average_and_the_naive_one_is_not():
    draws = [made(0.0001, 0.0, 1.0, 3, seed) for seed in range(100)]
    naive = [(each.mean(0) - each.mean((0, 1))).square().sum(-1).mean() for each in draws]
    found = torch.stack([shares(each).position[0] for each in draws])
    assert float(torch.stack(naive).mean()) > 0.25
    assert abs(float(found.mean())) < 0.01
    assert float(found.min()) < 0  # not clipped


def test_the_metric_is_the_function_in_parts():
    metric = PositionShare(layers=2, grid=GRID, dim=64)
    tokens = [made(1.0, 1.0, 1.0, 9), made(0.2, 0.0, 1.0, 9, seed=1)]
    for part in (slice(0, 4), slice(4, 9)):
        metric.update([each[part] for each in tokens])
    wanted = shares_of(token_sums(tokens), GRID, ["0", "1"])
    for one, other in zip(metric.compute()[:3], wanted[:3], strict=True):
        torch.testing.assert_close(one, other)
    with pytest.raises(LoopeError, match="2 layers"):
        metric.update(tokens[:1])
    metric.reset()
    metric.update([each[:1] for each in tokens])
    with pytest.raises(LoopeError, match="2 images"):
        metric.compute()


def test_processes_add_up():
    tokens = made(1.0, 1.0, 1.0, 9)
    whole, parts = token_sums([tokens]), [token_sums([tokens[:2]]), token_sums([tokens[2:]])]
    gathered = TokenSums(*(torch.stack(each).sum(0) for each in zip(*parts, strict=True)))  # torchmetrics' "sum"
    for one, other in zip(gathered, whole, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_share_in_every_layer(name):
    model = make(name)
    pixels = images(model, batch=4) * 0.01  # almost the same content everywhere
    found = loope.position_share(model, [pixels[:2], (pixels[2:], torch.zeros(2))])
    assert found.images == 4
    assert len(found.layers) == len(found.position) >= 2
    assert found.share.isfinite().all()
    adapter = adapter_for(model)
    table = any(slot.value is not None for slot in adapter.branches()[0].tables)
    assert found.share[0] > 0.5 if table else found.share[0] < 0.2


def test_a_model_without_positions_has_none_and_a_mode_is_restored():
    model = loope.attach(vit(), "none").train()
    model.blocks[0].eval()
    pixels = torch.randn(40, 3, 32, 32)
    found = loope.position_share(model, pixels.split(10))
    assert found.share.abs().max() < 0.02
    assert model.training
    assert not model.blocks[0].training
    loope.detach(model)
    model.pos_embed.data.normal_()
    assert loope.position_share(model, pixels.split(10)).share[0] > 0.5


def test_both_branches_are_measured():
    model = make("CrossViT")
    grids = [loope.position_share(model, images(model), branch=number).grid for number in (0, 1)]
    assert grids == [(4, 4), (2, 2)]
    with pytest.raises(LoopeError, match="0 to 1"):
        loope.position_share(model, images(model), branch=2)


def test_artifacts_are_the_mean_map():
    model = make("ViT, registers")
    pixels = images(model, batch=6)
    found = loope.position_artifacts(model, pixels.split(2))
    seen = []
    hook = model.blocks[1].register_forward_hook(lambda module, args, tokens: seen.append(tokens.detach()))
    with torch.no_grad():
        model(pixels)
    hook.remove()
    mean = seen[0][:, 5:].mean(0)
    torch.testing.assert_close(found.maps[2].flatten(0, 1).float(), mean - mean.mean(0), rtol=1e-4, atol=1e-4)
    assert found.colours().shape == (3, 4, 4, 3)
    assert found.colours().min() == 0
    assert found.colours().max() == 1


def test_noise_of_artifacts_is_what_remains_without_position():
    tokens = made(0.0001, 1.0, 2.0, 8)
    found = artifacts_of(token_sums([tokens]), GRID, ["only"])
    assert float(found.maps.square().sum(-1).mean()) == pytest.approx(float(found.noise[0]), rel=0.15)


class Dropping(torch.nn.Module):
    def forward(self, tokens):
        return tokens[:, :-3]


@pytest.mark.parametrize("measure", ["position_share", "position_artifacts", "position_probe"])
def test_bad_input_is_refused(measure):
    call = getattr(loope, measure)
    model = vit()
    pixels = torch.randn(3, 3, 32, 32)
    with pytest.raises(LoopeError, match="got 1"):
        call(model, [pixels[:1]])
    with pytest.raises(LoopeError, match=r"no images|got 0"):
        call(model, [])
    with pytest.raises(LoopeError, match="48, 48"):
        call(vit(dynamic_img_size=True), [pixels, torch.randn(2, 3, 48, 48)])
    with pytest.raises(LoopeError, match="64"):
        call(model, [torch.randn(3, 3, 64, 64)])
    with pytest.raises(LoopeError, match="uint8"):
        call(model, [torch.zeros(3, 3, 32, 32, dtype=torch.uint8)])
    with pytest.raises(LoopeError, match="Linear"):
        call(torch.nn.Linear(2, 2), [pixels])
    model.blocks[1].mlp.fc1.weight.data[0, 0] = torch.nan
    with pytest.raises(LoopeError, match="block 2"):
        call(model, [pixels])
    dropping = vit()
    dropping.blocks.append(Dropping())
    with pytest.raises(LoopeError, match="13"):
        call(dropping, [pixels])
