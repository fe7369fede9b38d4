"""PESI as a torchmetrics metric: batches, processes, what it says where torchmetrics is missing."""

import json
import math
import os
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torchmetrics import MetricCollection

import loope
from loope.pesi_metric.metric import SCORES

SHARES = [(4, 3), (5, 0)]  # images for each of two processes
without_update = pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")


def embeddings(count=7, grid=(4, 5), seed=0):
    return torch.rand(count, *grid, 6, generator=torch.Generator().manual_seed(seed)) + 0.1


def expected(images):
    """Mean and population standard deviation over images, from one call for each."""
    scores = [loope.pesi(image) for image in images]
    out = {}
    for name in SCORES:
        values = [getattr(one, name).item() for one in scores]
        mean = math.fsum(values) / len(values)
        out[name] = mean
        out[f"{name}_std"] = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return out | {"images": len(images)}


def as_numbers(scores):
    return {name: value.item() for name, value in scores.items()}


def test_batches_of_any_size_add_up():
    images, metric = embeddings(), loope.PESI()
    for batch in images.split((3, 1, 3)):
        metric.update(batch)
    assert as_numbers(metric.compute()) == pytest.approx(expected(images), abs=1e-12)
    metric.update(images[0])  # one image without a batch
    assert as_numbers(metric.compute()) == pytest.approx(expected([*images, images[0]]), abs=1e-12)
    metric.reset()
    metric.update(images[:2])
    assert as_numbers(metric.compute()) == pytest.approx(expected(images[:2]), abs=1e-12)


def test_forward_gives_the_batch_and_keeps_the_sum():
    images, metric = embeddings(), loope.PESI(directions=7)
    assert metric(images[:3])["m_d"] == pytest.approx(loope.pesi(images[:3], 7).m_d.mean().item(), abs=1e-12)
    assert metric(images[3:])["images"] == 4
    assert metric.compute()["images"] == 7
    assert metric.compute()["m_d"] == pytest.approx(loope.pesi(images, 7).m_d.mean().item(), abs=1e-12)


def test_grids_may_differ():
    metric = loope.PESI()
    metric.update(embeddings(2, (4, 5)))
    metric.update(embeddings(2, (3, 3)))
    both = [*embeddings(2, (4, 5)), *embeddings(2, (3, 3))]
    assert as_numbers(metric.compute()) == pytest.approx(expected(both), abs=1e-12)


def test_a_small_spread_is_not_lost():
    # LOOPE's images differ by little: the sum of squares minus the square of the sum would be all rounding.
    metric, image = loope.PESI(), embeddings(1)[0].double()
    nudged = image.clone()
    nudged[0, 0, 0] += 1e-9
    metric.update(torch.stack((image, nudged)))
    gap = (loope.pesi(image).a_su - loope.pesi(nudged).a_su).abs().item() / 2
    assert 1e-13 < gap < 1e-9
    assert metric.compute()["a_su_std"].item() == pytest.approx(gap, rel=1e-3)


@without_update
def test_it_works_in_a_collection_and_is_saved():
    metric = MetricCollection({"pesi": loope.PESI()})
    metric.update(embeddings())
    assert metric.compute()["m_u"] == pytest.approx(expected(embeddings())["m_u"], abs=1e-12)
    kept = loope.PESI()
    kept.persistent(True)
    kept.update(embeddings())
    other = loope.PESI()
    other.persistent(True)
    other.load_state_dict(kept.state_dict())
    assert as_numbers(other.compute()) == as_numbers(kept.compute())


@without_update
def test_nothing_seen_is_an_error():
    with pytest.raises(loope.LoopeError, match="seen no images"):
        loope.PESI().compute()
    with pytest.raises(loope.LoopeError, match="`directions` must be"):
        loope.PESI(directions=0)
    with pytest.raises(loope.LoopeError, match=r"\(B, h, w, D\)"):
        loope.PESI().update(torch.rand(3, 4))


def test_loope_is_measured_on_its_images():
    torch.manual_seed(0)
    encoder = loope.create_encoder("loope", 64, 7, patch_size=4, activation="gelu").eval()
    images = torch.rand(4, 3, 28, 28)
    metric = loope.PESI()
    with torch.no_grad():
        for pair in images.split(2):
            metric.update(encoder(pair).view(2, 7, 7, 64))
    scores = metric.compute()
    assert scores["images"] == 4
    assert scores["a_su_std"] > 0  # each image has an order of its own


def process(rank, folder):
    """One of two: takes its share of the images (perhaps none) and leaves what compute says after syncing."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    computed = []
    for share in SHARES:
        metric = loope.PESI()
        own = embeddings(sum(share)).split(share)[rank]
        if len(own):
            metric.update(own)
        computed.append(as_numbers(metric.compute()))
    (folder / f"{rank}.json").write_text(json.dumps(computed))
    dist.destroy_process_group()


@pytest.mark.slow  # starts two processes; tests/three_cell/test_metric.py does so in `make test`
def test_two_processes_agree_on_all_images(tmp_path):
    mp.spawn(process, (tmp_path,), nprocs=2)
    for rank in range(2):
        for share, scores in zip(SHARES, json.loads((tmp_path / f"{rank}.json").read_text()), strict=True):
            assert scores == pytest.approx(expected(embeddings(sum(share))), abs=1e-12)


def test_without_torchmetrics_it_says_what_to_install():
    code = (
        "import sys; sys.modules['torchmetrics'] = None; import loope\n"
        "names = [name for name in dir(loope) if hasattr(loope, name)]\n"
        "assert 'PESI' in names and 'pesi' in names\n"
        "try: loope.PESI()\n"
        "except loope.LoopeError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert "pip install 'loope[metrics]'" in run.stdout


def test_torchmetrics_is_loaded_for_the_class_alone():
    code = "import sys, torch, loope; loope.pesi(torch.rand(2, 2, 3) + 1); sys.exit('torchmetrics' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
