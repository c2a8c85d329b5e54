"""`softscope.extract` on what people have in Python: loaders, data sets, dicts, tuples, arrays; `diagnose` on top."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import softscope as sx
from softscope import SoftscopeError

ROWS = np.random.default_rng(1).standard_normal((23, 6)).astype(np.float32)
LABELS = np.arange(23) % 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x, scale=None):
        z = torch.relu(self.first(x))
        return self.last(z if scale is None else z * scale)


class Named(Net):
    """Takes its inputs by name and returns a dict."""

    def forward(self, values, scale=None):
        return {"loss": torch.zeros(()), "logits": super().forward(values, scale), "hidden": values}


class Three(Net):
    def forward(self, x):
        return x, super().forward(x), [x]


class Stream(IterableDataset):
    """Examples, not batches."""

    def __iter__(self):
        return iter(TENSORS)


torch.manual_seed(0)
NET = Net()
EXPECTED = torch.relu(NET.first(torch.from_numpy(ROWS))).detach().numpy()
TENSORS = TensorDataset(torch.from_numpy(ROWS), torch.from_numpy(LABELS))


@pytest.mark.parametrize(
    ("data", "labelled"),
    [
        (ROWS, False),
        (torch.from_numpy(ROWS), False),
        ((ROWS, LABELS), True),
        ((torch.from_numpy(ROWS), torch.from_numpy(LABELS)), True),
        (DataLoader(TENSORS, batch_size=5), True),
        (TENSORS, True),
        ([(ROWS[:10], LABELS[:10]), (ROWS[10:], LABELS[10:])], True),
        ((ROWS[start : start + 7] for start in range(0, 23, 7)), False),
        ({"x": ROWS, "labels": LABELS}, True),
        ([(torch.from_numpy(row), int(label)) for row, label in zip(ROWS, LABELS)], True),
        (Stream(), True),
        ([{"x": ROWS[:9], "label": LABELS[:9]}, {"x": ROWS[9:], "label": LABELS[9:]}], True),
    ],
)
def test_every_kind_of_data_gives_the_same_rows(data, labelled):
    head, features = sx.extract(NET, data, batch=6)
    np.testing.assert_allclose(features.array(), EXPECTED, rtol=1e-5, atol=1e-6)
    assert (features.labels is not None) == labelled
    if labelled:
        assert features.labels.tolist() == LABELS.tolist()
    assert head.n_features == 8


def test_labels_may_come_beside_arrays():
    assert sx.extract(NET, ROWS, LABELS)[1].labels.tolist() == LABELS.tolist()
    with pytest.raises(SoftscopeError, match=r"labels beside DataLoader. Give labels with arrays"):
        sx.extract(NET, DataLoader(TENSORS), LABELS)
    for wrong, words in ((LABELS[:5], "5 labels for 23 rows"), (LABELS / 1.0, "expected whole-number labels")):
        with pytest.raises(SoftscopeError, match=words):
            sx.extract(NET, ROWS, wrong)


def test_several_inputs_come_as_a_tuple_or_by_name():
    scale = np.full((23, 1), 2.0, np.float32)
    for data in ((ROWS, scale), [(ROWS, scale, LABELS)], {"x": ROWS, "scale": scale}):
        _, features = sx.extract(NET, data)
        np.testing.assert_allclose(features.array(), 2 * EXPECTED, rtol=1e-5, atol=1e-6)


def test_logits_are_picked_out_of_what_the_model_returns():
    named = Named()
    named.load_state_dict(NET.state_dict())
    np.testing.assert_allclose(sx.extract(named, {"values": ROWS})[1].array(), EXPECTED, rtol=1e-5, atol=1e-6)
    three = Three()
    three.load_state_dict(NET.state_dict())
    with pytest.raises(SoftscopeError, match=r"returned a tuple of .*Say which with --logits \(output=\)"):
        sx.extract(three, ROWS)
    for output in (1, lambda made: made[1]):
        np.testing.assert_allclose(sx.extract(three, ROWS, output=output)[1].array(), EXPECTED, rtol=1e-5, atol=1e-6)
    with pytest.raises(SoftscopeError, match="output 9: the model returned a tuple"):
        sx.extract(three, ROWS, output=9)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_precisions_are_checked_by_their_own_rounding(dtype):
    net = Net().to(dtype)
    head, features = sx.extract(net, ROWS)
    with torch.no_grad():
        own = net(torch.from_numpy(ROWS).to(dtype)).float().numpy()
    np.testing.assert_allclose(head.logits(features.array()), own, atol=0.1 if dtype != torch.float64 else 1e-5)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (ROWS[:, :5], "Net failed on a tensor of shape .2, 5."),
        ([], "holds no inputs"),
        (3, "int is not data"),
        ((ROWS, LABELS + 5), "expected 0..2"),
        ([(ROWS[:5], LABELS[:5]), ROWS[5:]], "5 labels for 23 inputs"),
    ],
)
def test_data_that_does_not_fit_is_one_clear_line(data, words):
    with pytest.raises(SoftscopeError, match=words) as caught:
        sx.extract(NET, data)
    assert "\n" not in str(caught.value)


def test_what_is_no_model_is_said():
    with pytest.raises(SoftscopeError, match="dict: not a classifier"):
        sx.extract({}, ROWS)
    with pytest.raises(SoftscopeError, match="batch 0"):
        sx.extract(NET, ROWS, batch=0)
    with pytest.raises(SoftscopeError, match=r"colour: unknown option. Use bgr, channels, "):
        sx.extract(NET, ROWS, colour="red")
    with pytest.raises(SoftscopeError, match="ood: expected sets by name, found ndarray"):
        sx.diagnose(NET, train=(ROWS, LABELS), test=(ROWS, LABELS), ood=ROWS)


@pytest.mark.parametrize("words", ["CUDA out of memory", "DefaultCPUAllocator: can't allocate memory: you tried"])
def test_too_little_memory_is_one_line(words):
    class Hungry(Net):
        def forward(self, x):
            raise RuntimeError(f"[enforce fail at alloc_cpu.cpp] {words}\n and a stack")

    with pytest.raises(SoftscopeError, match=r"^Hungry: out of memory for 2 inputs. Lower --batch"):
        sx.extract(Hungry(), ROWS)


def test_features_go_to_a_file_when_asked(tmp_path):
    _, features = sx.extract(NET, (ROWS, LABELS), out=tmp_path / "f.safetensors")
    again = sx.FeatureSet.open(tmp_path / "f.safetensors")
    assert np.array_equal(again.array(), features.array())
    assert again.metadata == {"model": "Net", "layer": "after", "classifier": "last"}


def test_diagnose_takes_a_model_and_loaders():
    rng = np.random.default_rng(0)
    centres = 3 * rng.standard_normal((3, 6))

    def loader(rows, shift=0.0):
        labels = np.arange(rows) % 3
        x = (centres[labels] + shift + rng.standard_normal((rows, 6))).astype(np.float32)
        return DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(labels + (7 if shift else 0))), 64)

    net = Net()
    diagnosis = sx.diagnose(net, train=loader(300), test=loader(150), ood={"far": loader(100, 4.0)})
    assert set(diagnosis.ood) == {"far"}
    assert diagnosis.train.rows == 300


def test_diagnose_takes_the_options_of_a_model(tmp_path):
    rng = np.random.default_rng(0)
    for split, rows in (("train", 90), ("test", 60), ("far", 40)):
        pixels = rng.integers(0, 256, (rows, 4, 4, 3), dtype=np.uint8)
        labels = np.arange(rows) % 3
        pixels[np.arange(rows), :, :, labels] = 255
        extra = {} if split == "far" else {"labels": labels}
        np.savez(tmp_path / f"{split}.npz", images=pixels, **extra)

    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.last = torch.nn.Linear(3, 3)

        def forward(self, x):
            return {"noise": x, "answer": self.last(x.mean((2, 3)))}

    sets = {"train": tmp_path / "train.npz", "test": tmp_path / "test.npz", "ood": {"far": tmp_path / "far.npz"}}
    names = ["red", "green", "blue"]
    diagnosis = sx.diagnose(Wrapped(), **sets, classes=names, output="answer", mean=(0.5,), limit=60, batch=16)
    assert diagnosis.train.rows == 60
    with pytest.raises(SoftscopeError, match="limit 0"):
        sx.diagnose(Wrapped(), **sets, limit=0)
    head = sx.Head(np.eye(3, dtype=np.float32))
    with pytest.raises(SoftscopeError, match="size: options of a model, but a Head"):
        sx.diagnose(head, train=ROWS, test=ROWS, ood={"far": ROWS}, size=224)
