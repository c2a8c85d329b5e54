"""The documentation's page `theory`, rendered from the register and what its checks found.

`static_part` is what the register alone determines; a test compares it with the committed page, whose evidence was
measured by the command named on it.
"""

from collections.abc import Mapping, Sequence

from .evidence import captions, sources
from .register import MEANINGS, PAGE, Claim, Outcome

COMMAND = "softscope claims --page docs/theory.md"
_EVIDENCE = "- **Evidence:** "
_VERDICT = "- **Verdict:** "
_CAPTION = "*Figure.* "
_SOURCES = "Rows of trained networks come from these commands, and travel in the package: "
_PICTURES = "../results/X2/paper"
# An experiment's first picture is named by its scale alone.
_FIRST_PICTURE = "fig_valid_ood_region"


def theory_page(outcomes: Sequence[tuple[Claim, Outcome]], said: Mapping[str, str] | None = None) -> str:
    """The whole page as Markdown; `said`: captions of the pictures by their names, those of X2 unless given."""
    said = captions() if said is None else said
    parts, shown = [_head(), _table(outcomes)], dict[str, str]()
    for claim, outcome in outcomes:
        parts.append(_section(claim, outcome))
        if claim.picture in shown:
            parts.append(f"Picture: see [{shown[claim.picture]}](#{shown[claim.picture].lower()}).")
        elif claim.picture:
            shown[claim.picture] = claim.id
            parts.append(_picture(claim.picture, said.get(claim.picture, "")))
    return "\n\n".join(parts) + "\n"


def static_part(page: str) -> list[str]:
    """The lines of a page that do not depend on what the checks measured."""
    measured = (_EVIDENCE, _VERDICT, _CAPTION, "| [", _SOURCES)
    return [line for line in page.splitlines() if not line.startswith(measured)]


def _head() -> str:
    from_where = "; ".join(f"{name}: `{of['command']}`" for name, of in sorted(sources().items()))
    meanings = "\n".join(f"- **{verdict}**: {meaning}." for verdict, meaning in MEANINGS.items())
    return PAGE.format(command=COMMAND, meanings=meanings, sources=f"{_SOURCES}{from_where}.")


def _table(outcomes: Sequence[tuple[Claim, Outcome]]) -> str:
    rows = [f"| [{claim.id}](#{claim.id.lower()}) | {claim.title} | {outcome.verdict} |" for claim, outcome in outcomes]
    return "\n".join(["| id | claim | verdict |", "|---|---|---|", *rows])


def _section(claim: Claim, outcome: Outcome) -> str:
    lines = [
        f"## {claim.id}",
        "",
        f"**{claim.title}** (`{claim.label}`). {claim.statement}",
        "",
        f"- **Conditions:** {claim.conditions}",
    ]
    if claim.rule:
        lines.append(f"- **Rule:** {claim.rule}")
    if claim.slip:
        lines.append(f"- **Printed slip:** {claim.slip}")
    lines += [f"{_VERDICT}{outcome.verdict}", f"{_EVIDENCE}{outcome.summary}."]
    return "\n".join(lines)


def _picture(name: str, caption: str) -> str:
    path = _PICTURES if name == _FIRST_PICTURE else f"{_PICTURES}-{name}"
    return f"![{name}]({path}.png)\n\n{_CAPTION}{caption}"
