"""Random command lines, and a function that runs one in this process as the installed command would."""

import io
import os
import random
import signal
import sys
import warnings
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import get_type_hints
from unittest import mock

import typer.main
from safetensors.torch import save_file

import loope
from loope.cli import main as cli
from loope.lab.executors.base import RunError

# Seconds per line. Work is measured in CPU time, since wall time depends on the load of the machine.
LIMIT = {signal.ITIMER_PROF: 20, signal.ITIMER_REAL: 120}  # work; and waiting, for a file, a lock or the network
NUMBERS = ["0", "1", "2", "3", "7", "-1", "1.5", "nan", "inf", "1e999", "²", "٣", "0x10", "", " ", "one", "1_0"]
NUMBERS += ["9" * 20, "9" * 5000, "-" + "9" * 400, str(2**31), str(2**63), str(2**64), "1000000000"]
GRIDS = [
    "3x3",
    "4",
    "1x1",
    "2x7",
    "0x3",
    "14x14",
    "3x",
    "x3",
    "3x3x3",
    "-1x2",
    "100000x100000",
    "9" * 5000,
    "٣x٣",
    "²x2",
]
GRIDS += [f"1x{10**9}", f"{2**32}", "", "wide", "3X3", "3 x 3", "64x65", "70x60", "1024x1025"]
WORDS = [
    "",
    " ",
    "-",
    "--",
    "*",
    "[",
    "[/b]",
    "[bold]",
    "a=b",
    "x" * 3000,
    "naïve",
    "📦",
    "\udcff",
    "\x1b[2J",
    "%s",
    "{0}",
    "~",
    "a\nb",
]
PATHS = [
    "",
    ".",
    "..",
    "-",
    "file",
    "file/below",
    "folder",
    "new/deep/name.png",
    "name.png",
    "name.html",
    "a.safetensors",
]
PATHS += [
    "model.safetensors",
    "table.safetensors",
    "wide.safetensors",
    "broken.safetensors",
    "picture.png",
    "\udcff.png",
]
PATHS += [
    "x" * 300,
    "x" * 300 + ".png",
    "/proc/nowhere",
    "/sys/nowhere/x.png",
    "folder.png",
    ".png",
    "[/b].png",
    "out",
    "loop",
]
TABLES = ["table1", "table4", "table5", "maps", "trend", "alignment", "scratch", "table", "Table5", "table99"]
MODELS = ["vit_tiny_patch16_224", "resnet18", "crossvit_9_240", "timm/vit", "hf-hub:x", "vit_tiny_patch16_224.nonsense"]
VALUES = {
    "--grid": GRIDS,
    "--only": ["Static", "LOOPE*", "[", "*", *WORDS],
    "--preset": ["smoke", "smoke", "laptop", "paper", "mainframe", *WORDS],
    "--seeds": ["0", "0,1", "0,0", "0,²", "1,", ",", "-1", "0 , 1", "9" * 5000, str(2**64), "0-3", *WORDS],
    "--format": ["md", "html", "latex", "csv", "json", "png", "npz", *WORDS],
    "--on": ["local", "here", "ray", "slurm", "ray://", "ray://x:1", "moon", *WORDS],
    "--resource": ["on=1", "jobs=1", "address=x", "num_gpus=1", "=1", "a=", "num_cpus=²", "self=1", "folder=.", *WORDS],
    "--tracker": ["tensorboard", "wandb", "moon", *WORDS],
    "--kind": ["rotary", "bias", "none", "rotatory", *WORDS],
    "--split": ["train", "val", "test", "valid", *WORDS],
    "--sampler": ["exact", "paper", "other", *WORDS],
    "--host": ["127.0.0.1", "::1", "localhost", "", " ", "\udcff", "x" * 300, "256.0.0.1", "a..b", "0", *WORDS],
    "--model": [*MODELS, *WORDS],
    "--table": ["pos_embed", "loope.own.pos_embed", "head", *WORDS],
    "--option": ["temperature=50", "temperature=hot", "frequencies=[", "dim=3", "refine=None", "a=", "=1", *WORDS],
    "table": TABLES,
    "model": [*MODELS, *WORDS],
    "encoder": ["gilbert", "rope_mixed", "gilbart", *WORDS],
    "encoders": ["gilbert", "learned", "rope_mixed", "irpe", "gilbart", *WORDS],
    "names": ["gilbert", "raster", "peano", "gilbart", *WORDS],
    "pattern": ["*", "rope*", "nosuch*", "[", *WORDS],
}
# Faster than the defaults; if an option is given twice, the last value counts.
QUICK = {("three-cell", "export"): ["--size", "20"], ("pesi",): ["--grid", "3x4"]}
ENVIRONMENTS = {
    "WORLD_SIZE": ["abc", "", "2", "-1", "²"],
    "RANK": ["abc", "1"],
    "COLUMNS": ["1", "40", "0", "wide", "10000"],
    "LOOPE_DATA": ["", "nowhere", "file"],
    "LOOPE_WEIGHTS": ["", "nowhere", "file"],
    "TERM": ["dumb", "unknown"],
    "FORCE_COLOR": ["1"],
}


class TooLong(BaseException):
    """A line took longer than `LIMIT` allows. A BaseException, so that no handler catches it."""


def leaves(command=None, path=()):
    """Return every command without subcommands, by the words that call it."""
    command = command or typer.main.get_command(cli.app)
    children = getattr(command, "commands", None)
    if children is None:
        return {path: command}
    return {words: leaf for name, child in children.items() for words, leaf in leaves(child, (*path, name)).items()}


LEAVES = leaves()


def line(rng):
    """A random command line: a command, some of its options and arguments, sometimes an unrelated word."""
    path = rng.choice(list(LEAVES))
    words = []
    for parameter in LEAVES[path].params:
        argument = parameter.param_type_name == "argument"
        if rng.random() > (0.9 if parameter.required else 0.5 if argument else 0.25) or parameter.name == "help":
            continue
        for _ in range(rng.choice([1, 1, 2]) if parameter.multiple or parameter.nargs == -1 else 1):
            words.append(([] if argument else [rng.choice(parameter.opts)]) + value(rng, LEAVES[path], parameter))
    rng.shuffle(words)
    typed = [*path, *QUICK.get(path, []), *(word for group in words for word in group)]
    if rng.random() < 0.05:
        typed.insert(rng.randrange(len(typed) + 1), rng.choice([*WORDS, "--help", "--version", "--nonsense"]))
    return [word for word in typed if word != "--debug"]


def value(rng, command, parameter):
    kind = str(get_type_hints(command.callback)[parameter.name])
    if "bool" in kind:
        return []
    known = VALUES.get(parameter.opts[0]) or VALUES.get(parameter.name)
    pool = known or (PATHS if "Path" in kind else NUMBERS if "int" in kind or "float" in kind else WORDS)
    return [rng.choice(pool if rng.random() < 0.95 else [*WORDS, *NUMBERS])]


def furnish(folder):
    """Create files of all kinds that a line may name."""
    import timm
    import torch
    from typer.testing import CliRunner

    (folder / "file").write_text("in the way")
    for name in ("folder", "folder.png"):
        (folder / name).mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "broken.safetensors").write_bytes(b"\xff" * 40)
    save_file({"pos_embed": torch.rand(1, 10, 8)}, folder / "table.safetensors")
    save_file({"pos_embed": torch.rand(1, 10**6, 1)}, folder / "wide.safetensors")
    args = {"depth": 1, "embed_dim": 32, "num_heads": 2}
    model = timm.create_model("vit_tiny_patch16_224", img_size=64, **args)
    loope.attach(model, "rope_mixed")
    loope.save(model, folder / "model.safetensors", model_args=args)
    # Finished runs, one of them damaged.
    words = ["run", "table5", "--preset", "smoke", "--out", str(folder / "out")]
    assert CliRunner().invoke(cli.app, words).exit_code == 0
    next(folder.glob("out/runs/*/run.json")).write_bytes(b'{"metrics": "\xff"}')


def _fail(*args, **more):
    future = Future()
    future.set_exception(RunError("Nothing is trained while fuzzing."))
    return future


def _no_ray():
    raise loope.LoopeError("Ray is not started while fuzzing.")


@contextmanager
def nothing_slow():
    """Parse and check lines completely, but do not train, serve or use the network."""
    patches = {
        "loope.lab.executors.serial.SerialExecutor.submit": _fail,
        "loope.lab.executors.base.ProcessExecutor.submit": _fail,
        "loope.lab.executors.on_ray._ray": _no_ray,
        "loope.core.hub.answers": lambda address: False,
        "loope.explorer.export.export": lambda folder, told: Path(folder).mkdir(parents=True, exist_ok=True) or 0,
        "uvicorn.Server.run": lambda self, sockets: [each.close() for each in sockets],
        "webbrowser.open": lambda address: True,
    }
    started = [mock.patch(name, new) for name, new in patches.items()]
    for each in started:
        each.start()
    try:
        yield
    finally:
        for each in started:
            each.stop()


def run(typed, environment, encoding):
    """Return the exit code and the output of both streams.

    Raises:
        BaseException: whatever would have been a traceback, and `TooLong`.
    """

    def stop(*_):
        raise TooLong(typed)

    said = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
    before = {number: signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)}
    for timer, seconds in LIMIT.items():
        signal.setitimer(timer, seconds)
    try:
        with (
            mock.patch.multiple(sys, argv=["loope", *typed], stdout=said[0], stderr=said[1]),
            mock.patch.dict(os.environ, environment),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("default")
            try:
                cli.main()
                code = 0
            except SystemExit as ended:
                code = ended.code or 0
            for each in said:
                each.flush()
    finally:
        for timer in LIMIT:
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
    return code, "".join(each.buffer.getvalue().decode(encoding, "replace") for each in said)


def random_environment(rng):
    return {name: rng.choice(found) for name, found in ENVIRONMENTS.items() if rng.random() < 0.05}


def random_encoding(rng):
    return "utf-8" if rng.random() < 0.8 else rng.choice(["ascii", "latin-1", "cp1252"])


def lines(seed, count):
    """`count` lines with an environment and an encoding each, decided by the seed."""
    rng = random.Random(seed)
    return [(line(rng), random_environment(rng), random_encoding(rng)) for _ in range(count)]
