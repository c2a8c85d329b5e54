"""The page `results` of the docs, from the committed results: `python -m softscope.paper.experiments.page`.

Every number on it comes from `results/<id>/<scale>.json`, the largest scale there is of each experiment.
"""

import sys
from pathlib import Path
from typing import Any

from ...canonical import parse_json
from ...errors import SoftscopeError
from .base import SCALE_NAMES
from .registry import page_text
from .verdict import MARGINS, NUMBERS, STATEMENTS, UNDECIDED, Row, Statement, count, printed

COMMAND = "python -m softscope.paper.experiments.page > docs/results.md"


def results_page(results: Path) -> str:
    """The page as Markdown, its links relative to a folder beside `results`."""
    homes = sorted(results.iterdir(), key=_place) if results.exists() else []
    experiments = [kept for home in homes if (kept := largest_result(home))]
    if not experiments:
        raise SoftscopeError(f"{results}: no result of an experiment", "Run `softscope reproduce all`, then this again")
    margins = "; ".join(f"{kind}, {words}" for kind, words in MARGINS.items())
    title, rules = (page_text("results", part, command=COMMAND, margins=margins) for part in ("title", "rules"))
    sections = [title, _conclusions(experiments), rules, _overview(experiments), *map(_section, experiments)]
    return "\n\n".join(sections) + "\n"


def _place(home: Path) -> tuple[int, str]:
    digits = "".join(letter for letter in home.name if letter.isdigit())
    return int(digits or 0), home.name


def largest_result(home: Path) -> dict[str, Any] | None:
    """The result of the largest scale in an experiment's folder; what is no result of an experiment is passed over.

    Where that scale has not finished one run and a smaller one has, the smaller one, with the other under `begun`.
    """
    begun: dict[str, Any] | None = None
    for scale in reversed(SCALE_NAMES):
        path = home / f"{scale}.json"
        if path.exists():
            try:
                kept: dict[str, Any] = parse_json(path.read_bytes())
                if not {"id", "rows", "command"} <= kept.keys():
                    return begun
                if not kept.get("part"):
                    return kept | ({"begun": begun} if begun else {})
                begun = begun or kept
            except (ValueError, AttributeError) as error:
                raise SoftscopeError(f"{path}: is not a result of an experiment ({error})", "Run it again") from error
    return begun


def _conclusions(experiments: list[dict[str, Any]]) -> str:
    """The paper's ten main conclusions, each judged by the rows that `printed.toml` says it rests on."""
    lines = ["| | the paper's conclusion | verdict | evidence | what would change it |", "|---|---|---|---|---|"]
    told: dict[str, list[str]] = {word: [] for word in (*STATEMENTS, UNDECIDED)}
    for number, conclusion in enumerate(printed("conclusion"), 1):
        judged = [one for rule in conclusion["rests_on"] for one in _evidence(experiments, rule)]
        beside = [one for rule in conclusion.get("beside", []) for one in _evidence(experiments, rule)]
        shown = _summary(judged) + "".join(f"; beside it, {words}" for _, words in beside)
        verdict = _conjunction([verdict for verdict, _ in judged])
        told[verdict].append(f"{conclusion['text']} ({number})")
        lines.append(_line(str(number), conclusion["text"], verdict, shown, conclusion["changes"]))
    hold, fail, open_ = map(len, told.values())
    total = f"{hold + fail + open_} main conclusions: holding here {hold}, not holding {fail}, undecided {open_}."
    answers = zip(("What the paper got right", "What it did not", "What we can't decide"), told.values())
    brief = "\n".join(f"- {words}: {'; '.join(texts)}." for words, texts in answers if texts)
    ours = "By our networks, most of them trained more briefly than the paper's: what would change it is said below."
    return f"**The paper's {total}** {ours}\n\n{brief}\n\n" + "\n".join(lines)


def _evidence(experiments: list[dict[str, Any]], rule: dict[str, Any]) -> list[tuple[str, str]]:
    """(verdict, words) of every row that a rule of a conclusion names: 'X3: *: std of' is any label with ': std of'."""
    name, _, start = rule["row"].partition(": ")
    judged = []
    for kept in experiments:
        for row in map(Row.from_dict, kept["rows"] if kept["id"] == name else ()):
            matches = f": {start[3:]}" in f": {row.label}" if start.startswith("*: ") else row.label.startswith(start)
            if matches:
                own = Statement("", rule.get("least"), rule.get("most")) if rule.keys() & {"least", "most"} else None
                verdict = own.judge(row.ours.interval()) if own else row.verdict
                limit = own.rule if own else row.rule
                value = f"{row.ours.show(row.digits)} {row.unit}".strip()
                judged.append((verdict, f"[{name}](#{name.lower()}) {row.label}: {value} ({limit}: {verdict})"))
                if not start.startswith("*: "):
                    break
    return judged


def _summary(judged: list[tuple[str, str]]) -> str:
    """Every row in words, or, of more than four, how many were decided which way."""
    if len(judged) <= 4:
        return "; ".join(words for _, words in judged) or "no result"
    verdicts = [verdict for verdict, _ in judged]
    plural = {STATEMENTS[0]: "hold", STATEMENTS[1]: "do not hold", UNDECIDED: "are undecided"}
    counts = ", ".join(f"{verdicts.count(word)} {words}" for word, words in plural.items() if word in verdicts)
    return f"{judged[0][1].split(' ')[0]}: of {len(judged)} rows {counts}"


def _conjunction(verdicts: list[str]) -> str:
    if STATEMENTS[1] in verdicts:
        return STATEMENTS[1]
    return STATEMENTS[0] if verdicts and set(verdicts) == {STATEMENTS[0]} else UNDECIDED


def _overview(experiments: list[dict[str, Any]]) -> str:
    lines = [
        "| | | scale | numbers: agree of decided | statements: hold of decided | undecided | wall time |",
        "|---|---|---|---|---|---|---|",
    ]
    for kept in experiments:
        rows = [Row.from_dict(row) for row in kept["rows"]]
        undecided = sum(row.verdict == UNDECIDED and row.counts for row in rows)
        name = f"[{kept['id']}](#{kept['id'].lower()})"
        numbers, statements = count(rows, NUMBERS), count(rows, STATEMENTS)
        lines.append(_line(name, kept["title"], kept["scale"], numbers, statements, str(undecided or ""), _time(kept)))
    return "\n".join(lines)


def _section(kept: dict[str, Any]) -> str:
    cores = kept["provenance"]["machine"]["cores"]
    left = [f"*Not complete: {kept['left']} to come.*"] if kept.get("left") else []
    parts = [
        f"## {kept['id']}",
        f"**{kept['title']}** ({', '.join(f'`{name}`' for name in kept['figures'])}). `{kept['command']}`, "
        f"{_time(kept)} on {cores} core{'s' * (cores > 1)}.",
        *left,
        _table(kept["rows"]),
        *_shown(kept),
        *_pictures(kept),
        "\n".join(f"- {line}" for line in _notes(kept)),
        *(_begun(kept["begun"]) if "begun" in kept else []),
    ]
    return "\n\n".join(part for part in parts if part)


def _notes(kept: dict[str, Any]) -> list[str]:
    """Notes and data sets used in part, without the long commands that open a network as a report."""
    notes = [line for line in kept["notes"] if ", as a report: " not in line]
    if len(notes) < len(kept["notes"]):
        notes.append(
            f"`results/{kept['id']}/{kept['scale']}.json` has the command that opens each network as a report."
        )
    if kept["subsets"]:
        parts = "; ".join(line.replace(" subset:", "") for line in kept["subsets"])
        notes.append(f"Data sets used in part: {parts}.")
    return notes


def _begun(kept: dict[str, Any]) -> list[str]:
    """A larger scale that is under way: its first table of each kind and what is to come. No count includes it."""
    title = f"### {kept['id']} at scale {kept['scale']}, so far"
    return [title, f"`{kept['command']}`. *To come: {kept['left']}.*", *_shown(kept)]


def _table(rows: list[dict[str, Any]]) -> str:
    lines = ["| | the paper | ours | rule | verdict |", "|---|---|---|---|---|"]
    for one in rows:
        row = Row.from_dict(one)
        paper = "" if row.paper is None else row.paper.show(row.digits)
        over = f" (over {row.ours.runs} {row.ours.over})" if row.ours.over != "runs" else ""
        ours = f"{row.ours.show(row.digits)} {row.unit}".strip() + over
        lines.append(_line(row.label, paper, ours, row.rule, row.explained()))
    return "\n".join(lines)


def _shown(kept: dict[str, Any]) -> list[str]:
    """Further tables that the result wants printed, each under what it shows."""
    parts = []
    for name, words in kept.get("shown", {}).items():
        lines = kept["tables"][name]
        headings = list(lines[0]) if lines else []
        body = [headings, ["---"] * len(headings), *([str(line.get(key, "")) for key in headings] for line in lines)]
        parts.append(f"*{name}.* {words}\n\n" + "\n".join(_line(*cells) for cells in body))
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


def _line(*cells: str) -> str:
    """A line of a table in Markdown."""
    plain = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(plain)} |"


if __name__ == "__main__":
    sys.stdout.write(results_page(Path("results")))
