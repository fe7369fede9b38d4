"""The ready tasks, against loops over samples."""

import math

import pytest
import torch
from torch import nn

import loope
from loope import LoopeError
from loope.lab.engine.evaluation import evaluate
from loope.lab.engine.tasks import Bits, Classification


class Pairs:
    """Logits and targets as a source, in batches of four."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, targets
        self.samples, self.steps = len(inputs), -(-len(inputs) // 4)

    def batches(self, epoch, start=0, share=(0, 1)):
        return zip(self.inputs.split(4), self.targets.split(4), strict=True)


def cross_entropy(logits, shares) -> float:
    """Mean of minus the expected log probability, in Python."""
    total = 0.0
    for row, share in zip(logits.tolist(), shares.tolist(), strict=True):
        norm = math.log(sum(math.exp(value) for value in row))
        total -= sum(part * (value - norm) for part, value in zip(share, row, strict=True))
    return total / len(logits)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("soft", [False, True])
def test_cross_entropy(smoothing, soft):
    torch.manual_seed(0)
    logits, classes = torch.randn(7, 5), torch.randint(5, (7,))
    shares = torch.softmax(torch.randn(7, 5), 1) if soft else nn.functional.one_hot(classes, 5).float()
    smooth = shares * (1 - smoothing) + smoothing / 5
    loss = Classification(5, smoothing).loss(nn.Identity(), logits, shares if soft else classes)
    assert loss.item() == pytest.approx(cross_entropy(logits, smooth), rel=1e-6)


@pytest.mark.parametrize("classes", [3, 12])
def test_accuracy(classes):
    torch.manual_seed(0)
    logits, targets = torch.randn(30, classes), torch.randint(classes, (30,))
    ranked = [sorted(range(classes), key=lambda k: -row[k]) for row in logits.tolist()]
    expected = {
        f"top{top}": pytest.approx(sum(t in row[:top] for row, t in zip(ranked, targets.tolist(), strict=True)) / 30)
        for top in ((1, 5) if classes >= 10 else (1,))
    }
    assert evaluate(nn.Identity(), Classification(classes), Pairs(logits, targets)) == expected


def test_bits():
    torch.manual_seed(0)
    logits, bits = torch.randn(9, 6), torch.randint(2, (9, 6))
    task = Bits(loope.ThreeCellScore)
    total = 0.0
    for value, bit in zip(logits.flatten().tolist(), bits.flatten().tolist(), strict=True):
        total += math.log(1 + math.exp(-value if bit else value))
    assert task.loss(nn.Identity(), logits, bits).item() == pytest.approx(total / 54, rel=1e-6)
    scores = evaluate(nn.Identity(), task, Pairs(logits, bits))
    right = ((logits > 0) == bits.bool()).float().mean(0)
    assert scores["orientation"] == pytest.approx(right[2].item())
    assert scores["average"] == pytest.approx(
        ((right[0] + right[1]) / 2 + right[2] + (right[3] + right[4]) / 2 + right[5]).item() / 4
    )
    assert torch.tensor(scores["confusion"]).shape == (6, 2, 2)


def test_losses_are_in_float32():
    """Half precision would round the loss itself."""
    logits = torch.randn(4, 3).bfloat16()
    assert Classification(3).loss(nn.Identity(), logits, torch.tensor([0, 1, 2, 0])).dtype == torch.float32
    assert Bits(loope.ThreeCellScore).loss(nn.Identity(), logits, torch.ones(4, 3)).dtype == torch.float32


def test_a_single_metric_has_the_headlines_name():
    from torchmetrics.classification import MulticlassAccuracy

    class Plain(Classification):
        headline = "accuracy"

        def metrics(self):
            return MulticlassAccuracy(3, average="micro")

    logits, targets = torch.eye(3), torch.tensor([0, 1, 1])
    assert evaluate(nn.Identity(), Plain(3), Pairs(logits, targets)) == {"accuracy": pytest.approx(2 / 3)}


def test_headline_that_is_not_there():
    task = Bits(loope.ThreeCellScore, headline="accuracy")
    with pytest.raises(LoopeError, match="headline 'accuracy' is not among its metrics: distance, orientation"):
        evaluate(nn.Identity(), task, Pairs(torch.randn(3, 6), torch.ones(3, 6)))
    with pytest.raises(LoopeError, match="`num_classes` must be a whole number from 2 up, got 1"):
        Classification(1)
