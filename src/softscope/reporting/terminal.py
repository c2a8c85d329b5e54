"""A diagnosis on the terminal: the verdict first, one table, the one thing to do; `verbose` adds the rest."""

from typing import TYPE_CHECKING

from ..diagnosis.model import Diagnosis, Verdict
from ..metrics import Interval
from .verdict import FURTHER, action_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_COLOURS: dict[Verdict, str] = {
    "trust": "bold green",
    "caution": "bold yellow",
    "do not trust": "bold red",
    "undecided": "bold",
}
_WARNINGS = 3
_CAUSES = ("rounding", "temperature", "extrapolation", "misfit", "overlap_proper")


def show(diagnosis: Diagnosis, *, verbose: bool = False, console: "Console | None" = None) -> None:
    """Print the verdict, the table of OOD sets and the action."""
    from rich.console import Console
    from rich.markup import escape

    console = console or Console()
    advice = diagnosis.advice
    console.print(f"[{_COLOURS[advice.verdict]}]{escape(advice.verdict.upper())}[/]  {escape(advice.headline)}")
    warnings = diagnosis.findings("warning")
    for finding in warnings if verbose else warnings[:_WARNINGS]:
        console.print(f"[yellow]warning:[/] {escape(finding.what)}. {escape(finding.hint)}")
    if len(warnings) > _WARNINGS and not verbose:
        console.print(f"[yellow]and {len(warnings) - _WARNINGS} more warnings: --verbose[/]")
    for line in advice.texts("stand-ins"):
        console.print(f"[dim]{escape(line)}[/]")
    console.print(_table(diagnosis))
    action = action_of(diagnosis)
    console.print(f"[bold]What to do: {escape(action.title)}.[/] {escape(action.why)}")
    if action.line:
        # Not wrapped: it is there to be copied.
        console.print(f"  {escape(action.line)}", soft_wrap=True)
    if verbose:
        _rest(console, diagnosis)


def _table(diagnosis: Diagnosis) -> "Table":
    from rich.markup import escape
    from rich.table import Table

    best = diagnosis.advice.recommended
    title = "Unfamiliar inputs missed at 5 % false alarms, in %; largest cause in points of AUROC"
    table = Table(title=title, title_justify="left", pad_edge=False)
    columns = {"plain-max": "confidence"} | ({best: escape(diagnosis.estimators[best].symbol)} if best else {})
    table.add_column("OOD set")
    for words in columns.values():
        table.add_column(words, justify="right", no_wrap=True)
    table.add_column("largest cause", no_wrap=True)
    rows = [*diagnosis.scores.items(), *([("mean", diagnosis.mean_scores)] if len(diagnosis.scores) > 1 else [])]
    for ood, scores in rows:
        causes = diagnosis.mean_causes if scores is diagnosis.mean_scores else diagnosis.causes[ood]
        parts: dict[str, Interval] = {part: getattr(causes, part) for part in _CAUSES}
        largest = max(parts, key=lambda part: parts[part].value)
        cells = [_ranged(scores[name].missed_at_95_accepted) for name in columns]
        table.add_row(escape(ood), *cells, f"{largest.removesuffix('_proper')} {100 * parts[largest].value:.1f}")
    return table


def _rest(console: "Console", diagnosis: Diagnosis) -> None:
    from rich.markup import escape

    for finding in diagnosis.findings("note"):
        console.print(f"[dim]note: {escape(finding.what)}. {escape(finding.hint)}[/]")
    own = [sentence.text for sentence in diagnosis.advice.sentences if sentence.ood is not None]
    for text in [*diagnosis.advice.texts(*FURTHER), *own]:
        console.print(f"- {escape(text)}")


def _ranged(interval: Interval) -> str:
    return f"{100 * interval.value:.1f} [dim]\\[{100 * interval.low:.1f}, {100 * interval.high:.1f}][/]"
