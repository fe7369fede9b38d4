"""Learning-rate schedule: linear warmup, then cosine decay. A stateless function of the step."""

import math

from loope.lab.engine.recipe import Recipe


def learning_rate(recipe: Recipe, step: int, steps_per_epoch: int) -> float:
    """Return the learning rate of optimizer step `step`, counted from 0 over the whole run.

    It rises linearly over the first `w` = warmup x steps_per_epoch steps (`w` may be fractional), reaches `lr` at `w`,
    and follows a cosine down to `min_lr` at the last step.

    Examples:
        >>> recipe = Recipe(epochs=2, lr=1.0, min_lr=0.0, warmup=0.5)
        >>> [round(learning_rate(recipe, step, 4), 3) for step in range(8)]
        [0.333, 0.667, 1.0, 0.905, 0.655, 0.345, 0.095, 0.0]
    """
    warm = recipe.warmup * steps_per_epoch
    if step < warm:
        return recipe.lr * (step + 1) / (warm + 1)
    span = recipe.epochs * steps_per_epoch - 1 - warm
    done = (step - warm) / span if span > 0 else 0.0
    return recipe.min_lr + (recipe.lr - recipe.min_lr) * (1 + math.cos(math.pi * done)) / 2
