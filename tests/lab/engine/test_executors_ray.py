"""A real Ray on this machine: workers are killed, nothing is lost, nothing is done twice."""

import os
import signal
import subprocess
import sys
import time

import pytest

from loope.core.errors import LoopeError
from loope.lab.executors import RunError, create_executor, ray_end
from loope.lab.executors.on_ray import _cores_of_a_gpu
from tests.lab.engine.submitted import lines, save_when_asked, train, until

ray = pytest.importorskip("ray", reason="needs loope[ray]")


def test_ray(tmp_path):
    # One test, because starting Ray takes most of the time.
    with create_executor("ray", jobs=2) as executor:
        it_listens_on_this_machine_alone(executor)
        a_worker_is_killed_in_the_middle_of_a_run(executor, tmp_path)
        with create_executor("ray", jobs=1, max_retries=0) as another:  # uses the running Ray
            a_worker_is_lost_for_good(another, tmp_path)
        stopping_lets_workers_save(tmp_path)
        assert ray.is_initialized()
    assert not ray.is_initialized()


def it_listens_on_this_machine_alone(executor):
    psutil = pytest.importorskip("psutil")
    processes = [process for process, _ in ray_end.family(executor._watcher.args[-1])]
    sockets = [each for pid in processes for each in psutil.Process(pid).net_connections("inet")]
    listening = [each.laddr.ip.removeprefix("::ffff:") for each in sockets if each.status == "LISTEN"]
    assert len(listening) >= 3
    assert set(listening) == {"127.0.0.1"}


def a_worker_is_killed_in_the_middle_of_a_run(executor, folder):
    runs = {"killed": (8, 4), "kept": (8,), "failed": (8, None, 2), "later": (8,)}
    futures = {name: executor.submit(train, str(folder / name), *args) for name, args in runs.items()}
    until(lambda: lines(folder / "killed" / "hangs"))
    os.kill(int(lines(folder / "killed" / "hangs")[0]), signal.SIGKILL)
    errors = {name: future.exception(timeout=300) for name, future in futures.items()}
    assert {name for name, error in errors.items() if error is not None} == {"failed"}
    assert type(errors["failed"]) is RunError
    assert str(errors["failed"]).endswith("ValueError: loss is not finite at step 2")
    assert "\x1b" not in str(errors["failed"])
    began = {name: [line.split() for line in lines(folder / name / "began")] for name in runs}
    # The killed run went on from its checkpoint; the failed one was not tried again.
    assert {name: [at for at, _, _ in starts] for name, starts in began.items()} == {
        "killed": ["0", "4"],
        "kept": ["0"],
        "failed": ["0"],
        "later": ["0"],
    }
    for name in ("killed", "kept", "later"):
        assert lines(folder / name / "checkpoints") == [str(step) for step in range(8)]
        assert len(lines(folder / name / "complete")) == 1
    assert not (folder / "failed" / "complete").exists()
    everyone = [start for starts in began.values() for start in starts]
    assert len({pid for _, pid, _ in everyone}) == 5  # a fresh process each time
    assert {threads for _, _, threads in everyone} == {"1"}


def a_worker_is_lost_for_good(executor, folder):
    future = executor.submit(train, str(folder / "lost"), 8, 4)
    until(lambda: lines(folder / "lost" / "hangs"))
    os.kill(int(lines(folder / "lost" / "hangs")[0]), signal.SIGKILL)
    with pytest.raises(RunError, match=r"The Ray task failed\.\n.*worker died"):
        future.result(timeout=300)
    assert len(lines(folder / "lost" / "began")) == 1


def stopping_lets_workers_save(folder):
    with pytest.raises(KeyboardInterrupt), create_executor("ray", jobs=1) as executor:  # noqa: PT012
        futures = [executor.submit(save_when_asked, str(folder), name) for name in "ab"]
        until(lambda: lines(folder / "started"))
        raise KeyboardInterrupt
    assert lines(folder / "saved") == [f"a [{signal.SIGINT:d}]"]
    assert "RuntimeError: interrupted" in str(futures[0].exception())
    assert futures[1].cancelled()
    with pytest.raises(KeyboardInterrupt), create_executor("ray", jobs=1) as executor:  # noqa: PT012
        future = executor.submit(save_when_asked, str(folder), "c", True)
        until(lambda: len(lines(folder / "started")) == 2)
        executor._stop(kill=True)  # what another Ctrl-C does
        raise KeyboardInterrupt
    assert isinstance(future.exception(), RunError)
    assert len(lines(folder / "saved")) == 1


DRIVER = """
import subprocess, sys
from loope.lab.executors import ray_end
with ray_end.ended_with_this_process():
    # It starts another one without the mark, as Ray's agents are once they have titles.
    agent = "import signal as s, time; s.signal(s.SIGTERM, s.SIG_IGN); print('up', flush=True); time.sleep(600)"
    parent = (
        "import os, subprocess, sys, time; "
        f"child = subprocess.Popen([sys.executable, '-c', {agent!r}], env={{}}, start_new_session=True); "
        "print(os.getpid(), child.pid, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", parent]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)
print(process.stdout.readline(), end="", flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_what_a_killed_driver_has_started_ends_too():
    """Also what ignores SIGTERM, has lost its mark and its parent, and is in a session of its own."""
    command = [sys.executable, "-c", DRIVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        parent, agent = map(int, driver.stdout.readline().split())
        time.sleep(2 * ray_end.LOOK_EVERY)  # until they have been seen together
        os.kill(parent, signal.SIGKILL)
        assert os.path.exists(f"/proc/{agent}")
        driver.kill()
    until(lambda: not os.path.exists(f"/proc/{agent}"))


def test_no_cluster_at_the_address(monkeypatch):
    asked = []

    def init(address, **options):
        asked.append(address)
        raise ConnectionError("ray client connection timeout.")  # what Ray itself says after half a minute

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    for on, address in (("ray://localhost:10001", "ray://localhost:10001"), ("ray", "10.0.0.1:6379")):
        with pytest.raises(LoopeError, match=f"No Ray cluster answers at {address}: ray client connection timeout"):
            create_executor(on)
    assert asked == ["ray://localhost:10001", "10.0.0.1:6379"]
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    with pytest.raises(LoopeError, match="connected to another Ray already"):
        create_executor("ray://localhost:10001")


@pytest.mark.parametrize(
    ("nodes", "cores"),
    [
        ([(True, {"CPU": 4.0})], 0),
        ([(True, {"CPU": 64.0, "GPU": 8.0})], 8),
        ([(True, {"CPU": 64.0, "GPU": 8.0}), (True, {"CPU": 7.0, "GPU": 2.0}), (True, {"CPU": 4.0})], 3),
        ([(True, {"CPU": 64.0, "GPU": 8.0}), (False, {"CPU": 7.0, "GPU": 2.0})], 8),
        ([(True, {"CPU": 2.0, "GPU": 8.0})], 1),
    ],
)
def test_cores_that_go_with_a_gpu(monkeypatch, nodes, cores):
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": alive, "Resources": has} for alive, has in nodes])
    assert _cores_of_a_gpu(ray) == cores
