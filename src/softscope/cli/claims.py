"""`softscope claims`: every claim of the paper, checked by computation."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import SoftscopeError
from . import options
from .options import AsJson, Quiet

if TYPE_CHECKING:
    from rich.console import Console

    from ..paper.claims import Claim, Outcome

_STYLES = {
    "holds": "green",
    "undecided": "dim",
    "does not hold": "magenta",
    "contradicted": "bold red",
    "approximate": "yellow",
}


def claims(
    name: Annotated[str | None, typer.Argument(help="One claim: T15, or its label in the paper.", metavar="ID")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    out: Annotated[Path | None, options.out("Folder for the picture of the one claim asked for.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write the documentation's theory page to this file as well.", metavar="FILE")
    ] = None,
) -> None:
    """Check the theory: statement, verdict and evidence. Exits with 1 if a check contradicts the register."""
    from ..files import write_bytes
    from ..paper.claims import REGISTER, find, stands

    if out is not None and (name is None or as_json):
        raise SoftscopeError("--out draws the picture of one claim", "Name it, as in `softscope claims T15 -o DIR`")
    if page is not None and name is not None:
        raise SoftscopeError("--page writes the page of all claims", "Leave out the claim's name")
    asked = REGISTER if name is None else (find(name),)
    outcomes = _checked(asked, show=not quiet)
    if page is not None:
        from ..paper.claims.page import theory_page

        write_bytes(page, theory_page(outcomes).encode())
    if as_json:
        typer.echo(json.dumps([_row(*pair) for pair in outcomes], indent=1, ensure_ascii=False, allow_nan=False))
    else:
        _show(outcomes, explain=name is not None, pictures=out)
    if not all(stands(claim, outcome) for claim, outcome in outcomes):
        raise typer.Exit(1)


def _checked(asked: "tuple[Claim, ...]", *, show: bool) -> "list[tuple[Claim, Outcome]]":
    from ..paper.claims import check_all
    from ..progress import bar

    outcomes: list[tuple[Claim, Outcome]] = []
    with bar(show=show) as progress:

        def tell(claim: "Claim") -> None:
            progress(f"checking {claim.id} {claim.title}", len(outcomes), len(asked))

        outcomes.extend(check_all(asked, tell=tell))
    return outcomes


def _row(claim: "Claim", outcome: "Outcome") -> dict[str, object]:
    return {
        "id": claim.id,
        "statement": claim.statement,
        "verdict": outcome.verdict,
        "evidence": outcome.evidence(),
    }


def _show(outcomes: "list[tuple[Claim, Outcome]]", *, explain: bool, pictures: Path | None) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = Console()
    if explain:
        for claim, outcome in outcomes:
            _explain(out, claim, outcome, pictures)
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_lines=True)
    for heading, width in (("", 3), ("verdict", 12), ("claim and evidence", None)):
        table.add_column(heading, width=width)
    for claim, outcome in outcomes:
        verdict = Text(outcome.verdict, style=_STYLES.get(outcome.verdict, "cyan"))
        table.add_row(
            claim.id, verdict, Text(f"{claim.title}: ", style="bold").append(outcome.summary, style="not bold")
        )
    out.print(table)
    counts = Counter(outcome.verdict for _, outcome in outcomes)
    out.print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()), highlight=False)
    out.print("softscope claims T15 explains one, with its numbers and its picture", style="dim", highlight=False)


def _explain(out: "Console", claim: "Claim", outcome: "Outcome", pictures: Path | None) -> None:
    from rich.table import Table
    from rich.text import Text

    from ..paper.claims import MEANINGS

    table = Table(show_header=False, box=None, padding=(0, 2, 1, 0))
    verdict = Text(outcome.verdict, style=_STYLES.get(outcome.verdict, "cyan")) + f": {MEANINGS[outcome.verdict]}"
    for label, value in (
        ("", Text(f"{claim.id} {claim.title}", style="bold")),
        ("in the paper", Text(claim.label)),
        ("statement", Text(claim.statement)),
        ("conditions", Text(claim.conditions)),
        *([("rule", Text(claim.rule))] if claim.rule else []),
        ("printed slip", Text(claim.slip or "none")),
        ("verdict", verdict),
        ("evidence", Text(outcome.summary)),
        ("numbers", Text(_numbers(outcome))),
        ("picture", Text(_picture(claim, pictures))),
    ):
        table.add_row(Text(label, style="dim"), value)
    out.print(table)


def _numbers(outcome: "Outcome") -> str:
    """Numbers to four digits, for people; --json has them all."""
    from ..paper.claims.evidence import rounded

    lines = []
    for name, value in outcome.numbers.items():
        shown = "\n  ".join(value) if name in ("tests", "failed") else json.dumps(rounded(value, 4), ensure_ascii=False)
        lines.append(f"{name.replace('_', ' ')}: {shown}")
    return "\n".join(lines)


def _picture(claim: "Claim", folder: Path | None) -> str:
    if not claim.picture:
        return "none"
    if folder is None:
        return f"{claim.picture}; `softscope claims {claim.id} -o DIR` draws it"
    from ..files import write_bytes
    from ..paper.experiments import texts
    from ..paper.plots.geometry import draw
    from ..reporting.style import to_png, to_svg

    figure, caption = draw(claim.picture), texts("X2")["captions"][claim.picture]
    for suffix, render in (("png", to_png), ("svg", to_svg)):
        write_bytes(folder / f"{claim.picture}.{suffix}", render(figure))
    return f"{folder / claim.picture}.png and .svg\n{caption}"
