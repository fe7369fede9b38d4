"""Work for the page: each thing is made once, a few at a time, and results are kept within bounds."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import anyio

from loope.core.errors import LoopeError

WORKERS = 2
MOST_WAITING = 1024  # a burst waits instead of being refused: a second of 200 clicks is soon done
SECONDS = 30  # to wait for an answer
SECONDS_ELSEWHERE = 20  # to wait for one that does not depend on this machine alone
MOST_KEPT = 32 * 2**20


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
        self._asking: Counter[Hashable] = Counter()
        self._queued: dict[Hashable, Future[bytes]] = {}

    async def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """What `make` makes in a worker; those who ask for the same key share one result.

        Raises:
            Busy: if too much is waiting, or nothing is there after `SECONDS`.
        """

        def start() -> asyncio.Future[bytes]:
            if len(self._queued) >= MOST_WAITING:
                raise Busy
            self._queued[key] = self._pool.submit(make)
            return asyncio.wrap_future(self._queued[key])

        try:
            return await self._share(key, start, SECONDS)
        except TimeoutError:
            raise Busy from None

    async def get_elsewhere(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, bytes]]) -> bytes:
        """What `make` makes without a worker, so that nothing else waits for it.

        Raises:
            TimeoutError: if nothing is there after `SECONDS_ELSEWHERE`. It goes on, for those who ask again.
        """
        return await self._share(key, lambda: asyncio.ensure_future(make()), SECONDS_ELSEWHERE)

    async def _share(self, key: Hashable, start: Callable[[], asyncio.Future[bytes]], seconds: float) -> bytes:
        kept = self.kept.get(key)
        if kept is not None:
            return kept
        future = self._under_way.get(key)
        if future is None:
            future = self._under_way[key] = start()
            future.add_done_callback(lambda done: self._finish(key, done))
        self._asking[key] += 1
        try:
            with anyio.fail_after(seconds):
                return await asyncio.shield(future)  # who goes away does not take it from the others
        finally:
            self._asking[key] -= 1
            if not self._asking[key]:
                del self._asking[key]
                if key in self._queued:
                    self._queued[key].cancel()  # nobody waits for it any more; what has begun comes to its end

    def _finish(self, key: Hashable, done: asyncio.Future[bytes]) -> None:
        del self._under_way[key]
        self._queued.pop(key, None)
        if not done.cancelled() and done.exception() is None:
            self.kept.put(key, done.result())

    async def close(self) -> None:
        """Drop what waits and end what is made elsewhere; what runs in a worker comes to its end."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        elsewhere = [future for key, future in self._under_way.items() if key not in self._queued]
        for future in elsewhere:
            future.cancel()
        await asyncio.gather(*elsewhere, return_exceptions=True)
