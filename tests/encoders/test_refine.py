"""The option `refine`: what it accepts, and the generator that it makes."""

import pytest
import torch

import loope
from loope.core.grid import Grid
from loope.encoders.generator import IndexGenerator

OPTIONS = {"dim": 16, "grid": (3, 4), "heads": 2, "patch_size": 4}


def make(refine, **options):
    torch.manual_seed(0)
    return loope.create_encoder("rope_axial", **OPTIONS | options, refine=refine)


def test_a_name_a_dictionary_and_an_instance_are_the_same():
    made = [make(refine) for refine in ("image", {}, {"mixer": "conv"}, loope.ImageRefinement())]
    for other in made[1:]:
        for (name, one), (same, two) in zip(made[0].state_dict().items(), other.state_dict().items(), strict=True):
            assert name == same
            assert torch.equal(one, two)


@pytest.mark.parametrize(
    ("refine", "word"),
    [
        ("picture", "picture"),
        (True, "True"),
        (3, "3"),
        (["image"], "image"),
        ({"mixr": "conv"}, "mixr"),
        ({"mixer": "mlp"}, "mlp"),
        ({"inputs": "xyz"}, "xyz"),
        ({"activation": "tanh"}, "tanh"),
        ({"initialization": "zero"}, "zero"),
        ({"zero_init": 1}, "zero_init"),
        ({"reach": 0}, "reach"),
        ({"reach": float("inf")}, "reach"),
    ],
)
def test_what_is_no_refinement(refine, word):
    with pytest.raises(loope.LoopeError, match=word):
        make(refine)


def test_it_reads_as_many_channels_as_the_image_has():
    assert make("image", channels=1).generator.patches.in_channels == 3
    assert make({"inputs": "rgb"}, channels=5).generator.patches.in_channels == 5
    with pytest.raises(loope.LoopeError, match="patch_size"):
        make("image", patch_size=0)


def test_two_outputs_start_with_maps_of_their_own():
    """Each a positive average, as the single map of LOOPE: live, and not the same."""
    for seed in range(20):
        torch.manual_seed(seed)
        generator = IndexGenerator(Grid(3, 4), 4, 3, loope.ImageRefinement(activation="relu"), outputs=2)
        last = generator.refine[-3].weight
        assert bool((last >= 0).all())
        torch.testing.assert_close(last.sum((1, 2, 3)), torch.ones(2))
        assert not torch.allclose(last[0], last[1])
        maps = generator.refine[:-1](generator._see(torch.rand(2, 3, 12, 16), torch.rand(1, 2, 12, 16)))
        assert bool((maps.flatten(2).std(-1) > 0).all())


@pytest.mark.parametrize("mixer", ["conv", "linear", "none"])
def test_rows_come_first_in_the_offsets(mixer):
    """The first map is the rows'; the paper's layers, one after the other."""
    torch.manual_seed(0)
    options = loope.ImageRefinement(mixer=mixer, zero_init=False, inputs="rgb", reach=2.0)
    generator = IndexGenerator(Grid(3, 4), 4, 3, options, outputs=2).eval()
    images = torch.rand(2, 3, 12, 16)
    offsets = generator(images, None, Grid(3, 4))
    maps = generator.refine(generator.patches(images))
    mixed = generator.mixer(maps.flatten(2)) if mixer == "linear" else generator.mixer(maps).flatten(2)
    for axis in (0, 1):
        torch.testing.assert_close(offsets[..., axis], 2 * torch.tanh(mixed[:, axis] / 2))
