"""Saving, loading, the hub's layout, freezing."""

import copy
import json

import pytest
import timm
import torch
from safetensors import safe_open
from safetensors.torch import load_model, save_file, save_model
from torch import nn

import loope
from tests.surgery.models import TIMM, images, make, predict, vit

ARGS = {key: value for key, value in TIMM.items() if key not in ("img_size", "num_classes")}
every_encoder = pytest.mark.parametrize("encoder", loope.list_encoders())


def test_tensors_and_orders_among_the_options_are_saved(tmp_path):
    model = make("ViT")
    order = loope.create_order("hilbert", 4, 4).reverse()
    loope.attach(model, [("sinusoid", {"order": order, "frequencies": torch.rand(48)}), "alibi2d"])
    loaded = loope.load(loope.save(model, tmp_path / "m.safetensors", model_args=ARGS))
    assert torch.equal(predict(loaded), predict(model))


def test_a_file_that_could_not_be_read_again_is_not_written(tmp_path):
    model = make("ViT")
    loope.attach(model, "gilbert")
    with pytest.raises(
        loope.LoopeError, match=r"could not be built again .* pass what it was created with as model_args"
    ):
        loope.save(model, tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())
    loope.detach(model)
    with pytest.raises(loope.LoopeError, match="Nothing is attached"):
        loope.save(model, tmp_path / "m.safetensors", model_args=ARGS)
    bare = timm.models.VisionTransformer(**TIMM)
    loope.attach(bare, "gilbert")
    with pytest.raises(loope.LoopeError, match=r"made by timm\.create_model"):
        loope.save(bare, tmp_path / "m.safetensors")


def test_files_of_other_programs(tmp_path):
    with pytest.raises(loope.LoopeError, match="There is no file"):
        loope.load(tmp_path / "none.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"not a file of that kind")
    with pytest.raises(loope.LoopeError, match="is damaged"):
        loope.load(tmp_path / "broken.safetensors")
    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(loope.LoopeError, match=r"was not written by loope\.save"):
        loope.load(tmp_path / "other.safetensors")
    recipe = {"loope": json.dumps({"format": 99})}
    save_file({"a": torch.zeros(1)}, tmp_path / "later.safetensors", metadata=recipe)
    with pytest.raises(loope.LoopeError, match="has format 99; this version reads 1"):
        loope.load(tmp_path / "later.safetensors")


def test_a_class_outside_transformers_is_not_built(tmp_path):
    model = make("HF ViT")
    loope.attach(model, "gilbert")
    path = loope.save(model, tmp_path / "m.safetensors")
    with safe_open(path, "pt") as file:
        recipe, state = json.loads(file.metadata()["loope"]), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    for name in ("logging", "pipeline", "NoSuchModel", "BertModel", "PreTrainedModel"):
        recipe["model"]["class"] = name
        save_file(state, path, metadata={"loope": json.dumps(recipe)})
        with pytest.raises(loope.LoopeError, match=f"'{name}' is no class of transformers"):
            loope.load(path)


def test_plain_safetensors_files(tmp_path):
    source, target = make("ViT"), make("ViT", seed=1)
    loope.attach(source, "loope")
    loope.attach(target, "loope")
    save_model(source, tmp_path / "m.safetensors")
    load_model(target, tmp_path / "m.safetensors")
    assert torch.equal(predict(target), predict(source))


def test_the_hubs_layout(tmp_path):
    model = make("ViT")
    loope.attach(model, "loope")
    loope.HubModel(model, ARGS).save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").is_file()
    loaded = loope.HubModel.from_pretrained(tmp_path)
    assert torch.equal(predict(loaded.model), predict(model))
    with torch.no_grad():
        assert torch.equal(loaded(images(model)), predict(model))


@every_encoder
@pytest.mark.parametrize("name", ["ViT", "CrossViT", "HF DeiT"])
def test_freezing_bakes_what_is_static(encoder, name):
    model = make(name)
    loope.attach(model, encoder)
    side = images(model).shape[-1]
    loope.resize(model, (side, 2 * side))
    pixels = images(model, (side, 2 * side))
    expected, frozen = predict(model, pixels), copy.deepcopy(model)
    loope.bake(frozen, (side, 2 * side))
    torch.testing.assert_close(predict(frozen, pixels), expected, atol=1e-5, rtol=1e-5)
    live = {"loope", "peg", "irpe", "pape"}
    kept = list(frozen.loope.encoders.parameters())
    assert bool(kept) == (encoder in live)
    assert not any(parameter.requires_grad for parameter in frozen.parameters())
    assert not list(frozen.loope.own.parameters())
    with pytest.raises(loope.LoopeError, match="baked for deployment"):
        loope.detach(frozen)
    with pytest.raises(loope.LoopeError, match="save the model before"):
        loope.save(frozen, "never.safetensors")


def test_a_frozen_model_refuses_other_sizes():
    model = vit(dynamic_img_size=True).eval()
    loope.attach(model, "gilbert")
    loope.bake(model, (32, 32))
    with pytest.raises(loope.LoopeError, match="baked for a grid of 4x4, got 8x8"):
        predict(model, torch.randn(1, 3, 64, 64))
    xy = vit().eval()
    loope.attach(xy, "loope", inputs="xy")  # sees no image, so it can be baked
    expected = predict(xy, images(xy))
    loope.bake(xy, (32, 32))
    assert not list(xy.loope.encoders.parameters())
    torch.testing.assert_close(predict(xy, images(xy)), expected)


def test_traits_that_shapes_do_not_show(tmp_path):
    for changed in ({"num_heads": 6}, {"dynamic_img_size": True}):
        model = timm.create_model("vit_tiny_patch16_224", depth=1, **changed)
        loope.attach(model, "gilbert")
        with pytest.raises(loope.LoopeError, match=f"{next(iter(changed))} would differ"):
            loope.save(model, tmp_path / "m.safetensors", model_args={"depth": 1})
        loaded = loope.load(loope.save(model, tmp_path / "m.safetensors", model_args={"depth": 1, **changed}))
        assert all(getattr(loaded, key, loaded.blocks[0].attn.num_heads) == value for key, value in changed.items())


def test_rates_of_dropout_are_those_of_model_args(tmp_path):
    args = {"depth": 2, "drop_path_rate": 0.2}
    model = loope.attach(timm.create_model("vit_tiny_patch16_224", **args), "gilbert")
    for given, rate in (({"depth": 2}, 0.0), (args, 0.2)):
        loaded = loope.load(loope.save(model, tmp_path / "m.safetensors", model_args=given))
        assert getattr(loaded.blocks[-1].drop_path1, "drop_prob", 0.0) == pytest.approx(rate)


def test_patches_are_dropped_as_model_args_say(tmp_path):
    args = {"depth": 2, "patch_drop_rate": 0.5}
    model = loope.attach(timm.create_model("vit_tiny_patch16_224", **args), "gilbert")
    plain = loope.load(loope.save(model, tmp_path / "m.safetensors", model_args={"depth": 2}))
    assert isinstance(plain.patch_drop, nn.Identity)
    assert loope.load(loope.save(model, tmp_path / "m.safetensors", model_args=args)).patch_drop.prob == 0.5


def test_another_activation_is_told_apart(tmp_path):
    model = timm.create_model("vit_tiny_patch16_224", depth=1, act_layer="relu")
    loope.attach(model, "gilbert")
    with pytest.raises(loope.LoopeError, match=r"ReLU.*would differ"):
        loope.save(model, tmp_path / "m.safetensors", model_args={"depth": 1})
    args = {"depth": 1, "act_layer": "relu"}
    loaded = loope.load(loope.save(model, tmp_path / "m.safetensors", model_args=args))
    batch = torch.randn(2, 3, 224, 224)
    assert torch.equal(predict(loaded, batch), predict(model.eval(), batch))


def test_traits_of_an_own_encoding_that_was_set_aside(tmp_path):
    args = {**ARGS, "ref_feat_shape": [8, 8], "rope_temperature": 50.0}
    model = timm.create_model("eva02_tiny_patch14_224", **{**TIMM, **args}).eval()
    before = predict(model, images(model))
    loope.attach(model, "gilbert")
    with pytest.raises(loope.LoopeError, match=r"rope\.ref_feat_shape, rope\.temperature would differ"):
        loope.save(model, tmp_path / "m.safetensors", model_args=ARGS)
    loaded = loope.load(loope.save(model, tmp_path / "m.safetensors", model_args=args))
    loope.detach(loaded)
    assert torch.equal(predict(loaded, images(model)), before)


def test_dtype_channels_and_tag_are_saved(tmp_path):
    args = {"depth": 1, "in_chans": 1}
    model = timm.create_model("vit_tiny_patch16_224.augreg_in21k", **args).bfloat16().eval()
    loope.attach(model, "loope")
    loaded = loope.load(loope.save(model, tmp_path / "m.safetensors", model_args={"depth": 1}))
    assert next(loaded.parameters()).dtype == torch.bfloat16
    assert loaded.pretrained_cfg["tag"] == "augreg_in21k"
    pixels = torch.randn(1, 1, 224, 224).bfloat16()
    assert torch.equal(predict(loaded, pixels), predict(model, pixels))


def test_a_kept_own_table_at_another_size(tmp_path):
    model = make("ViT")
    loope.attach(model, "gilbert", keep_own=True)
    loope.resize(model, (48, 32))
    loaded = loope.load(loope.save(model, tmp_path / "m.safetensors", model_args=ARGS))
    pixels = images(model, (48, 32))
    assert torch.equal(predict(loaded, pixels), predict(model, pixels))


def test_other_options_are_another_attachment():
    source, target = make("ViT"), make("ViT")
    loope.attach(source, "rope_axial", temperature=10.0)
    loope.attach(target, "rope_axial", temperature=1000.0)
    with pytest.raises(
        loope.LoopeError, match=r"with other options, .*1000\.0.* than those of the checkpoint, .*10\.0"
    ):
        target.load_state_dict(source.state_dict())


def test_averaged_weights_keep_their_attachment(tmp_path):
    model = make("ViT")
    loope.attach(model, "rope_mixed")
    ema = timm.utils.ModelEmaV3(model, decay=0.9)
    for _ in range(5):
        ema.update(model)
    loaded = loope.load(loope.save(ema.module, tmp_path / "m.safetensors", model_args=ARGS))
    torch.testing.assert_close(predict(loaded), predict(model), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "change",
    [
        lambda recipe: "not json",
        lambda recipe: "null",
        lambda recipe: "[" * 5000,
        lambda recipe: json.dumps({"format": 1}),
        lambda recipe: json.dumps({**recipe, "attach": {"encoders": 3}}),
        lambda recipe: json.dumps({**recipe, "dtype": "nonsense"}),
        lambda recipe: json.dumps({**recipe, "model": {**recipe["model"], "name": "hf-hub:someone/model"}}),
        lambda recipe: json.dumps({**recipe, "model": {**recipe["model"], "name": "local-dir:/etc"}}),
        lambda recipe: json.dumps({**recipe, "model": {**recipe["model"], "args": {"checkpoint_path": "/etc/passwd"}}}),
        lambda recipe: json.dumps({**recipe, "model": {**recipe["model"], "args": {"pretrained_cfg": "x"}}}),
        lambda recipe: json.dumps({**recipe, "model": {**recipe["model"], "args": {"nonsense": 1}}}),
    ],
)
def test_recipes_that_are_damaged_or_hostile(change, tmp_path):
    model = make("ViT")
    loope.attach(model, "gilbert")
    path = loope.save(model, tmp_path / "m.safetensors", model_args=ARGS)
    with safe_open(path, "pt") as file:
        recipe, state = json.loads(file.metadata()["loope"]), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    save_file(state, path, metadata={"loope": change(recipe)})
    with pytest.raises(loope.LoopeError):
        loope.load(path)


def test_frozen_models_stay_at_their_size():
    model = make("ViT")
    loope.attach(model, "gilbert")
    loope.bake(model, (32, 32))
    assert not model.training
    for call in (lambda: loope.resize(model, (16, 64)), lambda: loope.bake(model, (16, 64))):
        with pytest.raises(loope.LoopeError, match="baked"):
            call()


def test_freezing_bakes_custom_encoders_only_if_they_declare_to_be_static():
    table = torch.randn(2, 1, 3, 16, 16)

    class PerLayer(loope.PositionalEncoder):
        def bias(self, q, positions, layer):
            return table[layer]

    class ReadsQueries(loope.PositionalEncoder):
        def bias(self, q, positions, layer):
            return q @ q.transpose(-1, -2)

    class Both(PerLayer):
        def embed(self, images, positions):
            return images.mean() + torch.zeros(1, positions.length, self.dim)

    static = type("Static", (PerLayer,), {"reads_content": False})
    for number, cls in enumerate((PerLayer, ReadsQueries, Both, static)):
        loope.register_encoder(f"own_{number}")(cls)
        model = make("ViT")
        loope.attach(model, f"own_{number}")
        before = predict(model)
        loope.bake(model, (32, 32))
        torch.testing.assert_close(predict(model), before)
        assert type(model.loope.encoders[0][0]).__name__ == ("BakedBias" if cls is static else cls.__name__)
