"""Scores of segmentations: against counting, distance transforms, scikit-learn and torchmetrics."""

import math

import numpy as np
import pytest
import sklearn.metrics
import torch
import torch.distributed
import torch.multiprocessing
import torchmetrics.classification as tm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import distance_transform_edt

import loope
from loope.segmentation.boundaries import boundary, boundary_counts, widen
from loope.segmentation.labels import VOID
from loope.segmentation.metric import SegmentationScore, boundary_f1, scores_from_confusion

SCALARS = ("accuracy", "miou", "mdice", "mcc", "boundary_f1")


def pair(seed: int, classes: int = 4, size=(13, 17), batch: int = 2, void: float = 0.1):
    """Blobs, a prediction that errs here and there, and some void."""
    random = torch.Generator().manual_seed(seed)
    coarse = torch.randn(batch, classes, 4, 4, generator=random)
    fine = torch.nn.functional.interpolate(coarse, size, mode="bicubic")
    target = fine.argmax(1)
    scores = fine + 0.4 * torch.randn(fine.shape, generator=random)
    target[torch.rand(target.shape, generator=random) < void] = VOID
    return scores, target


def border(labels: np.ndarray) -> np.ndarray:
    """One pixel at a time."""
    height, width = labels.shape
    found = np.zeros(labels.shape, bool)
    for row in range(height):
        for column in range(width):
            for down, right in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                there = row + down, column + right
                if 0 <= there[0] < height and 0 <= there[1] < width:
                    both = {labels[row, column], labels[there]}
                    found[row, column] |= len(both) == 2 and VOID not in both
    return found


def slow_borders(pred, target, classes: int, tolerance: float) -> np.ndarray:
    """Counts from distance transforms, one image and class at a time."""
    counts = np.zeros((classes, 4), int)
    for given_, truth in zip(pred.numpy(), target.numpy(), strict=True):
        given_ = np.where(truth == VOID, VOID, given_)
        for kind in range(classes):
            ours, theirs = border(given_) & (given_ == kind), border(truth) & (truth == kind)
            counts[kind, 0] += ours.sum()
            counts[kind, 2] += theirs.sum()
            if ours.any() and theirs.any():
                counts[kind, 1] += (distance_transform_edt(~theirs)[ours] <= tolerance).sum()
                counts[kind, 3] += (distance_transform_edt(~ours)[theirs] <= tolerance).sum()
    return counts


def slow_scores(pred, target, classes: int, tolerance: float) -> dict[str, float]:
    """All five, from lists of pixels."""
    pixels = [(t, p) for t, p in zip(target.flatten().tolist(), pred.flatten().tolist(), strict=True) if t != VOID]
    iou, dice = [], []
    for kind in range(classes):
        both = sum(t == p == kind for t, p in pixels)
        either = sum(kind in (t, p) for t, p in pixels)
        sizes = sum(t == kind for t, _ in pixels) + sum(p == kind for _, p in pixels)
        if either:
            iou.append(both / either)
            dice.append(2 * both / sizes)
    f1 = []
    for predicted, hit, true, found in slow_borders(pred, target, classes, tolerance):
        if predicted + true:
            precision, recall = hit / max(predicted, 1), found / max(true, 1)
            f1.append(2 * precision * recall / (precision + recall) if hit else 0.0)
    return {
        "accuracy": sum(t == p for t, p in pixels) / len(pixels),
        "miou": sum(iou) / len(iou),
        "mdice": sum(dice) / len(dice),
        "mcc": sklearn.metrics.matthews_corrcoef(*zip(*pixels, strict=True)),
        "boundary_f1": sum(f1) / len(f1) if f1 else math.nan,
    }


def scalars(score: SegmentationScore) -> dict[str, float]:
    computed = score.compute()
    return {name: computed[name].item() for name in SCALARS}


@settings(max_examples=30)  # the reference looks at every pixel
@given(st.integers(0, 2**32), st.sampled_from([2, 3, 9, 20]), st.sampled_from([None, 1.0, 1.5, 2.9, 40.0]))
def test_all_scores_against_the_reference(seed, classes, tolerance):
    scores, target = pair(seed, classes)
    score = loope.SegmentationScore(classes, tolerance)
    for each in range(2):
        score.update(scores[each : each + 1], target[each : each + 1])
    reach = 0.0075 * math.hypot(13, 17) if tolerance is None else tolerance
    assert scalars(score) == pytest.approx(slow_scores(scores.argmax(1), target, classes, reach), nan_ok=True)


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_against_scikit_learn_and_torchmetrics(seed):
    scores, target = pair(seed, classes=5)
    pred, known = scores.argmax(1), target != VOID
    score = SegmentationScore(5)
    score.update(scores, target)
    ours = score.compute()
    present = sorted(set(target[known].tolist()) | set(pred[known].tolist()))
    y, z = target[known].numpy(), pred[known].numpy()
    assert ours["accuracy"].item() == pytest.approx(sklearn.metrics.accuracy_score(y, z))
    assert ours["miou"].item() == pytest.approx(sklearn.metrics.jaccard_score(y, z, labels=present, average="macro"))
    assert ours["mdice"].item() == pytest.approx(sklearn.metrics.f1_score(y, z, labels=present, average="macro"))
    assert ours["mcc"].item() == pytest.approx(sklearn.metrics.matthews_corrcoef(y, z))
    options = {"num_classes": 5, "ignore_index": VOID}
    theirs = {
        "accuracy": tm.MulticlassAccuracy(average="micro", **options),
        "miou": tm.MulticlassJaccardIndex(**options),
        "mdice": tm.MulticlassF1Score(**options),
        "mcc": tm.MulticlassMatthewsCorrCoef(**options),
    }
    for name, metric in theirs.items():
        assert ours[name].item() == pytest.approx(metric(pred, target).item(), abs=1e-5), name


@given(st.integers(0, 2**32), st.integers(0, 60), st.integers(1, 20), st.integers(1, 20))
def test_widening_by_a_disc(seed, reach, height, width):
    random = torch.Generator().manual_seed(seed)
    bits = torch.randint(256, (2, height, width), generator=random) * (
        torch.rand(2, height, width, generator=random) < 0.1
    )
    wide = widen(bits.to(torch.uint8), reach)
    for image, given_ in zip(bits.numpy(), wide.numpy(), strict=True):
        expected = np.zeros_like(image)
        for row, column in zip(*image.nonzero(), strict=True):
            rows, columns = np.ogrid[:height, :width]
            expected[(rows - row) ** 2 + (columns - column) ** 2 <= reach] |= image[row, column]
        assert (given_ == expected).all()


@given(st.integers(0, 2**32))
def test_borders(seed):
    _, target = pair(seed, size=(7, 9))
    found = boundary(target.to(torch.uint8))
    assert all((ours.numpy() == border(labels.numpy())).all() for ours, labels in zip(found, target, strict=True))


def test_inputs_are_left_as_they_were():
    pred, target = (torch.randint(3, (1, 8, 8), dtype=torch.uint8) for _ in range(2))
    target[0, 0] = VOID
    before = pred.clone(), target.clone()
    boundary_counts(pred, target, 3, 2.0)
    assert torch.equal(pred, before[0])
    assert torch.equal(target, before[1])


def test_a_shifted_border_is_right_within_the_tolerance_and_wrong_beyond():
    target = torch.zeros(1, 20, 40, dtype=torch.int64)
    target[..., 20:] = 1
    for shift in (1, 2, 3):
        pred = torch.zeros_like(target)
        pred[..., 20 + shift :] = 1
        for tolerance in (1.0, 2.0, 2.99, 3.0):
            f1 = boundary_f1(boundary_counts(pred, target, 2, tolerance))
            assert f1 == (1.0 if shift <= tolerance else 0.0)


def test_the_default_tolerance_is_three_quarters_of_a_percent_of_the_diagonal():
    target = torch.zeros(1, 300, 400, dtype=torch.int64)  # a diagonal of 500: 3.75 pixels
    target[..., 200:] = 1
    for shift, right in ((3, 1.0), (4, 0.0)):
        score = SegmentationScore(2)
        score.update((torch.arange(400) >= 200 + shift).long().expand(1, 300, 400), target)
        assert score.compute()["boundary_f1"] == right


def test_void_has_no_part_in_anything():
    scores, target = pair(0)
    first, second = SegmentationScore(4), SegmentationScore(4)
    first.update(scores, target)
    changed = scores.clone()
    changed[:, 2] += 100 * (target == VOID)
    second.update(changed, target)
    assert scalars(first) == scalars(second)
    nothing = SegmentationScore(4)
    nothing.update(scores, torch.full_like(target, VOID))
    assert all(math.isnan(value) for value in scalars(nothing).values())


def test_an_empty_class_has_no_score_and_no_part_in_the_means():
    scores, target = pair(1, classes=3)
    wide = torch.cat((scores, torch.full_like(scores[:, :1], -100)), dim=1)
    three, four = SegmentationScore(3), SegmentationScore(4)
    three.update(scores, target)
    four.update(wide, target)
    assert scalars(three) == pytest.approx(scalars(four))
    assert four.compute()["iou"].isnan().tolist() == [False, False, False, True]
    # There, but never found: that counts.
    target[0, 0, 0] = 3
    missed = SegmentationScore(4)
    missed.update(wide, target)
    assert missed.compute()["iou"][3] == 0
    assert missed.compute()["miou"] < three.compute()["miou"]


def test_one_class_everywhere():
    score = SegmentationScore(3)
    score.update(torch.zeros(1, 5, 5, dtype=torch.int64), torch.zeros(1, 5, 5, dtype=torch.int64))
    computed = scalars(score)
    assert computed["accuracy"] == computed["miou"] == computed["mdice"] == 1
    assert computed["mcc"] == 0
    assert math.isnan(computed["boundary_f1"])


def test_counts_of_a_whole_data_set_do_not_overflow():
    """Six billion pixels, as Cityscapes has: MCC does not change when all counts are multiplied."""
    small = torch.tensor([[50, 3, 2], [4, 20, 6], [1, 2, 12]])
    large = scores_from_confusion(small * 60_000_000)
    for name, value in scores_from_confusion(small).items():
        torch.testing.assert_close(large[name], value, atol=1e-14, rtol=1e-14)
    y, z = zip(*[(t, p) for t in range(3) for p in range(3) for _ in range(small[t, p])], strict=True)
    assert large["mcc"].item() == pytest.approx(sklearn.metrics.matthews_corrcoef(y, z), rel=1e-14)


def test_an_empty_share_of_a_batch():
    score = SegmentationScore(4)
    score.update(*pair(3))
    before = scalars(score)
    score.update(torch.zeros(0, 4, 13, 17), torch.zeros(0, 13, 17, dtype=torch.int64))
    assert scalars(score) == before


def test_forward_gives_the_batch_and_reset_forgets():
    score, other = SegmentationScore(4), SegmentationScore(4)
    score(*pair(0))
    other.update(*pair(1))
    assert score(*pair(1))["miou"] == other.compute()["miou"]
    score.reset()
    assert score.confusion.sum() == score.borders.sum() == 0


@pytest.mark.parametrize(
    ("preds", "target", "message"),
    [
        (torch.zeros(2, 4, 5, 6), torch.zeros(2, 5, 7).long(), r"must be \(B, classes, H, W\) or \(B, H, W\)"),
        (torch.zeros(2, 5, 6).long(), torch.zeros(2, 6, 5).long(), r"got \(2, 5, 6\) and \(2, 6, 5\)"),
        (torch.zeros(4, 5, 6), torch.zeros(5, 6).long(), "must be"),
        (torch.zeros(2, 19, 5, 6), torch.zeros(2, 5, 6).long(), "scores are of 19 classes, the data of 4"),
        (torch.zeros(2, 4, 5, 6), torch.full((2, 5, 6), 4), r"`target` has the values \[4\], .* 0 to 3, and 255"),
        (torch.zeros(2, 4, 5, 6), torch.full((2, 5, 6), -1), r"`target` has the values \[-1\]"),
        (torch.full((2, 5, 6), VOID), torch.zeros(2, 5, 6).long(), r"`preds` has the values \[255\]"),
    ],
)
def test_what_does_not_fit(preds, target, message):
    with pytest.raises(loope.LoopeError, match=message):
        SegmentationScore(4).update(preds, target)


def test_numbers_that_are_none():
    for wrong in ({"classes": 0}, {"classes": 256}, {"classes": 3, "tolerance": 0}, {"classes": 3, "tolerance": -1.0}):
        with pytest.raises(loope.LoopeError):
            SegmentationScore(**wrong)


def take_part(rank: int, meeting: str) -> dict:
    """What each of two processes does: score its own, uneven share."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    try:
        score = SegmentationScore(4)
        for seed in (0, 1, 2) if rank == 0 else (3,):
            score.update(*pair(seed))
        return scalars(score)
    finally:
        torch.distributed.destroy_process_group()


def the_other_process(meeting: str, results: str) -> None:
    torch.save(take_part(1, meeting), results)


@pytest.mark.slow  # starts a process; tests/three_cell/test_metric.py does so in `make test`
def test_two_processes_score_as_one(tmp_path):
    meeting, results = str(tmp_path / "meeting"), str(tmp_path / "results")
    other = torch.multiprocessing.get_context("spawn").Process(target=the_other_process, args=(meeting, results))
    other.start()
    ours = take_part(0, meeting)
    other.join(120)
    assert other.exitcode == 0
    alone = SegmentationScore(4)
    for seed in range(4):
        alone.update(*pair(seed))
    assert ours == torch.load(results, weights_only=True) == scalars(alone)
