"""`loope segment`: an image's classes, in colour."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loope.cli.options import JsonOption, busy

if TYPE_CHECKING:
    from torch import Tensor

    from loope.models.backbone import SegmentationModel


def segment(
    image: Annotated[Path, typer.Argument(help="The image.")],
    checkpoint: Annotated[Path, typer.Option(help="A SETR or Segmenter model, written by loope.save.")],
    out: Annotated[Path, typer.Option(help="Folder for mask, overlay and legend.")] = Path("out/segment"),
    full: Annotated[
        bool, typer.Option("--full", help="Slide over the image at its own resolution, not fitted to the model's.")
    ] = False,
    scale: Annotated[
        list[float] | None, typer.Option(help="Look at it at this scale; several may be given.", min=0.05, max=10)
    ] = None,
    flip: Annotated[bool, typer.Option("--flip", help="Look at it mirrored too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Segment an image: writes the mask in the classes' colours, an overlay and a legend as PNG files.

    The mask's pixels are the classes' numbers, and its palette their colours.

    Examples:
        loope segment street.jpg --checkpoint setr.safetensors

        loope segment street.jpg --checkpoint setr.safetensors --scale 0.75 --scale 1 --scale 1.25 --flip
    """
    from rich.console import Console

    from loope.core.files import write_atomic
    from loope.core.packages import require_packages
    from loope.reports import panels
    from loope.reports import segmentation as drawings

    require_packages("Segmenting", "models,plots", "matplotlib", "numpy", "PIL", "safetensors", "timm")
    picture = _read(image)
    model = _model(checkpoint)
    with busy("Segmenting"):
        mask = _classes(model, picture, full, scale or [1.0], flip)
    labels = model.labels
    shares = [share / mask.numel() for share in mask.flatten().bincount(minlength=len(labels)).tolist()]
    drawn = {
        "mask": _png(mask.byte(), labels.palette),
        "overlay": _png(drawings.overlay(picture, mask, labels)),
        "legend": panels.png(drawings.legend(labels, shares)),
    }
    files = {name: write_atomic(out / f"{image.stem}-{name}.png", data) for name, data in drawn.items()}
    rows = sorted(zip(labels.names, labels.colours, shares, strict=True), key=lambda row: -row[2])
    if as_json:
        classes = [{"name": name, "colour": list(colour), "share": share} for name, colour, share in rows]
        shown = {name: str(path) for name, path in files.items()}
        typer.echo(json.dumps({"size": list(mask.shape), "files": shown, "classes": classes}, indent=2))
        return
    console = Console()
    for name, colour, share in rows:
        if share:
            console.print(f"[rgb({colour[0]},{colour[1]},{colour[2]})]██[/] {name:16} {share:6.1%}")
    console.print("Written: " + ", ".join(f"[bold]{path}[/bold]" for path in files.values()))


def _read(path: Path) -> Tensor:
    """`(H, W, 3)` uint8, upright."""
    import numpy
    import torch
    from PIL import Image, ImageOps

    from loope.core.errors import LoopeError, require

    require(path.is_file(), f"There is no image {path}.")
    try:
        with Image.open(path) as file:
            upright = ImageOps.exif_transpose(file).convert("RGB")
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise LoopeError(f"{path} cannot be read as an image: {error}.") from None
    return torch.from_numpy(numpy.array(upright))


def _model(path: Path) -> SegmentationModel:
    from loope.attach import load
    from loope.attach.attachment import required_attachment
    from loope.core.errors import LoopeError, require
    from loope.models.backbone import SegmentationModel

    model = load(path)
    if not isinstance(model, SegmentationModel):
        raise LoopeError(
            f"{path} holds a {type(model).__name__}, which does not segment; give a file with a SETR or a Segmenter."
        )
    channels = required_attachment(model).branches[0].channels
    require(channels == 3, f"{path} is for images of {channels} channels; only colour images can be segmented here.")
    return model


def _classes(model: SegmentationModel, picture: Tensor, full: bool, scales: list[float], flip: bool) -> Tensor:
    """`(H, W)` int64, at the picture's own resolution."""
    import torch
    from timm.data import resolve_model_data_config

    from loope.models import predict
    from loope.models.backbone import enlarged

    config = resolve_model_data_config(model.backbone)  # type: ignore[no-untyped-call]
    like = next(model.parameters())
    mean, std = (torch.tensor(config[key]).view(3, 1, 1) for key in ("mean", "std"))
    pixels = ((picture.permute(2, 0, 1) / 255 - mean) / std)[None]
    size = picture.shape[:2]
    if not full:  # the smallest size that the model's window fits into
        factor = max(window / side for window, side in zip(model.size, size, strict=True))
        fitted = [max(window, round(side * factor)) for window, side in zip(model.size, size, strict=True)]
        pixels = torch.nn.functional.interpolate(pixels, fitted, mode="bilinear", antialias=True)
    found = predict(model, pixels.to(like), scales=scales, flip=flip)
    return enlarged(found.float(), size)[0].argmax(dim=0)


def _png(pixels: Tensor, palette: list[int] | None = None) -> bytes:
    from io import BytesIO

    from PIL import Image

    drawn = Image.fromarray(pixels.numpy())
    if palette is not None:
        drawn.putpalette(palette)
    buffer = BytesIO()
    drawn.save(buffer, "PNG")
    return buffer.getvalue()
