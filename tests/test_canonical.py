"""Hashes of code: what makes a store compute a step again."""

import sys

import pytest

from softscope.canonical import code_digest

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
