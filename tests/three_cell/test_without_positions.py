"""A transformer without positions sees the same tokens in every image: a check of the whole pipeline."""

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer

import loope


def small_vit(position: str, seed: int, pool: str = "token") -> VisionTransformer:
    """A ViT for a 6x8 grid with random weights, large enough to make something of the image."""
    torch.manual_seed(seed)
    model = VisionTransformer(
        img_size=(12, 16),
        patch_size=2,
        num_classes=6,
        embed_dim=32,
        depth=2,
        num_heads=2,
        pos_embed=position,
        global_pool=pool,
    ).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def run(model: torch.nn.Module, data: loope.ThreeCell) -> torch.Tensor:
    with torch.no_grad():
        return torch.cat([model(data.render(cells).double()) for cells in data.cells.split(128)])


@pytest.fixture(scope="module")
def data() -> loope.ThreeCell:
    made = loope.ThreeCell(501, (6, 8), cell=2, seed=4)  # an odd number: no bit is a tie
    assert not (made.labels.sum(0) * 2 == len(made)).any()
    return made


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("pool", ["token", "avg"])
def test_without_positions_there_is_one_output_and_the_majority_is_all_it_scores(data, seed, pool):
    model = small_vit("none", seed, pool)
    outputs = run(model, data)
    assert (outputs - outputs[0]).abs().max() < 1e-10  # sums in another order round differently

    # The minimum of the cross-entropy over the bias has a closed form: the log-odds of each bit.
    share = data.labels.double().mean(0)
    with torch.no_grad():
        model.head.bias += torch.logit(share) - outputs[0]
    score = loope.ThreeCellScore()
    fitted = run(model, data)
    score.update(fitted, data.labels)
    result = score.compute()

    # Exactly: the right answers of each bit are its more frequent label, not one more or less.
    ones = data.labels.sum(0)
    right = result["confusion"].diagonal(dim1=1, dim2=2).sum(1)
    assert torch.equal(right, torch.maximum(ones, len(data) - ones))
    rates = data.majority_rates()
    assert {task: result[task].item() for task in rates} == pytest.approx(rates, abs=1e-6)
    # And no constant does better.
    gradient = (torch.sigmoid(fitted) - data.labels).mean(0)
    assert gradient.abs().max() < 1e-10


def test_with_positions_outputs_differ(data):
    outputs = run(small_vit("learn", 0), data)
    assert (outputs - outputs[0]).abs().max() > 1e-3
    assert len(outputs.round(decimals=6).unique(dim=0)) > 400
