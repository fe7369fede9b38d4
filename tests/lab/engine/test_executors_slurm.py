"""submitit, on its own stand-in for a cluster and on programs that behave like SLURM's."""

import os
import re
import shutil
import signal
import stat

import pytest

from loope.core.errors import LoopeError
from loope.lab.executors import RunError, create_executor
from tests.lab.engine.submitted import lines, save_when_asked, train, train_until_asked, train_until_stopped, until

pytest.importorskip("submitit", reason="needs loope[slurm]")

SBATCH = """#!/bin/sh
cp "$1" "$(dirname "$0")/script"
export SLURM_JOB_ID=7 SLURM_NTASKS=1 SLURM_JOB_NUM_NODES=1 SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0
setsid sh "$1" > /dev/null 2>&1 &
echo "Submitted batch job 7"
"""
SRUN = """#!/bin/sh
out=$(echo "$3" | sed 's/%j/7/; s/%t/0/')
err=$(echo "$5" | sed 's/%j/7/; s/%t/0/')
shift 5
exec "$@" > "$out" 2> "$err"
"""
SACCT = """#!/bin/sh
echo "JobID|State|NodeList"
echo "7|RUNNING|node1"
"""
SCONTROL = """#!/bin/sh
here=$(dirname "$0")
echo "$@" >> "$here/asked"
export SLURM_JOB_ID=7 SLURM_NTASKS=1 SLURM_JOB_NUM_NODES=1 SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0
setsid sh "$here/script" > /dev/null 2>&1 &
"""


def test_success_failure_and_the_end_of_time(tmp_path):
    folders = {name: tmp_path / name for name in ("good", "bad", "stopped")}
    for folder in folders.values():
        folder.mkdir()
    # In so short a time submitit takes every signal for the end of it.
    options = {"cluster": "local", "folder": tmp_path / "jobs", "gpus_per_node": 0, "timeout_min": 5}
    with create_executor("slurm", **options) as executor:
        good = executor.submit(train, str(folders["good"]), 3)
        bad = executor.submit(train, str(folders["bad"]), 3, None, 1)
        stopped = executor.submit(train_until_stopped, str(folders["stopped"]), 6)
        assert good.result(timeout=300) is None
        with pytest.raises(RunError, match="ValueError: loss is not finite at step 1"):
            bad.result(timeout=300)
        assert stopped.result(timeout=300) is None
    assert len(lines(folders["good"] / "complete")) == 1
    assert len(lines(folders["bad"] / "began")) == 1
    # Back from the queue, it goes on: every step once, one completion.
    assert lines(folders["stopped"] / "began") == ["0", "4"]
    assert lines(folders["stopped"] / "checkpoints") == [str(step) for step in range(6)]
    assert len(lines(folders["stopped"] / "complete")) == 1
    assert list((tmp_path / "jobs").glob("*_log.out"))
    pickles = list((tmp_path / "jobs").rglob("*.pkl"))
    assert {path.name.rpartition("_")[2] for path in pickles} >= {"submitted.pkl", "result.pkl"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in pickles} == {0o600}  # who writes one runs code
    assert stat.S_IMODE((tmp_path / "jobs").stat().st_mode) == 0o700
    assert stat.S_IMODE((folders["good"] / "complete").stat().st_mode) & 0o044  # a run's own files are as ever


def test_options_reach_slurm(tmp_path, monkeypatch):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("sbatch", SBATCH), ("srun", SRUN), ("sacct", SACCT)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    options = {"partition": "long", "gpus_per_node": 2, "cpus_per_task": 5, "timeout_min": 90, "mem_gb": 12}
    with create_executor("slurm", folder=tmp_path / "jobs", **options) as executor:
        executor.submit(train, str(tmp_path / "run"), 3).result(timeout=300)
    assert len(lines(tmp_path / "run" / "complete")) == 1
    asked = dict(re.findall(r"#SBATCH --([\w-]+)=(\S+)", (programs / "script").read_text()))
    expected = {"partition": "long", "gpus-per-node": "2", "cpus-per-task": "5", "time": "90", "mem": "12GB"}
    assert expected.items() <= asked.items()
    (programs / "sbatch").write_text("#!/bin/sh\necho 'no such partition' >&2\nexit 1\n")
    with (
        create_executor("slurm", folder=tmp_path / "jobs", partition="short") as executor,
        pytest.raises(RunError, match=r"SLURM did not take the job\.\nno such partition"),
    ):
        executor.submit(train, str(tmp_path / "refused"), 3).result(timeout=300)


def test_a_preempted_job_saves_and_goes_on_from_the_queue(tmp_path, monkeypatch):
    """SLURM sends SIGTERM, and then the signal on which submitit puts the job back."""
    programs, folder = tmp_path / "bin", tmp_path / "run"
    programs.mkdir()
    folder.mkdir()
    for name, text in (("sbatch", SBATCH), ("srun", SRUN), ("sacct", SACCT), ("scontrol", SCONTROL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    with create_executor("slurm", folder=tmp_path / "jobs", timeout_min=90) as executor:
        future = executor.submit(train_until_asked, str(folder), 5)
        until(lambda: lines(folder / "checkpoints") == ["0", "1"])
        process = int(lines(folder / "began")[0].split()[1])
        os.kill(process, signal.SIGTERM)
        until(lambda: lines(folder / "saved"))
        os.kill(process, signal.SIGUSR2)
        assert future.result(timeout=300) is None
    assert lines(programs / "asked") == ["requeue 7"]
    assert [line.split()[0] for line in lines(folder / "began")] == ["0", "3"]
    assert lines(folder / "checkpoints") == ["0", "1", "2", "3", "4"]
    assert len(lines(folder / "complete")) == 1


def test_leaving_by_an_error_cancels(tmp_path):
    executor = create_executor("slurm", cluster="local", folder=tmp_path / "jobs")
    with pytest.raises(KeyboardInterrupt), executor:  # noqa: PT012
        future = executor.submit(save_when_asked, str(tmp_path), "a")
        until(lambda: lines(tmp_path / "started"))
        raise KeyboardInterrupt
    assert lines(tmp_path / "saved") == [f"a [{signal.SIGINT:d}]"]
    assert isinstance(future.exception(), RunError)


@pytest.mark.skipif(shutil.which("srun") is not None, reason="there is a SLURM")
def test_no_slurm(tmp_path):
    with pytest.raises(LoopeError, match=r"No SLURM here: .*login node"):
        create_executor("slurm", folder=tmp_path)
    with pytest.raises(LoopeError, match="Unknown cluster 'lokal'; use one of: local, slurm"):
        create_executor("slurm", folder=tmp_path, cluster="lokal")
