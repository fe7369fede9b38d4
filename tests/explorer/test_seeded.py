"""Requests in other threads do not change what an encoder of seed 0 is."""

import threading

import pytest
import torch

from loope.core.grid import Grid
from loope.explorer import model
from loope.explorer.compare import Choice, encoder_data, table_data
from loope.explorer.handlers import Handlers
from loope.explorer.offsets import read_encoder
from loope.explorer.seeded import seeded
from loope.explorer.uploads import read_weights

REQUESTS = {
    "catalog": lambda: Handlers().catalog(),
    "encoder": lambda: encoder_data(Choice.read("rel_pos_mlp"), Grid(3, 4), 128),
    "resized table": lambda: table_data(torch.ones(3, 4, 8), Grid(5, 5)),
    "encoder of a file": lambda: read_encoder(read_weights(model.SHIPPED.read_bytes())),
    "shipped model": lambda: model.shipped.__wrapped__(),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_other_requests_wait(request_):
    other = threading.Thread(target=request_)
    with seeded():
        before = torch.default_generator.get_state()
        other.start()
        other.join(0.5)  # time enough to draw
        assert torch.equal(torch.default_generator.get_state(), before)
    other.join(60)
    assert not other.is_alive()
