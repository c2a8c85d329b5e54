"""docs/theory.md: rendered from the register, and up to date in what the register determines."""

from pathlib import Path

from softscope.paper.claims import REGISTER, Outcome
from softscope.paper.claims.page import static_part, theory_page

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "theory.md"


def rendered():
    return theory_page([(claim, Outcome("holds", "measured", {})) for claim in REGISTER])


def test_the_committed_page_says_what_the_register_says():
    assert static_part(PAGE.read_text(encoding="utf-8")) == static_part(rendered()), (
        "docs/theory.md is out of date: run softscope claims --page docs/theory.md"
    )


def test_the_committed_page_holds_evidence_for_every_claim():
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("- **Evidence:** ") == len(REGISTER)
    assert "contradicted\n" not in text.split("## T1\n")[1]


def test_a_changed_statement_makes_the_page_stale():
    page = rendered()
    assert static_part(page) != static_part(page.replace("slab", "strip"))
    assert static_part(page) == static_part(page.replace("** measured.", "** measured again."))


def test_a_picture_is_shown_once_with_its_caption_and_referred_to_afterwards():
    page = theory_page([(claim, Outcome("holds", "x", {})) for claim in REGISTER], {"fig_vecfield": "Arrows."})
    assert page.count("![fig_vecfield]") == 1
    assert "*Figure.* Arrows." in page
    assert page.count("see [T1](#t1)") == 3


def test_every_picture_on_the_page_exists():
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("!["):
            path = (PAGE.parent / line.split("](")[1].rstrip(")")).resolve()
            assert path.exists(), path
