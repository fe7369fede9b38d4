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


def unknown(what: str, name: object, names: Iterable[str]) -> LoopeError:
    """Return the error for an unknown name, listing the known ones, nearest first."""
    told = repr(name)
    shown = told if len(told) <= LONGEST else f"{told[:LONGEST]}..."
    return LoopeError(f"Unknown {what} {shown}; use one of: {', '.join(nearest_first(str(name), names))}.")


def one_of(what: str, value: object, choices: Iterable[str]) -> None:
    """Raise `LoopeError` unless `value` is among `choices`."""
    choices = list(choices)
    if value not in choices:
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
