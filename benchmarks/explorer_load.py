"""Claims: 200 requests a second for a minute are all answered, 99 % within a second once warm; memory stays bounded.

The explorer runs as a user would start it, on 127.0.0.1. Fifty connections send at fixed times; latency is measured
from the time at which a request was due, so it includes queueing. Most requests hit the cache, some must be computed,
some send images, some are invalid. "Busy" (503) counts as an answer and is reported.
"""

import asyncio
import os
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.request import urlopen

from PIL import Image

import loope

RATE, SECONDS, WARM, VISITORS = 200, 60, 20, 50
MOST_P99, MOST_GROWTH = 1.0, 48 * 2**20
EXPECTED = {200, 400, 503}


class Answer(NamedTuple):
    """Due time, status and latency in seconds."""

    due: float
    status: int
    took: float


class Server(NamedTuple):
    """Process id and port of a running explorer."""

    port: int
    pid: int


Request: TypeAlias = tuple[str, str, bytes | None]  # method, path, body


def request(number: int) -> Request:
    """Return the method, path and body of a request."""
    encoders, kind = loope.list_encoders(), number % 40
    if kind < 16:
        return "GET", f"/api/similarity/{encoders[number % len(encoders)]}/14x14/768.bin", None
    if kind < 24:
        return "GET", ("/", "/main.js", "/style.css", "/api/catalog.json")[number % 4], None
    if kind < 32:
        return "GET", f"/api/order/{loope.list_orders()[number % 9]}/14x14.json", None
    if kind < 36:  # not cached
        return "GET", f"/api/similarity/gilbert/7x7/{2 + 2 * (number // 10 % 1024)}.bin", None
    if kind < 38:
        out = BytesIO()
        Image.new("RGB", (64, 64), (number % 256, number // 256 % 256, 9)).save(out, "PNG")
        return "POST", "/api/offsets.json", out.getvalue()
    return "GET", ("/api/similarity/nosuch/14x14/768.bin", "/api/three-cell/red/4-0-1-2-3-4.json")[kind % 2], None


async def visitor(
    port: int, numbers: range, start: float, seen: list[Answer], request: Callable[[int], Request] = request
) -> None:
    """Send requests over one connection when they are due; late answers delay the next ones, which latency includes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in numbers:
        method, path, body = request(number)
        due = start + number / RATE
        await asyncio.sleep(max(0, due - time.perf_counter()))
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body or b'')}\r\n\r\n"
        writer.write(head.encode() + (body or b""))
        answer = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)[1]))
        seen.append(Answer(number / RATE, int(answer.split()[1]), time.perf_counter() - due))
    writer.close()


async def load(port: int, pid: int) -> tuple[list[Answer], list[int]]:
    """Run the load; return the answers, and the memory every ten seconds."""
    seen: list[Answer] = []
    start = time.perf_counter() + 0.5
    visitors = [
        asyncio.create_task(visitor(port, range(number, RATE * SECONDS, VISITORS), start, seen))
        for number in range(VISITORS)
    ]
    memory = []
    for seconds in range(0, SECONDS, 10):
        await asyncio.sleep(max(0, start + seconds - time.perf_counter()))
        memory.append(resident(pid))
    await asyncio.gather(*visitors)
    return seen, [*memory, resident(pid)]


def resident(pid: int) -> int:
    return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1])


def processor_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def started() -> Iterator[Server]:
    """Start the explorer as a user would and wait until it answers."""
    command = [sys.executable, "-m", "loope", "explore", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:  # noqa: S603
        try:
            address = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
            urlopen(f"{address[0]}/api/catalog.json").close()  # noqa: S310  (torch is loaded now)
            yield Server(int(address[1]), process.pid)
        finally:
            process.terminate()


def main() -> None:
    """Measure, print, and fail if a claim does not hold."""
    with started() as server:
        before = processor_seconds(server.pid)
        seen, memory = asyncio.run(load(server.port, server.pid))
        spent = processor_seconds(server.pid) - before
    statuses = Counter(answer.status for answer in seen)
    times = sorted(answer.took for answer in seen if answer.due >= WARM)
    p50, p99 = statistics.median(times), times[int(0.99 * len(times))]
    first = max(answer.took for answer in seen)
    growth = memory[-1] - memory[WARM // 10]
    print(
        f"{len(seen):,} requests at {RATE}/s: " + ", ".join(f"{count:,} x {s}" for s, count in sorted(statuses.items()))
    )
    print(f"latency after {WARM} s: p50 {1000 * p50:.1f} ms, p99 {1000 * p99:.0f} ms (claim: {1000 * MOST_P99:.0f} ms)")
    print(f"slowest, before anything was cached: {first:.1f} s")
    print(f"the server's CPU time: {1000 * spent / len(seen):.2f} ms a request, {spent / SECONDS:.0%} of a core")
    print(f"memory every 10 s, MB: {' '.join(str(m // 2**20) for m in memory)}")
    print(f"growth after {WARM} s: {growth / 2**20:.1f} MB (claim: below {MOST_GROWTH // 2**20})")
    if set(statuses) - EXPECTED or p99 > MOST_P99 or growth > MOST_GROWTH:
        raise SystemExit("a claim does not hold")


if __name__ == "__main__":
    main()
