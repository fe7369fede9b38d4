"""Models of transformers that replace, drop or pad patches: encoders follow them. And models that are refused."""

import pytest
import torch
import transformers as hf
from torch import nn
from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VisionTransformerPretrainedModel

import loope
from loope.surgery.adapters.transformers import refusal_of
from tests.surgery.transformers_models import DINO, PATCH, SIDE, VIT, inputs, make, patches_of, predict

MASKED = {
    "ViT": lambda: hf.ViTModel(hf.ViTConfig(**VIT), use_mask_token=True),
    "ViTMSN": lambda: hf.ViTMSNModel(hf.ViTMSNConfig(**VIT), use_mask_token=True),
    "IJepa": lambda: hf.IJepaModel(hf.IJepaConfig(**VIT), use_mask_token=True),
    "Dinov2": lambda: hf.Dinov2Model(hf.Dinov2Config(**DINO)),
    "Dinov2, registers": lambda: hf.Dinov2WithRegistersModel(hf.Dinov2WithRegistersConfig(**DINO)),
    "DINOv3": lambda: hf.DINOv3ViTModel(hf.DINOv3ViTConfig(**VIT, num_register_tokens=2)),
    "BEiT": lambda: hf.BeitModel(hf.BeitConfig(**VIT, use_mask_token=True)),
    "Data2Vec": lambda: hf.Data2VecVisionModel(hf.Data2VecVisionConfig(**VIT, use_mask_token=True)),
    "InternVL": lambda: hf.InternVLVisionModel(
        hf.InternVLVisionConfig(
            **{**VIT, "image_size": [SIDE, SIDE], "patch_size": [PATCH, PATCH]}, use_mask_token=True
        )
    ),
}


@pytest.mark.parametrize("name", MASKED)
def test_a_masked_patch_is_the_mask_token_and_its_position(name):
    torch.manual_seed(0)
    model = MASKED[name]().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    loope.attach(model, "learned")
    nn.init.normal_(model.loope.encoders[0][0].table)
    seen = []
    branch = model.loope.branches[0]
    branch.blocks[0].register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    masked = torch.arange(16).expand(2, -1) % 3 == 0
    with torch.no_grad():
        model(**inputs(model))
        model(**inputs(model), bool_masked_pos=masked)
        vectors = model.loope.encoders[0][0](None).expand(2, -1, -1)
    plain, shown = (tokens[:, branch.prefix :] for tokens in seen)
    token = model.embeddings.mask_token.view(-1)
    torch.testing.assert_close(shown[masked], token + vectors[masked])
    torch.testing.assert_close(shown[~masked], plain[~masked])


class TestViTMAE:
    def run(self, encoder, ratio, noise):
        torch.manual_seed(0)
        model = hf.ViTMAEModel(hf.ViTMAEConfig(**VIT, mask_ratio=ratio)).eval()
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.2)
        loope.attach(model, encoder)
        for parameter in model.loope.encoders.parameters():
            nn.init.normal_(parameter, std=0.3)
        with torch.no_grad():
            return model, model(inputs(model)["pixel_values"], noise=noise).last_hidden_state

    @pytest.mark.parametrize("encoder", ["learned", "rope_mixed", "irpe"])
    def test_shuffled_patches_take_their_positions_along(self, encoder):
        order = torch.randperm(16, generator=torch.Generator().manual_seed(1))
        straight = self.run(encoder, 0.0, torch.arange(16.0).expand(2, -1))[1]
        shuffled = self.run(encoder, 0.0, order.argsort().float().expand(2, -1))[1]
        expected = torch.cat((straight[:, :1], straight[:, 1:][:, order]), dim=1)
        torch.testing.assert_close(shuffled, expected, rtol=1e-4, atol=1e-5)

    def test_positions_are_those_of_the_patches_that_are_left(self):
        noise = torch.rand(2, 16, generator=torch.Generator().manual_seed(1))
        model, tokens = self.run("rope_axial", 0.75, noise)
        assert tokens.shape[1] == 1 + 4
        assert torch.equal(model.loope.host.places[0].positions[0].nearest(), noise.argsort(dim=1)[:, :4])

    def test_learned_prefix_vectors_too(self):
        torch.manual_seed(0)
        model = loope.attach(make("ViTMAE"), "rope_axial", prefix="learned")
        before = predict(model)
        nn.init.normal_(model.loope.prefixes["patches"])
        assert not torch.equal(predict(model), before)


@pytest.mark.parametrize("encoder", ["sincos2d", "learned", "loope", "rope_mixed", "irpe", "peg"])
def test_siglip_2_takes_images_of_several_sizes(encoder):
    model = loope.attach(make("SigLIP 2"), encoder)
    torch.manual_seed(1)
    for parameter in model.loope.encoders.parameters():
        nn.init.normal_(parameter, std=0.3)
    parts = [patches_of(torch.randn(1, 3, *size)) for size in ((32, 24), (16, 40))]
    length = 12
    padded = {
        "pixel_values": torch.cat(
            [nn.functional.pad(p["pixel_values"], (0, 0, 0, length - p["pixel_values"].shape[1])) for p in parts]
        ),
        "spatial_shapes": torch.cat([part["spatial_shapes"] for part in parts]),
    }
    counts = padded["spatial_shapes"].prod(dim=1)
    padded["pixel_attention_mask"] = (torch.arange(length) < counts[:, None]).long()
    with torch.no_grad():
        together = model(**padded).last_hidden_state
        for row, part, count in zip(together, parts, counts, strict=True):
            alone = model(**part).last_hidden_state[0]
            torch.testing.assert_close(row[:count], alone, rtol=1e-4, atol=1e-5)


def test_aimv2_with_computed_positions_is_refused():
    model = hf.Aimv2VisionModel(hf.Aimv2VisionConfig(**VIT, is_native=True))
    with pytest.raises(loope.LoopeError, match="is_native"):
        loope.attach(model, "learned")


def test_a_hybrid_is_refused():
    backbone = hf.BitConfig(
        num_groups=4,
        embedding_size=8,
        hidden_sizes=[8, 8, 8],
        depths=[1, 1, 1],
        out_features=["stage1", "stage2", "stage3"],
    )
    model = hf.DPTModel(
        hf.DPTConfig(**VIT, is_hybrid=True, backbone_config=backbone, backbone_featmap_shape=[1, 8, 2, 2])
    )
    with pytest.raises(loope.LoopeError, match="hybrid"):
        loope.attach(model, "learned")


REFUSED = {
    "VideoMAE": (lambda: hf.VideoMAEModel(hf.VideoMAEConfig(**VIT, num_frames=2)), "video"),
    "Pixtral": (lambda: hf.PixtralVisionModel(hf.PixtralVisionConfig(**VIT)), "packs"),
    "Qwen2-VL": (
        lambda: Qwen2VisionTransformerPretrainedModel(
            Qwen2VLVisionConfig(depth=1, embed_dim=32, hidden_size=32, num_heads=2, patch_size=PATCH)
        ),
        "packs",
    ),
    "Swin v2": (
        lambda: hf.Swinv2Model(hf.Swinv2Config(image_size=SIDE, embed_dim=8, depths=[1, 1], num_heads=[1, 1])),
        "cosines",
    ),
    "PVT": (lambda: hf.PvtModel(hf.PvtConfig(image_size=64)), "merges"),
}


@pytest.mark.parametrize(("make_model", "reason"), REFUSED.values(), ids=REFUSED)
def test_refusals_say_why(make_model, reason):
    model = make_model()
    part, why = refusal_of(model)
    with pytest.raises(loope.LoopeError) as refused:
        loope.attach(model, "learned")
    assert part in str(refused.value)
    assert why in str(refused.value)
    assert reason in why
