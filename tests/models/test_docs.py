"""Every block of docs/models.md runs, in a folder like the one it describes."""

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.special import softmax
from torch.utils.data import DataLoader, TensorDataset
from typer.testing import CliRunner

import softscope as sx
from softscope.cli.app import app
from softscope.models.weights import made_by

from .conftest import TinyResNet

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
SECTIONS = {part.split("\n", 1)[0]: part for part in PAGE.split("\n## ")[1:]}


def blocks(section, language):
    return re.findall(rf"```{language}\n(.*?)```", SECTIONS[section], re.S)


def check_commands(section):
    """Each command of the section, in the current folder."""
    commands = [line for block in blocks(section, "sh") for line in block.splitlines()]
    assert commands
    for command in commands:
        words = shlex.split(command)
        assert words[0] == "softscope"
        done = CliRunner().invoke(app, [*words[1:], "--quiet"])
        assert done.exit_code == 0, (command, done.exception)
        out = Path(words[words.index("-o") + 1])
        if "--dry-run" not in words:
            assert {path.name for path in out.iterdir()} >= {"report.html", "diagnosis.json", "features"}


@pytest.fixture
def home(at_home, tmp_path, monkeypatch):
    """A copy of the folder that blocks may write into."""
    for name in ("mynet.py", "state.pt"):
        shutil.copy(name, tmp_path / name)
    shutil.copytree("pets", tmp_path / "pets")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loader(split):
    images, labels = [], []
    for number, folder in enumerate(sorted(Path("pets", split).iterdir())):
        for file in sorted(folder.iterdir()):
            images.append(np.asarray(Image.open(file), np.float32).transpose(2, 0, 1) / 255)
            labels.append(number)
    return DataLoader(TensorDataset(torch.from_numpy(np.stack(images)), torch.tensor(labels)), 64)


def trained():
    from softscope.models.weights import load_weights

    net = made_by("mynet:Net")
    load_weights(net, "state.pt")
    return net.eval()


def test_torch(home):
    check_commands("torch")
    scope = {"model": trained(), "train_loader": loader("train"), "test_loader": loader("test")}
    for block in blocks("torch", "python"):
        exec(block, scope)
    assert Path("report.html").is_file()
    assert len(scope["features"]) == 120


def test_onnx(home):
    pytest.importorskip("onnxruntime")
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    state = {name: value.numpy() for name, value in trained().state_dict().items()}
    nodes = [
        helper.make_node("Conv", ["x", "body.0.weight", "body.0.bias"], ["map"]),
        helper.make_node("Relu", ["map"], ["relu"]),
        helper.make_node("GlobalAveragePool", ["relu"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["z"]),
        helper.make_node("Gemm", ["z", "fc.weight", "fc.bias"], ["logits"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 3, 24, 24))],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ("n", 3))],
        [numpy_helper.from_array(value, name) for name, value in state.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "net.onnx")
    check_commands("ONNX")


def test_hugging_face_and_text(home):
    pytest.importorskip("transformers")
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=37, image_size=24, patch_size=8,
        id2label={0: "blue", 1: "green", 2: "red"}, label2id={"blue": 0, "green": 1, "red": 2},
    )  # fmt: skip
    torch.manual_seed(0)
    vit = transformers.ViTForImageClassification(config).eval()
    vit.save_pretrained("vit-folder")
    check_commands("Hugging Face")
    pixels, labels = next(iter(loader("test")))
    words = {"[PAD]": 0, "[UNK]": 1, "cats": 2, "purr": 3, "dogs": 4, "bark": 5}
    plain = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="[PAD]", unk_token="[UNK]")
    small = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=37, vocab_size=9, num_labels=2
    )
    scope = {"sx": sx, "vit": vit, "pixels": pixels, "labels": labels, "tokenizer": tokenizer}
    for block in blocks("Hugging Face", "python"):
        exec(block, scope)
    assert len(scope["features"]) == 64
    scope |= {"bert": transformers.BertForSequenceClassification(small), "texts": ["cats purr", "dogs bark"] * 5}
    scope["labels"] = np.arange(10) % 2
    for block in blocks("Text", "python"):
        exec(block, scope)
    assert len(scope["features"]) == 10


def test_scikit_learn():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    scope = {"sx": sx, "x": rng.normal(size=(90, 4)) + y[:, None], "y": y}
    for block in blocks("scikit-learn", "python"):
        exec(block, scope)
    assert len(scope["features"]) == 90


@pytest.mark.slow
def test_timm(home):
    pytest.importorskip("transformers")
    from .zoo import stub_torchvision

    stub_torchvision()
    timm = pytest.importorskip("timm")
    from safetensors.torch import save_file

    save_file(timm.create_model("resnet10t", num_classes=3).state_dict(), "resnet10t.safetensors")
    check_commands("timm")


def test_torchvision(home, torchvision):
    torch.save(TinyResNet(num_classes=3).state_dict(), "resnet18.pt")
    check_commands("torchvision")


@pytest.mark.slow
def test_keras(home, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras")
    layers = keras.layers
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            layers.Input((24, 24, 3)),
            layers.Conv2D(8, 3, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(3, activation="softmax"),
        ]
    )
    images = np.stack([np.asarray(Image.open(file)) for file in sorted(Path("pets/test/red").iterdir())])
    x = images.astype(np.float32) / 255
    for block in blocks("Keras", "python"):
        exec(block, {"model": model, "x": x})
    check_commands("Keras")
    head, features = sx.extract("keras.onnx", x)
    np.testing.assert_allclose(softmax(head.logits(features.array()), axis=1), model.predict(x, verbose=0), atol=1e-5)
