"""Run calls on Ray, on this machine or a cluster, and retry them when a worker is lost."""

from __future__ import annotations

import logging
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from loope.core.errors import LoopeError, MissingPackageError, require
from loope.lab.executors import ray_end
from loope.lab.executors.base import Function, Job, ProcessExecutor, RunError, import_path, last_lines
from loope.lab.executors.local import usable_cores


class RayExecutor(ProcessExecutor):
    """Run each call as a Ray task in a fresh worker process.

    Training resumes from its last checkpoint, and the lock on its folder ends with the worker, so a call whose worker
    was lost is retried. A call that raises an error is not.

    Args:
        jobs: concurrent calls; by default as many as fit into the cluster.
        address: a cluster, "ray://host:port"; by default RAY_ADDRESS, or a local Ray started here.
        num_cpus: cores per call; by default one, or the cores per GPU.
        num_gpus: GPUs per call; by default one if there are any.
        max_retries: retries of a call whose worker was lost.

    Raises:
        LoopeError: if Ray is not installed, or does not answer at the address.
    """

    def __init__(
        self,
        jobs: int | None = None,
        address: str | None = None,
        num_cpus: int | None = None,
        num_gpus: float | None = None,
        max_retries: int = 3,
    ):
        super().__init__(jobs)
        self._ray = ray = _ray()
        self._ours = not ray.is_initialized()
        require(
            self._ours or address is None,
            f"This process is connected to another Ray already; end that with ray.shutdown() to use {address}.",
        )
        self._watcher = None
        if self._ours:
            self._watcher = _connect(ray, address or os.environ.get("RAY_ADDRESS"), room=(jobs or 1) * (num_cpus or 1))
        share = _cores_of_a_gpu(ray)
        num_cpus = num_cpus or share or 1
        environment = {"PYTHONPATH": import_path(), "OMP_NUM_THREADS": str(num_cpus)}
        self._task = ray.remote(
            num_cpus=num_cpus,
            num_gpus=num_gpus if num_gpus is not None else min(share, 1),
            max_retries=max_retries,
            retry_exceptions=False,
            max_calls=1,  # a fresh process per call, so that no state is shared
            runtime_env={"env_vars": environment},
        )(_call)

    def _launch(self, function: Function, args: tuple[Any, ...]) -> Job:
        return _Task(self._ray, self._task.remote(function, args))

    def _close(self) -> None:
        if self._ours:
            self._ray.shutdown()
        if self._watcher is not None:
            ray_end.end(self._watcher)


class _Task(Job):
    def __init__(self, ray: Any, reference: Any):
        self._ray, self._reference = ray, reference

    def wait(self) -> None:
        try:
            self._ray.get(self._reference)
        except self._ray.exceptions.RayError as error:
            plain = re.sub(r"\x1b\[\d+m", "", str(error))  # Ray colours its tracebacks
            raise RunError(f"The Ray task failed.\n{last_lines(plain)}") from error

    def stop(self, kill: bool) -> None:
        self._ray.cancel(self._reference, force=kill)


def _call(function: Function, args: tuple[Any, ...]) -> None:
    function(*args)


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise MissingPackageError("To run on Ray, install it: pip install 'loope[ray]'.") from None
    return ray


def _connect(ray: Any, address: str | None, room: int) -> subprocess.Popen[bytes] | None:
    """Connect to the cluster at the address, or start a local Ray and return the process that ends it."""
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if not address:
        with _on_loopback(), ray_end.ended_with_this_process() as watcher:
            ray.init(address="local", num_cpus=max(room, usable_cores()), include_dashboard=False, **quiet)
        return watcher
    try:
        ray.init(address=address, **quiet)
        return None
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as error:
        raise LoopeError(
            f"No Ray cluster answers at {address}: {error} Check the address and, where the cluster asks for one, "
            "RAY_AUTH_TOKEN; 'ray' without an address starts Ray on this machine."
        ) from error


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Make a local Ray listen on the loopback interface only: it runs any code it is sent.

    Ray replaces 127.0.0.1 by an external address unless clusters are disabled, as on macOS.
    """
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _cores_of_a_gpu(ray: Any) -> int:
    """Return the cores per GPU of the node with the fewest; 0 without GPUs."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU")]
    return min((max(1, int(node.get("CPU", 1) // node["GPU"])) for node in nodes), default=0)
