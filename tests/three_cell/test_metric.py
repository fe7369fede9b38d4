"""The score: against counting by hand, in batches, in two processes, and without its library."""

import subprocess
import sys

import pytest
import torch
import torch.distributed
import torch.multiprocessing
from hypothesis import given
from hypothesis import strategies as st

import loope
from loope.three_cell.bits import BITS, TASKS
from loope.three_cell.metric import ThreeCellScore, confusion


def by_hand(preds: torch.Tensor, target: torch.Tensor) -> tuple[dict[str, float], list]:
    """Accuracies and confusion, counted one answer at a time."""
    counts = [[[0, 0], [0, 0]] for _ in BITS]
    for answers, truths in zip(preds.tolist(), target.tolist(), strict=True):
        for bit, (answer, truth) in enumerate(zip(answers, truths, strict=True)):
            counts[bit][int(truth)][int(answer > 0)] += 1
    right = [(table[0][0] + table[1][1]) / len(preds) for table in counts]
    scores = {task: sum(right[bit] for bit in bits) / len(bits) for task, bits in TASKS.items()}
    return {**scores, "average": sum(scores.values()) / 4}, counts


def scalars(result: dict) -> dict[str, float]:
    return {name: value.item() for name, value in result.items() if name != "confusion"}


def answers(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(count, 6, generator=random), torch.randint(2, (count, 6), generator=random)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32))
def test_scores_agree_with_counting(first, second, seed):
    preds, target = answers(first + second, seed)
    expected, counts = by_hand(preds, target)
    score = loope.ThreeCellScore()
    score.update(preds[:first], target[:first])
    score.update(preds[first:], target[first:])
    result = score.compute()
    assert scalars(result) == pytest.approx(expected, abs=1e-6)
    assert result["confusion"].tolist() == counts
    assert result["confusion"].dtype == torch.int64


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_logits_of_any_precision(dtype):
    preds, target = answers(50, 0)
    assert torch.equal(confusion(preds.to(dtype), target), confusion(preds, target))


def test_bits_are_answers_too():
    preds, target = answers(50, 1)
    for given_ in ((preds > 0), (preds > 0).long(), (preds > 0).to(torch.uint8)):
        assert torch.equal(confusion(given_, target), confusion(preds, target))
    for truth in (target.bool(), target.float()):
        assert torch.equal(confusion(preds, truth), confusion(preds, target))
    # At 0 a logit says neither; it counts as no.
    assert torch.equal(confusion(torch.zeros(5, 6), target[:5]), confusion(torch.full((5, 6), -1.0), target[:5]))


def test_nan_is_wrong_either_way():
    target = torch.tensor([[0, 1, 0, 1, 0, 1]])
    score = ThreeCellScore()
    score.update(torch.full((1, 6), float("nan")), target)
    assert scalars(score.compute()) == dict.fromkeys((*TASKS, "average"), 0.0)


def test_forward_gives_the_batch_and_reset_forgets():
    score = ThreeCellScore()
    one, two = answers(20, 2), answers(30, 3)
    score(*one)
    assert scalars(score(*two)) == pytest.approx(by_hand(*two)[0], abs=1e-6)
    assert scalars(score.compute()) == pytest.approx(
        by_hand(*(torch.cat(pair) for pair in zip(one, two, strict=True)))[0], abs=1e-6
    )
    score.reset()
    assert score.counts.sum() == 0
    with pytest.warns(UserWarning, match="before the ``update`` method"):
        assert score.compute()["average"].isnan()


@pytest.mark.parametrize(
    ("preds", "target"), [((5, 6), (4, 6)), ((5, 4), (5, 4)), ((6,), (6,)), ((5, 6, 1), (5, 6, 1)), ((1, 6), (5, 6))]
)
def test_shapes_that_do_not_fit(preds, target):
    with pytest.raises(loope.LoopeError, match=r"must both be \(B, 6\)"):
        ThreeCellScore().update(torch.zeros(preds), torch.zeros(target))


def take_part(rank: int, meeting: str) -> tuple[dict, torch.Tensor]:
    """What each of two processes does: score its own, uneven share of the batches."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    try:
        score = ThreeCellScore()
        for seed in (0, 1, 2) if rank == 0 else (3,):
            score.update(*answers(10 + seed, seed))
        return score.compute(), score.counts
    finally:
        torch.distributed.destroy_process_group()


def the_other_process(meeting: str, results: str) -> None:
    torch.save(take_part(1, meeting), results)


def test_two_processes_score_as_one(tmp_path):
    meeting, results = str(tmp_path / "meeting"), str(tmp_path / "results")
    other = torch.multiprocessing.get_context("spawn").Process(target=the_other_process, args=(meeting, results))
    other.start()
    ours = take_part(0, meeting)
    other.join(60)
    assert other.exitcode == 0
    batches = [answers(10 + seed, seed) for seed in range(4)]
    expected, counts = by_hand(*(torch.cat(parts) for parts in zip(*batches, strict=True)))
    for samples, (result, own) in ((33, ours), (13, torch.load(results, weights_only=True))):
        assert result["confusion"].tolist() == counts
        assert scalars(result) == pytest.approx(expected, abs=1e-6)
        assert own.sum() == 6 * samples  # after the meeting each goes on with its own


def test_without_torchmetrics_the_message_says_what_to_install():
    code = (
        "import sys; sys.modules['torchmetrics'] = None; import loope; loope.ThreeCell(10)\n"
        "try: loope.ThreeCellScore()\nexcept loope.LoopeError as error: print(error)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert shown.stdout == "ThreeCellScore needs torchmetrics: pip install 'loope[metrics]'.\n"
