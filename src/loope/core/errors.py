"""One family of errors: each message says what was expected, what came and what to do."""

from collections.abc import Iterable
from difflib import SequenceMatcher

LONGEST = 200  # letters of an unknown name that are compared and shown


class LoopeError(ValueError):
    """Raised for every mistake a user can make; the message says what would do instead."""


class LoopeWarning(UserWarning):
    """Given with results that are right as defined, but easily misread; the message says what to look at instead."""


def require(condition: bool, message: str) -> None:
    """Raise `LoopeError(message)` unless `condition` holds."""
    if not condition:
        raise LoopeError(message)


def nearest_first(name: str, names: Iterable[str]) -> list[str]:
    """`names`, those most like `name` first: those that start with it, those that contain it, the rest by letters."""
    name = name[:LONGEST]  # comparing letters takes time that grows with the length

    def distance(known: str) -> tuple[bool, bool, float, str]:
        return not known.startswith(name), name not in known, -SequenceMatcher(None, name, known).ratio(), known

    return sorted(names, key=distance)


def told(value: object) -> str:
    """What came, for a message: its type where it is an object, and else its text, shortened."""
    if not isinstance(value, str | bytes | int | float | complex | list | tuple | dict | set | None):
        return f"an object of type {type(value).__name__}"
    try:
        text = repr(value)
    except Exception:  # whole numbers of thousands of digits have no text, nor have some that others define
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def unknown(what: str, name: object, names: Iterable[str]) -> LoopeError:
    """The error for a name that does not exist, listing those that do, nearest first."""
    known = nearest_first(name if isinstance(name, str) else "", names)
    return LoopeError(f"Unknown {what} {told(name)}; use one of: {', '.join(known)}.")


def one_of(what: str, value: object, choices: Iterable[str]) -> None:
    """Raise `LoopeError` unless `value` is among `choices`."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        raise unknown(what, value, choices)


def require_multiple(name: str, value: int, factor: int, who: str) -> None:
    """Raise `LoopeError` unless `factor` divides `value`; the message names the nearest values that would do.

    Examples:
        >>> require_multiple("dim", 190, 4, "'sincos2d'")
        Traceback (most recent call last):
        loope.core.errors.LoopeError: `dim` must be divisible by 4 for 'sincos2d', got 190; use 188 or 192.
    """
    if value % factor:
        below = value - value % factor
        nearest = " or ".join(str(good) for good in (below, below + factor) if good > 0)
        raise LoopeError(f"`{name}` must be divisible by {factor} for {who}, got {value}; use {nearest}.")
