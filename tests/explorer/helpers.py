"""Slow, obvious decoding of the explorer's responses, and files to upload."""

import json
import struct
from io import BytesIO
from itertools import pairwise

import timm
import torch
from PIL import Image

import loope

SIZE = {"patch_size": 4, "embed_dim": 16, "depth": 1, "num_heads": 2}  # of `saved_model`


def unpack(data: bytes) -> dict:
    """Decode a response: the header, with its arrays as tensors."""
    (length,) = struct.unpack("<I", data[:4])
    about, at = json.loads(data[4 : 4 + length]), 4 + length
    for name, shape in about["arrays"]:
        count = torch.Size(shape).numel()
        about[name] = torch.tensor(struct.unpack(f"<{count}f", data[at : at + 4 * count])).view(shape)
        at += 4 * count
    assert at == len(data)
    return about


def similarity_of(name: str, grid, dim: int, heads: int, **options) -> torch.Tensor:
    """Compute the similarity of an encoder with the library."""
    torch.manual_seed(0)
    encoder = loope.create_encoder(name, dim, grid, patch_size=16, heads=heads, depth=12, **options)
    return loope.encoder_similarity(encoder)


def picture(width: int = 40, height: int = 30, file_format: str = "PNG", seed: int = 0) -> bytes:
    """Encode an image of noise."""
    noise = torch.randint(256, (height, width, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    out = BytesIO()
    Image.fromarray(noise.numpy()).save(out, file_format)
    return out.getvalue()


def saved_model(path, encoder: str = "loope", **options) -> torch.nn.Module:
    """Save a tiny ViT with an encoder attached; return the model."""
    torch.manual_seed(3)
    model = timm.create_model("vit_tiny_patch16_224", img_size=(12, 20), num_classes=2, **SIZE).eval()
    loope.attach(model, encoder, **options)
    loope.save(model.eval(), path, model_args=SIZE)
    return model


def slow_swaps(index, refined):
    """Find the neighbours on the curve whose order is reversed."""
    order = sorted(range(len(index)), key=lambda cell: index[cell])
    return [[one, two] for one, two in pairwise(order) if refined[one] > refined[two]]


def error(response, status: int = 400) -> str:
    """Return the message of a refusal."""
    assert response.status_code == status
    return response.json()["error"]
