"""Work for the page: each thing is made once, a few at a time, and results are kept within bounds."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor

from loope.core.errors import LoopeError

WORKERS = 2
MOST_WAITING = 32
MOST_KEPT = 96 * 2**20


class Busy(LoopeError):  # noqa: N818
    """Too much is under way; whoever asks should come again."""

    def __init__(self) -> None:
        super().__init__("The explorer is busy; try again in a moment.")


class Kept:
    """The results used last, up to a number of bytes."""

    def __init__(self, most: int = MOST_KEPT):
        self.most = most
        self.size = 0
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, key: Hashable) -> bytes | None:
        """What was put under the key, if it is still there; it is then the last one to go."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: Hashable, data: bytes) -> None:
        """Keep it; those used longest ago go. What is larger than everything may be is not kept."""
        if key in self._kept or len(data) > self.most:
            return
        self._kept[key] = data
        self.size += len(data)
        while self.size > self.most:
            self.size -= len(self._kept.popitem(last=False)[1])


class Work:
    """Makes things in threads: at most `WORKERS` at once, with at most `MOST_WAITING` under way or waiting."""

    def __init__(self) -> None:
        self.kept = Kept()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="explorer")
        self._under_way: dict[Hashable, asyncio.Future[bytes]] = {}

    async def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """What `make` makes; those who ask for the same key share one result.

        Raises:
            Busy: if too much is waiting.
        """
        kept = self.kept.get(key)
        if kept is not None:
            return kept
        future = self._under_way.get(key)
        if future is None:
            if len(self._under_way) >= MOST_WAITING:
                raise Busy
            future = asyncio.get_running_loop().run_in_executor(self._pool, make)
            self._under_way[key] = future
            future.add_done_callback(lambda done: self._finish(key, done))
        return await asyncio.shield(future)  # who goes away does not take it from the others

    def _finish(self, key: Hashable, done: asyncio.Future[bytes]) -> None:
        del self._under_way[key]
        if not done.cancelled() and done.exception() is None:
            self.kept.put(key, done.result())

    def close(self) -> None:
        """Drop what waits; what runs comes to its end."""
        self._pool.shutdown(wait=False, cancel_futures=True)
