"""A guarded ONNX file: equal to Python for every score, checked at export and again, run without softscope."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")

from softscope.errors import SoftscopeError  # noqa: E402
from softscope.features import FeatureSet  # noqa: E402
from softscope.guard import Guard  # noqa: E402
from softscope.guard.exporting import OUTPUTS, check_guarded, export_guarded  # noqa: E402
from softscope.head import Head  # noqa: E402
from softscope.images import Preprocessing  # noqa: E402
from softscope.models import extract  # noqa: E402

from .test_onnx_pixels import photo, pillow  # noqa: E402
from .test_wrapping import DENSITIES, INSIDE, Net, Words, words_and_guard  # noqa: E402

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
PIXELS = Preprocessing(mean=MEAN, std=STD)


@pytest.fixture(scope="module")
def net():
    return Net().eval()


@pytest.fixture(scope="module")
def pictures():
    return np.random.default_rng(0).integers(0, 256, (900, 9, 9, 3), np.uint8)


@pytest.fixture(scope="module")
def parts(net, pictures):
    """Head, training and calibration features of pictures, fresh pictures and their features."""
    x = (pictures.astype(np.float32) / 255 - np.float32(MEAN)) / np.float32(STD)
    with torch.no_grad():
        z = net.body(torch.from_numpy(np.ascontiguousarray(np.moveaxis(x, 3, 1)))).numpy()
    head = Head(net.head.weight.detach().numpy(), net.head.bias.detach().numpy(), ["a", "b", "ç", "d"])
    labels = head.logits(z).argmax(axis=1)
    labels[:40] = np.arange(40) % 4
    return head, FeatureSet(z[:500], labels[:500], name="train"), FeatureSet(z[500:800]), pictures[800:], z[800:]


@pytest.fixture(scope="module")
def model(net, tmp_path_factory):
    """The network as somebody else exported it: opset 13, an output called p."""
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    torch.onnx.export(
        net, (torch.zeros(2, 3, 9, 9),), str(path), input_names=["x"], output_names=["p"],
        dynamic_axes={"x": {0: "n"}, "p": {0: "n"}}, opset_version=13, dynamo=False,
    )  # fmt: skip
    return path


def run(path, pictures, **feed):
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return dict(zip(OUTPUTS, session.run(list(OUTPUTS), {"image": pictures} | feed)))


def assert_agrees(guard, path, pictures, z):
    said = run(path, pictures)
    scores = guard.uncertainty(z)
    np.testing.assert_allclose(said["uncertainty"], scores, rtol=1e-5, atol=1e-5 * np.abs(scores).max())
    np.testing.assert_allclose(said["p"], guard.p_values(z), atol=1.5 / 300)
    logits = guard.head.logits(z).astype(np.float64)
    np.testing.assert_array_equal(said["class"], logits.argmax(axis=1))
    softmax = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        said["probability"], (softmax / softmax.sum(axis=1, keepdims=True)).max(axis=1), rtol=1e-4
    )
    if not guard.per_class:
        away = np.abs(scores - guard.thresholds[0]) > 1e-4 * np.abs(scores).max()
        np.testing.assert_array_equal(said["alarm"][away], guard.alarms(z)[away])
    return said


@pytest.mark.parametrize("chosen", [*INSIDE, *DENSITIES], ids=str)
def test_every_score_but_kernel_density_is_the_same_in_the_file(model, parts, tmp_path, chosen):
    head, train, known, fresh, z = parts
    guard = Guard.fit(head, train, known, chosen, 0.1)
    export_guarded(guard, model, tmp_path / "g.onnx", preprocessing=PIXELS)
    assert_agrees(guard, tmp_path / "g.onnx", fresh, z)


@pytest.mark.parametrize("options", [{"per_class": True}, {"confidence": 0.9}])
def test_every_promise_goes_into_the_file(model, parts, tmp_path, options):
    head, _, known, fresh, z = parts
    guard = Guard.fit(head, None, known, "energy", 0.2, **options)
    export_guarded(guard, model, tmp_path / "g.onnx", preprocessing=PIXELS)
    assert_agrees(guard, tmp_path / "g.onnx", fresh, z)


def test_another_rate_may_be_asked_for_with_each_batch(model, parts, tmp_path):
    head, train, known, fresh, _ = parts
    guard = Guard.fit(head, train, known)
    export_guarded(guard, model, tmp_path / "g.onnx", preprocessing=PIXELS)
    said = run(tmp_path / "g.onnx", fresh, rate=np.array([0.3]))
    np.testing.assert_array_equal(said["alarm"], said["p"] <= 0.3)
    assert said["alarm"].sum() > run(tmp_path / "g.onnx", fresh)["alarm"].sum()


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_graphs_of_old_and_new_operators_are_extended(net, parts, tmp_path, opset):
    head, train, known, fresh, z = parts
    torch.onnx.export(
        net, (torch.zeros(2, 3, 9, 9),), str(tmp_path / "m.onnx"), input_names=["image"], output_names=["class"],
        dynamic_axes={"image": {0: "n"}}, opset_version=opset, dynamo=False,
    )  # fmt: skip
    guard = Guard.fit(head, train, known)
    export_guarded(guard, tmp_path / "m.onnx", tmp_path / "g.onnx", preprocessing=PIXELS)
    assert_agrees(guard, tmp_path / "g.onnx", fresh, z)


def test_a_torch_module_is_exported_too(net, parts, tmp_path):
    head, train, known, fresh, z = parts
    guard = Guard.fit(head, train, known)
    export_guarded(guard, net, tmp_path / "g.onnx", preprocessing=PIXELS, example=torch.zeros(2, 3, 9, 9))
    assert_agrees(guard, tmp_path / "g.onnx", fresh, z)


@pytest.mark.parametrize("place", [0, -1, "mean"])
def test_of_a_sequence_it_is_the_row_that_the_answer_was_made_from(tmp_path, place):
    net = Words(place, softmax=True).eval()
    words, z, guard = words_and_guard(net)
    export_guarded(guard, net, tmp_path / "g.onnx", example=words[:2])
    session = ort.InferenceSession(str(tmp_path / "g.onnx"), providers=["CPUExecutionProvider"])
    scores, alarms = session.run(["uncertainty", "alarm"], {"input": words.numpy()})
    np.testing.assert_allclose(scores, guard.uncertainty(z), rtol=1e-5)
    np.testing.assert_array_equal(alarms, guard.alarms(z))
    assert check_guarded(tmp_path / "g.onnx")["samples"]["shapes"] == {"input": [4, 6]}


class Twins(torch.nn.Module):
    """The mean of two heads, as distilled transformers have it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.bodies = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(6, n), torch.nn.Tanh()) for n in (8, 5))
        self.heads = torch.nn.ModuleList(torch.nn.Linear(n, 3) for n in (8, 5))

    def forward(self, x):
        one, other = (head(body(x)) for head, body in zip(self.heads, self.bodies))
        return (one + other) / 2


def test_a_model_whose_answer_is_the_mean_of_two_heads_is_guarded(tmp_path):
    net, x = Twins().eval(), torch.randn(700, 6, generator=torch.Generator().manual_seed(0))
    head, known = extract(net, x[:300])
    z = extract(net, x[300:])[1].array()
    guard = Guard.fit(head, None, known, "energy", 0.1)
    export_guarded(guard, net, tmp_path / "g.onnx", example=x[:2])
    session = ort.InferenceSession(str(tmp_path / "g.onnx"), providers=["CPUExecutionProvider"])
    classes, scores = session.run(["class", "uncertainty"], {"input": x[300:].numpy()})
    np.testing.assert_array_equal(classes, net(x[300:]).argmax(1).numpy())
    np.testing.assert_allclose(scores, guard.uncertainty(z), rtol=1e-5)


def test_a_sequence_whose_answer_is_made_from_another_row_is_refused(tmp_path):
    net = Words(2).eval()
    words, _, guard = words_and_guard(net)
    with pytest.raises(SoftscopeError, match="from neither the first, the last nor the mean"):
        export_guarded(guard, net, tmp_path / "g.onnx", example=words[:2])


@pytest.mark.parametrize("way", [{}, {"crop": 0.875, "interpolation": "bicubic"}], ids=str)
def test_images_of_any_size_are_resized_inside_and_the_difference_from_pillow_is_said(net, parts, tmp_path, way):
    head, train, known, *_ = parts
    guard = Guard.fit(head, train, known)
    asked = Preprocessing(mean=MEAN, std=STD, size=(9, 9), **way)
    words = export_guarded(guard, net, tmp_path / "g.onnx", preprocessing=asked, example=torch.zeros(2, 3, 9, 9))
    assert words["resizing"]["levels"] <= 4
    assert words["resizing"]["share"] < 0.5
    for height, width in ((20, 31), (64, 48)):
        images = np.stack([photo(np.random.default_rng(seed), height, width) for seed in range(20)])
        said = run(tmp_path / "g.onnx", images)
        with torch.no_grad():
            z = net.body(torch.from_numpy(asked.apply(pillow(asked, images)))).numpy()
        # a level of 255 more or less in some pixels of tall images
        np.testing.assert_allclose(said["uncertainty"], guard.uncertainty(z), rtol=0.02 if height > width else 1e-5)


def test_the_file_says_what_it_is_and_is_checked_again(model, parts, tmp_path):
    head, train, known, *_ = parts
    guard = Guard.fit(head, train, known)
    words = export_guarded(guard, model, tmp_path / "g.onnx", preprocessing=PIXELS)
    again = check_guarded(tmp_path / "g.onnx")
    assert again == json.loads(json.dumps(words))
    assert (again["sha256"], again["classes"]) == (guard.sha256, ["a", "b", "ç", "d"])
    changed = onnx.load(tmp_path / "g.onnx")
    for entry in changed.graph.initializer:  # other filters than those of the samples
        if list(entry.dims) == [12, 3, 3, 3]:
            filters = onnx.numpy_helper.to_array(entry) * np.float32(1.01)
            entry.CopyFrom(onnx.numpy_helper.from_array(filters, entry.name))
    onnx.save(changed, tmp_path / "changed.onnx")
    with pytest.raises(SoftscopeError, match="its samples score differently here"):
        check_guarded(tmp_path / "changed.onnx")


def test_it_runs_in_a_process_that_can_not_import_softscope(model, parts, tmp_path):
    head, train, known, fresh, _ = parts
    guard = Guard.fit(head, train, known)
    export_guarded(guard, model, tmp_path / "g.onnx", preprocessing=PIXELS)
    np.save(tmp_path / "x.npy", fresh)
    code = (
        "import sys; sys.modules['softscope'] = None\n"
        "import numpy as np, onnxruntime as ort\n"
        "s = ort.InferenceSession('g.onnx', providers=['CPUExecutionProvider'])\n"
        "np.save('alarm.npy', s.run(['alarm'], {'image': np.load('x.npy')})[0])\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env={})
    np.testing.assert_array_equal(np.load(tmp_path / "alarm.npy"), run(tmp_path / "g.onnx", fresh)["alarm"])


def test_what_can_not_be_exported_is_one_line(model, parts, guard, tmp_path):
    head, train, known, *_ = parts
    (tmp_path / "x.onnx").write_bytes(b"nothing")
    own = Guard.fit(head, train, known)
    for given, with_guard, options, message in (
        (model, guard, {}, "the last layer of the model doesn't have the weights 4 x 12"),
        (tmp_path / "x.onnx", own, {}, "not an ONNX model"),
        (tmp_path / "no.onnx", own, {}, "no such file"),
        (model, Guard.fit(head, train, known, "kde"), {}, "kde: this score can't run inside a model"),
        (model, own, {"preprocessing": Preprocessing(size=(8, 8))}, "not images of .8, 8."),
        (model, own, {"preprocessing": Preprocessing(size=(9, 9), interpolation="box")}, "Use bilinear or bicubic"),
        (object(), own, {}, "without an example batch"),
    ):
        with pytest.raises(SoftscopeError, match=message):
            export_guarded(with_guard, given, tmp_path / "out.onnx", **options)
    assert not (tmp_path / "out.onnx").exists()
    with pytest.raises(SoftscopeError, match="is not a guarded model"):
        check_guarded(model)


def test_the_command_line_exports_and_shows(softscope, model, parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    head, train, known, fresh, z = parts
    guard = Guard.fit(head, train, known)
    guard.save(tmp_path / "guard.safetensors")
    scaling = "--mean 0.5,0.4,0.3 --std 0.2,0.3,0.4"
    code, out, err = softscope(f"guard export {model} guard.safetensors -o g.onnx {scaling}")
    assert (code, err) == (0, "")
    assert "at most 5 % of known inputs raise an alarm" in out
    assert guard.sha256 in out
    assert_agrees(guard, tmp_path / "g.onnx", fresh, z)
    code, out, _ = softscope("guard show g.onnx --json")
    assert (code, json.loads(out)["sha256"]) == (0, guard.sha256)
    for line, message in (
        (f"export {model} guard.safetensors -o g.bin", "a name that ends in .onnx"),
        (f"export {model} guard.safetensors -o h.onnx --mean a,b", "--mean a,b: expected numbers"),
        (f"show {model}", "is not a guarded model"),
    ):
        code, _, err = softscope(f"guard {line}")
        assert (code, message in err) == (2, True)
    code, out, err = softscope(f"guard export {model} guard.safetensors -o any.onnx {scaling} --size 9 --crop 0.9")
    assert (code, err) == (0, "")
    assert re.search(r"of pixels differ from Pillow's, by at most \d of 255 levels, and scores by at most", out)
    code, _, err = softscope(f"guard export {model} guard.safetensors -o raw.onnx --raw-input")
    assert (code, err) == (0, "")
    session = ort.InferenceSession("raw.onnx", providers=["CPUExecutionProvider"])
    assert [(entry.name, entry.type) for entry in session.get_inputs()] == [("x", "tensor(float)")]
