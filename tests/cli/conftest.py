"""Running the command line in this process."""

import sys

import pytest

from softscope import cli


@pytest.fixture
def softscope(monkeypatch, capsys):
    """Exit code, stdout and stderr of `softscope ARGUMENTS`."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["softscope", *arguments])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
