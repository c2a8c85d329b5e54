"""Where a result comes from, whatever the environment says."""

import sys

import pytest

from softscope.provenance import command_line, cores, threads


@pytest.mark.parametrize(
    ("given", "expected"), [("3", 3), ("4,2", 4), ("", None), ("many", None), ("-1", None), ("0", None)]
)
def test_threads_of_the_environment_may_be_a_list_or_nonsense(monkeypatch, given, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert threads() == (expected or cores())


def test_a_command_line_with_bytes_that_are_not_text_can_be_written(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/softscope", "diagnose", "no\udcffise"])
    assert command_line() == "softscope diagnose 'no\\udcffise'"
