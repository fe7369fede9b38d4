"""Claim: of 200 distinct clicks a second for 20 seconds, on two cores, fewer than 1 % are refused.

All requests are distinct, so that no cache helps: encoders with various grids and widths, orders on various grids,
various cells of Three-Cell. They come from 200 connections, as from 200 visitors.
"""

import asyncio
import itertools
import random
import statistics
import time
from collections import Counter

import loope
from explorer_load import RATE, Answer, Request, processor_seconds, started, visitor
from loope.explorer.model import shipped_encoder
from loope.three_cell.bits import COLOURS

SECONDS, VISITORS = 20, 200
MOST_REFUSED = 0.01


def clicks(count: int) -> list[Request]:
    """Draw distinct requests: half Compare, a quarter Order, a quarter Three-Cell."""
    draw = random.Random(0)  # noqa: S311
    sides = [f"{height}x{width}" for height, width in itertools.product(range(4, 17), repeat=2)]
    compared = [
        f"/api/similarity/{name}/{grid}/{64 * heads}.bin"
        for name, grid, heads in itertools.product(loope.list_encoders(), sides, range(1, 13))
    ]
    ordered = [
        f"/api/order/{name}/{height}x{width}.json"
        for name, height, width in itertools.product(loope.list_orders(), range(2, 33), range(2, 33))
    ]
    cells = list(itertools.product(*map(range, shipped_encoder().grid)))
    asked = [
        f"/api/three-cell/{moving}/{'-'.join(str(number) for cell in three for number in cell)}.json"
        for moving, three in itertools.product(COLOURS, itertools.permutations(cells, 3))
    ]
    quarter = count // 4
    chosen = draw.sample(compared, count - 2 * quarter) + draw.sample(ordered, quarter) + draw.sample(asked, quarter)
    draw.shuffle(chosen)
    return [("GET", path, None) for path in chosen]


async def load(port: int, requests: list[Request]) -> list[Answer]:
    """Send each request when it is due; return all answers."""
    seen: list[Answer] = []
    start = time.perf_counter() + 0.5
    numbers = [range(first, len(requests), VISITORS) for first in range(VISITORS)]
    await asyncio.gather(*(visitor(port, each, start, seen, requests.__getitem__) for each in numbers))
    return seen


def main() -> None:
    """Measure, print, and fail if the claim does not hold."""
    requests = clicks(RATE * SECONDS)
    with started() as server:
        before = processor_seconds(server.pid)
        seen = asyncio.run(load(server.port, requests))
        spent = processor_seconds(server.pid) - before
    statuses = Counter(answer.status for answer in seen)
    times = sorted(answer.took for answer in seen)
    refused = statuses[503] / len(seen)
    print(
        f"{len(seen):,} distinct clicks at {RATE}/s: "
        + ", ".join(f"{count:,} x {status}" for status, count in sorted(statuses.items()))
    )
    print(f"refused: {refused:.2%} (claim: below {MOST_REFUSED:.0%})")
    print(f"latency: p50 {1000 * statistics.median(times):.0f} ms, p99 {1000 * times[int(0.99 * len(times))]:.0f} ms")
    print(f"the server's CPU time: {1000 * spent / len(seen):.2f} ms a click")
    if refused >= MOST_REFUSED or set(statuses) - {200, 400, 503}:
        raise SystemExit("the claim does not hold")


if __name__ == "__main__":
    main()
