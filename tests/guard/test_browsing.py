"""A guarded model as a page: Chromium and onnxruntime-web say what Python says, and nothing is asked of a network."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ort = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")

from softscope.errors import SoftscopeError  # noqa: E402
from softscope.features import FeatureSet  # noqa: E402
from softscope.guard import Guard, write_page  # noqa: E402
from softscope.head import Head  # noqa: E402
from softscope.images import Preprocessing  # noqa: E402

NAMES = ["cat", "</script><script>alert(1)</script>", "@MODEL@", "<b>owl</b>"]
DROP = """async ({names, contents}) => {
  const moved = new DataTransfer();
  names.forEach((name, i) => moved.items.add(new File([Uint8Array.from(contents[i])], name)));
  document.dispatchEvent(new DragEvent("drop", {dataTransfer: moved, bubbles: true, cancelable: true}));
}"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """Two guarded graphs of one small network: images of any size, and of 16 x 16 pixels alone."""
    torch.manual_seed(0)
    body = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, 2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1))
    net = torch.nn.Sequential(body, torch.nn.Flatten(), torch.nn.Linear(16, 4)).eval()
    images = np.random.default_rng(0).integers(0, 256, (1000, 16, 16, 3), np.uint8)
    with torch.no_grad():
        z = net[:2](torch.from_numpy(np.moveaxis(images, 3, 1).astype(np.float32) / 255)).numpy()
    head = Head(net[2].weight.detach().numpy(), net[2].bias.detach().numpy(), NAMES)
    guard = Guard.fit(head, (z[:500], np.arange(500) % 4), FeatureSet(z[500:]), "density")
    folder = tmp_path_factory.mktemp("page")
    for name, size in (("any", (16, 16)), ("fixed", None)):
        example, done = torch.zeros(2, 3, 16, 16), Preprocessing(size=size)
        guard.export(net, folder / f"{name}.onnx", preprocessing=done, example=example)
    guard.export(net, folder / "raw.onnx", example=torch.zeros(2, 3, 16, 16))
    for number in range(4):
        Image.fromarray(images[900 + number]).save(folder / f"known{number}.png")
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (50, 70, 3), np.uint8)).save(folder / "wide.png")
    Image.fromarray(np.full((40, 30), 200, np.uint8)).save(folder / "flat.png")
    return folder


@pytest.fixture(scope="module")
def runtime():
    """npm's onnxruntime-web, where `make` or the variable ONNXRUNTIME_WEB puts it."""
    places = os.environ.get("ONNXRUNTIME_WEB", ""), f"{sys.prefix}/node_modules/onnxruntime-web/dist"
    folder = next((Path(place) for place in places if place and Path(place).is_dir()), None)
    if folder is None:
        pytest.skip("onnxruntime-web is not here: npm install --prefix .venv onnxruntime-web")
    return folder


def opened(visit, path):
    from playwright.sync_api import expect

    visited = visit(path)
    expect(visited.page.locator("#file")).to_be_enabled(timeout=120_000)
    return visited


def answers(visited, count):
    """The data of the newest cards, in the order in which they came."""
    from playwright.sync_api import expect

    expect(visited.page.locator("article .verdict")).to_have_count(count, timeout=120_000)
    return visited.page.locator("article").evaluate_all("cards => cards.map((card) => ({...card.dataset})).reverse()")


@pytest.mark.slow
def test_a_dropped_image_gets_the_class_p_and_alarm_of_python_and_nothing_is_asked_of_a_network(
    guarded, runtime, visit, tmp_path
):
    write_page(guarded / "any.onnx", runtime, tmp_path / "guard.html")
    visited = opened(visit, tmp_path / "guard.html")
    assert "4 samples gave the scores and alarms of Python" in visited.page.inner_text("#status")
    files = [*sorted(guarded.glob("known*.png")), guarded / "wide.png", guarded / "flat.png"]
    contents = [list(file.read_bytes()) for file in files]
    visited.page.evaluate(DROP, {"names": [file.name for file in files], "contents": contents})
    session = ort.InferenceSession(guarded / "any.onnx", providers=["CPUExecutionProvider"])
    alarms = []
    for file, said in zip(files, answers(visited, len(files))):
        pixels = np.asarray(Image.open(file).convert("RGB"))[None]
        python = dict(zip([out.name for out in session.get_outputs()], session.run(None, {"image": pixels})))
        assert int(said["class"]) == python["class"][0]
        for name in ("probability", "uncertainty", "p"):
            assert float(said[name]) == pytest.approx(float(python[name][0]), rel=1e-5), name
        assert bool(int(said["alarm"])) == python["alarm"][0]
        alarms.append(python["alarm"][0])
    assert set(alarms) == {True, False}
    shown = visited.page.locator("article .verdict").all_inner_texts()
    assert [words.startswith("Alarm") for words in reversed(shown)] == alarms
    assert set(visited.page.locator("article .class").all_inner_texts()) <= set(NAMES)
    assert {address.partition(":")[0] for address in visited.requests} == {"file", "blob"}
    assert visited.errors == []


@pytest.mark.slow
def test_what_can_not_be_judged_says_why(guarded, runtime, visit, tmp_path):
    write_page(guarded / "fixed.onnx", runtime, tmp_path / "guard.html")
    (tmp_path / "notes.png").write_text("not an image")
    visited = opened(visit, tmp_path / "guard.html")
    chosen = [guarded / "known0.png", guarded / "wide.png", tmp_path / "notes.png"]
    visited.page.set_input_files("#file", [str(file) for file in chosen])
    known, wide, notes = answers(visited, 3)
    assert set(known) == {"class", "probability", "uncertainty", "p", "alarm"}
    assert "takes 16 x 16 pixels, this image has 70 x 50" in wide["error"]
    assert "error" in notes


def test_the_command_writes_the_page(guarded, softscope, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dist").mkdir()
    for name in ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"):
        (tmp_path / "dist" / name).write_text("stands for the runtime")
    code, out, _ = softscope(f"guard page {guarded / 'any.onnx'} --runtime dist -o guard.html --json")
    assert (code, json.loads(out)) == (0, {"path": "guard.html", "bytes": Path("guard.html").stat().st_size})
    assert "@" not in Path("guard.html").read_text().partition('id="runtime"')[2].partition("<script>")[0]
    code, _, err = softscope(f"guard page {guarded / 'any.onnx'} -o other.html")
    assert (code, len(err.splitlines()), Path("other.html").exists()) == (2, 1, False)


def test_a_page_needs_a_runtime_and_a_graph_that_takes_images(guarded, tmp_path):
    with pytest.raises(SoftscopeError, match=r"there is no ort\.wasm\.bundle\.min\.mjs\. npm install onnxruntime-web"):
        write_page(guarded / "any.onnx", tmp_path, tmp_path / "guard.html")
    with pytest.raises(SoftscopeError, match="does not take images"):
        write_page(guarded / "raw.onnx", tmp_path, tmp_path / "guard.html")
    assert not (tmp_path / "guard.html").exists()
