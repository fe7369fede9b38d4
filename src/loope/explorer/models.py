"""A timm model's own table, made by another process: a network that hangs or a model that fills memory stays there."""

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
SECONDS = 600  # for a large download
NAME = re.compile(r"[A-Za-z0-9_.]{1,100}")
# The search path is ours, so that modules in the folder where the explorer was started are not picked up.
START = "import os, sys; sys.path[:] = sys.argv[1].split(os.pathsep); from loope.explorer.models import main; main()"
COMMAND = [sys.executable, "-c", START]
TOLD = 3  # exit code: what was printed is the reason


class Models:
    """Starts up to `MOST_PROCESSES` processes at a time; each loads one model."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MOST_PROCESSES)

    async def table_data(self, name: str, grid: Grid) -> bytes:
        """A model's table, as `compare.table_data` packs it.

        Raises:
            LoopeError: if timm has no such model, or it cannot be loaded.
        """
        require(
            NAME.fullmatch(name) is not None,
            f"The name of a timm model has up to 100 letters, digits, dots and underscores, got {name[:100]!r}.",
        )
        path = os.pathsep.join(str(Path(each).absolute()) for each in sys.path if each)
        async with self._free:
            process = await asyncio.create_subprocess_exec(
                *COMMAND, path, name, str(grid.height), str(grid.width), stdout=asyncio.subprocess.PIPE
            )
            try:
                with anyio.fail_after(SECONDS):
                    printed, _ = await process.communicate()
            except TimeoutError:
                raise LoopeError(f"{name!r} could not be loaded within {SECONDS} seconds; choose its file.") from None
            finally:
                if process.returncode is None:  # too slow, or the explorer ends
                    process.kill()
                    await process.wait()
        if process.returncode == TOLD:
            raise LoopeError(printed.decode())
        require(process.returncode == 0, f"Loading {name!r} ended unexpectedly; the explorer's terminal says why.")
        return printed


def main() -> None:
    """Print the table of the model that the arguments name."""
    from loope.explorer.compare import table_data
    from loope.metrics.tables import model_table

    name, height, width = sys.argv[2:]
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # what libraries print is not part of the answer
    try:
        out.write(table_data(model_table(name, grid=Grid(int(height), int(width)))))
    except LoopeError as error:
        out.write(str(error).encode())
        out.flush()
        sys.exit(TOLD)
