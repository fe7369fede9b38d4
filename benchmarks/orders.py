"""Claims: the Gilbert order of a 1024x1024 grid is computed at least 20 times faster than by a recursive generator.

Beside one busy process it takes at most 1.5 times as long.
For comparison, the lower bound: the time to write the same number of values once, in scattered order.
"""

import sys
from pathlib import Path

import torch

from timing import busy_neighbour_costs_little, interleaved

sys.path.insert(0, str(Path(__file__).parent.parent))

import loope
from tests.orders.reference import gilbert2d

SIDE = 1024


def main() -> None:
    """Measure, print the ratios, and fail if the claim does not hold."""
    places = torch.randperm(SIDE * SIDE)
    index = torch.empty(SIDE * SIDE, dtype=torch.int64)
    times = interleaved(
        5,
        recursion=lambda: list(gilbert2d(SIDE, SIDE)),
        loope=lambda: loope.create_order("gilbert", SIDE, SIDE),
        write=lambda: index.scatter_(0, places, torch.arange(SIDE * SIDE)),
    )
    ratio = times["recursion"] / times["loope"]
    for name, seconds in times.items():
        print(f"{name:10} {1000 * seconds:9.1f} ms")
    print(f"faster than recursion: {ratio:.1f}x (claim: 20x)")
    print(f"slower than a scattered write: {times['loope'] / times['write']:.1f}x")
    undisturbed = busy_neighbour_costs_little("gilbert 1024x1024", 5, lambda: loope.create_order("gilbert", SIDE, SIDE))
    if ratio < 20 or not undisturbed:
        raise SystemExit("the claim does not hold")


if __name__ == "__main__":
    main()
