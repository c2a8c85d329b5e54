"""`softscope demo`: the whole of it on data that is already here."""

from typing import Annotated

import typer

from . import options
from .options import AsJson, Quiet


def demo(
    out: Annotated[str, options.out("Folder for the features and the report.")] = "softscope-demo",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a small network on scikit-learn's digits 0-7, and ask what its confidence is worth on digits 8-9,
    photographs and noise. Nothing is downloaded; the feature files stay."""
    from pathlib import Path

    from ..demo import write_demo
    from .diagnose import diagnose_files, show

    folder = Path(out)
    files = write_demo(folder)
    diagnosis = diagnose_files(files.head, files.train, files.test, files.ood, files.images, folder, progress=not quiet)
    show(diagnosis, as_json=as_json)
    if not as_json:
        typer.echo(f"again by hand: {files.command(folder)}")
        typer.echo(f"report: {folder / 'report.html'}")
