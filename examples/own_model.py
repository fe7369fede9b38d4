"""Attach any encoder to your own model, save it and load it: a small ViT and its adapter."""

import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import loope
from loope.core.grid import Grid


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def split(self, x):
        return self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)

    def forward(self, x):
        return self.out(F.scaled_dot_product_attention(*self.split(x)).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(dim), Attention(dim, heads)
        self.norm2, self.mlp = (
            nn.LayerNorm(dim),
            nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)),
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Patches(nn.Module):
    def __init__(self, dim: int, side: int):
        super().__init__()
        self.cut = nn.Conv2d(3, dim, side, stride=side)

    def forward(self, images):
        return self.cut(images).flatten(2).transpose(1, 2)


class SmallViT(nn.Module):
    def __init__(self, size=(32, 32), patch=8, dim=48, depth=2, heads=3, classes=5):
        super().__init__()
        self.size, self.patch = tuple(size), patch
        self.patches = Patches(dim, patch)
        self.positions = nn.Parameter(torch.randn(1, (size[0] // patch) * (size[1] // patch), dim))
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(depth)))
        self.head = nn.Linear(dim, classes)

    def forward(self, images):
        x = self.patches(images) + self.positions
        return self.head(self.blocks(x).mean(dim=1))


@loope.register_adapter
class SmallViTAdapter(loope.Adapter):
    """What loope must know of the model. `describe` and `build` are needed only to save and load it."""

    @classmethod
    def matches(cls, model):
        return isinstance(model, SmallViT)

    def branches(self):
        model, attention = self.model, self.model.blocks[0].attention
        return [
            loope.Branch(
                patch_embed=model.patches,
                blocks=list(model.blocks),
                attentions=[block.attention for block in model.blocks],
                dim=attention.out.in_features,
                heads=attention.heads,
                grid=Grid(model.size[0] // model.patch, model.size[1] // model.patch),
                patch_size=model.patch,
                table=loope.Slot(model, "positions"),
            )
        ]

    def attend(self, attention, position, x):
        q, k, v = attention.split(x)
        q, k, bias = position(q, k)
        scale = v.shape[-1] ** -0.5  # of the model; an encoder may widen queries and keys
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale)
        return attention.out(mixed.transpose(1, 2).flatten(2))

    def set_geometry(self, size):
        self.model.size = tuple(size)

    def describe(self, size, args):
        model, branch = self.model, self.branches()[0]
        found = {"patch": model.patch, "dim": branch.dim, "depth": len(branch.blocks), "heads": branch.heads}
        return {"args": {"size": list(size), **found, "classes": model.head.out_features, **args}}

    @classmethod
    def build(cls, about):
        return SmallViT(**about["args"])


if __name__ == "__main__":
    model, images = SmallViT().eval(), torch.randn(2, 3, 32, 32)
    own = model(images)
    for encoder in ("gilbert", "loope", "peg", "alibi2d", "rope_mixed"):
        report = loope.report(loope.attach(model, encoder))
        moved = (model(images) - own).abs().mean()
        print(f"{encoder:12} logits moved by {moved:.3f}, {report.parameters_added:,} parameters added")
        loope.detach(model)
    assert torch.equal(model(images), own)
    print("detached: the model is itself again, bit for bit")

    loope.attach(model, "loope")
    with tempfile.TemporaryDirectory() as folder:
        loaded = loope.load(loope.save(model, Path(folder) / "small_vit.safetensors"))
    assert torch.equal(loaded(images), model(images))
    print("saved and loaded")
