"""Read image files safely: few formats, a size limit, and one error type.

Pillow tries each format it knows on any file, whatever its name, and for some of them starts other programs
(Ghostscript for EPS). Only plain image formats are tried here.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING

from loope.core.errors import LoopeError
from loope.core.limits import MOST_PIXELS
from loope.core.packages import require_packages

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")


class ImageError(LoopeError):
    """Raised if an image cannot be read; the message is the reason, to be appended to the image's name."""


def read_image(
    source: Path | bytes, mode: str | None = "RGB", *, upright: bool = False, most: int = MOST_PIXELS
) -> Image:
    """Decode an image.

    Args:
        source: the file, or its content.
        mode: Pillow's mode to convert to; None keeps that of the file.
        upright: rotate the image as its EXIF data says.
        most: maximum number of pixels, checked before decoding.

    Raises:
        ImageError: if there is no such file, or it is none of `FORMATS`, damaged, or too large.
    """
    if isinstance(source, bytes):
        return _decode(BytesIO(source), len(source), mode, upright, most)
    if not source.is_file():  # a pipe would block
        raise ImageError("there is no such file")
    try:
        with source.open("rb") as file:
            return _decode(file, source.stat().st_size, mode, upright, most)
    except OSError as error:
        raise ImageError(error.strerror or str(error)) from None


def _decode(file: IO[bytes], size: int, mode: str | None, upright: bool, most: int) -> Image:
    require_packages("Reading images", "explore", "PIL")
    from PIL import Image, ImageOps, UnidentifiedImageError

    too_large = f"an image may have up to {most:,} pixels"
    try:
        with Image.open(file, formats=FORMATS) as image:
            if image.width * image.height > most:
                raise ImageError(f"{too_large}, got {image.height:,}x{image.width:,}; use a smaller one")
            image.verify()
        file.seek(0)
        with Image.open(file, formats=FORMATS) as image:  # an image cannot be read after `verify`
            image.load()
            turned = ImageOps.exif_transpose(image) if upright else image
            return turned if mode is None else turned.convert(mode)
    except ImageError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ImageError(f"{too_large}; use a smaller one") from None
    except UnidentifiedImageError:
        raise ImageError(f"it is no image ({size:,} bytes); use one of {', '.join(FORMATS)}") from None
    except MemoryError:
        raise
    except Exception as error:  # damaged files can make a decoder raise anything
        raise ImageError(str(error) or type(error).__name__) from error
