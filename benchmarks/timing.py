"""Medians of interleaved runs: the candidates alternate, so that other load slows all of them equally."""

import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

BESIDE = 1.5  # claim: a busy neighbour slows small work down by at most this factor


def interleaved(repeats: int, **calls: Callable[[], object]) -> dict[str, float]:
    """Measure the median seconds of each call; the calls alternate."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            spent[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in spent.items()}


def busy_neighbour_costs_little(name: str, repeats: int, call: Callable[[], object]) -> bool:
    """Print how much slower a call is beside one process that keeps a core busy; return whether the claim holds.

    The neighbour is stopped and continued repeatedly, so that quiet and busy times come from the same minutes.
    """
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    spent: dict[int, list[float]] = {signal.SIGSTOP: [], signal.SIGCONT: []}
    try:
        call()
        for _ in range(repeats):
            for state, times in spent.items():
                neighbour.send_signal(state)
                time.sleep(0.02)  # until it has stopped or started
                for _ in range(5):
                    start = time.perf_counter()
                    call()
                    times.append(time.perf_counter() - start)
    finally:
        neighbour.kill()
        neighbour.wait()
    quiet, busy = (statistics.median(times) for times in spent.values())
    print(
        f"{name}: quiet {1000 * quiet:.1f} ms, beside a busy process {1000 * busy:.1f} ms: {busy / quiet:.2f}x "
        f"(claim: at most {BESIDE}x)"
    )
    return busy / quiet <= BESIDE
