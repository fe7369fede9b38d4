"""Factorized positions, against loops, against timm, and as a least-squares fit."""

import pytest
import timm
import torch
from timm.models.naflexvit import NaFlexEmbeds

import loope
from loope.positions import Positions

GRID, DIM = (4, 6), 8


def make(**options):
    torch.manual_seed(0)
    return loope.create_encoder("factorized", DIM, GRID, **options).double()


def read(table, place):
    """One vector of a table, by linear interpolation between its two nearest rows; constant beyond its ends."""
    place = min(max(place, 0), len(table) - 1)
    low = min(int(place), len(table) - 2)
    return table[low] * (low + 1 - place) + table[low + 1] * (place - low)


@pytest.mark.parametrize("grid", [GRID, (8, 3), (1, 9)])
@pytest.mark.parametrize("coordinates", ["fractional", "absolute"])
def test_against_a_loop_over_cells(grid, coordinates):
    encoder = make(coordinates=coordinates)
    ours = encoder(None, grid)[0]
    for number in range(len(ours)):
        cell = number // grid[1], number % grid[1]
        if coordinates == "fractional":  # the same share of the side of the image, from centre to centre
            places = [(at + 0.5) / size * length - 0.5 for at, size, length in zip(cell, grid, GRID, strict=True)]
        else:
            places = cell
        slow = read(encoder.rows, places[0]) + read(encoder.columns, places[1])
        torch.testing.assert_close(ours[number], slow)


@pytest.mark.parametrize("grid", [GRID, (8, 12), (3, 5), (1, 9)])
def test_fractional_ones_are_timms(grid):
    encoder = make().float()
    theirs = NaFlexEmbeds(patch_size=4, embed_dim=DIM, pos_embed="factorized", pos_embed_grid_size=GRID)
    with torch.no_grad():
        theirs.pos_embed_y.copy_(encoder.rows[None])
        theirs.pos_embed_x.copy_(encoder.columns[None])
        added = torch.zeros(1, grid[0] * grid[1], DIM)
        theirs._apply_factorized_pos_embed(added, list(grid))
        torch.testing.assert_close(encoder(None, grid), added)


@torch.no_grad()
def test_images_of_several_sizes_are_timms():
    sizes, encoder = [(4, 6), (5, 2), (3, 3)], make().float()
    theirs = NaFlexEmbeds(patch_size=4, embed_dim=DIM, pos_embed="factorized", pos_embed_grid_size=GRID)
    theirs.pos_embed_y.copy_(encoder.rows[None])
    theirs.pos_embed_x.copy_(encoder.columns[None])
    positions = Positions.batch(sizes)
    added = torch.zeros(3, positions.length, DIM)
    theirs._apply_factorized_naflex_pos_embed(added, positions.coordinates.long())
    torch.testing.assert_close(encoder(None, positions)[positions.valid], added[positions.valid])


def test_absolute_ones_keep_their_cells_when_resized():
    encoder = make(coordinates="absolute")
    before = encoder(None)[0].view(*GRID, DIM)
    after = encoder.resize((7, 9))(None)[0].view(7, 9, DIM)
    assert torch.equal(after[:4, :6], before)
    assert torch.equal(after[6, 8], before[3, 5])
    assert torch.equal(encoder.resize(GRID)(None)[0].view(*GRID, DIM), before)


@torch.no_grad()
def test_fit_is_the_least_squares_solution():
    encoder, table = make(), torch.randn(24, DIM, generator=torch.Generator().manual_seed(3)).double()
    explained = encoder.fit(table)
    rows, columns = Positions.grid(*GRID).coordinates[0].long().unbind(-1)
    design = torch.cat([torch.nn.functional.one_hot(axis).double() for axis in (rows, columns)], dim=1)
    best = design @ torch.linalg.lstsq(design, table, driver="gelsd").solution
    torch.testing.assert_close(encoder(None)[0], best)
    left = (table - best).square().sum() / (table - table.mean(0)).square().sum()
    assert explained == pytest.approx(1 - left.item())
    assert encoder.fit(encoder(None)[0].clone()) == pytest.approx(1)


def test_own_start_keeps_what_a_factorized_table_knew():
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", img_size=(64, 96), depth=2, num_classes=5).eval()
    with torch.no_grad():
        rows, columns = torch.randn(4, 1, 192), torch.randn(1, 6, 192)
        model.pos_embed[:, 1:] = (rows + columns).flatten(0, 1)
    images = torch.randn(2, 3, 64, 96)
    expected = model(images)
    loope.attach(model, "factorized", init="own")
    torch.testing.assert_close(model(images), expected, atol=1e-4, rtol=1e-4)


def test_bad_input():
    with pytest.raises(loope.LoopeError, match="Unknown coordinates 'relative'"):
        make(coordinates="relative")
    with pytest.raises(loope.LoopeError, match="`std` must be"):
        make(std=0)
