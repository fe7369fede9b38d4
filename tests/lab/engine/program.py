"""A command that trains, for torchrun: python -m tests.lab.engine.program FOLDER."""

import json
import sys

from loope.lab.engine.evaluation import evaluate
from loope.lab.engine.training import train
from tests.lab.engine.runs import plain_vit, recipe, sources, task

if __name__ == "__main__":
    model, (learn, check) = plain_vit(), sources()
    result = train(model, task(), learn, check, recipe(accumulate=2), sys.argv[1], progress=False)
    output = {"history": result.history, "evaluated": evaluate(model, task(), check)}
    print(json.dumps(output) + "\n", end="", flush=True)  # one write: the processes share the line
