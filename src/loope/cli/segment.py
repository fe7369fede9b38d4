"""`loope segment`: segment an image."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from loope.cli.options import JsonOption, busy
from loope.cli.text import as_text
from loope.core.errors import LoopeError, require
from loope.core.files import write_atomic
from loope.core.images import ImageError, read_image
from loope.core.limits import MOST_PIXELS, MOST_SCORES
from loope.core.packages import require_packages
from loope.core.plain import to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from loope.segmentation.backbone import SegmentationModel


def segment(
    image: Annotated[Path, typer.Argument(help="Image to segment.")],
    checkpoint: Annotated[Path, typer.Option(help="A SETR or Segmenter model, written by loope.save.")],
    out: Annotated[Path, typer.Option(help="Folder for the mask, overlay and legend.")] = Path("out/segment"),
    full: Annotated[bool, typer.Option("--full", help="Slide a window over the image at full resolution.")] = False,
    scale: Annotated[
        list[float] | None, typer.Option(help="Scale of the image at inference. Repeatable.", min=0.05, max=10)
    ] = None,
    flip: Annotated[bool, typer.Option("--flip", help="Average with the mirrored image.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Segment an image, and write a mask, an overlay and a legend as PNG files.

    The mask stores class indices, with the class colours as its palette.

    Examples:
        loope segment street.jpg --checkpoint setr.safetensors

        loope segment street.jpg --checkpoint setr.safetensors --scale 0.75 --scale 1 --scale 1.25 --flip
    """
    require_packages("Segmenting", "models,plots", "matplotlib", "numpy", "PIL", "safetensors", "timm")
    require(image.is_file(), f"No such image: {image}.")
    require(checkpoint.exists(), f"There is no file {checkpoint}.")
    from loope.plots import layout
    from loope.segmentation import drawing as drawings

    picture = _read(image)
    model = _model(checkpoint)
    with busy("Segmenting"):
        mask = _classes(model, picture, full, scale or [1.0], flip)
    labels = model.labels
    shares = [share / mask.numel() for share in mask.flatten().bincount(minlength=len(labels)).tolist()]
    drawn = {
        "mask": _png(mask.byte(), labels.palette),
        "overlay": _png(drawings.overlay(picture, mask, labels)),
        "legend": layout.png(drawings.legend(labels, shares)),
    }
    files = {name: write_atomic(out / f"{image.stem}-{name}.png", data) for name, data in drawn.items()}
    rows = sorted(zip(labels.names, labels.colours, shares, strict=True), key=lambda row: -row[2])
    if as_json:
        classes = [{"name": name, "colour": list(colour), "share": share} for name, colour, share in rows]
        shown = {name: str(path) for name, path in files.items()}
        typer.echo(to_json({"size": list(mask.shape), "files": shown, "classes": classes}))
        return
    console = Console()
    for name, colour, share in rows:
        if share:
            console.print(f"[rgb({colour[0]},{colour[1]},{colour[2]})]██[/] {as_text(f'{name:16}')} {share:6.1%}")
    console.print("Written: " + ", ".join(f"[bold]{as_text(path)}[/bold]" for path in files.values()))


def _read(path: Path) -> Tensor:
    """Read an image as `(H, W, 3)` uint8, upright."""
    import numpy
    import torch

    try:
        return torch.from_numpy(numpy.array(read_image(path, upright=True)))
    except ImageError as error:
        raise LoopeError(f"{path} cannot be read as an image: {error}.") from None


def _model(path: Path) -> SegmentationModel:
    from loope.segmentation.backbone import SegmentationModel
    from loope.surgery import load
    from loope.surgery.find import required_attachment

    model = load(path)
    if not isinstance(model, SegmentationModel):
        raise LoopeError(
            f"{path} holds a {type(model).__name__}, not a segmentation model; use a SETR or Segmenter checkpoint."
        )
    channels = required_attachment(model).branches[0].channels
    require(channels == 3, f"{path} takes images of {channels} channels; only RGB models are supported here.")
    return model


def _classes(model: SegmentationModel, picture: Tensor, full: bool, scales: list[float], flip: bool) -> Tensor:
    """Return the classes, `(H, W)` int64, at the picture's resolution."""
    import torch
    from timm.data import resolve_model_data_config

    from loope.segmentation import predict

    config = resolve_model_data_config(model.backbone)  # type: ignore[no-untyped-call]
    like = next(model.parameters())
    mean, std = (torch.tensor(config[key]).view(3, 1, 1) for key in ("mean", "std"))
    pixels = ((picture.permute(2, 0, 1) / 255 - mean) / std)[None]
    size = seen = list(picture.shape[:2])
    if not full:  # the smallest size that covers the model's window
        factor = max(window / side for window, side in zip(model.size, size, strict=True))
        seen = [max(window, round(side * factor)) for window, side in zip(model.size, size, strict=True)]
    _check_demand(seen, max(scales), len(model.labels))
    if not full:
        pixels = torch.nn.functional.interpolate(pixels, seen, mode="bilinear", antialias=True)
    found = predict(model, pixels.to(like), scales=scales, flip=flip).float()
    require(bool(found.isfinite().all()), "The model's scores are not finite; its weights are unusable.")
    return _most_likely(found, size)


def _check_demand(size: Sequence[int], scale: float, classes: int) -> None:
    """Raise `LoopeError` if the image is too large at its inference size."""
    height, width = (round(side * max(1.0, scale)) for side in size)
    most = min(MOST_PIXELS, MOST_SCORES // classes)
    require(
        height * width <= most,
        f"The image would be processed at {height:,}x{width:,} pixels; with {classes} classes, up to {most:,} are "
        "supported. Use a smaller image, a less elongated one, or a smaller --scale.",
    )


def _most_likely(scores: Tensor, size: Sequence[int]) -> Tensor:
    """Resize `(1, classes, h, w)` scores and return the argmax, `(H, W)` int64; one class at a time to save memory."""
    import torch

    from loope.segmentation.backbone import enlarged

    best, chosen = enlarged(scores[:, :1], size)[0, 0], torch.zeros(*size, dtype=torch.int64)
    for number in range(1, scores.shape[1]):
        other = enlarged(scores[:, number : number + 1], size)[0, 0]
        better = other > best
        best, chosen = torch.where(better, other, best), chosen.masked_fill_(better, number)
    return chosen


def _png(pixels: Tensor, palette: list[int] | None = None) -> bytes:

    from PIL import Image

    drawn = Image.fromarray(pixels.numpy())
    if palette is not None:
        drawn.putpalette(palette)
    buffer = BytesIO()
    drawn.save(buffer, "PNG")
    return buffer.getvalue()
