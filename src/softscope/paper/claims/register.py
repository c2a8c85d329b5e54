"""What a claim is, what a check returns, how a verdict follows from tests that can fail, and how claims are checked.

The texts stand in `claims.toml`; `@checks("T1")` joins a check to its text and enters the claim in the register.
"""

import inspect
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from importlib.resources import files
from typing import Any

import numpy as np

from ...errors import SoftscopeError
from .evidence import rows_of

_TEXTS: dict[str, dict[str, str]] = tomllib.loads(files(__package__).joinpath("claims.toml").read_text("utf-8"))
MEANINGS = _TEXTS.pop("verdicts")
PAGE = _TEXTS.pop("page")["head"]
VERDICTS = tuple(MEANINGS)
HOLDS, CONDITIONS, FAILS = "holds", "holds under conditions", "does not hold"
UNDECIDED, CONTRADICTED = "undecided", "contradicted"
CLAIMS: "dict[str, Claim]" = {}


@dataclass(frozen=True)
class Measured:
    """What a check measured: `numbers`, `tests` of them that can fail, and what else its summary shows, `said`.

    The verdict is the one the register stands by, unless rows of trained networks chose another; the summary is the
    claim's `evidence` with numbers in it, unless there is nothing to sum up.
    """

    numbers: Mapping[str, Any]
    tests: Mapping[str, bool] = field(default_factory=dict)
    said: Mapping[str, Any] = field(default_factory=dict)
    verdict: str = ""
    summary: str = ""


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
    verdict the register stands by, `evidence` the summary of what was measured, with places for its numbers. `rule`
    says how trained networks decide it ("" where mathematics does). `picture` names the figure of X2 that shows it.
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
    evidence: str = ""


def checks(claim_id: str) -> Callable[[Callable[..., Measured]], Callable[..., Outcome]]:
    """Enter the decorated check in the register under `claim_id`, with its text from `claims.toml`.

    A check with an argument `rows` gets the rows of trained networks kept for this claim, unless it is called with
    others. A formula that breaks off (no root, a singular matrix, a refused argument) contradicts the claim: a
    verdict, never a traceback.
    """

    def enter(check: Callable[..., Measured]) -> Callable[..., Outcome]:
        by_rows = "rows" in inspect.signature(check).parameters
        text = _TEXTS[claim_id]

        @wraps(check)
        def checked(**arguments: Any) -> Outcome:
            if by_rows:
                arguments.setdefault("rows", rows_of(claim_id))
            try:
                measured = check(**arguments)
                summary = measured.summary or text["evidence"].format(**measured.numbers, **measured.said)
            except (ArithmeticError, ValueError, np.linalg.LinAlgError, SoftscopeError) as error:
                return Outcome(CONTRADICTED, f"failed: the check broke off ({error})", {"failed": [str(error)]})
            return decide(measured.verdict or text["expected"], summary, measured.numbers, measured.tests)

        CLAIMS[claim_id] = Claim(claim_id, checked, **text)
        return checked

    return enter


def decide(verdict: str, summary: str, numbers: Mapping[str, Any], tests: Mapping[str, bool]) -> Outcome:
    """`verdict` if every test passed; otherwise contradicted, with the tests that failed named."""
    failed = [name for name, passed in tests.items() if not passed]
    if failed:
        return Outcome(CONTRADICTED, f"failed: {'; '.join(failed)}", {**numbers, "failed": failed})
    return Outcome(verdict, summary, {**numbers, "tests": list(tests)} if tests else dict(numbers))


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
