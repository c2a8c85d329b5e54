"""The command line as a whole: help, version, light imports, errors of one line. Commands have tests of their own."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

import softscope
from softscope import SoftscopeError, cli
from softscope.cli.app import app

ROOT = Path(__file__).parents[1]
HEAVY = (
    "torch",
    "sklearn",
    "scipy",
    "pyarrow",
    "numba",
    "matplotlib",
    "ray",
    "onnxruntime",
    "huggingface_hub",
    "jinja2",
)


def commands(group=app, words=()):
    """Every command and group of the tree, as the words that lead to it."""
    for info in group.registered_commands:
        yield (*words, info.name or info.callback.__name__.replace("_", "-"))
    for info in group.registered_groups:
        yield (*words, info.name)
        yield from commands(info.typer_instance, (*words, info.name))


def run(*words):
    return CliRunner().invoke(app, list(words))


def loaded_after(code):
    """Which heavy packages are in sys.modules after `code` ran in a fresh interpreter."""
    report = f"import json, sys\n{code}\nprint(json.dumps([m for m in {HEAVY} if m in sys.modules]), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return json.loads(done.stderr)


def test_version_is_that_of_the_package():
    done = run("--version")
    assert (done.exit_code, done.output) == (0, f"softscope {softscope.__version__}\n")


def test_the_changelog_and_the_citation_name_the_version_of_the_package():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changes, re.MULTILINE)[1] == softscope.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (\S+)", citation, re.MULTILINE)[1] == softscope.__version__


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_every_command(flag):
    done = run(flag)
    assert done.exit_code == 0
    assert {words[0] for words in commands()} <= set(done.output.split())


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_every_command_explains_itself(words):
    done = run(*words, "--help")
    assert done.exit_code == 0
    assert f"Usage: softscope {' '.join(words)}" in done.output or f"Usage: root {' '.join(words)}" in done.output
    assert len(done.output.split("Options:")[0].strip().splitlines()) > 1


def test_an_unknown_command_is_refused_without_a_traceback():
    done = run("divine")
    assert done.exit_code == 2
    assert "No such command 'divine'" in done.output
    assert "Traceback" not in done.output


def test_importing_the_package_loads_nothing_heavy():
    assert loaded_after("import softscope; softscope.Head; softscope.FeatureSet; softscope.SoftscopeError") == []


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_and_version_load_nothing_heavy(word):
    code = f"from softscope.cli import main\nsys.argv = ['softscope', '{word}']\ntry: main()\nexcept SystemExit: pass"
    assert loaded_after(code) == []


def test_names_of_the_package_are_listed_and_others_are_unknown():
    assert set(dir(softscope)) == set(softscope.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        softscope.nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (
            SoftscopeError("x.npz: z has\n 3 columns", "Use\n others"),
            2,
            "softscope: x.npz: z has 3 columns. Use others\n",
        ),
        (SoftscopeError("without a hint"), 2, "softscope: without a hint\n"),
        (
            MemoryError(),
            2,
            f"softscope: {cli._NO_MEMORY}\n",
        ),
        (OSError(5, "Input/output error", "x"), 2, "softscope: [Errno 5] Input/output error: 'x'\n"),
        (KeyboardInterrupt(), 130, None),
    ],
)
def test_an_error_is_one_line_on_stderr_and_an_exit_code(monkeypatch, capsys, error, code, line):
    failing = typer.Typer(pretty_exceptions_enable=False)

    @failing.command()
    def fail() -> None:
        raise error

    monkeypatch.setattr("softscope.cli.app.app", failing)
    monkeypatch.setattr(sys, "argv", ["softscope"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    written = capsys.readouterr()
    assert caught.value.code == code
    assert written.out == ""
    assert "Traceback" not in written.err
    assert line is None or written.err == line


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (BrokenPipeError(), 141)])
def test_an_interruption_outside_a_command_has_its_usual_exit_code(monkeypatch, error, code):
    def fail(standalone_mode):
        raise error

    monkeypatch.setattr("softscope.cli.app.app", fail)
    monkeypatch.setattr(sys, "stderr", open("/dev/null", "w"))  # noqa: SIM115 - main closes it
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == code


def test_a_command_that_fails_leaves_one_line_and_no_traceback_in_a_real_shell(tmp_path):
    code = (
        "import sys\nfrom softscope import FeatureSet\n"
        "from softscope.cli import main\nfrom softscope.cli.app import app\n"
        "@app.command()\ndef look(path: str) -> None: FeatureSet.open(path)\n"
        f"sys.argv = ['softscope', 'look', {str(tmp_path / 'no.npz')!r}]\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"softscope: {tmp_path / 'no.npz'}: no such file or folder. Check the path\n"


def test_ctrl_c_inside_a_command_is_one_line_and_exit_code_130(tmp_path):
    code = """
import signal, sys, threading
from softscope import cli
from softscope.cli.app import app

@app.command()
def wait():
    import time
    signal.raise_signal(signal.SIGINT)
    time.sleep(30)

sys.argv = ["softscope", "wait"]
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert "softscope: interrupted; nothing was left half-written" in done.stderr
    assert "Traceback" not in done.stderr


def options_of(words):
    """The options of a command, by their first long name."""
    import typer.main

    command = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    return {name: option for option in command.params for name in option.opts if name.startswith("--")}


@pytest.mark.parametrize(
    "words", [words for words in commands() if words not in {("guard",), ("data",), ("guard", "serve")}]
)
def test_shared_options_are_spelled_alike_everywhere(words):
    names = options_of(words)
    assert "--json" in names
    assert not {"--output", "--silent", "--no-progress"} & set(names)
    if "--out" in names:
        assert "-o" in names["--out"].opts


def callbacks(group=app):
    """The function behind each command."""
    for info in group.registered_commands:
        yield info.callback
    for info in group.registered_groups:
        yield from callbacks(info.typer_instance)


@pytest.mark.parametrize("function", list(callbacks()), ids=lambda each: f"{each.__module__}.{each.__name__}")
def test_every_number_option_has_the_checked_type(function):
    for name, hint in get_type_hints(function, include_extras=True).items():
        kinds = set(get_args(get_args(hint)[0])) or {get_args(hint)[0]} if get_args(hint) else {hint}
        if kinds & {int, float}:
            (option,) = hint.__metadata__
            assert option.parser is not None, name
            with pytest.raises(SoftscopeError, match="nan: expected"):
                option.parser("nan")


@pytest.mark.parametrize(
    ("given", "said"),
    [("-1", "from 1 to"), ("0", "from 1 to"), ("1e3", "from 1 to"), ("x", "from 1 to"), ("9" * 5000, "from 1 to")],
)
def test_a_number_out_of_range_is_one_line_before_anything_is_opened(given, said, tmp_path, monkeypatch, capsys):
    target = tmp_path / "train.safetensors"
    target.write_text("precious")
    monkeypatch.setattr(sys, "argv", ["softscope", "extract", "m", "d", "-o", str(tmp_path), "--batch", given])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert said in shown
    assert target.read_text() == "precious"


@pytest.mark.parametrize("words", [["extract", "a"], ["nothing"], ["extract", "a", "b", "-o", "c", "--layer", "x"]])
def test_words_that_cannot_be_parsed_are_one_line(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["softscope", *words])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    shown = capsys.readouterr().err
    assert shown.startswith("softscope: ")
    assert shown.count("\n") == 1


def test_help_lists_the_commands_in_the_order_a_newcomer_uses_them():
    shown = run("--help").output
    order = ["demo", "diagnose", "extract", "guard", "watch", "score", "tune", "data", "claims", "reproduce", "filter"]
    listed = [line.split()[0] for line in shown.partition("Commands:")[2].splitlines() if line.strip()]
    assert listed == [name for name in order if name in listed]


def test_choices_are_listed_by_help():
    assert "after|before" in run("extract", "--help").output
    assert "smoke|laptop|overnight|paper" in "".join(run("reproduce", "--help").output.split())


def test_shell_completion_can_be_installed():
    assert "--install-completion" in run("--help").output
