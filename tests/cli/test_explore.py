"""`loope explore`, run as a user would."""

import socket
import sys
import threading
import webbrowser

import pytest
import torch
import uvicorn
from safetensors.torch import save_file
from starlette.testclient import TestClient

from loope.cli import main as cli
from loope.explorer.middleware import Middleware
from loope.explorer.server import Connection
from tests.cli.test_cli import python, runner


@pytest.fixture
def served(monkeypatch):
    """What would have been served: the server's settings and its sockets' addresses."""
    seen = []

    def run(self, sockets):
        seen.append((self.config, [each.getsockname() for each in sockets]))
        for each in sockets:
            each.close()

    monkeypatch.setattr(uvicorn.Server, "run", run)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # which the command would set for its process
    return seen


def test_it_listens_on_this_machine_and_opens_the_browser(served, monkeypatch):
    opened, done = [], threading.Event()
    monkeypatch.setattr(webbrowser, "open", lambda address: (opened.append(address), done.set()))
    shown = runner.invoke(cli.app, ["explore", "--port", "0"])
    assert shown.exit_code == 0, shown.output
    ((config, ((host, port),)),) = served
    assert host == "127.0.0.1"
    assert done.wait(10)
    assert opened == [f"http://127.0.0.1:{port}/"]
    assert opened[0] in shown.output
    assert isinstance(config.app, Middleware)
    assert config.app.local
    assert config.http is Connection  # with its limits
    assert "Warning" not in shown.output


def test_checkpoints_are_named_as_arguments(served, tmp_path):
    path = tmp_path / "vit.safetensors"
    save_file({"pos_embed": torch.rand(1, 10, 8)}, path)
    shown = runner.invoke(cli.app, ["explore", str(path), "--port", "0", "--no-browser"])
    assert shown.exit_code == 0, shown.output
    ((config, _),) = served
    with TestClient(config.app, base_url="http://127.0.0.1") as client:
        assert [file["name"] for file in client.get("/api/catalog.json").json()["files"]] == ["vit.safetensors"]
    for arguments in ([str(tmp_path / "missing.safetensors")], [str(path), "--export", str(tmp_path / "out")]):
        refused = runner.invoke(cli.app, ["explore", *arguments, "--port", "0", "--no-browser"])
        assert refused.exit_code != 0
    assert len(served) == 1
    assert not (tmp_path / "out").exists()


def test_answers_are_made_on_one_thread_each(served):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        runner.invoke(cli.app, ["explore", "--port", "0", "--no-browser"])
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_letting_others_in_warns(served):
    shown = runner.invoke(cli.app, ["explore", "--host", "0.0.0.0", "--port", "0", "--no-browser"])  # noqa: S104
    assert "Warning: on 0.0.0.0 everyone who can reach this machine can use it" in shown.stderr
    assert "http://localhost:" in shown.stdout
    assert not served[0][0].app.local


def test_a_port_in_use_gives_a_message(monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(sys, "argv", ["loope", "explore", "--no-browser", "--port", str(port)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
    assert stopped.value.code == 2
    assert f"port {port}: Address already in use; choose another with --port" in capsys.readouterr().err


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "loope.explorer.server", None)  # it imports the web server
    shown = runner.invoke(cli.app, ["explore"])
    assert "pip install 'loope[explore]'" in str(shown.exception)


def test_export_writes_the_page(tmp_path, monkeypatch):
    from loope.core.grid import Grid
    from loope.explorer import export

    monkeypatch.setattr(export, "GRIDS", (Grid(2, 3),))
    monkeypatch.setattr(export, "list_encoders", lambda: ["gilbert"])
    shown = runner.invoke(cli.app, ["explore", "--export", str(tmp_path / "page")])
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "page" / "index.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "page" / "api" / "similarity" / "gilbert" / "2x3" / "768.bin").is_file()


def test_the_page_is_served_before_torch_is_loaded():
    code = "import sys, loope.explorer.app as a; a.create_app(); sys.exit('torch' in sys.modules)"
    assert python(code).returncode == 0
