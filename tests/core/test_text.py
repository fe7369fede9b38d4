"""Names from files, shown as text."""

import unicodedata

import pytest

from loope.core.text import printable


@pytest.mark.parametrize("text", ["", "sky", "Straße", "道路", "a b", "[/b]", "█", "e\u0301"])
def test_print_stays_as_it_is(text):
    assert printable(text) == text


def test_whatever_a_terminal_would_act_on_is_written_out():
    for code in [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x202E, 0x2066, 0xFEFF, 0xDCFF, 0xE0001]:
        shown = printable(f"a{chr(code)}b")
        assert shown.startswith("a\\")
        assert shown.isascii()
        assert not any(unicodedata.category(letter).startswith("C") for letter in shown)


def test_paths_with_bytes_that_are_no_text_can_be_printed():
    printable("a\udcffb").encode()
