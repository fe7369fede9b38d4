"""The server: addresses, limits and errors in words. What it sends is made in `answers`."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from loope.core.errors import LoopeError
from loope.core.grid import Grid
from loope.explorer.guard import Guard
from loope.explorer.models import Models
from loope.explorer.numbers import read_grid, read_whole
from loope.explorer.work import SECONDS_ELSEWHERE, Busy, Work

if TYPE_CHECKING:
    from loope.explorer.answers import Answers

STATIC = Path(__file__).parent / "static"
MOST_BYTES = 32 * 2**20  # of a body
MOST_ARRIVING = 4 * MOST_BYTES  # of all bodies together
SECONDS = 60  # to send a body in
TYPES = {".json": "application/json", ".bin": "application/octet-stream"}

GRID = "{height}x{width}"  # numbers are read in `answers`, which says what is wrong with them
GETS = {
    "/api/catalogue.json": "catalogue",
    f"/api/similarity/{{choice}}/{GRID}/{{dim}}.bin": "similarity",
    f"/api/order/{{name}}/{GRID}.json": "order",
    "/api/three-cell/{moving}/{cells}.json": "three_cell",
}
MODEL = f"/api/similarity/timm~{{name}}/{GRID}/{{dim}}.bin"
ACTING = f"/api/similarity/file~{{name}}~acts~{{number}}/{GRID}/{{dim}}.bin"
POSTS = {"/api/file.json": "receive", "/api/offsets.json": "offsets"}


class Server:
    """What the addresses share."""

    def __init__(self, local: bool):
        self.local = local
        self.work = Work()
        self.models = Models()
        self.arriving = 0

    @cached_property
    def answers(self) -> Answers:
        """Imported when first asked, in a worker: the page is there before torch."""
        from loope.explorer.answers import Answers

        return Answers()

    async def get(self, name: str, request: Request) -> Response:
        """Send what an address stands for."""
        return await self._send(request, name, request.url.path, request.path_params)

    async def post(self, name: str, request: Request) -> Response:
        """Send what is made of a body."""
        body = await self._body(request)
        key = (request.url.path, hashlib.sha256(request.url.query.encode() + b"\0" + body).digest())
        return await self._send(request, name, key, {"body": body, "query": dict(request.query_params)})

    async def model(self, request: Request) -> Response:
        """Send a timm model's table."""
        if not self.local:
            raise LoopeError("Models by name are fetched for this machine's own user only; choose their file.")
        name, grid = request.path_params["name"], _grid(request)
        late = (
            f"{name} did not arrive within {SECONDS_ELSEWHERE} seconds: its weights come from the network. Try again "
        )
        return await self._send_elsewhere(
            (name, grid), lambda: self.models.table(name, grid), f"{late}in a while, or choose their .safetensors file."
        )

    async def acting(self, request: Request) -> Response:
        """Send what acts in a checkpoint that was received."""
        asked, grid = request.path_params, _grid(request)
        number = read_whole(asked["number"], "What acts")
        late = f"The file's encoders were not there within {SECONDS_ELSEWHERE} seconds; try again in a while."

        async def make() -> bytes:
            return await self.models.acting(self.answers.file([asked["name"]]), number, grid)

        return await self._send_elsewhere((asked["name"], number, grid), make, late)

    async def _send_elsewhere(self, key: Any, make: Callable[[], Coroutine[Any, Any, bytes]], late: str) -> Response:
        """Send what another process makes, or say that it is late."""
        try:
            return Response(await self.work.get_elsewhere(key, make), media_type=TYPES[".bin"])
        except TimeoutError:
            raise HTTPException(504, late) from None

    async def _send(self, request: Request, name: str, key: Any, arguments: dict[str, Any]) -> Response:
        made = await self.work.get(key, lambda: getattr(self.answers, name)(**arguments))
        return Response(made, media_type=TYPES[Path(request.url.path).suffix])

    async def _body(self, request: Request) -> bytes:
        """What is sent, if it is not too much, alone or with others, nor too slow."""
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
        """Make ready what the page asks for first, while the browser opens it."""
        first = asyncio.ensure_future(self.work.get("/api/catalogue.json", lambda: self.answers.catalogue()))
        yield
        await self.work.close()
        first.cancel()


def _grid(request: Request) -> Grid:
    return read_grid(request.path_params["height"], request.path_params["width"])


async def _explain(request: Request, error: Exception) -> Response:
    """Errors in words, as JSON."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code)
    if isinstance(error, Busy):
        return JSONResponse({"error": str(error)}, 503, {"Retry-After": "1"})
    if isinstance(error, LoopeError):
        return JSONResponse({"error": str(error)}, 400)
    return JSONResponse({"error": "Something went wrong in the explorer; its terminal says what."}, 500)


def create_app(local: bool = True) -> Guard:
    """The explorer as an ASGI application.

    Args:
        local: whether it is for this machine alone.
    """
    server = Server(local)
    routes: list[BaseRoute] = [Route(MODEL, server.model), Route(ACTING, server.acting)]  # first: an encoder's fits too
    routes += [Route(path, partial(server.get, name)) for path, name in GETS.items()]
    routes += [Route(path, partial(server.post, name), methods=["POST"]) for path, name in POSTS.items()]
    routes.append(Mount("/", StaticFiles(directory=STATIC, html=True)))
    handlers: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = dict.fromkeys(
        (HTTPException, LoopeError, Exception), _explain
    )
    # Around all of it: an answer to a fault of ours has the headers too.
    return Guard(Starlette(routes=routes, exception_handlers=handlers, lifespan=server.lifespan), local)
