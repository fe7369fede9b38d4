"""Positions in attached models: set at the patch embedding, and the same when a block is run again."""

import copy
import threading

import pytest
import timm
import torch
from transformers import ViTConfig, ViTForImageClassification

import loope
from loope import Positions
from tests.surgery.models import HF, TIMM, images, make, output

IN_BLOCKS = ["peg", "irpe", "rope_mixed"]


def timm_model():
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", **{**TIMM, "depth": 3}, dynamic_img_size=True)
    return model.double()


def gradients(model, batches):
    """Gradients of one backward pass over several batches."""
    model.zero_grad()
    sum(model(batch).square().sum() for batch in batches).backward()
    return {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}


@pytest.fixture
def batches():
    """Equally many patches on grids of 4x4 and 2x8."""
    torch.manual_seed(1)
    return [torch.randn(2, 3, 32, 32).double(), torch.randn(2, 3, 16, 64).double()]


@pytest.mark.parametrize("encoder", IN_BLOCKS)
def test_checkpointed_blocks_tell_two_grids_of_equal_size_apart(encoder, batches):
    model = loope.attach(timm_model(), encoder)
    for parameter in model.loope.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    expected = gradients(model, batches)
    model.set_grad_checkpointing()
    ours = gradients(model, batches)
    assert ours.keys() == expected.keys()
    for name in ours:
        torch.testing.assert_close(ours[name], expected[name])


@pytest.mark.parametrize("reentrant", [True, False])
def test_segments_of_several_blocks_too(reentrant, batches):
    model = loope.attach(timm_model(), "rope_axial")
    expected = gradients(model, batches)

    def forward(images):
        tokens = model._pos_embed(model.patch_embed(images))
        tokens = torch.utils.checkpoint.checkpoint(model.blocks[:2], tokens, use_reentrant=reentrant)
        return model.forward_head(model.norm(model.blocks[2](tokens)))

    model.zero_grad()
    sum(forward(batch).square().sum() for batch in batches).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected.get(name))


def test_transformers_checkpointing_too(batches):
    torch.manual_seed(0)
    model = ViTForImageClassification(ViTConfig(**HF)).double().train()
    loope.attach(model, "rope_axial")

    def run():
        model.zero_grad()
        sum(model(batch, interpolate_pos_encoding=True).logits.square().sum() for batch in batches).backward()
        return {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}

    expected = run()
    model.activation_checkpointing_enable()
    ours = run()
    for name in expected:
        torch.testing.assert_close(ours[name], expected[name])


@pytest.mark.parametrize("encoder", ["sincos2d", "rope_mixed", "irpe", "peg"])
def test_given_positions_replace_the_grid(encoder, batches):
    model = loope.attach(timm_model(), encoder).eval()
    for parameter in model.loope.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    with torch.no_grad():
        own = model(batches[0])
        with loope.use_positions(model, (4, 4)):
            assert torch.equal(model(batches[0]), own)
        with loope.use_positions(model, Positions.grid(4, 4).take(torch.randperm(16))):
            assert not torch.allclose(model(batches[0]), own)
        assert torch.equal(model(batches[0]), own)


def test_given_positions_permute_with_the_patches(batches):
    """Patches in another order, told so, give the same answer."""
    model = loope.attach(timm_model(), "rope_mixed").eval()
    order = torch.randperm(16)
    patches = batches[0].unfold(2, 8, 8).unfold(3, 8, 8)  # (B, 3, 4, 4, 8, 8)
    mixed = patches.flatten(2, 3)[:, :, order].unflatten(2, (4, 4)).permute(0, 1, 2, 4, 3, 5).reshape(2, 3, 32, 32)
    with torch.no_grad(), loope.use_positions(model, Positions.grid(4, 4).take(order)):
        torch.testing.assert_close(model(mixed), model_output(model, batches[0]))


def model_output(model, images):
    with loope.use_positions(model, (4, 4)):
        return model(images)


def test_positions_of_other_patches_are_refused(batches):
    model = loope.attach(timm_model(), "rope_axial")
    with pytest.raises(loope.LoopeError, match="15 patch"), loope.use_positions(model, (3, 5)):
        model(batches[0])
    loope.detach(model)
    with pytest.raises(loope.LoopeError, match="attach"), loope.use_positions(model, (4, 4)):
        pass


def test_a_copy_of_the_model_keeps_its_own_positions(batches):
    model = loope.attach(timm_model(), "rope_axial").eval()
    with torch.no_grad():
        square, wide = (model(batch) for batch in batches)
        twin = copy.deepcopy(model)
        assert torch.equal(twin(batches[1]), wide)
        assert torch.equal(model(batches[0]), square)


@pytest.mark.parametrize("encoder", ["sincos2d", "peg", "rope_axial", "alibi2d"])
def test_positions_of_another_batch_size_are_refused(encoder, batches):
    model = loope.attach(timm_model(), encoder)
    three = Positions.grid(4, 4).jitter(images=3)
    for count in (1, 2):
        with pytest.raises(loope.LoopeError, match="3 images"), loope.use_positions(model, three):
            model(batches[0][:count])


@pytest.mark.parametrize("encoder", loope.list_encoders())
@pytest.mark.parametrize("positions", [Positions.grid(4, 4).shift(0.5), Positions.grid(4, 4).take(list(range(16)))])
def test_given_positions_follow_the_model_to_its_device(encoder, positions):
    model = loope.attach(timm_model().to("meta"), encoder)
    with loope.use_positions(model, positions):
        assert model(torch.zeros(1, 3, 32, 32, device="meta").double()).is_meta


def test_compiled_models_take_positions(batches):
    model = loope.attach(timm_model(), "rope_mixed").eval()
    compiled = torch.compile(model, backend="eager")
    turned = Positions.grid(4, 4).take(list(range(15, -1, -1)))
    with torch.no_grad(), loope.use_positions(compiled, turned):
        torch.testing.assert_close(compiled(batches[0]), model(batches[0]))


def test_blocks_alone_follow_a_resized_model():
    model = loope.attach(timm_model(), "rope_axial")
    loope.resize(model, (64, 64))
    assert model.blocks[0](torch.randn(1, 65, model.embed_dim).double()).shape[1] == 65


def test_blocks_take_their_tokens_by_name():
    model = loope.attach(ViTForImageClassification(ViTConfig(**HF)), "rope_axial")
    grid, width = model.loope.branches[0].grid, model.config.hidden_size
    tokens = torch.randn(1, grid.size + 1, width)
    layer = model.vit.layers[0]
    torch.testing.assert_close(layer(hidden_states=tokens), layer(tokens))


@pytest.mark.parametrize("encoder", ["rope_axial", "alibi2d", "peg"])
def test_threads_do_not_share_positions(encoder, batches):
    """One pass stops between its patch embedding and its blocks, while another thread runs the model."""
    model = loope.attach(timm_model(), encoder).eval()
    with torch.no_grad():
        square, wide = (model(batch) for batch in batches)
    others = []

    def run_the_other(module, args):
        if not others:
            others.append(None)

            def other():
                with torch.no_grad():
                    others.append(model(batches[1]))

            thread = threading.Thread(target=other)
            thread.start()
            thread.join()

    model.blocks[0].register_forward_pre_hook(run_the_other, prepend=True)
    with torch.no_grad():
        assert torch.equal(model(batches[0]), square)
    assert torch.equal(others[1], wide)


def test_padding_does_not_break_talking_heads():
    model = loope.attach(make("CaiT"), "alibi2d").eval()
    grid = model.loope.branches[0].grid
    valid = torch.arange(grid.size)[None] < grid.size - 2
    positions = Positions.at(Positions.grid(grid).coordinates, grid, valid=valid)
    with torch.no_grad(), loope.use_positions(model, positions):
        assert output(model, images(model)).isfinite().all()
