"""The house's import rules: which room may use which, no cycles, and other rooms only through their `__init__`.

Every import counts, also those inside functions; only those for type checkers alone are free.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

import softscope

ROOT = Path(softscope.__file__).parent
GROUND = {
    "errors", "arrays", "files", "canonical", "locks", "progress", "provenance", "blas", "compiling", "lazy",
}  # fmt: skip

# A room may import the rooms named here and whatever those may import.
MAY_IMPORT = {
    "ground": set(),
    "__main__": {"cli"},
    "torch_door": {"ground"},
    "engine": {"ground"},
    "runs": {"engine"},
    "head": {"torch_door"},
    "features": {"ground"},
    "metrics": {"features"},
    "mixture": {"features"},
    "estimators": {"head", "features", "mixture", "metrics", "engine"},
    "geometry": {"head", "mixture", "estimators"},
    "images": {"ground"},
    "models": {"head", "features", "images"},
    "diagnosis": {"estimators", "metrics", "geometry", "models"},
    "reporting": {"diagnosis", "tuning"},
    "guard": {"estimators", "metrics", "models"},
    "tuning": {"estimators", "metrics", "runs"},
    "scoring": {"models", "guard", "diagnosis", "engine"},
    "demo": {"head", "features", "images"},
    "paper": {"reporting", "guard", "tuning", "runs", "paper"},
    "cli": {"demo", "reporting", "guard", "tuning", "scoring", "runs", "paper"},
}
PAPER = {
    "paper.nets": {"models"},
    "paper.datasets": {"images", "engine"},
    "paper.training": {"paper.nets"},
    "paper.filter": {"paper.nets", "estimators", "metrics", "runs"},
    "paper.claims": {"geometry", "metrics"},
    "paper.plots": {"reporting", "geometry", "tuning", "paper.claims", "paper.filter"},
    "paper.experiments": {
        "guard", "tuning", "reporting", "runs",
        "paper.nets", "paper.datasets", "paper.training", "paper.filter", "paper.claims", "paper.plots",
    },
}  # fmt: skip


def room(module: str) -> str:
    """The room of "softscope.a.b.c": ground, a, or paper.b."""
    words = module.split(".")[1:]
    if not words:
        return "softscope"
    if words[0] in GROUND:
        return "ground"
    return ".".join(words[:2]) if words[0] == "paper" and len(words) > 1 else words[0]


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    named = {}
    for path in sorted(ROOT.rglob("*.py")):
        words = ["softscope", *path.relative_to(ROOT).with_suffix("").parts]
        named[".".join(words[:-1] if words[-1] == "__init__" else words)] = path
    return named


@cache
def imports(*, door: bool = False) -> list[tuple[str, str, int]]:
    """(importing module, imported module, line) of every import of ours that runs.

    With `door`, the module that the import statement names: `from ..room import module` goes through the room's door.
    """
    known = modules()
    edges = []
    for name, path in known.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for node in _running(ast.parse(path.read_text())):
            for target in _targets(node, package, {} if door else known):
                edges.append((name, target, node.lineno))
    return edges


def _running(tree: ast.AST):
    """The import statements of a tree, without those under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        else:
            yield from _running(node)


def _targets(node: ast.stmt, package: str, known: dict[str, Path]):
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "softscope")
        return
    base = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*above, base] if base else above)
    if base.split(".")[0] != "softscope":
        return
    for alias in node.names:
        full = f"{base}.{alias.name}"
        yield full if full in known else base


@cache
def allowed(name: str) -> frozenset[str]:
    """The rooms that a room may import, through others included."""
    table = MAY_IMPORT | PAPER
    reached, waiting = set(), list(table[name])
    while waiting:
        one = waiting.pop()
        if one not in reached:
            reached.add(one)
            waiting.extend(table[one])
    return frozenset(reached | {"ground"})


def crossing(*, door: bool = False):
    """The imports from one room of another; the package's own `__init__` may only hand on public names."""
    for source, target, line in imports(door=door):
        one, other = room(source), room(target)
        if one != other and "softscope" not in (one, other):
            yield source, target, line, one, other


def test_the_product_never_imports_the_paper():
    wrong = [
        f"{source}:{line} imports {target}"
        for source, target, line, one, other in crossing()
        if other.startswith("paper") and not one.startswith("paper") and one != "cli"
    ]
    assert not wrong


def test_every_room_imports_only_what_the_plan_allows():
    wrong = [
        f"{source}:{line} imports {target}"
        for source, target, line, one, other in crossing()
        if one not in ("cli", "paper") and other not in allowed(one)
    ]
    assert not wrong


def test_every_room_is_in_the_plan():
    rooms = {room(name) for name in modules()} - {"softscope", "__main__", "paper"}
    assert rooms <= set(MAY_IMPORT) | set(PAPER)


def test_no_module_imports_itself_through_others():
    """Also not by imports inside functions: a lazy cycle is a cycle."""
    graph: dict[str, set[str]] = {}
    for source, target, _ in imports():
        own = source in FACADES and room(source) == room(target)
        if room(source) != "softscope" and source != target and not own:
            graph.setdefault(source, set()).add(target)
    assert _cycle(graph) is None


def test_no_room_imports_itself_through_others():
    graph: dict[str, set[str]] = {}
    for _, _, _, one, other in crossing():
        graph.setdefault(one, set()).add(other)
    assert _cycle(graph) is None


def _cycle(graph: dict[str, set[str]]) -> list[str] | None:
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str] | None:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return None
        for follower in sorted(graph.get(node, ())):
            cycle = visit(follower, [*path, node])
            if cycle is not None:
                return cycle
        done.add(node)
        return None

    return next((cycle for node in sorted(graph) if (cycle := visit(node, [])) is not None), None)


# Modules that are doors of their own: what they hold is used under their name, or is too heavy for the room's door.
DOORS = {
    "softscope.diagnosis.model",  # the tree of dataclasses that a diagnosis is
    "softscope.estimators.softmax",  # the paper's formulas, as functions
    "softscope.paper.nets.pretrained",
    "softscope.reporting.style",  # one look for every figure
}
# Facades: their methods hand on to modules of the same room (`guard.export(...)`), which know the facade.
FACADES = {"softscope.guard.guard"}


def test_other_rooms_are_imported_through_their_door():
    """`from ..guard import Guard`, never `from ..guard.stream import ...`."""
    packages = {room(name) for name, path in modules().items() if path.name == "__init__.py"}
    wrong = {
        (one, target)
        for _, target, _, one, other in crossing(door=True)
        if other in packages
        and target != f"softscope.{other}"
        and target not in DOORS
        # One module per family of figures, one per topic of claims: matplotlib and checks load as asked for.
        and not target.startswith(("softscope.paper.plots.", "softscope.paper.claims."))
    }
    assert not wrong


@pytest.mark.parametrize(
    ("graph", "cycle"),
    [({"a": {"b"}, "b": {"c"}}, None), ({"a": {"b"}, "b": {"c"}, "c": {"b"}}, ["b", "c", "b"])],
)
def test_a_cycle_is_seen(graph, cycle):
    assert _cycle(graph) == cycle
