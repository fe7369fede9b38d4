"""The error family: each message says what was expected, what was given and what to do."""

from collections.abc import Iterable
from difflib import SequenceMatcher

LONGEST = 200  # characters of an unknown name that are compared and shown


class LoopeError(ValueError):
    """Base class of all errors that loope raises; the message says what to do instead."""


class MissingPackageError(LoopeError, ImportError):
    """Raised when an optional package is not installed; the message has the `pip install` command."""


class LoopeWarning(UserWarning):
    """Warns of results that are correct by definition but easily misread."""


def require(condition: bool, message: str) -> None:
    """Raise `LoopeError(message)` unless `condition` holds."""
    if not condition:
        raise LoopeError(message)


def nearest_first(name: str, names: Iterable[str]) -> list[str]:
    """Sort `names` by similarity to `name`: those that start with it, those that contain it, then by characters."""
    name = name[:LONGEST]  # the time to compare grows with the length

    def distance(known: str) -> tuple[bool, bool, float, str]:
        return not known.startswith(name), name not in known, -SequenceMatcher(None, name, known).ratio(), known

    return sorted(names, key=distance)


def shown(value: object) -> str:
    """Render a value for an error message: plain values by their shortened `repr`, other objects by their type."""
    if not isinstance(value, str | bytes | int | float | complex | list | tuple | dict | set | None):
        return f"an object of type {type(value).__name__}"
    try:
        text = repr(value)
    except Exception:  # whole numbers of thousands of digits have no text, nor have some that others define
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def unknown(what: str, name: object, names: Iterable[str]) -> LoopeError:
    """Return the error for an unknown name, listing the known ones, nearest first."""
    known = nearest_first(name if isinstance(name, str) else "", names)
    return LoopeError(f"Unknown {what} {shown(name)}; use one of: {', '.join(known)}.")


def one_of(what: str, value: object, choices: Iterable[str]) -> None:
    """Raise `LoopeError` unless `value` is among `choices`."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        raise unknown(what, value, choices)


def require_multiple(name: str, value: int, factor: int, who: str) -> None:
    """Raise `LoopeError` unless `factor` divides `value`; the message names the nearest valid values.

    Examples:
        >>> require_multiple("dim", 190, 4, "'sincos2d'")
        Traceback (most recent call last):
        loope.core.errors.LoopeError: `dim` must be divisible by 4 for 'sincos2d', got 190; use 188 or 192.
    """
    if value % factor:
        below = value - value % factor
        nearest = " or ".join(str(good) for good in (below, below + factor) if good > 0)
        raise LoopeError(f"`{name}` must be divisible by {factor} for {who}, got {value}; use {nearest}.")
