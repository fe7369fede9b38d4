"""Random command lines end in an answer or in a message, never in a traceback, and soon."""

import resource
import signal
import time
import traceback

import pytest

from loope.core.errors import shown
from tests.cli import fuzzing

CODES = {0, 1, 2, 3, 130}
MEMORY = 8 << 30  # bytes more than now: a line that asks for more fails instead of the machine


@pytest.fixture
def furnished(tmp_path, monkeypatch):
    folder = tmp_path / "deep" / "enough"  # so that .. is ours, too
    folder.mkdir(parents=True)
    fuzzing.furnish(folder)
    monkeypatch.chdir(folder)
    for name in ("LOOPE_DATA", "LOOPE_WEIGHTS"):
        monkeypatch.delenv(name, raising=False)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, hard))
    yield folder
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def check(lines):
    """Fail with every line that went wrong, and how."""
    found = {}
    with fuzzing.nothing_slow():
        for typed, environment, encoding in lines:
            line = f"{environment} {encoding} {[shown(word) for word in typed]}"
            try:
                code, said = fuzzing.run(typed, environment, encoding)
            except (KeyboardInterrupt, pytest.fail.Exception):
                raise
            except BaseException as error:
                found[line] = "".join(traceback.format_exception(error)[-4:])
            else:
                if code not in CODES or "Traceback" in said or (code and not said):
                    found[line] = f"exit code {code}: {said}"
    if found:
        pytest.fail("\n\n".join(f"{line}\n{fault}" for line, fault in found.items()), pytrace=False)


@pytest.mark.parametrize("timer", fuzzing.LIMIT)
def test_a_line_that_does_not_end_is_noticed(timer, monkeypatch):
    def endless():
        while True:
            time.sleep(0) if timer == signal.ITIMER_PROF else time.sleep(0.01)

    monkeypatch.setattr(fuzzing.cli, "main", endless)
    monkeypatch.setattr(fuzzing, "LIMIT", {**fuzzing.LIMIT, timer: 0.05})
    with pytest.raises(fuzzing.TooLong):
        fuzzing.run(["tables"], {}, "utf-8")


def test_a_sample_of_lines(furnished):
    check(fuzzing.lines(seed=0, count=150))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_ten_thousand_lines(seed, furnished):
    check(fuzzing.lines(seed, count=1000))
