"""Download weights from the model hub without long waits if there is no network."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from loope.core.errors import LoopeError

PATIENCE = 5.0  # seconds for a first answer; the hub's own client tries for almost a minute
FILES = ("model.safetensors", "pytorch_model.bin")


def missing_weights(model: str) -> str | None:
    """Return why the weights of a timm model are unavailable, or None if a download may succeed.

    Args:
        model: a name that timm knows.
    """
    import timm
    from huggingface_hub import try_to_load_from_cache

    try:
        config = timm.get_pretrained_cfg(model)
    except RuntimeError as error:  # a tag that the model does not have
        return str(error)
    if config is None or not config.has_weights:
        return f"timm has no pretrained weights for {model!r}"
    hub, address = config.hf_hub_id, config.url
    names = (config.hf_hub_filename, *FILES)
    if hub and any(isinstance(try_to_load_from_cache(hub, name), str) for name in names if name):
        return None
    place = _endpoint() if hub else str(address)
    return None if answers(place) else f"they are not on this machine, and {place} does not answer"


@contextmanager
def hub_or_cache() -> Iterator[None]:
    """Download with `huggingface_hub`; if the hub does not answer within `PATIENCE` seconds, use only its local cache.

    By default `huggingface_hub` retries every file six times, with pauses.

    Raises:
        LoopeError: if the hub does not answer and the file is not in the cache.
    """
    try:
        from huggingface_hub import constants
    except ImportError:  # then nothing is downloaded with it
        yield
        return
    before = constants.HF_HUB_OFFLINE, socket.getdefaulttimeout()
    silent = not constants.HF_HUB_OFFLINE and not answers(_endpoint())
    constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE or silent
    socket.setdefaulttimeout(PATIENCE)  # for weights from other servers
    try:
        yield
    except OSError as error:
        if not silent:
            raise
        raise LoopeError(f"{_endpoint()} does not answer, and its local cache has no such file") from error
    finally:
        constants.HF_HUB_OFFLINE = before[0]
        socket.setdefaulttimeout(before[1])


def answers(address: str) -> bool:
    """Return whether a server answers within `PATIENCE` seconds, through the environment's proxies."""
    if not address.startswith(("http://", "https://")):
        return False
    answered = threading.Event()

    def ask() -> None:
        try:
            urlopen(Request(address, method="HEAD"), timeout=PATIENCE).close()  # noqa: S310 (checked above)
        except HTTPError as error:  # still an answer
            error.close()
        except OSError:
            return
        answered.set()

    # In a thread: name resolution has no timeout.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PATIENCE)
    return answered.is_set()


def _endpoint() -> str:
    from huggingface_hub.constants import ENDPOINT

    return str(ENDPOINT)
