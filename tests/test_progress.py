"""The one progress bar: on a terminal only, on stderr, with what, how far and how fast."""

import pytest

from softscope.progress import bar, silent


@pytest.fixture
def terminal(monkeypatch):
    """Makes stderr, as the test itself sees it, a terminal."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    return lambda: monkeypatch.setattr("sys.stderr.isatty", lambda: True)


def test_a_pipe_gets_no_bar(capsys):
    with bar() as progress:
        progress("reading", 1, 2)
    assert progress is silent
    assert capsys.readouterr() == ("", "")


def test_a_quiet_terminal_gets_no_bar(terminal, capsys):
    terminal()
    with bar(show=False) as progress:
        progress("reading", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_sees_what_is_done_and_how_far_it_is(terminal, capsys):
    terminal()
    with bar() as progress:
        progress("features of [bold]test", 500, 2000)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "features of [bold]test" in shown.err
    assert "500/2000" in shown.err


def test_a_total_may_be_unknown_at_first(terminal, capsys):
    terminal()
    with bar() as progress:
        progress("asking the server", 0, 0)
        progress("downloading", 3, 4)
    assert "3/4" in capsys.readouterr().err
