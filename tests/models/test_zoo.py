"""`make zoo` goes on whatever a model does, and its page says what became of each."""

import os
import time

import pytest

from . import zoo
from .trained_zoo import ONNX_FILES, shipped
from .zoo import Entry, apart, page


def crash(world, name):
    os._exit(3)


def hang(world, name):
    time.sleep(600)


def fail(world, name):
    raise AssertionError("other logits\nthan its own")


def opens(world, name, detail):
    return Entry(world, name, "opens", detail)


def test_a_model_that_opens_is_reported_from_its_own_process():
    assert apart(opens, "timm", "a", "5 x 8, head") == Entry("timm", "a", "opens", "5 x 8, head")


def test_a_failure_a_crash_and_a_time_out_are_rows_with_the_reason():
    assert apart(fail, "timm", "a") == Entry("timm", "a", "failed", "AssertionError: other logits than its own")
    assert apart(crash, "timm", "b") == Entry("timm", "b", "failed", "its process ended with exit code 3")
    started = time.monotonic()
    assert apart(hang, "timm", "c", seconds=0.5) == Entry("timm", "c", "failed", "not done after 0.5 seconds")
    assert time.monotonic() - started < 60


def test_the_page_counts_what_was_built_and_names_the_versions(monkeypatch):
    monkeypatch.setattr(zoo, "version", lambda library: "1.2")
    entries = [
        Entry("timm", "a", "opens", "5 x 8, head"),
        Entry("timm", "b", "refused", "B: one | two"),
        Entry("timm", "c", "failed", "not done after 600 seconds"),
        Entry("timm", "d", "not built", "no such model"),
    ]
    lines = page(entries).splitlines()
    assert lines[2] == "Made by one run of `make zoo` with torch 1.2, transformers 1.2, timm 1.2, onnxruntime 1.2."
    assert lines[6] == "## timm: 1 of 3 open"
    assert lines[10:] == [
        "| model | outcome | head, or the reason |",
        "|---|---|---|",
        "| a | opens | 5 x 8, head |",
        "| b | refused | B: one / two |",
        "| c | failed | not done after 600 seconds |",
        "| d | not built | no such model |",
    ]


def test_every_onnx_file_of_the_packages_is_in_the_zoo():
    packages = {name.split(": ")[0].removesuffix("-ai").replace("-", "_") for name in ONNX_FILES}
    try:
        folders = [shipped(package, "") for package in packages]
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed; `make zoo` installs it")
    assert sum(len(list(folder.rglob("*.onnx"))) for folder in folders) == len(ONNX_FILES)
