"""Build models in another process, so that a hanging download or a file that demands gigabytes stays there.

Three requests need a model: a timm model's own table, a checkpoint's encoders, whose shapes depend on its model, and
the diagnosis of a checkpoint's model.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections import OrderedDict
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import anyio

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid
from loope.explorer.numbers import read_size

if TYPE_CHECKING:
    from loope.explorer.compare import Trained

MOST_PROCESSES = 2  # that work at a time; as many more may keep encoders that they have built
SECONDS = {"timm": 600, "acts": 60, "whole": 120}  # a download may be large
SECONDS_KEPT = 300  # that built encoders wait for another size
MOST_MEMORY = 2 * 2**30  # to build the encoders of a file, or to run its model
NAME = re.compile(r"[A-Za-z0-9_.]{1,100}")
# Use our own search path, so that modules in the current folder are not imported.
START = "import os, sys; sys.path[:] = sys.argv[1].split(os.pathsep); from loope.explorer.models import main; main()"
COMMAND = [sys.executable, "-c", START]
FAILED = 3  # exit code: the output is the error message
LENGTH = 8  # bytes of a number that says how many bytes follow


class Models:
    """Runs up to `MOST_PROCESSES` processes at a time."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MOST_PROCESSES)
        self._built: OrderedDict[str, Builder] = OrderedDict()  # by file, the one used last at the end

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

    async def acting(self, name: str, file: bytes, number: int, grid: Grid, shown: Grid) -> bytes:
        """Return the Compare data of a position encoding in use in a checkpoint: see `compare.Trained`.

        Args:
            name: the file's id. Its encoders are built once, for all the sizes of the slider.
            file: the checkpoint.
            number: the index of the encoding.
            grid: the grid of its patches.
            shown: the grid to resize it to.

        Raises:
            LoopeError: if its encoders cannot be built.
        """
        async with self._free:
            builder = self._built.setdefault(name, Builder())
            self._built.move_to_end(name)
            try:
                return await builder.ask(file, f"{number} {grid}~{shown}")
            finally:
                idle = [each for each, other in self._built.items() if not other.turn.locked()]
                for each in idle[: max(0, len(self._built) - MOST_PROCESSES)]:
                    await self._built.pop(each).end()

    async def close(self) -> None:
        """End the processes that keep encoders."""
        while self._built:
            await self._built.popitem()[1].end()

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
        async with self._free:
            process = await _start(what, *arguments)
            try:
                with anyio.fail_after(SECONDS[what]):
                    printed, _ = await process.communicate(given)
            except TimeoutError:
                raise LoopeError(f"Loading {_label(what, arguments[0])} took over {SECONDS[what]} seconds.") from None
            finally:
                await _end(process)  # it timed out, or the explorer stops
        if process.returncode == FAILED:
            raise LoopeError(printed.decode())
        require(process.returncode == 0, _unexpected(what, arguments[0]))
        return printed


class Builder:
    """A process that builds the encoders of one file and keeps them, because starting it takes seconds."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()  # it answers one request at a time
        self._process: asyncio.subprocess.Process | None = None
        self._idle: asyncio.TimerHandle | None = None

    async def ask(self, file: bytes, request: str) -> bytes:
        """Return the answer to a request: see `_acting`.

        Raises:
            LoopeError: if there is none, or not in time.
        """
        async with self.turn:
            if self._idle is not None:
                self._idle.cancel()
            try:
                with anyio.fail_after(SECONDS["acts"]):
                    code, answer = await self._exchange(file, request)
            except TimeoutError:
                await self.end()
                raise LoopeError(f"Loading {_label('acts')} took over {SECONDS['acts']} seconds.") from None
            except (asyncio.IncompleteReadError, ConnectionError):
                await self.end()
                raise LoopeError(_unexpected("acts")) from None
            except BaseException:  # the explorer stops: what is left in the pipes answers nothing else
                await self.end()
                raise
            self._idle = asyncio.get_running_loop().call_later(SECONDS_KEPT, self._kill)
        if code == FAILED:
            raise LoopeError(answer.decode())
        return answer

    async def _exchange(self, file: bytes, request: str) -> tuple[int, bytes]:
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await _start("acts")
            _write(process).write(len(file).to_bytes(LENGTH, "little") + file)
        _write(process).write(request.encode() + b"\n")
        await _write(process).drain()
        assert process.stdout is not None  # noqa: S101  (for the type checker)
        code, *length = await process.stdout.readexactly(1 + LENGTH)
        return code, await process.stdout.readexactly(int.from_bytes(bytes(length), "little"))

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def end(self) -> None:
        """End the process; another one answers the next request."""
        if self._idle is not None:
            self._idle.cancel()
        process, self._process = self._process, None
        if process is not None:
            await _end(process)


async def _start(what: str, *arguments: str) -> asyncio.subprocess.Process:
    path = os.pathsep.join(str(Path(each).absolute()) for each in sys.path if each)
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*COMMAND, path, what, *arguments, stdin=pipe, stdout=pipe)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process that has not ended by itself."""
    if process.returncode is None:
        process.kill()
        await process.communicate()  # not `wait`, which does not end while a pipe is full


def _write(process: asyncio.subprocess.Process) -> asyncio.StreamWriter:
    assert process.stdin is not None  # noqa: S101  (for the type checker)
    return process.stdin


def _unexpected(what: str, which: str = "") -> str:
    return f"Loading {_label(what, which)} failed unexpectedly; see the explorer's terminal."


def _label(what: str, which: str = "") -> str:
    return {"timm": repr(which), "acts": "the file's encoders", "whole": "the file's model"}[what]


def main() -> None:
    """Write the requested data to stdout."""
    what, *arguments = sys.argv[2:]
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # keep what libraries print out of the data
    if what == "acts":
        _acting(sys.stdin.buffer, out)
        return
    make: Callable[..., bytes] = {"timm": _table, "whole": _whole}[what]
    code, answer = _answer(partial(make, *arguments))
    out.write(answer)
    out.flush()
    sys.exit(code)


def _answer(make: Callable[[], bytes]) -> tuple[int, bytes]:
    """Return what `make` returns after a 0, or its error message after `FAILED`."""
    try:
        return 0, make()
    except LoopeError as error:
        return FAILED, str(error).encode()


def _table(name: str, size: str) -> bytes:
    from loope.explorer.compare import table_data
    from loope.pesi_metric.position_table import model_table

    grid, shown = read_size(size)
    return table_data(model_table(name, grid=grid), shown)


def _acting(given: BinaryIO, out: BinaryIO) -> None:
    """Answer requests until they end.

    Args:
        given: the length of a file, the file, and a line for each request: the number of an encoding and the sizes.
        out: gets 0 or `FAILED`, the length of the answer, and the answer, for each.
    """
    from loope.explorer.compare import Trained
    from loope.explorer.uploads import read_weights

    body = given.read(int.from_bytes(given.read(LENGTH), "little"))
    _limit_memory()
    trained = cache(lambda: Trained(read_weights(body)))  # when asked, so that an error is the answer
    for line in given:
        number, size = line.decode().split()
        code, answer = _answer(partial(_resized, trained, number, size))
        out.write(bytes([code]) + len(answer).to_bytes(LENGTH, "little") + answer)
        out.flush()


def _resized(trained: Callable[[], Trained], number: str, size: str) -> bytes:
    return trained().data(int(number), *read_size(size))


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
