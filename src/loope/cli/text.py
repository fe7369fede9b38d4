"""What comes from files, paths and errors, made safe to show. Every command prints such text through these."""

from loope.core.text import printable


def as_text(text: object) -> str:
    r"""`text` for a Rich console: control characters are written out, and square brackets are no markup.

    Examples:
        >>> as_text("[/b] \x1b")
        '\\[/b] \\x1b'
    """
    from rich.markup import escape

    return escape(printable(text))
