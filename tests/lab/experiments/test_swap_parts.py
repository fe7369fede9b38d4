"""The parts of a swap: images that are held out, epochs of any length, and the agreement of answers."""

import pytest
import torch

from loope.lab.experiments.swap import Swap, split
from loope.lab.experiments.transfer import Parts, SameAnswers


@pytest.mark.parametrize(("images", "held"), [(1, 1), (9, 1), (25, 2), (10_000, 500)])
def test_held_out_images(images, held):
    names = [f"{number}.png" for number in range(images)]
    learnt, kept = split(names, 0, 10**6)
    assert len(kept) == held
    assert sorted([*learnt, *kept]) == sorted(names)
    assert split(names[::-1], 0, 10**6) == (learnt, kept)
    assert len(split(names, 0, 3)[0]) == min(3, images - held)
    if images == 25:
        assert split(names, 1, 10**6) != (learnt, kept)


def test_epochs_of_another_length_go_on_in_the_source():
    class Numbers:
        steps, sampler = 3, type("Sampler", (), {"batch_size": 2})

        def batches(self, epoch, start, share):
            return iter([(epoch, step) for step in range(start, 3)])

    parts = Parts(Numbers(), 10, 2)
    assert (parts.steps, parts.samples) == (5, 10)
    every = [divmod(step, 3) for step in range(10)]
    assert [*parts.batches(0), *parts.batches(1)] == every
    assert list(parts.batches(1, 2)) == every[7:]


def test_steps_are_taken_exactly():
    for steps in range(1, 40):
        chosen = Swap(model="m", encoder="e", steps=steps)
        assert steps % chosen.epochs == 0
        assert 1 <= chosen.epochs <= 5


def test_same_answers_over_batches():
    metric = SameAnswers(torch.tensor([2, 0, 1]))
    logits = torch.eye(3)[[2, 1, 1]]
    for places in ([0, 1], [2]):
        metric.update(logits[places], torch.tensor(places))
    assert metric.compute().item() == pytest.approx(2 / 3)
