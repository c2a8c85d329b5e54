"""The page `results` of the docs, from the committed results: `python -m softscope.paper.experiments.page`.

Every number on it comes from `results/<id>/<scale>.json`, the largest scale there is of each experiment.
"""

import json
import sys
from pathlib import Path
from typing import Any

from ...errors import SoftscopeError
from .base import SCALE_NAMES, Row

COMMAND = "python -m softscope.paper.experiments.page > docs/results.md"


def results_page(results: Path) -> str:
    """The page as Markdown, its links relative to a folder beside `results`."""
    found = (
        [kept for home in sorted(results.iterdir(), key=_place) if (kept := _largest(home))] if results.exists() else []
    )
    if not found:
        raise SoftscopeError(f"{results}: no result of an experiment", "Run `softscope reproduce all`, then this again")
    return "\n\n".join([_head(), _overview(found), *map(_section, found)]) + "\n"


def _place(home: Path) -> tuple[int, str]:
    digits = "".join(letter for letter in home.name if letter.isdigit())
    return int(digits or 0), home.name


def _largest(home: Path) -> dict[str, Any] | None:
    """The result of the largest scale in an experiment's folder; what is no result of an experiment is passed over."""
    for scale in reversed(SCALE_NAMES):
        path = home / f"{scale}.json"
        if path.exists():
            try:
                kept = json.loads(path.read_text(encoding="utf-8"))
                return kept if {"id", "rows", "command"} <= kept.keys() else None
            except (ValueError, AttributeError) as error:
                raise SoftscopeError(f"{path}: is no result of an experiment ({error})", "Run it again") from error
    return None


def _head() -> str:
    return (
        "# Results beside the paper's\n\n"
        'Every experiment of "Understanding Softmax Confidence and Uncertainty" (Pearce, Brintrup, Zhu 2021) that was '
        "run here, at the largest scale that was run: `paper` is the paper's own protocol, `laptop` a smaller one. "
        f"This page is written by `{COMMAND}` from the files in `results/`; each section names the command that "
        "repeats it. Ours are means ± standard error over runs. Times are wall times of all steps, one after another, "
        "on a machine that had other work too: upper limits. [reproduce.md](reproduce.md) tells how a verdict "
        "comes about."
    )


def _overview(found: list[dict[str, Any]]) -> str:
    lines = ["| | | scale | numbers that agree | statements that hold | wall time |", "|---|---|---|---|---|---|"]
    for kept in found:
        verdicts = [Row.from_dict(row).verdict for row in kept["rows"]]
        agree, differ = (sum(v.startswith(word) for v in verdicts) for word in ("agrees", "differs"))
        hold, fail = (verdicts.count(words) for words in ("as the paper says", "not as the paper says"))
        numbers = f"{agree} of {agree + differ}" if agree + differ else ""
        statements = f"{hold} of {hold + fail}" if hold + fail else ""
        name = f"[{kept['id']}](#{kept['id'].lower()})"
        cells = (name, _cell(kept["title"]), kept["scale"], numbers, statements, _time(kept))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _section(kept: dict[str, Any]) -> str:
    parts = [
        f"## {kept['id']}",
        f"**{kept['title']}** ({', '.join(f'`{name}`' for name in kept['figures'])}). `{kept['command']}`, "
        f"{_time(kept)} on {kept['provenance']['machine']['cores']} cores.",
        _table(kept["rows"]),
        *_shown(kept),
        *_pictures(kept),
        "\n".join(f"- {line}" for line in [*kept["notes"], *kept["subsets"]]),
    ]
    return "\n\n".join(part for part in parts if part)


def _table(rows: list[dict[str, Any]]) -> str:
    lines = ["| | the paper | ours | verdict |", "|---|---|---|---|"]
    for one in rows:
        row = Row.from_dict(one)
        paper = "" if row.paper is None else row.paper.show(row.digits)
        verdict = "" if row.paper is None else row.verdict
        cells = (row.label, paper, f"{row.ours.show(row.digits)} {row.unit}".strip(), verdict)
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines)


def _shown(kept: dict[str, Any]) -> list[str]:
    """Further tables that the result wants printed, each under what it shows."""
    parts = []
    for name, words in kept.get("shown", {}).items():
        lines = kept["tables"][name]
        headings = list(lines[0]) if lines else []
        body = [headings, ["---"] * len(headings), *([str(line.get(key, "")) for key in headings] for line in lines)]
        parts.append(f"*{name}.* {words}\n\n" + "\n".join(f"| {' | '.join(map(_cell, cells))} |" for cells in body))
    return parts


def _pictures(kept: dict[str, Any]) -> list[str]:
    """Each picture with its caption; the first is named by the scale alone."""
    shown = []
    for number, (name, caption) in enumerate(kept["captions"].items()):
        file = f"{kept['scale']}.png" if number == 0 else f"{kept['scale']}-{name}.png"
        if file in kept["files"]:
            shown.append(f"![{name}](../results/{kept['id']}/{file})\n\n*{name}.* {caption}")
    return shown


def _time(kept: dict[str, Any]) -> str:
    seconds = kept["provenance"].get("step_seconds") or kept["provenance"]["seconds"]
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    sys.stdout.write(results_page(Path("results")))
