"""Names that come from files and paths, as text that a terminal or a drawing shows and never acts on."""


def printable(text: object) -> str:
    r"""`text` with every character that is not plain print written out, such as escapes that move the cursor.

    Examples:
        >>> printable("sky\x1b[2J, line\nbreak, \u202eright to left")
        'sky\\x1b[2J, line\\nbreak, \\u202eright to left'
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in str(text)
    )
