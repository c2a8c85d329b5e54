"""The documentation's page `theory`, rendered from the register and what its checks found.

`static_part` is what the register alone determines; a test compares it with the committed page, whose evidence was
measured by the command named on it.
"""

from collections.abc import Mapping, Sequence

from .base import MEANINGS, Claim, Finding

COMMAND = "softscope claims --page docs/theory.md"
_EVIDENCE = "- **Evidence:** "
_VERDICT = "- **Verdict:** "
_CAPTION = "*Figure.* "
_PICTURES = "../results/X2/paper"
# An experiment's first picture is named by its scale alone.
_FIRST_PICTURE = "fig_valid_ood_region"


def theory_page(found: Sequence[tuple[Claim, Finding]], captions: Mapping[str, str] | None = None) -> str:
    """The whole page as Markdown; `captions` of the pictures by their names."""
    parts, shown = [_head(), _table(found)], dict[str, str]()
    for claim, finding in found:
        parts.append(_section(claim, finding))
        if claim.picture in shown:
            parts.append(f"Picture: see [{shown[claim.picture]}](#{shown[claim.picture].lower()}).")
        elif claim.picture:
            shown[claim.picture] = claim.id
            parts.append(_picture(claim.picture, (captions or {}).get(claim.picture, "")))
    return "\n\n".join(parts) + "\n"


def static_part(page: str) -> list[str]:
    """The lines of a page that do not depend on what the checks measured."""
    measured = (_EVIDENCE, _VERDICT, _CAPTION, "| [")
    return [line for line in page.splitlines() if not line.startswith(measured)]


def _head() -> str:
    meanings = "\n".join(f"- **{verdict}**: {meaning}." for verdict, meaning in MEANINGS.items())
    return (
        "# The theory, checked\n\n"
        'Every claim of "Understanding Softmax Confidence and Uncertainty" (Pearce, Brintrup, Zhu 2021) about the '
        "geometry of softmax, in our own words, with the conditions it needs and what a computation found. Ids T1 to "
        "T27 follow the paper; S1 and S2 go past it. "
        f"This page is written by `{COMMAND}`, which runs every check; `softscope claims T15` explains one. "
        "Pictures come from `softscope reproduce X2`.\n\n"
        "Notation: z are final-layer features, w_i the weights of class i, s the softmax of the logits, larger "
        "uncertainty U means more uncertain.\n\n"
        f"{meanings}"
    )


def _table(found: Sequence[tuple[Claim, Finding]]) -> str:
    rows = [f"| [{claim.id}](#{claim.id.lower()}) | {claim.title} | {finding.verdict} |" for claim, finding in found]
    return "\n".join(["| id | claim | verdict |", "|---|---|---|", *rows])


def _section(claim: Claim, finding: Finding) -> str:
    lines = [
        f"## {claim.id}",
        "",
        f"**{claim.title}** (`{claim.label}`). {claim.statement}",
        "",
        f"- **Conditions:** {claim.conditions}",
    ]
    if claim.slip:
        lines.append(f"- **Printed slip:** {claim.slip}")
    lines += [f"{_VERDICT}{finding.verdict}", f"{_EVIDENCE}{finding.summary}."]
    return "\n".join(lines)


def _picture(name: str, caption: str) -> str:
    path = _PICTURES if name == _FIRST_PICTURE else f"{_PICTURES}-{name}"
    return f"![{name}]({path}.png)\n\n{_CAPTION}{caption}"
