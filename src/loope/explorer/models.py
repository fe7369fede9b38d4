"""Build models in another process, so that a hanging download or a file that demands gigabytes stays there.

Two requests need a model: a timm model's own table, and a checkpoint's encoders, whose shapes depend on its model.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import anyio

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid

MOST_PROCESSES = 2
SECONDS = {"timm": 600, "acts": 30}  # a download may be large
MOST_MEMORY = 2 * 2**30  # to build the encoders of a file
NAME = re.compile(r"[A-Za-z0-9_.]{1,100}")
# Use our own search path, so that modules in the current folder are not imported.
START = "import os, sys; sys.path[:] = sys.argv[1].split(os.pathsep); from loope.explorer.models import main; main()"
COMMAND = [sys.executable, "-c", START]
FAILED = 3  # exit code: the output is the error message


class Models:
    """Runs up to `MOST_PROCESSES` processes at a time."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MOST_PROCESSES)

    async def table(self, name: str, grid: Grid) -> bytes:
        """Return the Compare data of a timm model's position table.

        Raises:
            LoopeError: if timm does not have the model, or cannot load it.
        """
        require(
            NAME.fullmatch(name) is not None,
            f"The name of a timm model has up to 100 letters, digits, dots and underscores, got {name[:100]!r}.",
        )
        return await self._run("timm", name, grid)

    async def acting(self, file: bytes, number: int, grid: Grid) -> bytes:
        """Return the Compare data of a position encoding in use in a checkpoint.

        Args:
            file: the checkpoint.
            number: the index of the encoding.
            grid: the grid to measure on.

        Raises:
            LoopeError: if its encoders cannot be built.
        """
        return await self._run("acts", str(number), grid, file)

    async def _run(self, what: str, which: str, grid: Grid, given: bytes = b"") -> bytes:
        path = os.pathsep.join(str(Path(each).absolute()) for each in sys.path if each)
        pipe = asyncio.subprocess.PIPE
        async with self._free:
            process = await asyncio.create_subprocess_exec(
                *COMMAND, path, what, which, str(grid.height), str(grid.width), stdin=pipe, stdout=pipe
            )
            try:
                with anyio.fail_after(SECONDS[what]):
                    printed, _ = await process.communicate(given)
            except TimeoutError:
                raise LoopeError(f"Loading {_label(what, which)} took over {SECONDS[what]} seconds.") from None
            finally:
                if process.returncode is None:  # timed out, or the explorer stops
                    process.kill()
                    await process.wait()
        if process.returncode == FAILED:
            raise LoopeError(printed.decode())
        ended = f"Loading {_label(what, which)} failed unexpectedly; see the explorer's terminal."
        require(process.returncode == 0, ended)
        return printed


def _label(what: str, which: str) -> str:
    return repr(which) if what == "timm" else "the file's encoders"


def main() -> None:
    """Write the requested data to stdout."""
    what, which, height, width = sys.argv[2:]
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # keep what libraries print out of the data
    make = {"timm": _table, "acts": _acting}[what]
    try:
        out.write(make(which, Grid(int(height), int(width))))
    except LoopeError as error:
        out.write(str(error).encode())
        out.flush()
        sys.exit(FAILED)


def _table(name: str, grid: Grid) -> bytes:
    from loope.explorer.compare import table_data
    from loope.pesi_metric.position_table import model_table

    return table_data(model_table(name, grid=grid))


def _acting(number: str, grid: Grid) -> bytes:
    from loope.explorer.compare import positions_data
    from loope.explorer.uploads import read_weights
    from loope.surgery.acting import acting

    file = read_weights(sys.stdin.buffer.read())
    _limit_memory()
    found = acting(file.tensors, file.metadata, grid=grid).positions
    require(int(number) < len(found), f"The file has {len(found)} encodings in use; choose it again.")
    return positions_data(found[int(number)])


def _limit_memory() -> None:
    """Make excessive allocations fail, in this process only."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
