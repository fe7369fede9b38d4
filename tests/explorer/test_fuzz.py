"""Random requests: each is answered, none with a fault of ours, and memory comes back."""

import gc
import re
from collections import Counter
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from loope.explorer.app import create_app
from tests.explorer.fuzzing import requests

EXPECTED = {200, 400, 403, 404, 405}
SAMPLE, ALL = 300, 10_000


@pytest.fixture
def client():
    with TestClient(create_app(), base_url="http://127.0.0.1", raise_server_exceptions=False) as made:
        yield made


def answered(client, count, seed):
    """How often each status came; what was not expected fails with its request."""
    statuses = Counter()
    for sent in requests(count, seed):
        response = client.request(sent.method, sent.path, headers=sent.headers, content=sent.body)
        details = (sent.method, sent.path[:300], (sent.body or b"")[:300], response.text[:300])
        assert response.status_code in EXPECTED, (response.status_code, *details)
        statuses[response.status_code] += 1
    return statuses


def resident():
    return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])


def test_a_sample_of_random_requests(client):
    statuses = answered(client, SAMPLE, seed=0)
    assert statuses[200] > SAMPLE / 5  # most come close enough to mean something
    assert statuses[400] > SAMPLE / 5


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read where Linux tells it")
def test_ten_thousand_random_requests_and_what_they_leave_behind(client):
    answered(client, SAMPLE, seed=1)  # everything is loaded once
    gc.collect()
    before = resident()
    statuses = answered(client, ALL, seed=2)
    gc.collect()
    after = resident()
    print(f"{dict(sorted(statuses.items()))}; memory {before / 2**20:.0f} MB before, {after / 2**20:.0f} MB after")
    assert after < 1.2 * before
