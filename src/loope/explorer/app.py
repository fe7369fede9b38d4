"""The server: routes, limits on requests, and errors as JSON."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from loope.core.errors import LoopeError
from loope.explorer.handlers import Handlers
from loope.explorer.middleware import Middleware
from loope.explorer.models import Models
from loope.explorer.numbers import read_size, read_whole
from loope.explorer.queue import SECONDS_ELSEWHERE, Busy, Queue
from loope.explorer.routes import CATALOG, CHECKPOINT, DIAGNOSIS, ROUTES, TIMM_MODEL, ApiRoute

STATIC = Path(__file__).parent / "static"
MOST_BYTES = 32 * 2**20  # of a body
MOST_ARRIVING = 4 * MOST_BYTES  # of all bodies together
SECONDS = 60  # to send a body in
SECONDS_TO_RUN = 90  # to wait for a model that another process runs; the page waits longer
MEDIA_TYPES = {".json": "application/json", ".bin": "application/octet-stream"}


class Server:
    """The state that requests share."""

    def __init__(self, local: bool, checkpoints: Sequence[Path]):
        self.local = local
        self.queue = Queue()
        self.handlers = Handlers(checkpoints)
        self.models = Models()
        self.arriving = 0

    async def respond(self, route: ApiRoute, request: Request) -> Response:
        """Call a route's handler in a worker."""
        key: Any = request.url.path
        arguments: dict[str, Any] = request.path_params
        if route.method == "POST":
            body = await self._body(request)
            key = (key, hashlib.sha256(request.url.query.encode() + b"\0" + body).digest())
            arguments = {"body": body, "query": dict(request.query_params)}
        content = await self.queue.get(key, lambda: route.handler(self.handlers, **arguments))
        return Response(content, media_type=MEDIA_TYPES[Path(route.path).suffix])

    async def model(self, request: Request) -> Response:
        """Send the position table of a timm model."""
        if not self.local:
            raise LoopeError("Models can be named only on the machine that runs the explorer; choose a file.")
        name, (grid, shown) = request.path_params["name"], read_size(request.path_params["size"])
        late = (
            f"{name} did not arrive within {SECONDS_ELSEWHERE} seconds: its weights come from the network. Try again "
            "in a while, or choose its .safetensors file."
        )
        return await self._send_elsewhere((name, grid, shown), lambda: self.models.table(name, grid, shown), late)

    async def checkpoint(self, request: Request) -> Response:
        """Send one of the position encodings in use in an uploaded checkpoint."""
        name, (grid, shown) = request.path_params["name"], read_size(request.path_params["size"])
        number = read_whole(request.path_params["number"], "An encoding's number")
        late = f"The file's encoders were not built within {SECONDS_ELSEWHERE} seconds; try again in a while."

        async def make() -> bytes:
            return await self.models.acting(name, self.handlers.file(name), number, grid, shown)

        return await self._send_elsewhere((name, number, grid, shown), make, late)

    async def diagnosis(self, request: Request) -> Response:
        """Send what a model does with positions, on the images of the body: the shipped one, or that of a file."""
        body, query = await self._body(request), dict(request.query_params)
        name, scale = query.get("checkpoint", "shipped"), query.get("pixels", "signed")
        key = (DIAGNOSIS, name, scale, hashlib.sha256(body).digest())
        if name == "shipped":
            made = await self.queue.get(key, lambda: self.handlers.diagnosis(body, scale))
            return Response(made, media_type=MEDIA_TYPES[".json"])
        late = f"The model was not run within {SECONDS_TO_RUN} seconds; try again in a while, or a smaller one."

        async def make() -> bytes:
            return await self.models.diagnosis(self.handlers.whole_file(name), body, scale)

        return await self._send_elsewhere(key, make, late, ".json", SECONDS_TO_RUN)

    async def _send_elsewhere(
        self,
        key: Any,
        make: Callable[[], Coroutine[Any, Any, bytes]],
        late: str,
        kind: str = ".bin",
        seconds: float | None = None,
    ) -> Response:
        """Send what another process computes, or status 504 if it is late."""
        try:
            return Response(await self.queue.get_elsewhere(key, make, seconds), media_type=MEDIA_TYPES[kind])
        except TimeoutError:
            raise HTTPException(504, late) from None

    async def _body(self, request: Request) -> bytes:
        """Read the body, within limits on its size, on all bodies together and on time."""
        body = bytearray()
        try:
            with anyio.fail_after(SECONDS):
                async for part in request.stream():
                    body += part
                    self.arriving += len(part)
                    if len(body) > MOST_BYTES:
                        raise HTTPException(413, f"A file may have up to {MOST_BYTES // 2**20} MB; send a smaller one.")
                    if self.arriving > MOST_ARRIVING:
                        raise Busy
        except TimeoutError:
            raise HTTPException(408, f"The file did not arrive within {SECONDS} seconds; try again.") from None
        finally:
            self.arriving -= len(body)
        return bytes(body)

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Compute the catalog, which the page requests first, while the browser starts."""
        first = asyncio.ensure_future(self.queue.get(CATALOG.path, self.handlers.catalog))
        yield
        await self.queue.close()
        await self.models.close()
        first.cancel()


async def _explain(request: Request, error: Exception) -> Response:
    """Turn an error into JSON."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code)
    if isinstance(error, Busy):
        return JSONResponse({"error": str(error)}, 503, {"Retry-After": "1"})
    if isinstance(error, LoopeError):
        return JSONResponse({"error": str(error)}, 400)
    return JSONResponse({"error": "Something went wrong in the explorer; see its terminal."}, 500)


def create_app(local: bool = True, checkpoints: Sequence[Path] = ()) -> Middleware:
    """Return the explorer as an ASGI application.

    Args:
        local: whether it serves this machine only.
        checkpoints: `.safetensors` files that the page offers from the start.

    Raises:
        LoopeError: if a checkpoint cannot be read or has no position encoding.
    """
    server = Server(local, checkpoints)
    # First, because the route of an encoder matches them too.
    routes: list[BaseRoute] = [Route(TIMM_MODEL, server.model), Route(CHECKPOINT, server.checkpoint)]
    routes.append(Route(DIAGNOSIS, server.diagnosis, methods=["POST"]))
    routes += [Route(route.path, partial(server.respond, route), methods=[route.method]) for route in ROUTES]
    routes.append(Mount("/", StaticFiles(directory=STATIC, html=True)))
    handlers: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = dict.fromkeys(
        (HTTPException, LoopeError, Exception), _explain
    )
    # Outermost, so that responses to internal errors get the headers too.
    return Middleware(Starlette(routes=routes, exception_handlers=handlers, lifespan=server.lifespan), local)
