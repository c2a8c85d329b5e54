"""The page `results` of the docs, from the committed results: `python -m softscope.paper.experiments.page`.

Every number on it comes from `results/<id>/<scale>.json`, the largest scale there is of each experiment.
"""

import sys
from pathlib import Path
from typing import Any

from ...canonical import parse_json
from ...errors import SoftscopeError
from .base import SCALE_NAMES
from .verdict import MARGINS, NUMBERS, STATEMENTS, UNDECIDED, Row, Statement, count, printed

COMMAND = "python -m softscope.paper.experiments.page > docs/results.md"


def results_page(results: Path) -> str:
    """The page as Markdown, its links relative to a folder beside `results`."""
    homes = sorted(results.iterdir(), key=_place) if results.exists() else []
    experiments = [kept for home in homes if (kept := largest_result(home))]
    if not experiments:
        raise SoftscopeError(f"{results}: no result of an experiment", "Run `softscope reproduce all`, then this again")
    return (
        "\n\n".join([_TITLE, _conclusions(experiments), _RULES, _overview(experiments), *map(_section, experiments)])
        + "\n"
    )


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


_TITLE = (
    "# Results beside the paper's\n\n"
    'What "Understanding Softmax Confidence and Uncertainty" (Pearce, Brintrup, Zhu 2021) concludes, and what our runs '
    f"say about it. This page is written by `{COMMAND}` from the files in `results/`."
)
_MARGINS = "; ".join(f"{kind}, {words}" for kind, words in MARGINS.items())
_RULES = f"""**The rule**, the same for every row. It replaced a looser one (two standard errors, no margin) when the \
results of scales laptop and paper were known, and so were chosen the rows that each conclusion rests on (X10's and \
X4's joined conclusions 1 and 7 last, with their numbers in view); results of scale overnight come after it. Of each \
mean over runs the 95 % interval (t, runs - 1 degrees of freedom) decides. A number that the paper prints: the \
interval of ours - the paper's lies wholly within the margin plus two of the paper's printed standard errors, \
*agrees*; wholly outside, *differs*; else *undecided*. Margins: {_MARGINS}. A statement: its row names the range \
that bears it out; the interval wholly inside, *holds*; wholly outside, *does not hold*; else *undecided*. A single \
run is always undecided. Numbers that involve no chance need no runs. A network and a row count once: rows that \
repeat others, or follow from them as the causes do from the AUROCs, are in no count. A conclusion holds where all \
the rows it rests on hold, and does not where one of them does not.

Every experiment stands below at the largest scale that was run: `paper` is the paper's own protocol, `laptop` and \
`overnight` smaller ones. Each section names the command that repeats it. Ours are means ± standard error over runs. \
Times are wall times of all steps, one after another, on a machine that had other work too: upper limits."""


def _conclusions(experiments: list[dict[str, Any]]) -> str:
    """The paper's ten main conclusions, each judged by the rows that `printed.toml` says it rests on."""
    lines = ["| | the paper's conclusion | verdict | evidence | what would change it |", "|---|---|---|---|---|"]
    verdicts = []
    for number, conclusion in enumerate(printed("conclusion"), 1):
        judged = [one for rule in conclusion["rests_on"] for one in _evidence(experiments, rule)]
        beside = [one for rule in conclusion.get("beside", []) for one in _evidence(experiments, rule)]
        shown = _summary(judged) + "".join(f"; beside it, {words}" for _, words in beside)
        verdicts.append(_conjunction([verdict for verdict, _ in judged]))
        cells = (str(number), conclusion["text"], verdicts[-1], shown, conclusion["changes"])
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    hold, fail, open_ = (verdicts.count(word) for word in (*STATEMENTS, UNDECIDED))
    total = f"The paper's {len(verdicts)} main conclusions: holding here {hold}, not holding {fail}, undecided {open_}."
    return f"**{total}**\n\n" + "\n".join(lines)


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
        cells = (name, kept["title"], kept["scale"], numbers, statements, str(undecided or ""), _time(kept))
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines)


def _section(kept: dict[str, Any]) -> str:
    left = [f"*Not complete: {kept['left']} to come.*"] if kept.get("left") else []
    parts = [
        f"## {kept['id']}",
        f"**{kept['title']}** ({', '.join(f'`{name}`' for name in kept['figures'])}). `{kept['command']}`, "
        f"{_time(kept)} on {kept['provenance']['machine']['cores']} cores.",
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
        lines.append(f"| {' | '.join(map(_cell, (row.label, paper, ours, row.rule, row.explained())))} |")
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
