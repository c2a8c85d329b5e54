"""Tests that run in a pytest of their own, one each, because what they use may end its process.

Ray does: its library was seen to end a process that had joined a cluster, with exit code 1 and without a word, and all
the tests behind it were lost. A test marked `apart` is judged by the reports of its own process; if that process dies
before it has reported, the test has failed and says how.
"""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

_REPORTS = "SOFTSCOPE_TESTS_APART"  # where the process of one test writes its reports, a JSON object a line


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if item.get_closest_marker("apart") is None or _REPORTS in os.environ:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in [*_reports_of_its_own_process(item), _teardown(item, nextitem)]:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if _REPORTS in os.environ:
        with open(os.environ[_REPORTS], "a") as file:
            file.write(json.dumps(report._to_json(), default=str) + "\n")


def _reports_of_its_own_process(item: pytest.Item) -> list[pytest.TestReport]:
    command = [sys.executable, "-m", "pytest", "-m", "", "-p", "no:cacheprovider", item.nodeid]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "reports"
        file.touch()
        try:
            done = subprocess.run(
                command,
                cwd=item.config.rootpath,
                env={**os.environ, _REPORTS: str(file)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            end = f"its process ended with exit code {done.returncode}:\n{done.stdout}"
        except pytest.fail.Exception as timeout:
            end = str(timeout)
        reports = [_report(line) for line in file.read_text().splitlines()]
    if any(report.when == "call" or not report.passed for report in reports):
        if not any(report.when == "teardown" for report in reports):
            item.warn(pytest.PytestWarning(f"{item.nodeid}: behind the verdict {end}"))
        return reports
    return [*reports, pytest.TestReport(item.nodeid, item.location, {}, "failed", end, "call")]


def _report(line: str) -> pytest.TestReport:
    report = pytest.TestReport._from_json(json.loads(line))
    if isinstance(report.longrepr, list):  # where and why a test was skipped, a tuple for pytest
        report.longrepr = tuple(report.longrepr)
    return report


def _teardown(item: pytest.Item, nextitem: pytest.Item | None) -> pytest.TestReport:
    """The end of what earlier tests here set up and the next one does not need."""
    ending = partial(item.session._setupstate.teardown_exact, nextitem)
    return pytest.TestReport.from_item_and_call(item, pytest.CallInfo.from_call(ending, "teardown"))
