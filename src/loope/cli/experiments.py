"""`loope run`, `status`, `tables` and `report`: the tables of the paper, one command each."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loope.cli.choices import (
    OUT,
    EpochsOption,
    OnlyOption,
    OutOption,
    PresetOption,
    SeedsOption,
    TableArgument,
    complete_table,
    read_resources,
    read_seeds,
)
from loope.cli.options import MOST_JOBS, JsonOption, busy
from loope.cli.text import as_text
from loope.core.errors import require
from loope.core.processes import world_size
from loope.core.text import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

    from loope.lab.experiments.results import Status
    from loope.lab.experiments.settings import Settings
    from loope.lab.experiments.spec import Run
    from loope.lab.reports.results_table import ResultsTable

RUNNING_ELSEWHERE = 3  # exit code: nothing failed, but another process holds the lock of a run


def run(
    table: TableArgument,
    preset: PresetOption = "laptop",
    only: OnlyOption = None,
    epochs: EpochsOption = None,
    seeds: SeedsOption = "0",
    jobs: Annotated[
        int | None, typer.Option(help="Runs at a time; one for each core or GPU if not given.", min=1, max=MOST_JOBS)
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            help="local (a process for each run), here (in this one), ray (or ray://HOST:PORT), slurm. "
            "By default local; here for smoke, and under accelerate launch.",
        ),
    ] = None,
    out: OutOption = OUT,
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets; LOOPE_DATA if not given.")] = None,
    download: Annotated[bool, typer.Option("--download", help="Get data sets that are missing.")] = False,
    classes: Annotated[Path | None, typer.Option(help="The 100 classes of ImageNet-100, a line each.")] = None,
    skip_bad_images: Annotated[bool, typer.Option("--skip-bad-images", help="Count and skip broken images.")] = False,
    tracker: Annotated[list[str] | None, typer.Option(help="tensorboard, wandb, mlflow or trackio.")] = None,
    resource: Annotated[
        list[str] | None,
        typer.Option(help="Of each run: num_gpus=1 on ray, gpus_per_node=1 or partition=long on slurm."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Do the runs of a table that are not done, then show the table. Run again to go on.

    Exit code 3: all that is left is running elsewhere.

    Examples:
        loope run table4 --preset laptop --seeds 0,1,2

        loope run table1 --preset paper --only "Oxford*ViT*" --on slurm --resource gpus_per_node=1
    """
    from rich.console import Console

    from loope.cli.progress import Watch, interruptible
    from loope.lab.executors import create_executor
    from loope.lab.experiments.settings import Settings
    from loope.lab.experiments.sweep import run_sweep
    from loope.lab.experiments.table import get_table

    first = os.environ.get("RANK", "0") == "0"  # of several processes that share each run, one speaks
    console = Console(stderr=as_json, quiet=not first)
    found, numbers = get_table(table).with_epochs(epochs).narrowed(*(only or ())), read_seeds(seeds)
    runs = [entry.run.with_seed(seed) for entry in found.select(preset) for seed in numbers]
    settings = Settings(
        data=str(data) if data else None,
        download=download,
        classes=str(classes) if classes else None,
        skip_bad_images=skip_bad_images,
        trackers=tuple(tracker) if tracker else () if preset == "smoke" else None,
        progress=False,
    )
    place, options = on or _default_place(preset), read_resources(resource or [])
    barred = _obstacles(runs, out, settings) if place in ("local", "here") else {}  # of other machines nothing is known
    if place == "slurm":
        options = {"folder": str(out / "slurm"), **options}
    with (
        interruptible(console),
        create_executor(place, jobs, **options) as executor,
        Watch(console, runs, out) as watch,
    ):
        outcome = run_sweep([run for run in runs if run not in barred], out / "runs", executor, settings, watch)
    from loope.lab.experiments.results import Results
    from loope.lab.experiments.results_table import make_results_table
    from loope.lab.reports.results_table import render

    sheet = make_results_table(found, preset, numbers, Results.in_folder(out / "runs"))
    if as_json and first:
        typer.echo(render(sheet, "json"), nl=False)
    elif not as_json:
        console.print(show_sheet(sheet))
    done = sum(each.state == "done" for each in outcome.statuses)
    total = len(outcome.statuses) + len(barred)
    console.print(f"{done} of {total} runs are done, in [bold]{as_text(out)}[/bold].")
    for name, count in count_bad_images(outcome.statuses).items():
        console.print(f"{count} images of {name} could not be read and were skipped; run.json counts them by part.")
    for cause in dict.fromkeys(barred.values()):
        count = sum(each == cause for each in barred.values())
        console.print(f"[red]{count} runs could not start[/red]: {as_text(cause)}", highlight=False)
    if outcome.failures:
        print_failures(console, outcome.failures)
    if outcome.failures or barred:
        raise typer.Exit(1)
    if outcome.elsewhere and first:  # its peers may be here before it has written the result
        print_elsewhere(console, outcome.elsewhere)
        raise typer.Exit(RUNNING_ELSEWHERE)


def status(
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="One table; all if not given.", autocompletion=complete_table),
    ] = None,
    preset: PresetOption = "laptop",
    only: OnlyOption = None,
    epochs: EpochsOption = None,
    seeds: SeedsOption = "0",
    out: OutOption = OUT,
    as_json: JsonOption = False,
) -> None:
    """How far the runs of a table are, or of all tables.

    Example:
        loope status table4 --seeds 0,1,2
    """
    from rich.console import Console
    from rich.table import Table

    from loope.lab.experiments.results import STATES, statuses
    from loope.lab.experiments.table import get_table, table_names

    require(table is not None or not only, "--only chooses rows of one table; name the table too.")
    told = {}
    for name in [table] if table else table_names():
        entries = get_table(name).with_epochs(epochs).select(preset, *(only or ()))
        told[name] = statuses(
            [entry.run.with_seed(seed) for entry in entries for seed in read_seeds(seeds)], out / "runs"
        )
    if as_json:
        rows = [
            {"table": name, "run": each.run.name, "state": each.state, "error": each.error}
            for name, found in told.items()
            for each in found
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    console = Console()
    shown = Table("table", *STATES, title=f"{preset}, seeds {as_text(seeds)}")
    for name, found in told.items():
        shown.add_row(name, *(str(sum(each.state == state for each in found) or "·") for state in STATES))
    console.print(shown)
    for found in told.values():
        for each in found:
            if each.error is not None:
                console.print(f"failed {as_text(each.run.name)}: {as_text(each.error)}", highlight=False)


def tables(as_json: JsonOption = False) -> None:
    """The tables there are, with the number of runs under each preset.

    Example:
        loope tables
    """
    from rich.console import Console
    from rich.table import Table

    from loope.lab.experiments.table import PRESETS, get_table, table_names

    rows = []
    for name in table_names():
        found = get_table(name)
        counts = {preset: len({entry.run.key for entry in found.entries(preset)}) for preset in PRESETS}
        rows.append({"name": name, "title": found.title, "runs": counts})
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    shown = Table("table", "shows", *(f"{preset} runs" for preset in PRESETS))
    for row in rows:
        shown.add_row(str(row["name"]), str(row["title"]), *(str(row["runs"][preset]) for preset in PRESETS))  # type: ignore[index]
    Console().print(shown)


def report(
    table: TableArgument,
    preset: PresetOption = "laptop",
    only: OnlyOption = None,
    epochs: EpochsOption = None,
    seeds: SeedsOption = "0",
    file_format: Annotated[str, typer.Option("--format", help="md, html, latex, csv or json.")] = "md",
    out: OutOption = OUT,
    to: Annotated[
        Path | None, typer.Option(help="File to write; below --out if not given, - for the terminal.")
    ] = None,
) -> None:
    """Our numbers beside the published ones, with the plots that belong to the table.

    Examples:
        loope report table4 --seeds 0,1,2 --format html

        loope report table1 --format csv --to -
    """
    from loope.core.packages import require_packages

    require_packages("A report", "train", "pandas", "scipy")
    from loope.lab.experiments.report import write_report
    from loope.lab.experiments.results import Results
    from loope.lab.experiments.results_table import make_results_table
    from loope.lab.experiments.table import get_table
    from loope.lab.reports.results_table import render

    found, numbers = get_table(table).with_epochs(epochs).narrowed(*(only or ())), read_seeds(seeds)
    found.select(preset)  # an unknown preset is an error now
    if to == Path("-"):
        typer.echo(
            render(make_results_table(found, preset, numbers, Results.in_folder(out / "runs")), file_format), nl=False
        )
        return
    require(to is None or not to.is_dir(), f"--to names a file, got the folder {str(to)!r}.")
    with busy("Drawing"):
        written = write_report(found, preset, numbers, out, file_format, to)
    typer.echo(f"Written: {printable(written)}")


def _obstacles(runs: list[Run], out: Path, settings: Settings) -> dict[Run, str]:
    """Why runs cannot start, for some of them.

    Raises:
        LoopeError: if none of the runs that are left to do can start.
    """
    from loope.lab.experiments.preflight import obstacles
    from loope.lab.experiments.results import statuses

    left = [each.run for each in statuses(runs, out / "runs") if each.state != "done"]
    with busy("Looking for data and weights"):
        found = obstacles(left, settings)
    causes = "\n".join(dict.fromkeys(found.values()))
    require(not left or len(found) < len(left), f"None of {len(left)} runs can start. {causes}")
    return found


def count_bad_images(statuses: list[Status]) -> dict[str, int]:
    """How many images each data set had that could not be read, in the run that met the most of them."""
    found: dict[str, int] = {}
    for each in statuses:
        count = sum((each.result or {}).get("bad_images", {}).values())
        if count:
            found[each.run.data.name] = max(count, found.get(each.run.data.name, 0))
    return found


def _default_place(preset: str) -> str:
    """Smoke runs are over before a process has begun; processes that were started to share a run do so here."""
    return "here" if preset == "smoke" or world_size() > 1 else "local"


def print_failures(console: Console, failures: dict[str, str]) -> None:
    """Which runs failed, and why."""
    for name, why in failures.items():
        console.print(f"[red]failed[/red] {as_text(name)}: {as_text(why)}", highlight=False)
    console.print("The same command tries them again.")


def print_elsewhere(console: Console, names: list[str]) -> None:
    """Which runs another process is training."""
    for name in names:
        console.print(f"running elsewhere: {name}", highlight=False, markup=False)
    console.print("Another process trains these; the same command shows the table once they are done.")


def show_sheet(sheet: ResultsTable) -> RichTable:
    """A sheet for the terminal."""
    from rich.table import Table

    shown = Table("", *sheet.columns, title=sheet.title, caption="published below ours; ± is the 95 % interval")
    for name, cells in sheet.rows:
        texts = []
        for cell in cells:
            number = f"[bold]{cell.number()}[/bold]" if cell.best else cell.number()
            number += f" [dim](n={cell.n})[/dim]" if cell.n > 1 else ""
            texts.append(f"{number}\n[dim]{cell.comparison()}[/dim]" if cell.comparison() else number)
        shown.add_row(name, *texts)
    return shown
