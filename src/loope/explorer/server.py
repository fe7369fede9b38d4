"""The HTTP server, which closes idle connections in time and to make room for new ones."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from loope.explorer.middleware import Middleware

SECONDS = 10  # to send the head of a request
MOST_CONNECTIONS = 900  # below the usual limit of 1,024 open files
MOST_PER_PEER = 800  # local clients count as one peer


def create_server(app: Middleware) -> uvicorn.Server:
    """Return a server for the page; run it with the socket to listen on."""
    return uvicorn.Server(uvicorn.Config(app, http=Connection, ws="none", log_level="warning"))


class Connection(H11Protocol):
    """A connection that may be closed to make room until its request has arrived in full."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.since = self.loop.time()
        self.head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout, and close another connection if there are too many."""
        super().connection_made(transport)
        self._start_timeout()
        everyone = [each for each in self.connections if isinstance(each, Connection)]
        peer = [each for each in everyone if each.client and self.client and each.client[0] == self.client[0]]
        if len(peer) > MOST_PER_PEER:
            self._make_room(peer)
        elif len(everyone) > MOST_CONNECTIONS:
            self._make_room(everyone)

    def data_received(self, data: bytes) -> None:
        """Read data; the timeout runs from a request's first byte to the end of its head."""
        super().data_received(data)
        if not self._is_idle():
            self._stop_timeout()
        elif self.head_timer is None:
            self._start_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeout."""
        self._stop_timeout()
        super().connection_lost(exc)

    def _is_idle(self) -> bool:
        """Return whether no request is waiting for its response."""
        return self.cycle is None or self.cycle.response_complete

    def _may_close(self) -> bool:
        return self._is_idle() or self.cycle.more_body

    def _make_room(self, among: list[Connection]) -> None:
        waiting = [each for each in among if each is not self and each._may_close()]
        oldest = min(waiting, key=lambda each: each.since, default=self)
        oldest.transport.close()
        self.connections.discard(oldest)

    def _start_timeout(self) -> None:
        self.head_timer = self.loop.call_later(SECONDS, self._late)

    def _stop_timeout(self) -> None:
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def _late(self) -> None:
        self.head_timer = None
        if self._is_idle():
            self.transport.close()
