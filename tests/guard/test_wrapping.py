"""A guard inside a torch model: the same scores, p-values and alarms as in Python, in one pass."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from softscope.errors import SoftscopeError  # noqa: E402
from softscope.estimators import ESTIMATORS, Density, Mahalanobis, NearestNeighbours, Residual  # noqa: E402
from softscope.features import FeatureSet  # noqa: E402
from softscope.guard import Guard  # noqa: E402
from softscope.head import Head  # noqa: E402

INSIDE = [name for name in ESTIMATORS if name != "kde"]
DENSITIES = [
    Density(covariance="tied"),
    Density(covariance="diagonal", transform="log"),
    Density(covariance="spherical", neurons=5, seed=3),
    Density(components=3, init="kmeans"),
    Density(covariance="tied", normalise=True),
    NearestNeighbours(k=3, max_rows=200),
    NearestNeighbours(k=3, normalise=False),
    Mahalanobis(normalise=True),
    Residual(normalise=True),
]


class Net(nn.Module):
    """Images to features of 12 numbers to 4 classes; counts its passes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Conv2d(3, 12, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(12, 4)
        with torch.no_grad():  # logits about 0, so that every class is taken for some inputs
            z = self.body(torch.from_numpy(np.random.default_rng(1).normal(size=(500, 3, 9, 9)).astype(np.float32)))
            self.head.weight *= 20
            self.head.bias.copy_(-self.head.weight @ z.mean(0))
        self.passes = 0

    def forward(self, x):
        self.passes += 1
        return self.head(self.body(x)).softmax(1)


@pytest.fixture(scope="module")
def net():
    return Net().eval()


@pytest.fixture(scope="module")
def images():
    return torch.from_numpy(np.random.default_rng(0).normal(size=(900, 3, 9, 9)).astype(np.float32))


@pytest.fixture(scope="module")
def parts(net, images):
    """Head, training and calibration features of the network, and the images of fresh ones."""
    with torch.no_grad():
        z = net.body(images).numpy()
    head = Head(net.head.weight.detach().numpy(), net.head.bias.detach().numpy())
    labels = head.logits(z).argmax(axis=1)
    labels[:40] = np.arange(40) % 4  # every class occurs
    return head, FeatureSet(z[:500], labels[:500], name="train"), FeatureSet(z[500:800]), images[800:], z[800:]


def assert_agrees(guard, guarded, images, z):
    with torch.no_grad():
        said = guarded(images)
    scores = guard.uncertainty(z)
    np.testing.assert_allclose(said.uncertainty.numpy(), scores, rtol=1e-5, atol=1e-6 * np.abs(scores).max())
    np.testing.assert_allclose(said.logits.numpy(), guard.head.logits(z), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(said.p.numpy(), guard.p_values(z), atol=1.5 / 300)
    away = np.abs(scores - guard.thresholds[0]) > 1e-4 * np.abs(scores).max() if not guard.per_class else slice(None)
    np.testing.assert_array_equal(said.alarm.numpy()[away], guard.alarms(z)[away])
    return said


@pytest.mark.parametrize("chosen", [*INSIDE, *DENSITIES], ids=str)
def test_every_score_but_kernel_density_is_the_same_inside_the_model(net, parts, chosen):
    head, train, known, images, z = parts
    guard = Guard.fit(head, train, known, chosen, 0.1)
    assert_agrees(guard, guard.wrap(net), images, z)


def test_scores_of_certain_rows_do_not_saturate(parts):
    """Logits of thousands, where a softmax is exactly 1."""
    head, _, known, _, z = parts
    strong = Head(3000 * head.weight, head.bias)
    layer = nn.Linear(12, 4)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.array(strong.weight)))
        layer.bias.copy_(torch.from_numpy(np.array(strong.bias)))
    for name in ("max", "entropy", "cool", "energy", "gen", "margin"):
        guard = Guard.fit(strong, None, known, name, 0.1)
        with torch.no_grad():
            said = guard.wrap(layer)(torch.from_numpy(z))
        scores = guard.uncertainty(z)
        np.testing.assert_allclose(said.uncertainty.numpy(), scores, rtol=1e-5, atol=1e-6 * np.abs(scores).max())
        assert len(set(said.uncertainty.tolist())) == len(z)


@pytest.mark.parametrize("options", [{"per_class": True}, {"confidence": 0.9}])
def test_every_promise_is_kept_inside_the_model(net, parts, options):
    head, _, known, images, z = parts
    guard = Guard.fit(head, None, known, "max", 0.2, **options)
    assert_agrees(guard, guard.wrap(net), images, z)


def test_one_pass_through_the_model_is_enough_and_gradients_go_through(parts, images):
    net = Net()
    head, train, known, *_ = parts
    guarded = Guard.fit(head, train, known).wrap(net)
    guarded(images[:4]).logits.sum().backward()
    assert net.passes == 1
    assert net.body[0].weight.grad is not None


def test_a_guarded_model_compiles(net, parts):
    head, train, known, images, _ = parts
    guard = Guard.fit(head, train, known)
    guarded = guard.wrap(net)
    compiled = torch.compile(guarded, backend="eager")
    with torch.no_grad():
        for one, other in zip(compiled(images[:8]), guarded(images[:8])):
            torch.testing.assert_close(one, other)


def test_half_precision_is_for_the_model_alone(net, parts):
    head, train, known, images, _ = parts
    guarded = Guard.fit(head, train, known).wrap(Net().eval()).bfloat16()
    with torch.no_grad():
        said = guarded(images[:8].bfloat16())
    assert (said.logits.dtype, said.p.dtype, guarded.guard_calibration.dtype) == (
        torch.bfloat16,
        torch.float64,
        torch.float64,
    )


def test_a_row_that_can_not_be_scored_is_an_alarm(net, parts):
    head, train, known, images, _ = parts
    with torch.no_grad():
        said = Guard.fit(head, train, known).wrap(net)(images[:2] * float("nan"))
    assert said.alarm.tolist() == [True, True]


class Words(nn.Module):
    """Sequences of 6 words to features of 12 numbers each to 4 classes; the answer is that of one place or the mean."""

    def __init__(self, place, softmax=False):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.body = nn.Embedding(50, 12), nn.Sequential(nn.Linear(12, 12), nn.ReLU())
        self.head = nn.Linear(12, 4)
        self.place, self.softmax = place, softmax

    def words(self, words):
        """The features of each word, which depend on the others too."""
        rows = self.embedding(words)
        return self.body(rows + rows.mean(1, keepdim=True))

    def pooled(self, rows):
        return rows.mean(1) if self.place == "mean" else rows[:, self.place]

    def forward(self, words):
        answer = self.pooled(self.head(self.words(words)))
        return answer.softmax(1) if self.softmax else answer


def words_and_guard(net):
    """Fresh words, their features, and a guard of the network."""
    words = torch.from_numpy(np.random.default_rng(3).integers(0, 50, (900, 6)))
    with torch.no_grad():
        z = net.pooled(net.words(words)).numpy()
    head = Head(net.head.weight.detach().numpy(), net.head.bias.detach().numpy())
    known = FeatureSet(z[500:800])
    return words[800:], z[800:], Guard.fit(head, (z[:500], np.arange(500) % 4), known, "mahalanobis", 0.1)


@pytest.mark.parametrize("place", [0, -1, 2, "mean"])
@pytest.mark.parametrize("softmax", [False, True])
def test_of_a_sequence_it_is_the_row_that_the_answer_was_made_from(place, softmax):
    net = Words(place, softmax).eval()
    words, z, guard = words_and_guard(net)
    assert_agrees(guard, guard.wrap(net), words, z)


def test_a_sequence_without_an_answer_for_each_input_is_refused():
    net = Words(0).eval()
    words, _, guard = words_and_guard(net)
    net.pooled = lambda rows: rows
    with pytest.raises(SoftscopeError, match="expected one row, or a sequence, for each answer"):
        guard.wrap(net)(words)


def test_a_guard_of_another_model_and_kernel_density_are_refused(parts, world, guard, net):
    with pytest.raises(SoftscopeError, match="Net: no layer has the weights 4 x 12 of the guard's head"):
        guard.wrap(net)
    head, train, known, *_ = parts
    with pytest.raises(SoftscopeError, match="kde: this score can't run inside a model"):
        Guard.fit(head, train, known, "kde").wrap(net)
