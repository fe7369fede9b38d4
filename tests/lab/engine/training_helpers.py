"""Short runs in this process, and sources that interrupt them."""

import os
import signal

from loope.lab.engine.training import train
from tests.lab.engine.processes import SETTINGS
from tests.lab.engine.runs import Cells, recipe, sources, task, vit


def fit(folder, model=None, **options):
    """Train for two epochs in this process."""
    known = ("seed", "name", "trackers", "checkpoint_steps")
    arguments = {**SETTINGS, **{key: options.pop(key) for key in known if key in options}}
    learn, check = options.pop("sources", None) or sources()
    model = model or vit()
    return train(model, task(), learn, check, recipe(**{"epochs": 2, **options}), folder, **arguments)


class Asking(Cells):
    """A source that sends this process a signal with its nth batch, or raises if no signal is given."""

    def __init__(self, source: Cells, number: int, what: signal.Signals | None):
        super().__init__(source.data, source.batch, source.shuffle)
        self.left, self.what = number, what

    def draw(self, chosen):
        self.left -= 1
        if self.left == 0 and self.what is None:
            raise RuntimeError("a crash")
        if self.left == 0:
            os.kill(os.getpid(), self.what)
        return super().draw(chosen)
