"""`loope run`: the experiments of a table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from loope.cli import names, options
from loope.cli.text import as_text
from loope.core.errors import one_of, require
from loope.core.processes import world_size

if TYPE_CHECKING:
    from loope.lab.experiments.results import Status
    from loope.lab.experiments.settings import Settings
    from loope.lab.experiments.spec import Run
    from loope.lab.reports.formats import ResultsTable

RUNNING_ELSEWHERE = 3  # exit code: nothing failed, but another process is training a run


def run(
    table: options.TableArgument,
    preset: options.PresetOption = "laptop",
    only: options.OnlyOption = None,
    epochs: options.EpochsOption = None,
    seeds: options.SeedsOption = "0",
    jobs: Annotated[
        int | None, typer.Option(help="Parallel runs; by default one per core or GPU.", min=1, max=options.MOST_JOBS)
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            help="local (a process per run), here (this process), ray (or ray://HOST:PORT) or slurm. "
            "Default: local; here for smoke and under accelerate launch.",
        ),
    ] = None,
    out: options.OutOption = options.OUT,
    data: Annotated[Path | None, typer.Option(help="Folder of the datasets; by default LOOPE_DATA.")] = None,
    download: Annotated[bool, typer.Option("--download", help="Download missing datasets.")] = False,
    classes: options.ClassesOption = None,
    skip_bad_images: options.SkipBadImagesOption = False,
    tracker: Annotated[
        list[str] | None, typer.Option(help="tensorboard, wandb, mlflow or trackio. Repeatable.")
    ] = None,
    resource: Annotated[
        list[str] | None,
        typer.Option(help="Resource per run: num_gpus=1 on ray, gpus_per_node=1 or partition=long on slurm."),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Run a table's unfinished experiments, then show the table. Rerun to resume.

    Exit code 3: another process is training the remaining runs.

    Examples:
        loope run table4 --preset laptop --seeds 0,1,2

        loope run table1 --preset paper --only "Oxford*ViT*" --on slurm --resource gpus_per_node=1
    """
    from loope.cli.progress import RunProgress, interruptible
    from loope.lab.executors import create_executor
    from loope.lab.experiments.settings import Settings
    from loope.lab.experiments.sweep import run_sweep

    first = os.environ.get("RANK", "0") == "0"  # of the processes that share a run, only one prints
    console = Console(stderr=as_json, quiet=not first)
    if on is not None:
        names.require_executor(on)
    for name in tracker or ():
        one_of("tracker", name, names.TRACKERS)
    found = options.read_table(table, epochs, classes, skip_bad_images).narrowed(*(only or ()))
    numbers = options.read_seeds(seeds)
    runs = [entry.run.with_seed(seed) for entry in found.select(preset) for seed in numbers]
    settings = Settings(
        data=str(data) if data else None,
        download=download,
        trackers=tuple(tracker) if tracker else () if preset == "smoke" else None,
    )
    place, resources = on or _default_place(preset), options.read_resources(resource or [])
    blocked = _obstacles(runs, out, settings) if place in ("local", "here") else {}  # other machines cannot be checked
    if place == "slurm":
        resources = {"folder": str(out / "slurm"), **resources}
    with (
        interruptible(console),
        create_executor(place, jobs, **resources) as executor,
        RunProgress(console, runs, out) as show,
    ):
        outcome = run_sweep([run for run in runs if run not in blocked], out / "runs", executor, settings, show)
    from loope.lab.experiments.report import make_results_table
    from loope.lab.experiments.results import Results
    from loope.lab.reports.formats import render

    sheet = make_results_table(found, preset, numbers, Results.in_folder(out / "runs"))
    if as_json and first:
        typer.echo(render(sheet, "json"), nl=False)
    elif not as_json:
        console.print(show_table(sheet))
    done = sum(each.state == "done" for each in outcome.statuses)
    total = len(outcome.statuses) + len(blocked)
    console.print(f"{done} of {total} runs are done, in [bold]{as_text(out)}[/bold].")
    for name, count in count_bad_images(outcome.statuses).items():
        console.print(
            f"{count} images of {name} could not be read and were skipped; run.json has the counts per split."
        )
    for cause in dict.fromkeys(blocked.values()):
        count = sum(each == cause for each in blocked.values())
        console.print(f"[red]{count} runs could not start[/red]: {as_text(cause)}", highlight=False)
    if outcome.failures:
        print_failures(console, outcome.failures)
    if outcome.failures or blocked:
        if not first:  # no failure without a word
            typer.echo("Runs failed or could not start; the first process says which, and why.", err=True)
        raise typer.Exit(1)
    if outcome.elsewhere and first:  # its peers may get here before it has written the result
        print_elsewhere(console, outcome.elsewhere)
        raise typer.Exit(RUNNING_ELSEWHERE)


def _obstacles(runs: list[Run], out: Path, settings: Settings) -> dict[Run, str]:
    """Return the runs that cannot start, with the reason.

    Raises:
        LoopeError: if no unfinished run can start.
    """
    from loope.lab.experiments.preflight import obstacles
    from loope.lab.experiments.results import statuses

    left = [each.run for each in statuses(runs, out / "runs") if each.state != "done"]
    with options.busy("Looking for data and weights"):
        found = obstacles(left, settings)
    causes = "\n".join(dict.fromkeys(found.values()))
    require(not left or len(found) < len(left), f"None of {len(left)} runs can start. {causes}")
    return found


def count_bad_images(statuses: list[Status]) -> dict[str, int]:
    """Return the number of unreadable images per dataset, the largest of any run."""
    found: dict[str, int] = {}
    for each in statuses:
        count = sum((each.result or {}).get("bad_images", {}).values())
        if count:
            found[each.run.data.name] = max(count, found.get(each.run.data.name, 0))
    return found


def _default_place(preset: str) -> str:
    """Return "here" for smoke runs, shorter than starting a process, and for processes that share a run."""
    return "here" if preset == "smoke" or world_size() > 1 else "local"


def print_failures(console: Console, failures: dict[str, str]) -> None:
    """Print which runs failed, and why."""
    for name, why in failures.items():
        console.print(f"[red]failed[/red] {as_text(name)}: {as_text(why)}", highlight=False)
    console.print("Rerun the same command to retry them.")


def print_elsewhere(console: Console, names: list[str]) -> None:
    """Print the runs that another process is training."""
    for name in names:
        console.print(f"running elsewhere: {name}", highlight=False, markup=False)
    console.print("Another process is training these; rerun the same command once they are done.")


def show_table(sheet: ResultsTable) -> Table:
    """Return the results table for the terminal."""
    shown = Table("", *sheet.columns, title=sheet.title, caption="published below ours; ± is the 95 % interval")
    for name, cells in sheet.rows:
        texts = []
        for cell in cells:
            number = f"[bold]{cell.number()}[/bold]" if cell.best else cell.number()
            number += f" [dim](n={cell.n})[/dim]" if cell.n > 1 else ""
            texts.append(f"{number}\n[dim]{cell.comparison()}[/dim]" if cell.comparison() else number)
        shown.add_row(name, *texts)
    return shown
