"""The pages on guards: their Python runs, and prints what they say it prints."""

import contextlib
import io
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"```python\n(.*?)```\n+((?:    [^\n]*\n)*)", re.DOTALL)


@pytest.mark.parametrize("page", ["guarantees.md", "deployment.md"])
def test_the_blocks_of_a_page_print_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = BLOCK.findall((DOCS / page).read_text())
    assert blocks
    for code, said in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), names)
        assert printed.getvalue() == re.sub("^    ", "", said, flags=re.MULTILINE), code
