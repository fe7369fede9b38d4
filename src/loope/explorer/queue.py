"""A bounded queue of requests: each result is computed once, a few at a time, and cached."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import anyio

from loope.core.errors import LoopeError

WORKERS = 2
MOST_WAITING = 1024  # large, so that a burst of clicks waits instead of being refused
SECONDS = 30  # to wait for a result
SECONDS_ELSEWHERE = 40  # to wait for another process, which may need the network; the page waits longer
MOST_CACHED = 32 * 2**20


class Busy(LoopeError):  # noqa: N818
    """Too many requests are in progress; the client should retry."""

    def __init__(self) -> None:
        super().__init__("The explorer is busy; try again in a moment.")


class Cache:
    """A least-recently-used cache, limited by the number of bytes."""

    def __init__(self, most: int = MOST_CACHED):
        self.most = most
        self.size = 0
        self._entries: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, key: Hashable) -> bytes | None:
        """Return the data of a key, or None, and mark it as used."""
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def put(self, key: Hashable, data: bytes) -> None:
        """Store data and evict what was used longest ago. Data above the limit is not stored."""
        if key in self._entries or len(data) > self.most:
            return
        self._entries[key] = data
        self.size += len(data)
        while self.size > self.most:
            self.size -= len(self._entries.popitem(last=False)[1])


class Queue:
    """Computes results in `WORKERS` threads, with at most `MOST_WAITING` running or waiting."""

    def __init__(self) -> None:
        self.cache = Cache()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="explorer")
        self._pending: dict[Hashable, asyncio.Future[bytes]] = {}
        self._clients: Counter[Hashable] = Counter()
        self._queued: dict[Hashable, Future[bytes]] = {}

    async def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return the result of `make`, called in a worker; requests for the same key share it.

        Raises:
            Busy: if too many requests are waiting, or there is no result after `SECONDS`.
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

    async def get_elsewhere(
        self, key: Hashable, make: Callable[[], Coroutine[Any, Any, bytes]], seconds: float | None = None
    ) -> bytes:
        """Return the result of the coroutine `make`, without occupying a worker.

        Raises:
            TimeoutError: if there is no result after `seconds`, by default `SECONDS_ELSEWHERE`. It continues, for later
                requests.
        """
        return await self._share(key, lambda: asyncio.ensure_future(make()), seconds or SECONDS_ELSEWHERE)

    async def _share(self, key: Hashable, start: Callable[[], asyncio.Future[bytes]], seconds: float) -> bytes:
        cached = self.cache.get(key)
        if cached is not None:
            return cached
        future = self._pending.get(key)
        if future is None:
            future = self._pending[key] = start()
            future.add_done_callback(lambda done: self._finish(key, done))
        self._clients[key] += 1
        try:
            with anyio.fail_after(seconds):
                return await asyncio.shield(future)  # a client that leaves does not cancel it for the others
        finally:
            self._clients[key] -= 1
            if not self._clients[key]:
                del self._clients[key]
                if key in self._queued:
                    self._queued[key].cancel()  # no client is left; a job that has started runs to its end

    def _finish(self, key: Hashable, done: asyncio.Future[bytes]) -> None:
        del self._pending[key]
        self._queued.pop(key, None)
        if not done.cancelled() and done.exception() is None:
            self.cache.put(key, done.result())

    async def close(self) -> None:
        """Cancel what is waiting or computed elsewhere; jobs in workers run to their end."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        elsewhere = [future for key, future in self._pending.items() if key not in self._queued]
        for future in elsewhere:
            future.cancel()
        await asyncio.gather(*elsewhere, return_exceptions=True)
