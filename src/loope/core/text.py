"""Make untrusted text safe to print."""


def printable(text: object) -> str:
    r"""Escape every character of `text` that is not printable, such as terminal control sequences.

    Examples:
        >>> printable("sky\x1b[2J, line\nbreak, \u202eright to left")
        'sky\\x1b[2J, line\\nbreak, \\u202eright to left'
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in str(text)
    )
