"""`softscope claims`: every claim of the paper, checked by computation."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import SoftscopeError

if TYPE_CHECKING:
    from rich.console import Console

    from ..paper.claims import Claim, Finding

_STYLES = {"holds": "green", "open": "dim", "contradicted": "bold red", "approximate": "yellow"}


def claims(
    name: Annotated[str | None, typer.Argument(help="One claim: T15, or its label in the paper.", metavar="ID")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a list of {id, statement, verdict, evidence}.")
    ] = False,
    results: Annotated[Path, typer.Option(help="Results of experiments, for claims on networks.")] = Path("results"),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the picture of the one claim asked for.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write the documentation's theory page to this file as well.", metavar="FILE")
    ] = None,
) -> None:
    """Check the theory: statement, verdict and evidence. Exits with 1 if a check contradicts the register."""
    from ..files import write_bytes
    from ..paper.claims import REGISTER, find, stands

    if output is not None and (name is None or as_json):
        raise SoftscopeError("--output draws the picture of one claim", "Name it, as in `softscope claims T15 -o DIR`")
    if page is not None and name is not None:
        raise SoftscopeError("--page writes the page of all claims", "Leave out the claim's name")
    asked = REGISTER if name is None else (find(name),)
    found = _checked(asked, results)
    if page is not None:
        from ..paper.claims.page import theory_page
        from ..paper.claims.register import captions

        write_bytes(page, theory_page(found, captions(results)).encode())
    if as_json:
        typer.echo(json.dumps([_row(*pair) for pair in found], indent=1, ensure_ascii=False, allow_nan=False))
    else:
        _show(found, explain=name is not None, pictures=output)
    if not all(stands(claim, finding) for claim, finding in found):
        raise typer.Exit(1)


def _checked(asked: "tuple[Claim, ...]", results: Path) -> "list[tuple[Claim, Finding]]":
    from ..paper.claims import check_all
    from ..progress import bar

    found: list[tuple[Claim, Finding]] = []
    with bar() as progress:

        def tell(claim: "Claim") -> None:
            progress(f"checking {claim.id} {claim.title}", len(found), len(asked))

        found.extend(check_all(asked, results, tell=tell))
    return found


def _row(claim: "Claim", finding: "Finding") -> dict[str, object]:
    return {
        "id": claim.id,
        "statement": claim.statement,
        "verdict": finding.verdict,
        "evidence": finding.evidence(),
    }


def _show(found: "list[tuple[Claim, Finding]]", *, explain: bool, pictures: Path | None) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = Console()
    if explain:
        for claim, finding in found:
            _explain(out, claim, finding, pictures)
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_lines=True)
    for heading, width in (("", 3), ("verdict", 12), ("claim and evidence", None)):
        table.add_column(heading, width=width)
    for claim, finding in found:
        verdict = Text(finding.verdict, style=_STYLES.get(finding.verdict, "cyan"))
        table.add_row(
            claim.id, verdict, Text(f"{claim.title}: ", style="bold").append(finding.summary, style="not bold")
        )
    out.print(table)
    counts: dict[str, int] = {}
    for _, finding in found:
        counts[finding.verdict] = counts.get(finding.verdict, 0) + 1
    out.print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()), highlight=False)
    out.print("softscope claims T15 explains one, with its numbers and its picture", style="dim", highlight=False)


def _explain(out: "Console", claim: "Claim", finding: "Finding", pictures: Path | None) -> None:
    from rich.table import Table
    from rich.text import Text

    from ..paper.claims import MEANINGS

    table = Table(show_header=False, box=None, padding=(0, 2, 1, 0))
    verdict = Text(finding.verdict, style=_STYLES.get(finding.verdict, "cyan")) + f": {MEANINGS[finding.verdict]}"
    for label, value in (
        ("", Text(f"{claim.id} {claim.title}", style="bold")),
        ("in the paper", Text(claim.label)),
        ("statement", Text(claim.statement)),
        ("conditions", Text(claim.conditions)),
        ("printed slip", Text(claim.slip or "none")),
        ("verdict", verdict),
        ("evidence", Text(finding.summary)),
        ("numbers", Text(_numbers(finding))),
        ("picture", Text(_picture(claim, pictures))),
    ):
        table.add_row(Text(label, style="dim"), value)
    out.print(table)


def _numbers(finding: "Finding") -> str:
    lines = []
    for name, value in finding.numbers.items():
        shown = "\n  ".join(value) if name in ("tests", "failed") else json.dumps(_rounded(value), ensure_ascii=False)
        lines.append(f"{name.replace('_', ' ')}: {shown}")
    return "\n".join(lines)


def _rounded(value: object) -> object:
    """Numbers to four digits, for people; --json has them all."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {str(name): _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value


def _picture(claim: "Claim", folder: Path | None) -> str:
    if not claim.picture:
        return "none"
    if folder is None:
        return f"{claim.picture}; `softscope claims {claim.id} -o DIR` draws it"
    from ..files import write_bytes
    from ..paper.plots.geometry import draw
    from ..reporting.style import to_png, to_svg

    figure, caption = draw(claim.picture)
    for suffix, render in (("png", to_png), ("svg", to_svg)):
        write_bytes(folder / f"{claim.picture}.{suffix}", render(figure))
    return f"{folder / claim.picture}.png and .svg\n{caption}"
