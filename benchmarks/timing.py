"""Medians of interleaved runs: what is compared runs side by side, so that a busy machine slows all alike."""

import statistics
import time
from collections.abc import Callable


def interleaved(repeats: int, **calls: Callable[[], object]) -> dict[str, float]:
    """Median seconds of each call, the calls taking turns."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            spent[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in spent.items()}
