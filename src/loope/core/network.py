"""Weights may come over a network that is not there: nothing waits for it longer than seconds."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from loope.core.errors import LoopeError


@contextmanager
def hub_or_cache() -> Iterator[None]:
    """Around a download by `huggingface_hub`: if the hub does not answer soon, only its cache on this disk is used.

    By itself it asks for every file six times, and waits in between. How long is soon, HF_HUB_ETAG_TIMEOUT says: ten
    seconds by default.

    Raises:
        LoopeError: if the hub does not answer, and what is wanted is not in the cache.
    """
    try:
        from huggingface_hub import constants
    except ImportError:  # then nothing is asked of it
        yield
        return
    seconds, before = constants.HF_HUB_ETAG_TIMEOUT, (constants.HF_HUB_OFFLINE, socket.getdefaulttimeout())
    silent = not constants.HF_HUB_OFFLINE and not _answers(constants.ENDPOINT, seconds)
    constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE or silent
    socket.setdefaulttimeout(seconds)  # for weights that lie elsewhere
    try:
        yield
    except OSError as error:
        if not silent:
            raise
        raise LoopeError(
            f"{constants.ENDPOINT} does not answer, and its cache on this disk has no such file"
        ) from error
    finally:
        constants.HF_HUB_OFFLINE = before[0]
        socket.setdefaulttimeout(before[1])


def _answers(address: str, seconds: float) -> bool:
    """Whether a server says anything at all; in a thread, because a search for its address has no limit of its own."""
    from huggingface_hub import get_session  # which knows of proxies

    heard = threading.Event()

    def ask() -> None:
        with suppress(Exception):  # whatever a network may raise
            get_session().head(address, timeout=seconds)
            heard.set()

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return heard.is_set()
