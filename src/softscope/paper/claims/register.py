"""What a claim is, what a check returns, how a verdict follows from tests that can fail, and how claims are checked.

The texts stand in `claims.toml`; `@checks("T1")` joins a check to its text and enters the claim in the register.
"""

import inspect
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib.resources import files
from typing import Any

import numpy as np

from ...errors import SoftscopeError
from .evidence import rows_of

HOLDS = "holds"
CORRECTED = "holds as corrected"
CONDITIONS = "holds under conditions"
APPROXIMATE = "approximate"
FAILS = "does not hold"
UNDECIDED = "undecided"
CONTRADICTED = "contradicted"

MEANINGS = {
    HOLDS: "the statement stood up to every test and every search for a counterexample",
    CORRECTED: "the printed form was shown to fail, the corrected form to hold",
    CONDITIONS: "it holds under the conditions named; a counterexample outside them is exhibited",
    APPROXIMATE: "it is off by an error, whose size was measured",
    FAILS: "by the rule stated with it, trained networks or printed numbers speak against it",
    UNDECIDED: "it is about trained networks, and the networks at hand do not decide it; the evidence says why",
    CONTRADICTED: "a test that the register expects to pass has failed",
}
VERDICTS = tuple(MEANINGS)

_TEXTS: dict[str, dict[str, str]] = tomllib.loads(files(__package__).joinpath("claims.toml").read_text("utf-8"))
CLAIMS: "dict[str, Claim]" = {}


@dataclass(frozen=True)
class Outcome:
    """What a check came to: the verdict, one sentence that says why, and the numbers behind it."""

    verdict: str
    summary: str
    numbers: dict[str, Any]

    def evidence(self) -> dict[str, Any]:
        """The summary and the numbers as one JSON object."""
        return {"summary": self.summary, **self.numbers}


@dataclass(frozen=True)
class Claim:
    """One row of the register: `statement` in our own words, `slip` what the printed text gets wrong ("" if nothing).

    `check` takes keyword arguments only, among them the formula under test, and returns an `Outcome`; `expected` is the
    verdict the register stands by. `rule` says how trained networks decide it ("" where mathematics does). `picture`
    names the figure of X2 that shows it.
    """

    id: str
    check: Callable[..., Outcome]
    title: str
    label: str
    statement: str
    conditions: str
    expected: str
    rule: str = ""
    slip: str = ""
    picture: str = ""


def checks(claim_id: str) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """Enter the decorated check in the register under `claim_id`, with its text from `claims.toml`.

    A check with an argument `rows` gets the rows of trained networks kept for this claim, unless it is called with
    others. A formula that breaks off (no root, a singular matrix, a refused argument) contradicts the claim: a
    verdict, never a traceback.
    """

    def enter(check: Callable[..., Outcome]) -> Callable[..., Outcome]:
        by_rows = "rows" in inspect.signature(check).parameters

        @wraps(check)
        def checked(**arguments: Any) -> Outcome:
            if by_rows:
                arguments.setdefault("rows", rows_of(claim_id))
            try:
                return check(**arguments)
            except (ArithmeticError, ValueError, np.linalg.LinAlgError, SoftscopeError) as error:
                return Outcome(CONTRADICTED, f"failed: the check broke off ({error})", {"failed": [str(error)]})

        CLAIMS[claim_id] = Claim(claim_id, checked, **_TEXTS[claim_id])
        return checked

    return enter


def decide(verdict: str, summary: str, numbers: Mapping[str, Any], tests: Mapping[str, bool]) -> Outcome:
    """`verdict` if every test passed; otherwise contradicted, with the tests that failed named."""
    failed = [name for name, passed in tests.items() if not passed]
    if failed:
        return Outcome(CONTRADICTED, f"failed: {'; '.join(failed)}", {**numbers, "failed": failed})
    return Outcome(verdict, summary, {**numbers, "tests": list(tests)})


def registered() -> tuple[Claim, ...]:
    """Every claim entered, in the order of their ids: T1, T2, ... then S1, S2."""
    return tuple(sorted(CLAIMS.values(), key=lambda claim: (claim.id[0] != "T", int(claim.id[1:]))))


def find(name: str) -> Claim:
    """The claim with this id (T15), or with this label in the paper's source.

    >>> from softscope.paper.claims import find
    >>> find("T8").title
    'Linear approximation of the region'
    """
    wanted, claims = name.strip().casefold(), registered()
    for claim in claims:
        if wanted == claim.id.casefold():
            return claim
    for claim in claims:
        if wanted in (part.strip().casefold() for part in claim.label.split(",")):
            return claim
    last = max(int(claim.id[1:]) for claim in claims)
    raise SoftscopeError(f"no claim is called {name!r}", f"Claims are T1 to T{last}, S1 and S2")


def check_all(
    claims: Sequence[Claim], *, tell: Callable[[Claim], None] = lambda claim: None
) -> Iterator[tuple[Claim, Outcome]]:
    """Check claims one after the other; `tell` is called with each before it is checked."""
    for claim in claims:
        tell(claim)
        yield claim, claim.check()


def stands(claim: Claim, outcome: Outcome) -> bool:
    """Is the verdict the one the register stands by?"""
    return outcome.verdict == claim.expected
