"""Escape text from files, paths and errors before a command prints it."""

from rich.markup import escape

from loope.core.text import printable


def as_text(text: object) -> str:
    r"""Escape control characters and Rich markup.

    Examples:
        >>> as_text("[/b] \x1b")
        '\\[/b] \\x1b'
    """
    return escape(printable(text))
