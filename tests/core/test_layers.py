"""Imports that import-linter cannot see: modules of higher layers, named in strings."""

import ast
from pathlib import Path

import pytest

import loope
from loope.core import plugins

tomllib = pytest.importorskip("tomllib")  # from Python 3.11 on
SOURCE = Path(loope.__file__).parent
LAYERS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["tool"]["importlinter"]
ABOVE = [[name.strip() for name in layer.split("|")] for layer in LAYERS["contracts"][0]["layers"]]


@pytest.mark.parametrize("number", range(1, len(ABOVE)))
def test_no_string_names_a_module_of_a_higher_layer(number):
    higher = tuple(name for layer in ABOVE[:number] for name in layer)
    files = [file for name in ABOVE[number] for file in (SOURCE / name.partition(".")[2]).rglob("*.py")]
    named = [
        f"{file.relative_to(SOURCE)}:{node.lineno}: {node.value}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if any(node.value == name or node.value.startswith(f"{name}.") for name in higher) and " " not in node.value
    ]
    assert files
    assert named == []


def test_plugins_are_imported_when_named(monkeypatch, tmp_path):
    (tmp_path / "some_plugin.py").write_text("from loope.core import plugins\nplugins.seen = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "_MODULES", {})
    monkeypatch.setattr(plugins, "seen", False, raising=False)
    plugins.register_plugin("some", "some_plugin")
    for name in ("other", None, ["some"]):
        plugins.import_plugin(name)
    assert not plugins.seen
    plugins.import_plugin("some")
    assert plugins.seen
    assert plugins.plugin_names() == ["some"]
