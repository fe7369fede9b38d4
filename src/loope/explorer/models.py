"""What needs a model, made by another process: a network that hangs, or a file that asks for gigabytes, stays there.

Two things do: a timm model's own table, and a checkpoint's encoders, whose shapes follow from the model around them.
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
MOST_MEMORY = 2 * 2**30  # for the encoders of a file
NAME = re.compile(r"[A-Za-z0-9_.]{1,100}")
# The search path is ours, so that modules in the folder where the explorer was started are not picked up.
START = "import os, sys; sys.path[:] = sys.argv[1].split(os.pathsep); from loope.explorer.models import main; main()"
COMMAND = [sys.executable, "-c", START]
TOLD = 3  # exit code: what was printed is the reason


class Models:
    """Starts up to `MOST_PROCESSES` processes at a time."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MOST_PROCESSES)

    async def table(self, name: str, grid: Grid) -> bytes:
        """A timm model's table, as the page takes it.

        Raises:
            LoopeError: if timm has no such model, or it cannot be loaded.
        """
        require(
            NAME.fullmatch(name) is not None,
            f"The name of a timm model has up to 100 letters, digits, dots and underscores, got {name[:100]!r}.",
        )
        return await self._run("timm", name, grid)

    async def acting(self, file: bytes, number: int, grid: Grid) -> bytes:
        """What acts in a checkpoint, as the page takes it.

        Args:
            file: the checkpoint.
            number: which of the things that act.
            grid: where it is measured.

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
                raise LoopeError(f"Loading {_called(what, which)} took over {SECONDS[what]} seconds.") from None
            finally:
                if process.returncode is None:  # too slow, or the explorer ends
                    process.kill()
                    await process.wait()
        if process.returncode == TOLD:
            raise LoopeError(printed.decode())
        ended = f"Loading {_called(what, which)} ended unexpectedly; the explorer's terminal says why."
        require(process.returncode == 0, ended)
        return printed


def _called(what: str, which: str) -> str:
    return repr(which) if what == "timm" else "the file's encoders"


def main() -> None:
    """Print what the arguments ask for."""
    what, which, height, width = sys.argv[2:]
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # what libraries print is not part of the answer
    make = {"timm": _table, "acts": _acting}[what]
    try:
        out.write(make(which, Grid(int(height), int(width))))
    except LoopeError as error:
        out.write(str(error).encode())
        out.flush()
        sys.exit(TOLD)


def _table(name: str, grid: Grid) -> bytes:
    from loope.explorer.compare import table_data
    from loope.metrics.tables import model_table

    return table_data(model_table(name, grid=grid))


def _acting(number: str, grid: Grid) -> bytes:
    from loope.attach.acting import acting
    from loope.explorer.compare import positions_data
    from loope.explorer.uploads import read_weights

    file = read_weights(sys.stdin.buffer.read())
    _limit_memory()
    found = acting(file.tensors, file.metadata, grid=grid).positions
    require(int(number) < len(found), f"The file has {len(found)} things that act; choose it again.")
    return positions_data(found[int(number)])


def _limit_memory() -> None:
    """What a stranger's file asks for beyond that fails in this process alone."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
