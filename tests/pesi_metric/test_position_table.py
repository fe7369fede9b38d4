"""Tables of positions: found, split from prefix tokens, read from files that cannot run code."""

import pytest
import torch
from safetensors.torch import load_file, save_file

import loope
from tests.weights import weights

D = 6


def numbered(tokens, *, batch=True):
    """Token t holds t in each channel."""
    table = torch.arange(tokens)[:, None].expand(-1, D).float()
    return table[None] if batch else table


@pytest.mark.parametrize(
    ("tokens", "grid", "shape", "prefix"),
    [
        (196, None, (14, 14), 0),
        (197, None, (14, 14), 1),  # a class token
        (198, None, (14, 14), 2),  # and one for distillation
        (201, None, (14, 14), 5),  # or four registers
        (50, None, (7, 7), 1),
        (197, (7, 28), (7, 28), 1),
        (200, (14, 14), (14, 14), 4),
        (7, (1, 6), (1, 6), 1),
    ],
)
@pytest.mark.parametrize("batch", [True, False])
def test_patches_follow_the_prefix_row_by_row(tokens, grid, shape, prefix, batch):
    table = loope.position_table({"pos_embed": numbered(tokens, batch=batch)}, grid)
    assert table.shape == (*shape, D)
    assert torch.equal(table[..., 0].flatten(), torch.arange(prefix, tokens).float())


def test_a_map_is_taken_as_it_is():
    maps = torch.rand(1, 3, 5, D)
    assert torch.equal(loope.position_table({"image_encoder.pos_embed": maps}), maps[0])
    assert torch.equal(loope.position_table({"image_encoder.pos_embed": maps}, (3, 5)), maps[0])
    with pytest.raises(loope.LoopeError, match=r"fits 5x3 .* there is image_encoder.pos_embed \(1, 3, 5, 6\)"):
        loope.position_table({"image_encoder.pos_embed": maps}, (5, 3))


@pytest.mark.parametrize(
    "name",
    [
        "pos_embed",  # timm
        "vit.embeddings.position_embeddings",  # transformers
        "vision_model.embeddings.position_embedding.weight",  # CLIP in transformers
        "visual.positional_embedding",  # CLIP
        "encoder.pos_embedding",  # torchvision
        "absolute_pos_embed",  # Swin
        "pos_embed_0",  # CrossViT
    ],
)
def test_the_names_of_the_field_are_known(name):
    others = {"blocks.0.attn.rel_pos_h": torch.rand(27, D), "head.pos_embed_mlp.weight": numbered(9, batch=False)}
    assert loope.position_table({**others, name: numbered(17)}).shape == (4, 4, D)


def test_the_text_half_of_clip_is_not_taken_for_an_image():
    both = {"positional_embedding": numbered(77, batch=False), "visual.positional_embedding": numbered(50, batch=False)}
    assert loope.position_table(both).shape == (7, 7, D)


def test_several_tables_need_a_name():
    both = {"pos_embed_0": numbered(26), "pos_embed_1": numbered(10)}
    with pytest.raises(loope.LoopeError, match=r"more than one .*: pos_embed_0 \(1, 26, 6\), pos_embed_1 \(1, 10, 6\)"):
        loope.position_table(both)
    assert loope.position_table(both, name="pos_embed_1").shape == (3, 3, D)
    assert loope.position_table(both, (3, 3)).shape == (3, 3, D)  # only one fits
    with pytest.raises(loope.LoopeError, match="no tensor 'pos_embed_2'; nearest are pos_embed_0, pos_embed_1"):
        loope.position_table(both, name="pos_embed_2")


@pytest.mark.parametrize("shape", [(2, 17, D), (D,), (1, 1, 4, 4, D), (1, 35, D), (0, D)])
def test_what_is_no_table(shape):
    with pytest.raises(loope.LoopeError, match="fits a square grid with up to 8 prefix tokens"):
        loope.position_table({"pos_embed": torch.rand(shape)})


def test_nothing_called_like_a_table():
    with pytest.raises(loope.LoopeError, match="There is no table of positions"):
        loope.position_table({"weight": torch.rand(17, D)})
    assert loope.position_table({"weight": torch.rand(17, D)}, name="weight").shape == (4, 4, D)


@pytest.mark.parametrize("name", [None, "pos_embed"])
def test_names_of_tensors_are_text(name):
    with pytest.raises(loope.LoopeError, match="map names to tensors, got 1"):
        loope.position_table({1: torch.rand(1, 5, D)}, name=name)


def test_files(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({"pos_embed": numbered(17).contiguous(), "head": torch.rand(3)}, path)
    for name in (path, str(path)):
        assert torch.equal(loope.position_table(name)[..., 0].flatten(), torch.arange(1, 17).float())
    with pytest.raises(loope.LoopeError, match="no file"):
        loope.position_table(tmp_path / "other.safetensors")
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(path.read_bytes()[:40])
    with pytest.raises(loope.LoopeError, match=r"no whole \.safetensors file"):
        loope.position_table(broken)


def test_pickles_are_not_opened(tmp_path):
    class Trap:
        def __reduce__(self):
            return (tmp_path / "sprung").touch, ()

    path = tmp_path / "model.pt"
    torch.save({"pos_embed": Trap()}, path)
    with pytest.raises(loope.LoopeError, match=r"must be a \.safetensors file, got 'model\.pt'"):
        loope.position_table(path)
    path.rename(tmp_path / "model.safetensors")
    with pytest.raises(loope.LoopeError, match=r"no whole \.safetensors file"):
        loope.position_table(tmp_path / "model.safetensors")
    assert not (tmp_path / "sprung").exists()


def test_a_pretrained_vit():
    path = weights("vit_tiny_patch16_224.safetensors")
    table = loope.position_table(path)
    assert torch.equal(table, load_file(path)["pos_embed"][0, 1:].view(14, 14, 192))
    with pytest.warns(loope.LoopeWarning, match="A_SU divides by"):
        scores = loope.pesi(table)
    assert [round(score.item(), 5) for score in (scores.m_u, scores.m_d)] == [1.94112, 1.21255]
    assert round(scores.a_su.item(), 2) == 2.62
    assert 0.1 < scores.a_su_bounded < 0.11
