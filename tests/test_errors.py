"""The one error users see: one line, without what a hostile name could do to a terminal or to JSON."""

import os

import pytest

from softscope import Head, SoftscopeError
from softscope.errors import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 猫", "plain ü 猫"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("two\nlines\r", "two\\nlines\\r"),
        (os.fsdecode(b"no\xffise"), "no\\udcffise"),
        ("right\u202eto left", "right\\u202eto left"),
    ],
)
def test_control_characters_and_half_surrogates_become_escapes(text, shown):
    assert printable(text) == shown
    shown.encode()


def test_an_error_is_one_printable_line():
    error = SoftscopeError("a\x1b]0;title\x07\nb", "c\nd")
    assert str(error) == "a\\x1b]0;title\\x07 b. c d"


def test_class_names_are_made_printable():
    assert Head([[1.0], [2.0]], classes=["a\x1b[2J", "b\ud800"]).classes == ("a\\x1b[2J", "b\\ud800")
