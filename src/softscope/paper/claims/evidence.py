"""The evidence of trained networks: rows of the experiments' results that bear on a claim, kept in the package.

An experiment gives evidence by a table named after the claim (`Result.tables["T23"]`), or by one of the tables named
below; one row per network and OOD set. `python -m softscope.paper.claims results` gathers them into
`evidence.json`, which every check reads: a verdict is the same in every folder.
"""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...canonical import parse_json
from ...errors import SoftscopeError
from ...files import write_bytes

EvidenceRow = dict[str, Any]
EvidenceRows = Sequence[EvidenceRow]
FILE = "evidence.json"
# Larger scales speak louder; results of smoke runs say nothing about networks.
_SCALES = ("paper", "overnight", "laptop")


@cache
def _kept() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(files(__package__).joinpath(FILE).read_text("utf-8"))
    return loaded


def rows_of(claim_id: str) -> list[EvidenceRow]:
    """The rows kept for this claim, each with its network and the experiment it comes from; none where there are none.

    >>> sorted(rows_of("T25")[0])[:2]
    ['classes', 'experiment']
    """
    return list(_kept()["rows"].get(claim_id, []))


def sources() -> dict[str, dict[str, str]]:
    """Of each experiment with evidence: the scale and the command its rows come from."""
    return dict(_kept()["sources"])


def captions() -> dict[str, str]:
    """Captions of the geometry pictures (X2), by name."""
    return dict(_kept()["captions"])


def gather(results: str | os.PathLike[str]) -> dict[str, Any]:
    """The evidence in a folder of results, as `evidence.json` keeps it."""
    rows: dict[str, list[EvidenceRow]] = {}
    origin: dict[str, dict[str, str]] = {}
    for experiment, scale, result in _results(Path(results)):
        tables = {
            **{name: table for name, table in result["tables"].items() if name[0] == "T" and name[1:].isdigit()},
            **{claim: read(result) for claim, (of, read) in _READERS.items() if of == experiment},
        }
        for claim, table in tables.items():
            if table:
                rows.setdefault(claim, []).extend({**row, "experiment": experiment} for row in table)
                origin[experiment] = {"scale": scale, "command": str(result.get("command", ""))}
    ordered = sorted(rows, key=lambda claim: int(claim[1:]))
    pictures = Path(results) / "X2" / "paper.json"
    return {
        "sources": origin,
        "captions": _read(pictures).get("captions", {}) if pictures.exists() else {},
        "rows": {claim: each_once(rows[claim]) for claim in ordered},
    }


def each_once(rows: Iterable[EvidenceRow]) -> list[EvidenceRow]:
    """Rows of distinct networks: one whose numbers repeat those of another experiment is the same network met twice.

    Runs that share a name are numbered, so that `network` names one network.
    """
    seen: dict[str, str] = {}
    runs: dict[tuple[str, str], int] = {}
    kept = []
    for row in rows:
        numbers = {name: value for name, value in row.items() if name not in ("network", "experiment")}
        content = json.dumps(numbers, sort_keys=True)
        if seen.setdefault(content, row["experiment"]) != row["experiment"]:
            continue
        place = (str(row.get("network", "")), str(row.get("ood", "")))
        runs[place] = runs.get(place, 0) + 1
        again = {"network": f"{place[0]}, run {runs[place]}"} if runs[place] > 1 else {}
        kept.append({**row, **again})
    return kept


def _results(folder: Path) -> Iterable[tuple[str, str, dict[str, Any]]]:
    """(experiment, scale, result) of the largest scale of every experiment in `folder` that has one whole run."""
    for home in sorted(path for path in folder.glob("*") if path.is_dir()):
        for scale in _SCALES:
            path = home / f"{scale}.json"
            if path.exists() and not (result := _read(path)).get("part"):
                yield home.name, scale, result
                break


def _read(path: Path) -> dict[str, Any]:
    try:
        result = parse_json(path.read_bytes())
        if not isinstance(result["tables"], dict):
            raise TypeError("no tables")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SoftscopeError(
            f"{path}: is not a result of an experiment ({error})", "Run the experiment again"
        ) from error
    return dict(result)


def _two_classes(result: dict[str, Any]) -> list[EvidenceRow]:
    """T28 from X3: half the norm of w_1 + w_2 of heads with two classes."""
    heads = [head for head in result["tables"].get("heads", []) if head["classes"] == 2]
    rows = []
    for head in heads:
        (first, second), cosine = head["norms"], head["cosines"][0]
        half = 0.5 * (first**2 + second**2 + 2 * first * second * cosine) ** 0.5
        rows.append({"network": f"{head['network']}, seed {head['seed']}", "half_sum": half, "cosine": cosine})
    return rows


def _structures(result: dict[str, Any]) -> list[EvidenceRow]:
    """T29 from X4: loss and AUROC of networks with a frozen head, and the bounds that the head predicts."""
    return [
        {
            "network": f"X4 {row['part']} {row['structure']}, seed {row['seed']}",
            "structure": row["structure"],
            "cap": min(row["caps"]),
            "loss": row["cross_entropy"],
            "floor": row["loss_floor"],
            "accuracy": row["accuracy"],
            "auroc": row["auroc"]["max"],
            "auroc_cap": row["auroc_cap"],
        }
        for row in result["tables"].get("networks", [])
        if row["structure"] != "trainable"
    ]


def _alignment(result: dict[str, Any]) -> list[EvidenceRow]:
    """T30 from X9: the median of the largest cosine of known inputs, by data set, and how long each network trained."""
    table = {row["of"]: row for row in result["tables"].get("mental", [])}
    cosines = table.get("largest cos, train", table.get("largest cos, test", {}))
    recipes = result["settings"]["recipes"]
    return [
        {"network": f"ResNet18 on {name}", "epochs": recipe["epochs"], "largest_cosine": float(cosines[name])}
        for name, recipe in recipes.items()
        if name in cosines
    ]


def _falling(result: dict[str, Any]) -> list[EvidenceRow]:
    """T31 from X9: AUROC of -norm(z) and of -max cos for every network and OOD set."""
    return [
        {
            "network": f"ResNet18 on {pair['learned']}, seed {pair['seed']}",
            "ood": pair["ood"],
            "norm": pair["auroc"]["norm"],
            "familiarity": pair["auroc"]["familiarity"],
        }
        for pair in result["tables"].get("pairs", [])
    ]


def _filter(result: dict[str, Any]) -> list[EvidenceRow]:
    """T33 from X6: does the surest noise look like its class, and how much noise is confident?"""
    said = {row["label"]: row["ours"]["value"] for row in result["rows"]}
    scans = []
    for row in result["tables"].get("shares", []):
        if row["confidence"] == 0.9:
            own = f"{row['conv_layers']} conv layers"
            # X6's main network has three layers; its median digit is the one compared with.
            above = said["noise above the median test digit"] / 1e6 if row["conv_layers"] == 3 else None
            scans.append(
                {
                    "network": f"X6, {own}",
                    "p_value": said[f"{own}: p-value of the difference"],
                    "above_0.9": row["share"]["value"],
                    "above_digit": above,
                }
            )
    return scans


_READERS: dict[str, tuple[str, Callable[[dict[str, Any]], list[EvidenceRow]]]] = {
    "T28": ("X3", _two_classes),
    "T29": ("X4", _structures),
    "T30": ("X9", _alignment),
    "T31": ("X9", _falling),
    "T33": ("X6", _filter),
}


def keep(results: str | os.PathLike[str]) -> None:
    """Gather the evidence in a folder of results into the package's own file."""
    write_bytes(Path(__file__).with_name(FILE), as_bytes(gather(results)))


def as_bytes(evidence: dict[str, Any]) -> bytes:
    """One line per row, numbers to six digits: small, and readable in a diff."""
    lines = ["{"]
    for name in ("sources", "captions"):
        lines.append(
            f' "{name}": ' + json.dumps(evidence[name], indent=2, ensure_ascii=False).replace("\n", "\n ") + ","
        )
    lines.append(' "rows": {')
    blocks = []
    for claim, rows in evidence["rows"].items():
        inside = ",\n".join("   " + json.dumps(rounded(row, 6), ensure_ascii=False) for row in rows)
        blocks.append(f'  "{claim}": [\n{inside}\n  ]')
    return ("\n".join([*lines, ",\n".join(blocks), " }", "}"]) + "\n").encode()


def rounded(value: Any, digits: int) -> Any:
    """Numbers to so many digits, in lists and objects as JSON has them."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {str(name): rounded(each, digits) for name, each in value.items()}
    return [rounded(each, digits) for each in value] if isinstance(value, list | tuple) else value
