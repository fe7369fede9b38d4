"""`loope explore`: serve or export the interactive explorer."""

from __future__ import annotations

import os
import socket
import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from loope.cli import paths
from loope.cli.text import as_text
from loope.core.errors import LoopeError, MissingPackageError, require
from loope.core.weights import WeightsFile

PORT = 8477


def explore(
    checkpoints: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="Checkpoints to look at: .safetensors files.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 admits other machines.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.", min=0, max=65535)] = PORT,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    export: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Export the page as static files instead of serving it.")
    ] = None,
) -> None:
    """Explore encodings in the browser: compare encoders, orders, LOOPE on an image, a model by layers, Three-Cell.

    The Model view shows what each layer of a model does with positions.
    Checkpoints are in Compare; those of loope.save are in LOOPE and Model, too.

    Examples:
        loope explore

        loope explore runs/model.safetensors

        loope explore --export out/explorer
    """
    if export is not None:
        require(not checkpoints, "--export writes the built-in page; leave the checkpoints out.")
        paths.require_output_folder(export, "--export")
    try:  # none of these loads torch
        from loope.explorer.app import create_app
        from loope.explorer.middleware import is_loopback
        from loope.explorer.server import create_server
    except ImportError:
        raise MissingPackageError("The explorer needs its server: pip install 'loope[explore]'.") from None
    if export is not None:
        _export(export)
        return
    local = is_loopback(host)
    with _listen(host, port) as listening:  # closed if a checkpoint is refused
        for path in checkpoints or ():
            WeightsFile(path)  # refuses a wrong one before torch is loaded
        import torch

        app = create_app(local, checkpoints or [])
        _announce(host, local, listening.getsockname()[1], browser)
        # Responses are small and computed side by side: threads within one would only slow them down.
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # for processes that this one starts
        torch.set_num_threads(1)
        create_server(app).run(sockets=[listening])


def _announce(host: str, local: bool, port: int, browser: bool) -> None:
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown if local else 'localhost'}:{port}/"
    typer.echo(f"The explorer is at {address} (Ctrl+C to stop).")
    if not local:
        typer.secho(
            f"Warning: on {host} everyone who can reach this machine can use it, send it files and keep it busy.",
            fg=typer.colors.YELLOW,
            err=True,
        )
    if browser:
        # In a thread: some browsers block until they are closed.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _listen(host: str, port: int) -> socket.socket:
    """Listen before anything else starts, so that an early browser waits instead of failing."""
    require(
        bool(host.strip()), "--host is empty; give an address, such as 127.0.0.1."
    )  # "" would listen on all interfaces
    try:
        host.encode("idna")  # an invalid name would leak the socket
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number and number > 0 else "no such host"
        raise LoopeError(
            f"Cannot listen on {host}, port {port}: {reason}; choose another with --port, or 0 for a free one."
        ) from None


def _export(folder: Path) -> None:

    from loope.explorer.export import export

    console = Console()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("Exporting", total=1)
        count = export(folder, lambda share: progress.update(task, completed=share))
    console.print(f"{count} files in [bold]{as_text(folder)}[/bold]; serve them with any web server.")
