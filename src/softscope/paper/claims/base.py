"""What a claim is, what a check returns, and how a verdict follows from tests that can fail."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

HOLDS = "holds"
CORRECTED = "holds as corrected"
CONDITIONS = "holds under conditions"
APPROXIMATE = "approximate"
OPEN = "open"
CONTRADICTED = "contradicted"
VERDICTS = (HOLDS, CORRECTED, CONDITIONS, APPROXIMATE, OPEN, CONTRADICTED)

MEANINGS = {
    HOLDS: "the statement stood up to every test and every search for a counterexample",
    CORRECTED: "the printed form was shown to fail, the corrected form to hold",
    CONDITIONS: "it holds under the conditions named; a counterexample outside them is exhibited",
    APPROXIMATE: "it is off by an error, whose size was measured",
    OPEN: "it is about trained networks, and results that decide it do not exist yet",
    CONTRADICTED: "a test that the register expects to pass has failed",
}


@dataclass(frozen=True)
class Finding:
    """What a check found: the verdict, one sentence that says why, and the numbers behind it."""

    verdict: str
    summary: str
    numbers: dict[str, Any]

    def evidence(self) -> dict[str, Any]:
        """The summary and the numbers as one JSON object."""
        return {"summary": self.summary, **self.numbers}


@dataclass(frozen=True)
class Claim:
    """One row of the register: `statement` in our own words, `slip` what the printed text gets wrong ("" if nothing).

    `check` takes keyword arguments only, among them the formula under test, and returns a `Finding`; `expected` is the
    verdict the register stands by. `picture` names the figure of X2 that shows it.
    """

    id: str
    title: str
    label: str
    statement: str
    conditions: str
    expected: str
    check: Callable[..., Finding]
    slip: str = ""
    picture: str = ""


def decide(verdict: str, summary: str, numbers: Mapping[str, Any], tests: Mapping[str, bool]) -> Finding:
    """`verdict` if every test passed; otherwise contradicted, with the tests that failed named."""
    failed = [name for name, passed in tests.items() if not passed]
    if failed:
        return Finding(CONTRADICTED, f"failed: {'; '.join(failed)}", {**numbers, "failed": failed})
    return Finding(verdict, summary, {**numbers, "tests": list(tests)})
