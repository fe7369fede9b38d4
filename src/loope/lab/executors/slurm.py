"""Run calls on a SLURM cluster through submitit, one job per call, requeued on timeout."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loope.core.errors import LoopeError, one_of
from loope.core.packages import require_packages
from loope.lab.engine.signals import Interrupted
from loope.lab.executors.base import Function, Job, ProcessExecutor, RunError, import_path, last_lines

if TYPE_CHECKING:
    import submitit

_POLL = 1.0  # seconds between status checks of a job
_GRACE = 300.0  # seconds between SIGTERM and SIGUSR2, or the end of a cancelled job
_OWNER_ONLY = 0o077  # for `os.umask`
_REQUEUES = 20  # timeouts per job: the longest runs take days, queues often allow hours


@contextmanager
def owner_only() -> Iterator[int]:
    """Create files readable by their owner only: reading submitit's pickles runs code.

    Yields:
        The previous umask.
    """
    before = os.umask(_OWNER_ONLY)
    try:
        yield before
    finally:
        os.umask(before)


class SlurmExecutor(ProcessExecutor):
    """Run each call as a SLURM job.

    A job that is preempted or times out is requeued, and training resumes from its last checkpoint. Other settings go
    through the variables of sbatch: SBATCH_ACCOUNT, SBATCH_QOS and so on.

    Args:
        jobs: concurrent jobs; by default all are submitted to the queue.
        folder: for submitit's files and job output, visible to every node.
        partition: by default that of the cluster.
        gpus_per_node: GPUs per job.
        cpus_per_task: cores per job.
        timeout_min: minutes until a job is requeued.
        mem_gb: memory per job; by default that of the cluster.
        cluster: "slurm", or "local" for submitit's local executor.

    Raises:
        LoopeError: if submitit or SLURM is missing.
    """

    def __init__(
        self,
        jobs: int | None = None,
        folder: str | Path = "out/slurm",
        partition: str | None = None,
        gpus_per_node: int = 1,
        cpus_per_task: int = 8,
        timeout_min: int = 24 * 60,
        mem_gb: float | None = None,
        cluster: str = "slurm",
    ):
        super().__init__(jobs)
        one_of("cluster", cluster, ["slurm", "local"])
        require_packages("SLURM", "slurm", "submitit")
        import submitit

        self._submitit = submitit
        timeouts = {f"{cluster}_max_num_timeout": _REQUEUES}
        try:
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            self._cluster = self._submitit.AutoExecutor(Path(folder).absolute(), cluster, **timeouts)
        except RuntimeError as error:
            raise LoopeError(f"No SLURM here: {error} Type this on a login node of the cluster.") from error
        self._cluster.update_parameters(
            name="loope",
            slurm_partition=partition,
            gpus_per_node=gpus_per_node,
            cpus_per_task=cpus_per_task,
            timeout_min=timeout_min,
            mem_gb=mem_gb,
        )
        self._asking = threading.Lock()

    def _launch(self, function: Function, args: tuple[Any, ...]) -> Job:
        try:
            with owner_only() as umask, self._submitit.helpers.environment_variables(PYTHONPATH=import_path()):
                job = self._cluster.submit(Resumed(umask), function, args)
        except (RuntimeError, OSError) as error:
            raise RunError(f"SLURM did not take the job.\n{last_lines(str(error))}") from error
        return _ClusterJob(job, self._asking)


class _ClusterJob(Job):
    def __init__(self, job: submitit.Job[None], asking: threading.Lock):
        self._job, self._asking = job, asking

    def wait(self) -> None:
        while True:
            with self._asking:  # submitit polls SLURM for all jobs at once; one thread at a time
                if self._job.done():
                    break
            time.sleep(_POLL)
        error = self._job.exception()
        if error is not None:
            raise RunError(f"The job {self._job.job_id} failed.\n{last_lines(str(error))}") from error

    def stop(self, kill: bool) -> None:
        self._job.cancel(check=False)  # sends SIGTERM; SLURM kills a job that does not end soon


class Resumed:
    """A call that is repeated when its job is requeued; submitit calls this a checkpoint.

    Args:
        umask: umask for files created by the call; the job itself inherits that of submitit's files.
    """

    def __init__(self, umask: int):
        self.umask = umask

    def __call__(self, function: Function, args: tuple[Any, ...]) -> None:
        """Make the call. On preemption, training saves on SIGTERM; submitit's signal follows."""
        os.umask(self.umask)
        try:
            function(*args)
        except Interrupted:
            if "SLURM_JOB_ID" in os.environ:
                time.sleep(_GRACE)  # a job that ends now would count as failed and not be requeued
            raise
        finally:
            os.umask(_OWNER_ONLY)  # submitit writes the outcome next

    def checkpoint(self, function: Function, args: tuple[Any, ...]) -> submitit.helpers.DelayedSubmission:
        """Return the call to requeue; called in the job on timeout."""
        import submitit

        os.umask(_OWNER_ONLY)
        return submitit.helpers.DelayedSubmission(self, function, args)
