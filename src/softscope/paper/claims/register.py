"""The register of claims, in the order of their ids, and how they are checked."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from ...errors import SoftscopeError
from . import flags, gradients, integral, linear, optimum, order, sharper, slabs, strength, table, trained, volume
from .base import CONTRADICTED, OPEN, Claim, Finding

_MODULES = (gradients, slabs, flags, linear, optimum, integral, strength, order, volume, table, trained, sharper)
# Larger scales speak louder; results of smoke runs say nothing about networks.
_SCALES = ("paper", "laptop")


def _place(claim: Claim) -> tuple[bool, int]:
    return claim.id[0] != "T", int(claim.id[1:])


REGISTER: tuple[Claim, ...] = tuple(sorted((claim for module in _MODULES for claim in module.CLAIMS), key=_place))


def find(name: str) -> Claim:
    """The claim with this id (T15), or with this label in the paper's source."""
    wanted = name.strip().casefold()
    for claim in REGISTER:
        if wanted == claim.id.casefold():
            return claim
    for claim in REGISTER:
        if wanted in (part.strip().casefold() for part in claim.label.split(",")):
            return claim
    raise SoftscopeError(f"no claim is called {name!r}", f"Claims are {REGISTER[0].id} to T27, S1 and S2")


def check(claim: Claim, results: str | os.PathLike[str] | None = "results") -> Finding:
    """Run a claim's check; tables of experiments that bear on it are taken from the folder `results`."""
    rows = tables(results, claim.id) if results is not None else []
    if "rows" in signature(claim.check).parameters:
        return claim.check(rows=rows)
    found = claim.check()
    return Finding(found.verdict, found.summary, found.numbers | {"experiments": rows}) if rows else found


def check_all(
    claims: Sequence[Claim] = REGISTER,
    results: str | os.PathLike[str] | None = "results",
    *,
    tell: Callable[[Claim], None] = lambda claim: None,
) -> Iterator[tuple[Claim, Finding]]:
    """Check claims one after the other; `tell` is called with each before it is checked."""
    for claim in claims:
        tell(claim)
        yield claim, check(claim, results)


def stands(claim: Claim, found: Finding) -> bool:
    """Is the verdict the one the register stands by? A claim registered as open may be decided, not contradicted."""
    return found.verdict == claim.expected or (claim.expected == OPEN and found.verdict != CONTRADICTED)


def tables(results: str | os.PathLike[str], claim_id: str) -> list[dict[str, Any]]:
    """Rows of every experiment's table named `claim_id`, of its largest scale, each with the experiment and scale."""
    rows: list[dict[str, Any]] = []
    for home in sorted(path for path in Path(results).glob("*") if path.is_dir()):
        for scale in _SCALES:
            path = home / f"{scale}.json"
            if path.exists():
                found = _read(path).get("tables", {}).get(claim_id, [])
                rows += [{**row, "experiment": home.name, "scale": scale} for row in found]
                break
    return rows


def captions(results: str | os.PathLike[str]) -> dict[str, str]:
    """Captions of the geometry pictures (X2), by name; none where X2 has not been run."""
    path = Path(results) / "X2" / "paper.json"
    return dict(_read(path).get("captions", {})) if path.exists() else {}


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SoftscopeError(f"{path}: is no result of an experiment ({error})", "Run the experiment again") from error
    if not isinstance(found, dict):
        raise SoftscopeError(f"{path}: is no result of an experiment", "Run the experiment again")
    return found
