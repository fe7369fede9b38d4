"""Requests in other threads do not change what an encoder of seed 0 is."""

import threading

import pytest
import torch

from loope.core.grid import Grid
from loope.explorer import catalog, model, seeded
from loope.explorer.compare import Choice, encoder_data, table_data
from loope.explorer.offsets import read_encoder
from loope.explorer.uploads import read_weights

REQUESTS = {
    "catalog": lambda: catalog.catalog(None, {}),
    "encoder": lambda: encoder_data(Choice.read("rel_pos_mlp"), Grid(3, 4), 128),
    "resized table": lambda: table_data(torch.ones(3, 4, 8), Grid(5, 5)),
    "encoder of a file": lambda: read_encoder(read_weights(model.SHIPPED.read_bytes())),
    "shipped model": lambda: model.shipped.__wrapped__(),
}


class Watched:
    """A lock that tells when it is asked for."""

    def __init__(self, lock):
        self.lock, self.asked = lock, threading.Event()

    def __enter__(self):
        self.asked.set()
        self.lock.acquire()

    def __exit__(self, *error):
        self.lock.release()


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_other_requests_wait(monkeypatch, request_):
    other = threading.Thread(target=request_)
    with seeded.seeded():
        lock = Watched(seeded._LOCK)
        monkeypatch.setattr(seeded, "_LOCK", lock)
        before = torch.default_generator.get_state()
        other.start()
        assert lock.asked.wait(60)
        other.join(0.2)
        assert other.is_alive()
        assert torch.equal(torch.default_generator.get_state(), before)
    other.join(60)
    assert not other.is_alive()
