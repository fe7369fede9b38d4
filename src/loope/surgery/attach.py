"""`attach`, `detach` and `resize`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from loope.core.errors import LoopeError, one_of, require, shown
from loope.core.grid import Grid, GridLike, as_grid
from loope.encoders import PositionalEncoder, create_encoder
from loope.encoders.base import KINDS, encoder_class
from loope.surgery import specs
from loope.surgery.adapters.base import Adapter, adapter_for
from loope.surgery.adapters.branch import Branch
from loope.surgery.find import all_attachments, attachment_of, sole_attachment
from loope.surgery.hooks import is_wired
from loope.surgery.host import Host, fit_table
from loope.surgery.overrides import override_methods, restore_methods
from loope.surgery.own import compare_outputs, fit_own_table, output_of, own_start
from loope.surgery.report import start_note
from loope.surgery.state import Attachment

EncoderChoice: TypeAlias = "str | Sequence[str | tuple[str, dict[str, Any]]]"
PREFIXES = ("none", "learned")


def attach(
    model: nn.Module,
    encoder: EncoderChoice,
    *,
    init: str | None = None,
    keep_own: bool = False,
    prefix: str | None = None,
    freeze_backbone: bool = False,
    images: Tensor | None = None,
    **options: Any,
) -> nn.Module:
    """Attach one or more encoders to a timm or transformers model, in place; see `loope.report` for the result.

    Args:
        model: a vision transformer, pretrained or not.
        encoder: a name, or a list of names and (name, options) pairs to use together.
        init: "own" keeps what a pretrained model knows. An additive encoder is fitted to the model's own position
            table, if need be through a trainable projection. Any other starts with strength 0 beside the own encoding,
            so that the output is exactly the model's own, until `loope.set_strength` raises it.
        keep_own: keep the model's own encoding active; by default it is stored but unused.
        prefix: positions of class, distillation, register and detection tokens: "none", or "learned", one vector each
            that starts from the model's own.
        freeze_backbone: train only the encoder.
        images: a batch on which `loope.report` shall tell how far the output moved.
        options: options of a single encoder.

    Returns:
        The model, so that `model = attach(model, ...)` is safe.

    Raises:
        LoopeError: if the model is not supported, has encoders attached already, or cannot use the encoder.
    """
    adapter = adapter_for(model)
    require(
        not is_wired(model),
        f"This {type(model).__name__} has something attached already, to it, a part of it or the model around it; call "
        "loope.detach first.",
    )
    require(isinstance(keep_own, bool), f"`keep_own` must be True or False, got {shown(keep_own)}.")
    branches = adapter.branches()
    chosen = _chosen(encoder, options)
    fitted = False
    if init is not None:
        one_of("init", init, ("own",))
        require(not keep_own, "`init='own'` decides itself whether the model's own encoding stays; leave keep_own out.")
        chosen, fitted = own_start(branches, chosen)
        keep_own = not fitted
    before = None if images is None else output_of(model, images)
    for branch in branches:
        _check_refusals(model, branch, chosen)
    made = [
        [each.to(next(branch.patch_embed.parameters())) for each in encoders_for(branch, chosen)] for branch in branches
    ]
    if prefix is None:
        prefix = _default_prefix(init, branches[0], made[0])
    one_of("prefix", prefix, PREFIXES)
    for branch, encoders in zip(branches, made, strict=True):
        _check_fit(adapter, branch, encoders)
    spec: specs.Spec = {"encoders": chosen, "keep_own": keep_own, "prefix": prefix}
    host = Host(adapter, branches, [branch.grid for branch in branches])
    attachment = Attachment(host, made, spec)
    if fitted:
        host.explained = [fit_own_table(branch, each[0]) for branch, each in zip(branches, made, strict=True)]
    if prefix == "learned":
        for branch in branches:
            _add_prefix_vectors(attachment, branch)
    require(
        not freeze_backbone or any(True for _ in attachment.parameters()),
        f"{specs.names(spec)} has no parameters, so with freeze_backbone=True nothing would train.",
    )
    if not keep_own:
        attachment.set_aside()
    if freeze_backbone:
        host.frozen = [parameter for parameter in model.parameters() if parameter.requires_grad]
        model.requires_grad_(False)
    model.loope = attachment.train(model.training)
    attachment.wire()
    override_methods(model)
    if init is not None and not fitted:
        attachment.set_strengths(0.0, 1.0)
    host.note = start_note(attachment, init)
    if before is not None and images is not None:
        try:
            host.moved = compare_outputs(before, output_of(model, images))
        except BaseException:
            detach(model)
            raise
    return model


def detach(model: nn.Module) -> None:
    """Remove the encoders and restore the model's own encoding, bit for bit.

    A model that was resized while attached keeps its size, with its own table resampled to it.

    Raises:
        LoopeError: if nothing is attached.
    """
    attachment = sole_attachment(model)
    require(not attachment.baked, "The model was baked for deployment and its own encoding dropped; load it again.")
    attachment.unwire()
    restore_methods(model)
    attachment.restore()
    for parameter in attachment.host.frozen:
        parameter.requires_grad_(True)
    del model.loope


def resize(model: nn.Module, size: GridLike) -> None:
    """Change a model's image size to (height, width) pixels by resampling its encoders and its own table.

    Raises:
        LoopeError: if the size is not a multiple of the patch size.
    """
    pixels = as_grid(size, "size")
    adapter = adapter_for(model)
    attachment = attachment_of(model)
    branches = attachment.branches if attachment else adapter.branches()
    side = branches[0].patch_size
    if pixels.height % side or pixels.width % side:
        nearest = "x".join(str(max(side, round(length / side) * side)) for length in pixels)
        raise LoopeError(f"The size must be a multiple of the patch size {side}, got {pixels}; use {nearest}.")
    if attachment:
        require(not attachment.baked or pixels == branches[0].pixels, "The model is baked for its size; load it again.")
        for number, branch in enumerate(branches):
            _try_resize(attachment.encoders_of(number), branch, pixels)
    adapter.set_geometry(pixels)
    grids = [branch.grid for branch in adapter.branches()]
    if attachment:
        for each in all_attachments(model):
            each.fit(grids)
        attachment.host.fit(grids)
        return
    for branch, grid in zip(branches, grids, strict=True):
        old, branch.grid = branch.grid, grid
        fit_table(branch, old)


def _chosen(encoder: EncoderChoice, options: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    if isinstance(encoder, str):
        return [(encoder, options)]
    require(
        isinstance(encoder, Sequence) and not (isinstance(encoder, tuple) and len(encoder) == 2 and _is_pair(encoder)),
        f"`encoder` must be a name or a list of names and (name, options) pairs, got {shown(encoder)}.",
    )
    for each in encoder:
        require(
            isinstance(each, str) or _is_pair(each),
            f"An encoder in a list must be a name or a (name, options) pair, got {shown(each)}.",
        )
    chosen = [(each, {}) if isinstance(each, str) else (each[0], dict(each[1])) for each in encoder]
    require(bool(chosen), "Name at least one encoder; 'none' stands for no position.")
    require(
        not options,
        f"Options of several encoders go with their names: [('{chosen[0][0]}', {shown(options)}), ...].",
    )
    return chosen


def _default_prefix(init: str | None, branch: Branch, encoders: Sequence[PositionalEncoder]) -> str:
    """Return the default `prefix`: "learned" if the encoder asks for it, or the own vectors are to be kept."""
    wanted = (init == "own" and branch.table_prefix) or any(each.prefix == "learned" for each in encoders)
    return "learned" if wanted and branch.others else "none"


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict)
    )


def _try_resize(encoders: Sequence[PositionalEncoder], branch: Branch, pixels: Grid) -> None:
    """Resize copies of the encoders first, so that a failure leaves the model unchanged."""
    grid = Grid(max(1, pixels.height // branch.patch_size), max(1, pixels.width // branch.patch_size))
    for encoder in encoders:
        copy.deepcopy(encoder).resize(grid)


def encoders_for(branch: Branch, chosen: Sequence[tuple[str, dict[str, Any]]]) -> list[PositionalEncoder]:
    """Create those of the chosen encoders that act on a branch, on the CPU in float32."""
    return [
        encoder_for(branch, name, options)
        for name, options in chosen
        if branch.additive or encoder_class(name).hooks() != ("embed",)
    ]


def encoder_for(branch: Branch, name: str, options: dict[str, Any]) -> PositionalEncoder:
    """Create an encoder for a branch, on the CPU in float32."""
    fitting: dict[str, Any] = {
        "dim": branch.dim,
        "grid": branch.grid,
        "patch_size": branch.patch_size,
        "channels": branch.channels,
        "heads": branch.heads,
        "depth": len(branch.blocks),
    }
    for option in options:
        require(
            option not in fitting,
            f"`{option}` of the encoder {name!r} is the model's, {shown(fitting.get(option))}; leave it out.",
        )
    return create_encoder(name, **fitting, **options)


def _check_refusals(model: nn.Module, branch: Branch, chosen: Sequence[tuple[str, dict[str, Any]]]) -> None:
    for name, _ in chosen:
        for hook in encoder_class(name).hooks():
            require(
                hook not in branch.refused,
                f"{name!r} acts as {KINDS[hook]}, and {type(model).__name__} takes no such encoder: "
                f"{branch.refused.get(hook)}.",
            )


def _check_fit(adapter: Adapter, branch: Branch, encoders: Sequence[PositionalEncoder]) -> None:
    for encoder in encoders:
        if {"rotate", "bias"} & set(encoder.hooks()):
            known = adapter.known_attentions()
            attentions = [each for layer in range(len(branch.blocks)) for each in branch.attentions_of(layer)]
            strange = {type(each).__name__ for each in attentions if known and type(each) not in known}
            require(
                not strange and type(adapter).attend is not Adapter.attend,
                f"{encoder.name!r} acts in attention, and that of this model ({' '.join(strange) or 'no `attend`'}) is "
                "not known from the inside; additive and conditional encoders can be attached.",
            )
            require(
                not encoder.reads_content
                or type(encoder).refine_positions is PositionalEncoder.refine_positions
                or all(adapter.window(block) is None for block in branch.blocks),
                f"{encoder.name!r} moves positions by the image, which a model that attends in windows cannot use.",
            )
        if "bias" in encoder.hooks():
            adapter.check_bias()
        if "mix" in encoder.hooks():
            require(
                any(encoder.mixes_after(layer) for layer in range(len(branch.blocks))),
                f"{encoder.name!r} acts after none of the model's {len(branch.blocks)} blocks; choose one of them.",
            )


def _add_prefix_vectors(attachment: Attachment, branch: Branch) -> None:
    if not branch.others:
        return
    require(branch.entry is not None, "This model has no place where learned prefix vectors could be added.")
    like = next(branch.patch_embed.parameters())
    vectors = torch.zeros(1, branch.others, branch.dim, device=like.device, dtype=like.dtype)
    if branch.table is not None and branch.table.value is not None and branch.table_prefix:
        own = branch.table.value.detach().reshape(-1, branch.dim)
        vectors[:, : branch.table_prefix] = own[: branch.table_prefix]
        vectors[:, branch.prefix :] = own[len(own) - branch.suffix :]
    attachment.prefixes[branch.name] = nn.Parameter(vectors)
