"""A guard inside a torch model: the same scores, p-values and alarms as in Python, in one pass."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from softscope.errors import SoftscopeError  # noqa: E402
from softscope.estimators import ESTIMATORS, Density, Mahalanobis, NearestNeighbours  # noqa: E402
from softscope.features import FeatureSet  # noqa: E402
from softscope.guard import Guard  # noqa: E402
from softscope.head import Head  # noqa: E402

INSIDE = [name for name in ESTIMATORS if name not in ("kde", "consensus")]
DENSITIES = [
    Density(covariance="tied"),
    Density(covariance="diagonal", transform="log"),
    Density(covariance="spherical", neurons=5, seed=3),
    Density(components=3, init="kmeans"),
    Density(covariance="tied", normalise=True),
    NearestNeighbours(k=3, max_rows=200),
    NearestNeighbours(k=3, normalise=False),
    Mahalanobis(normalise=True),
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


def test_a_guard_of_another_model_and_kernel_density_are_refused(parts, world, guard, net):
    with pytest.raises(SoftscopeError, match="Net: no layer has the weights 4 x 12 of the guard's head"):
        guard.wrap(net)
    head, train, known, *_ = parts
    with pytest.raises(SoftscopeError, match="kde: this score can't run inside a model"):
        Guard.fit(head, train, known, "kde").wrap(net)
