"""Hashes of code: what makes a store compute a step again."""

import json
import sys

import pytest

from softscope.canonical import code_digest, parse_json

CODE = """
def area(width, height):
    return width * height
"""
SAME = """
# why
def area(width,   height):
    \"\"\"What it is.\"\"\"
    return (width
            * height)
"""


def digest_of(text, name, tmp_path, monkeypatch):
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return code_digest(name)


def test_layout_comments_and_docstrings_are_not_code(tmp_path, monkeypatch):
    digests = [digest_of(text, f"digested_{i}", tmp_path, monkeypatch) for i, text in enumerate([CODE, SAME])]
    assert digests[0] == digests[1]
    assert digest_of(CODE.replace("*", "+"), "digested_2", tmp_path, monkeypatch) != digests[0]
    assert "digested_0" not in sys.modules, "the code is read, not run"


def test_a_module_without_source_is_refused():
    with pytest.raises(ValueError, match="no_such_module"):
        code_digest("no_such_module")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000 + "]" * 100_000, "nested"),
        ('{"a":' * 500 + "1" + "}" * 500, "nested"),
        ("[" * 65 + "[]" + "]" * 65, "nested"),
        ('{"a": 1, "a": 2}', "twice"),
        ("NaN", "NaN"),
        ("[1, -Infinity]", "-Infinity"),
        ('"\\ud800"', "surrogate"),
        (b'"\xff"', "utf-8"),
        ("9" * 10_000, "digits"),
        ("1" + "0" * 400, "digits"),
        ("[1e999]", "Out of range"),
        ("", "Expecting value"),
        (b"\x00", "Expecting value"),
    ],
)
def test_hostile_json_is_one_value_error(text, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        parse_json(text)
    assert "\n" not in str(caught.value)


def test_json_of_ours_is_read_as_written():
    value = {"a": [1, 2.5, None, True, {"ü": "\U0001f600"}], "b": {}}
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value
    deep = 64 * "[" + 64 * "]"
    assert parse_json(deep) == json.loads(deep)


def test_json_of_hundreds_of_megabytes_is_refused_unread(monkeypatch):
    monkeypatch.setattr("softscope.canonical.JSON_BYTES", 10)
    with pytest.raises(ValueError, match="expected at most 10"):
        parse_json(b"[1, 2, 3, 4]")
