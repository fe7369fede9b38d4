"""Build models in another process, so that a hanging download or a file that demands gigabytes stays there.

Three requests need a model: a timm model's own table, a checkpoint's encoders, whose shapes depend on its model, and
the diagnosis of a checkpoint's model.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import anyio

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid
from loope.explorer.numbers import read_size

MOST_PROCESSES = 2
SECONDS = {"timm": 600, "acts": 30, "whole": 120}  # a download may be large
MOST_MEMORY = 2 * 2**30  # to build the encoders of a file, or to run its model
NAME = re.compile(r"[A-Za-z0-9_.]{1,100}")
# Use our own search path, so that modules in the current folder are not imported.
START = "import os, sys; sys.path[:] = sys.argv[1].split(os.pathsep); from loope.explorer.models import main; main()"
COMMAND = [sys.executable, "-c", START]
FAILED = 3  # exit code: the output is the error message


class Models:
    """Runs up to `MOST_PROCESSES` processes at a time."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MOST_PROCESSES)

    async def table(self, name: str, grid: Grid, shown: Grid) -> bytes:
        """Return the Compare data of a timm model's position table, resampled from its grid to the grid `shown`.

        Raises:
            LoopeError: if timm does not have the model, or cannot load it.
        """
        require(
            NAME.fullmatch(name) is not None,
            f"The name of a timm model has up to 100 letters, digits, dots and underscores, got {name[:100]!r}.",
        )
        return await self._run("timm", name, f"{grid}~{shown}")

    async def acting(self, file: bytes, number: int, grid: Grid, shown: Grid) -> bytes:
        """Return the Compare data of a position encoding in use in a checkpoint: see `compare.trained_data`.

        Raises:
            LoopeError: if its encoders cannot be built.
        """
        return await self._run("acts", str(number), f"{grid}~{shown}", given=file)

    async def diagnosis(self, file: bytes, images: bytes, scale: str) -> bytes:
        """Return the data of the Model view.

        Args:
            file: the checkpoint.
            images: as `loope.explorer.diagnosis.split_images` takes them.
            scale: the range of the pixels.

        Raises:
            LoopeError: if the model cannot be built or run.
        """
        return await self._run("whole", str(len(file)), scale, given=file + images)

    async def _run(self, what: str, *arguments: str, given: bytes = b"") -> bytes:
        path = os.pathsep.join(str(Path(each).absolute()) for each in sys.path if each)
        pipe = asyncio.subprocess.PIPE
        async with self._free:
            process = await asyncio.create_subprocess_exec(*COMMAND, path, what, *arguments, stdin=pipe, stdout=pipe)
            try:
                with anyio.fail_after(SECONDS[what]):
                    printed, _ = await process.communicate(given)
            except TimeoutError:
                raise LoopeError(f"Loading {_label(what, arguments[0])} took over {SECONDS[what]} seconds.") from None
            finally:
                if process.returncode is None:  # timed out, or the explorer stops
                    process.kill()
                    await process.wait()
        if process.returncode == FAILED:
            raise LoopeError(printed.decode())
        ended = f"Loading {_label(what, arguments[0])} failed unexpectedly; see the explorer's terminal."
        require(process.returncode == 0, ended)
        return printed


def _label(what: str, which: str) -> str:
    return {"timm": repr(which), "acts": "the file's encoders", "whole": "the file's model"}[what]


def main() -> None:
    """Write the requested data to stdout."""
    what, *arguments = sys.argv[2:]
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # keep what libraries print out of the data
    make: Callable[..., bytes] = {"timm": _table, "acts": _acting, "whole": _whole}[what]
    try:
        out.write(make(*arguments))
    except LoopeError as error:
        out.write(str(error).encode())
        out.flush()
        sys.exit(FAILED)


def _table(name: str, size: str) -> bytes:
    from loope.explorer.compare import table_data
    from loope.pesi_metric.position_table import model_table

    grid, shown = read_size(size)
    return table_data(model_table(name, grid=grid), shown)


def _acting(number: str, size: str) -> bytes:
    from loope.explorer.compare import trained_data
    from loope.explorer.uploads import read_weights

    file = read_weights(sys.stdin.buffer.read())
    _limit_memory()
    return trained_data(file, int(number), *read_size(size))


def _whole(length: str, scale: str) -> bytes:
    from loope.explorer.diagnosis import file_data

    given = sys.stdin.buffer.read()
    _limit_memory()
    return file_data(given[: int(length)], given[int(length) :], scale)


def _limit_memory() -> None:
    """Make excessive allocations fail, in this process only."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
