"""What a guard in production reads: image folders, models with a guard inside, states, requests, outputs of `score`.

Guards and states are signed, so that damage ends at their signature. Here they are damaged first and signed then.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import cache, partial
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from PIL import Image

from softscope import FeatureSet, Guard
from softscope.canonical import parse_json
from softscope.cli.app import app
from softscope.engine import Engine
from softscope.files import read_safetensors, write_safetensors
from softscope.guard import Monitor, Service, check_guarded, export_guarded, saving, watch_stream
from softscope.guard.monitor import FORMAT as STATE
from softscope.guard.protocol import read_request, response
from softscope.scoring import score

from .formats import FEATURES, Format, draw, onnx_file, sound_guard

HERE = Engine(workers=1, progress=False)
_WORDS = "words"


def _pictures(kind: str, folder: Path) -> Path:
    onnx_file(folder)
    for number, pixels in enumerate(np.random.default_rng(0).integers(0, 256, (6, 8, 8), np.uint8)):
        path = folder / "pets" / "ab"[number % 2] / f"{number}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    return path


def _use_pictures(path: Path) -> object:
    from softscope.models import extract

    return extract(str(path.parents[2] / "m.onnx"), path.parents[1])


def _pixels(folder: Path) -> Path:
    onnx_file(folder)
    images = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 1), np.uint8)
    np.savez_compressed(folder / "i.npz", images=images, labels=np.arange(6) % 2)
    return folder / "i.npz"


def _use_pixels(path: Path) -> object:
    from softscope.models import extract

    return extract(str(path.with_name("m.onnx")), path)


def _extracted(folder: Path) -> Path:
    path = _pixels(folder)
    _extract_again(path.with_name("i.safetensors"))
    return path.with_name("i.safetensors")


def _extract_again(path: Path) -> object:
    """Features that are there already: used again, or made anew where they were damaged."""
    words = ["extract", str(path.with_name("m.onnx")), str(path.with_suffix(".npz")), "-q", "-o", str(path.parent)]
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        app([*words, "--mean", "0", "--std", "1"], standalone_mode=False)
    shape = FeatureSet.open(path).array().shape
    if shape != (6, 5):
        raise AssertionError(f"features of shape {shape}")
    return shape


def _guarded(folder: Path) -> Path:
    from softscope.models import extract

    inputs = np.random.default_rng(0).normal(size=(80, 1, 8, 8)).astype(np.float32)
    head, features = extract(str(onnx_file(folder)), inputs)
    labels = head.logits(features.array()).argmax(axis=1)
    guard = Guard.fit(head, None, FeatureSet(features.array(), labels), "max", 0.1)
    export_guarded(guard, folder / "m.onnx", folder / "guarded.onnx")
    return folder / "guarded.onnx"


@cache
def _monitor() -> Monitor:
    monitor = sound_guard().monitor()
    monitor.update(draw(seed=3)[0])
    return monitor


def _state(folder: Path) -> Path:
    _monitor().save(folder / "state.safetensors")
    return folder / "state.safetensors"


def _unsigned(contents: Callable[[], tuple[Mapping[str, Any], Mapping[str, Any]]], folder: Path) -> Path:
    tensors, words = contents()
    write_safetensors(folder / "open.safetensors", dict(tensors), {_WORDS: json.dumps(words)})
    return folder / "open.safetensors"


def _state_contents() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    with patch("softscope.guard.monitor.write_signed") as written:
        _monitor().save("nowhere")
    return written.call_args.args[3:]


def _use_unsigned(kind: str, version: str, load: Callable[[Path], object], path: Path) -> object:
    tensors, metadata = read_safetensors(path)
    try:
        words = parse_json(metadata[_WORDS])
        saving.write_signed(path.with_name("signed.safetensors"), kind, version, tensors, words)
    except (KeyError, ValueError, TypeError, AttributeError):  # what its own writer would not sign
        return None
    return load(path.with_name("signed.safetensors"))


def _request(folder: Path) -> Path:
    z = draw(4)[0].astype(float).round(3)
    tensor = {"name": "z", "datatype": "FP32", "shape": [4, FEATURES], "data": z.ravel().tolist()}
    (folder / "request.json").write_text(json.dumps({"id": "7", "inputs": [tensor], "outputs": [{"name": "p"}]}))
    return folder / "request.json"


def _binary_request(folder: Path) -> Path:
    content = draw(4)[0].tobytes()
    parameters = {"binary_data_size": len(content)}
    tensor = {"name": "z", "datatype": "FP32", "shape": [4, FEATURES], "parameters": parameters}
    words = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    (folder / "request.bin").write_bytes(f"{len(words)}\n".encode() + words + content)
    return folder / "request.bin"


@cache
def _service() -> Service:
    return Service(sound_guard())


def _use_request(path: Path) -> object:
    """The length of the header is the first line, where the format is binary."""
    length, body = None, path.read_bytes()
    if path.suffix == ".bin":
        length, _, body = body.partition(b"\n")
    request = read_request(body, length, FEATURES)
    return response("guard", request, _service().judge(request.rows))


def _lines(folder: Path) -> Path:
    rows = draw(8)[0].round(3).tolist()
    text = [json.dumps(row) if number % 2 else " ".join(map(str, row)) for number, row in enumerate(rows)]
    (folder / "lines.txt").write_text("\n".join(text))
    return folder / "lines.txt"


def _use_lines(path: Path) -> object:
    with patch("sys.stdin", StringIO(path.read_bytes().decode("utf-8", "surrogateescape"))):
        return watch_stream(sound_guard().monitor(), "-")


def _scored(what: str, folder: Path) -> Path:
    (folder / "in").mkdir()
    for number in range(3):
        np.save(folder / "in" / f"{number}.npy", draw(20, number)[0])
    score(folder / "in", sound_guard(), folder / "out", engine=HERE, unit_bytes=600)
    return {"input": folder / "in" / "1.npy", "output": sorted((folder / "out").glob("*.parquet"))[1]}.get(
        what, folder / "out" / what
    )


def _use_input(path: Path) -> object:
    return score(path.parent, sound_guard(), path.parents[1] / "new", engine=HERE, unit_bytes=600)


def _use_output(path: Path) -> object:
    """Score again: a damaged output is made anew, so that the table is always that of the first run."""
    import pyarrow.parquet as pq

    summary = score(path.parents[1] / "in", sound_guard(), path.parent, engine=HERE, unit_bytes=600)
    rows = pq.read_table(path.parent).to_pydict()["row"]
    if rows != [*range(20)] * 3 or summary.counted.rows != 60:
        raise AssertionError("the table is not that of an undisturbed run")
    return summary


_OPEN_GUARD = partial(_unsigned, lambda: saving.contents(sound_guard()))
PRODUCTION = (
    *(Format(f"images.{kind}", partial(_pictures, kind), _use_pictures) for kind in ("png", "jpg", "tif", "webp")),
    Format("images.npz", _pixels, _use_pixels),
    Format("extracted features", _extracted, _extract_again),
    Format("guarded.onnx", _guarded, check_guarded),
    Format("monitor", _state, lambda path: Monitor.load(path, sound_guard())),
    Format("guard, signed again", _OPEN_GUARD, partial(_use_unsigned, saving.FORMAT, saving.VERSION, Guard.load)),
    Format(
        "monitor, signed again",
        partial(_unsigned, _state_contents),
        partial(_use_unsigned, STATE, "1", lambda path: Monitor.load(path, sound_guard())),
    ),
    Format("request", _request, _use_request, opened=False),
    Format("binary request", _binary_request, _use_request, opened=False),
    Format("watched lines", _lines, _use_lines, opened=False),
    Format("score input", partial(_scored, "input"), _use_input),
    Format("score output", partial(_scored, "output"), _use_output),
    Format("score run", partial(_scored, "_run.json"), _use_output),
    Format("score manifest", partial(_scored, "_manifest.json"), _use_output),
)
