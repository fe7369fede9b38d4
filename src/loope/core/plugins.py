"""Modules that register something when imported, and are imported only when a file names them.

They let a lower layer use what a higher one registers without knowing its modules; `loope/__init__` lists them.
"""

from importlib import import_module

_MODULES: dict[str, str] = {}


def register_plugin(name: str, module: str) -> None:
    """Import `module` when `import_plugin` is called with `name`."""
    _MODULES[name] = module


def import_plugin(name: object) -> None:
    """Import the module registered under `name`; do nothing if there is none."""
    if isinstance(name, str) and name in _MODULES:
        import_module(_MODULES[name])


def plugin_names() -> list[str]:
    """Return all registered names."""
    return list(_MODULES)
