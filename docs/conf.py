"""Sphinx: the site is made of docs/*.md, examples/*.py and the docstrings, without a network. `make docs` builds it."""

import importlib
import re
import shutil
import warnings
from pathlib import Path

import softscope

HERE = Path(__file__).parent
RUN = HERE / "_build" / "examples"  # examples run in a copy of their folder, where their reports stay

project = "Softscope"
author = "The Softscope developers"
copyright = "The Softscope developers, Apache-2.0"
version = release = softscope.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = "Softscope"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["llms.txt"]
html_show_sphinx = False
html_copy_source = False
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

autodoc_typehints_format = "short"
autodoc_member_order = "groupwise"
autodoc_preserve_defaults = True
autosummary_ignore_module_all = False

shutil.copytree(HERE.parent / "examples", RUN, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
sphinx_gallery_conf = {
    "examples_dirs": str(RUN),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_",),  # what a notebook shows as a page; not what a last line happens to return
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,  # its page would load scripts from elsewhere
    "default_thumb_file": str(HERE / "images" / "report.png"),
}
warnings.filterwarnings("ignore", message="Matplotlib is currently using agg")


def _as_rst(app, what, name, obj, options, lines):
    """Docstrings are plain text with `code`: escape what reStructuredText would read as markup."""
    paragraphs = re.split(r"\n{2,}", "\n".join(lines).strip())
    lines[:] = [*"\n\n".join(map(_paragraph, paragraphs)).split("\n"), ""]


def _paragraph(text):
    if text.lstrip().startswith(">>>"):
        return text
    if re.search(r"\S {3,}\S|^ {4}\S.*\n {4}\S", text) or re.fullmatch(
        r" {4}\S.*", text
    ):  # columns and code: keep them
        return "::\n\n" + re.sub("^", "    ", text, flags=re.M)
    parts = re.split(r"(`[^`]+`)", text)
    parts[::2] = (re.sub(r"([*|\\]|(?<=\w)_(?=\W|$))", r"\\\1", part) for part in parts[::2])
    parts[1::2] = (f"``{' '.join(part.strip('`').split())}``" for part in parts[1::2])
    return "".join(parts)


def _short(app, what, name, obj, options, signature, returns):
    """`ndarray[float64]` for what numpy spells out over a line; a default that is a function by its name."""
    array = r"ndarray\[tuple\[~?(?:typing\.)?Any, \.\.\.\], ~?(?:numpy\.)?dtype\[(~?[\w.]+)\]\]"
    for pattern, short in ((array, r"ndarray[\1]"), (r"\[~[\w.]+\._ScalarT\]", ""), (r"<function (\w+)[^>]*>", r"\1")):
        signature, returns = (text and re.sub(pattern, short, text) for text in (signature, returns))
    return signature, returns


def _once(app, what, name, obj, skip, options):
    """The names of `softscope` itself are described on its own page alone; fields of a named tuple in its signature."""
    words = getattr(obj, "__doc__", None) or ""
    if words.startswith("Alias for field number") or (name == "forward" and not words):  # torch would speak for it
        return True
    public = name in softscope.__all__ and getattr(softscope, name) is obj
    return True if public and not app.env.docname.endswith("/softscope") else None


def _keep_reports(app, error):
    """Reports that examples wrote are part of the site."""
    if error is None and app.builder.format == "html":
        (app.outdir / "reports").mkdir(exist_ok=True)
        for report in RUN.glob("*.html"):
            shutil.copy(report, app.outdir / "reports")


def setup(app):
    for room in re.findall(r"^ +(softscope[.\w]*)$", (HERE / "api.md").read_text(), re.M):
        module = importlib.import_module(room)  # lazy names become plain ones, which autodoc sees
        for name in module.__all__:
            setattr(module, name, getattr(module, name))
    app.connect("autodoc-process-docstring", _as_rst)
    app.connect("autodoc-process-signature", _short)
    app.connect("autodoc-skip-member", _once)
    app.connect("build-finished", _keep_reports)
