"""Checks for optional packages."""

from importlib.util import find_spec

from loope.core.errors import MissingPackageError


def require_packages(what: str, extra: str, *names: str) -> None:
    """Check that all packages are installed.

    Examples:
        >>> require_packages("The journey", "moon", "math", "rocket_science")
        Traceback (most recent call last):
        loope.core.errors.MissingPackageError: The journey needs rocket_science: pip install 'loope[moon]'.

    Raises:
        MissingPackageError: naming what is missing, and the extra to install.
    """
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise MissingPackageError(f"{what} needs {', '.join(missing)}: pip install 'loope[{extra}]'.")
