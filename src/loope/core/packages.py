"""Optional packages: which of them are missing, and the extra that brings them."""

from importlib.util import find_spec

from loope.core.errors import require


def require_packages(what: str, extra: str, *names: str) -> None:
    """Raise `LoopeError`, naming what is missing and the extra, unless all packages are installed.

    Examples:
        >>> require_packages("The journey", "moon", "math", "rocket_science")
        Traceback (most recent call last):
        loope.core.errors.LoopeError: The journey needs rocket_science: pip install 'loope[moon]'.
    """
    missing = [name for name in names if find_spec(name) is None]
    require(not missing, f"{what} needs {', '.join(missing)}: pip install 'loope[{extra}]'.")
