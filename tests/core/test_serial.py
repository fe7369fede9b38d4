"""Small work stays on the calling thread, and pieces and blocks give what the whole would."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from loope.core.serial import DEPTH, PIECE, SIDE, gram, in_pieces, root, rounded

# In a process of its own, whose pool of threads has not been started yet; NumPy makes the inputs.
PROGRAM = """
import os, numpy, torch, loope

def threads():
    return len(os.listdir("/proc/self/task"))

def array(*shape):
    return torch.from_numpy(numpy.random.default_rng(0).random(shape) + 0.1)

torch.set_num_threads(3)
before = threads()
for name in loope.list_orders():
    loope.create_order(name, 300, 200).path
    loope.create_order(name, 14, 14).locality()
for embedding in (array(14, 14, 768), array(32, 32, 64)):
    loope.pesi(embedding)
    similarity = loope.cosine_similarity(embedding)
    loope.pesi_from_similarity(similarity, embedding.shape[:2])
    loope.translation_consistency(similarity, embedding.shape[:2])
    loope.nearness_correlation(similarity, embedding.shape[:2])
for sampler in ("exact", "paper"):
    loope.ThreeCell(10_000, split="train", sampler=sampler)
started = threads() - before
settings = torch.get_num_threads()
torch.ones(10**6).exp()  # large work does start threads: the count can be seen to rise
print(started, settings, threads() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted on Linux only")
def test_small_work_starts_no_threads_and_leaves_their_number_alone():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["0", "3", "2"]


@pytest.mark.parametrize(("count", "depth"), [(1, 1), (SIDE, DEPTH), (2 * SIDE + 5, DEPTH + 1), (7, 3 * DEPTH)])
def test_a_product_in_blocks_is_the_product(count, depth):
    vectors = torch.rand(count, depth, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(gram(vectors), vectors @ vectors.T, rtol=1e-13, atol=0)


@pytest.mark.parametrize("shape", [(0, 3), (1, 2 * PIECE), (5, PIECE // 2), (100, 7), (3, 0)])
def test_pieces_cover_everything_once(shape):
    whole, seen = torch.arange(shape[0] * shape[1]).view(shape), torch.zeros(shape, dtype=torch.int64)
    for given, made in in_pieces(whole, seen):
        assert given.numel() <= PIECE or len(given) == 1
        made += given + 1
    assert torch.equal(seen, whole + 1)


def test_roots_and_rounding_are_pytorchs():
    for values in (torch.tensor(2.5, dtype=torch.float64), torch.linspace(0, 9, 37, dtype=torch.float64)):
        assert torch.equal(root(values), values.sqrt())
        assert torch.equal(rounded(values), values.round())
