"""The training loop: learns, repeats exactly, resumes to the same bits, and says what is wrong."""

import math
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from softscope.errors import SoftscopeError
from softscope.paper.nets import build, load_model
from softscope.paper.training import TrainSettings, evaluate, train
from softscope.paper.training.checkpoint import FILE
from softscope.paper.training.loop import _optimizer

FAST = TrainSettings(epochs=4, batch=32, lr=0.01, threads=1)


@pytest.fixture(scope="module")
def blobs():
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 200)
    centres = np.array([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
    return (centres[labels] + 0.3 * random.standard_normal((200, 2))).astype(np.float32), labels


@pytest.fixture(scope="module")
def digits():
    """scikit-learn's digits as uint8 images in the middle of 9 x 9 pixels."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    padded = np.zeros((len(images), 9, 9, 1), np.uint8)
    padded[:, :8, :8, 0] = images.reshape(-1, 8, 8) > 7
    return padded, labels


def weights(net):
    return {name: tensor.clone() for name, tensor in net.state_dict().items()}


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


class KilledError(Exception):
    pass


def test_a_small_network_learns_the_digits(digits):
    images, labels = digits
    net = build("filter")
    settings = TrainSettings(epochs=6, batch=64, lr=3e-3, threads=1)
    result = train(net, images[:1400], labels[:1400], settings, test=(images[1400:], labels[1400:]))
    assert len(result.history) == 6
    assert result.history[-1].loss < result.history[0].loss / 3
    assert result.history[-1].test_accuracy > 0.85
    assert result.history[-1].test_accuracy == evaluate(net, images[1400:], labels[1400:]).accuracy
    assert result.seconds > 0


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_the_same_settings_give_the_same_bits_and_another_seed_does_not(blobs, optimizer):
    runs = []
    for seed in (0, 0, 1):
        net = build("toy")
        torch.rand(seed + len(runs))  # what the caller drew before must not matter
        train(net, *blobs, TrainSettings(epochs=2, optimizer=optimizer, lr=0.01, seed=seed, threads=1))
        runs.append(weights(net))
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


@pytest.mark.parametrize(
    ("name", "config", "settings"),
    [
        ("filter", {}, {"optimizer": "adam"}),
        ("filter", {}, {"optimizer": "adamw", "weight_decay": 0.05}),
        ("filter", {}, {"optimizer": "sgd", "weight_decay": 5e-4, "augment": "crop+flip"}),
        ("vgg", {"blocks": 2, "size": 9}, {"optimizer": "adam", "precision": "bfloat16"}),
    ],
)
def test_a_killed_training_resumes_to_the_same_bits(tmp_path, digits, name, config, settings):
    images, labels = digits[0][:300], digits[1][:300]
    chosen = TrainSettings(epochs=4, batch=64, lr=0.01, threads=1, standardise=True, **settings)
    whole, halves = build(name, **config), build(name, **config)
    expected = train(whole, images, labels, chosen, test=(images, labels))

    def kill(net, step, steps):
        if step == steps // 2 + 2:
            raise KilledError

    with pytest.raises(KilledError):
        train(halves, images, labels, chosen, test=(images, labels), checkpoint_dir=tmp_path, after_step=kill)
    fresh = build(name, seed=99, **config)
    outcome = train(fresh, images, labels, chosen, test=(images, labels), checkpoint_dir=tmp_path)
    assert outcome.resumed_from == 2
    assert outcome.history == expected.history
    assert same(weights(fresh), weights(whole))
    again = train(build(name, **config), images, labels, chosen, checkpoint_dir=tmp_path)
    assert again.resumed_from == 4
    assert again.history == expected.history


SCRIPT = """
import sys, os, signal, numpy as np
from softscope.paper.nets import build, save_model
from softscope.paper.training import TrainSettings, train
random = np.random.default_rng(0)
images, labels = random.integers(0, 2, (400, 9, 9, 1), dtype=np.uint8), random.integers(0, 10, 400)
def kill(net, step, steps):
    if step == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
net = build("filter")
train(net, images, labels, TrainSettings(epochs=5, threads=1, batch=50), checkpoint_dir=sys.argv[1], after_step=kill)
save_model(net, sys.argv[1] + "/model.safetensors")
"""


@pytest.mark.slow
def test_a_process_killed_many_times_ends_with_the_bits_of_an_unbroken_one(tmp_path):
    def run(folder, step):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / folder), str(step)]
        return subprocess.run(command, capture_output=True, check=False).returncode

    assert run("whole", 0) == 0
    for step in (3, 17, 20, 39):
        assert run("killed", step) == -9
    assert run("killed", 0) == 0
    whole, killed = (load_model(tmp_path / folder / "model.safetensors").net for folder in ("whole", "killed"))
    assert same(weights(whole), weights(killed))


def test_a_checkpoint_of_other_settings_data_or_network_is_refused(tmp_path, blobs):
    points, labels = blobs
    train(build("toy"), points, labels, FAST, checkpoint_dir=tmp_path)
    with pytest.raises(SoftscopeError, match="other settings or other data"):
        train(build("toy"), points, labels, TrainSettings(epochs=5, threads=1), checkpoint_dir=tmp_path)
    with pytest.raises(SoftscopeError, match="other settings or other data"):
        train(build("toy"), points[:100], labels[:100], FAST, checkpoint_dir=tmp_path)
    with pytest.raises(SoftscopeError, match="weights of another network"):
        train(build("toy", features=8), points, labels, FAST, checkpoint_dir=tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:100],
        lambda content: content[:-20],
        lambda content: content[:-20] + bytes([content[-20] ^ 1]) + content[-19:],
        lambda content: content.replace(b"test_loss", b"test_lost"),
        lambda content: content.replace(b".step", b".stop"),
    ],
    ids=["empty", "a beginning", "no end", "one bit", "another record", "another state"],
)
def test_a_damaged_checkpoint_is_said_and_done_again(tmp_path, blobs, caplog, damage):
    first = build("toy")
    train(first, *blobs, FAST, checkpoint_dir=tmp_path)
    content = (tmp_path / FILE).read_bytes()
    assert damage(content) != content
    (tmp_path / FILE).write_bytes(damage(content))
    second = build("toy")
    result = train(second, *blobs, FAST, checkpoint_dir=tmp_path)
    assert result.resumed_from == 0
    assert same(weights(first), weights(second))
    assert "damaged" in caplog.text


def test_a_frozen_last_layer_stays_while_the_rest_learns(blobs):
    net = build("toy")
    weight = np.random.default_rng(1).standard_normal((3, 16)).astype(np.float32)
    net.replace_classifier(weight)
    before = net.body[0].weight.clone()
    result = train(net, *blobs, FAST)
    assert np.array_equal(net.classifier.weight.detach().numpy(), weight)
    assert not torch.equal(net.body[0].weight, before)
    assert result.history[-1].accuracy > 0.9


def test_hooks_see_every_step_and_epoch_and_may_move_the_weights(blobs):
    net = build("toy")
    net.replace_classifier(np.zeros((3, 16)))
    steps, epochs = [], []

    def move(module, step, of):
        steps.append((step, of))
        module.classifier.weight.fill_(step / of)

    train(net, *blobs, FAST, after_step=move, after_epoch=lambda module, epoch, record: epochs.append(epoch))
    assert steps == [(i, 28) for i in range(1, 29)]
    assert epochs == [1, 2, 3, 4]
    assert (net.classifier.weight == 1).all()


def test_the_callers_threads_modes_and_random_state_come_back(blobs):
    threads = torch.get_num_threads()
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    train(build("toy"), *blobs, FAST)
    assert torch.equal(torch.rand(2), expected)
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_last_batch_of_one_row_does_not_break_batchnorm(digits):
    images, labels = digits[0][:33], digits[1][:33]
    net = build("vgg", blocks=3, size=9)
    result = train(net, images, labels, TrainSettings(epochs=1, batch=16, threads=1))
    assert math.isfinite(result.history[0].loss)


def test_evaluation_agrees_with_numpy_and_restores_the_training_mode(digits):
    images, labels = digits[0][:70], digits[1][:70]
    net = build("vgg", blocks=1, size=9).train()
    net.body[-3].eval()
    evaluated = evaluate(net, images, labels, batch=32)
    assert net.training
    assert not net.body[-3].training
    with torch.no_grad():
        logits = net.eval()(torch.from_numpy(images)).double().numpy()
    log_sum = np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1)) + logits.max(1)
    assert evaluated.loss == pytest.approx(np.mean(log_sum - logits[np.arange(70), labels]), rel=1e-5)
    assert evaluated.accuracy == np.mean(logits.argmax(1) == labels)


def test_adamw_decays_matrices_alone():
    net = build("toy")
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(1.0)
    optimizer = _optimizer(net, TrainSettings(optimizer="adamw", lr=0.1, weight_decay=0.5))
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for parameter in net.parameters():
        kept = 1 - 0.1 * 0.5 if parameter.ndim > 1 else 1.0
        np.testing.assert_allclose(parameter.detach().numpy(), kept, rtol=1e-6)


def test_label_smoothing_is_off_unless_asked_for(blobs):
    plain, smooth = build("toy"), build("toy")
    assert TrainSettings().label_smoothing == 0
    train(plain, *blobs, TrainSettings(epochs=20, lr=0.01, threads=1))
    train(smooth, *blobs, TrainSettings(epochs=20, lr=0.01, threads=1, label_smoothing=0.2))
    assert evaluate(smooth, *blobs).loss > 3 * evaluate(plain, *blobs).loss


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (np.zeros((0, 2), np.float32), np.zeros(0, int), "Give at least one row"),
        (np.zeros((4, 2), np.float32), np.zeros(3, int), "3 labels for 4 rows"),
        (np.zeros((4, 2), np.float32), np.array([0, 1, 2, 3]), "label 3"),
        (np.zeros((4, 2), np.float32), np.zeros(4), "whole-number labels"),
        (np.full((4, 2), np.nan, np.float32), np.zeros(4, int), "row 0 holds nan"),
        (np.zeros((4, 2), object), np.zeros(4, int), "expected pixels"),
        (np.zeros((4, 5), np.float32), np.zeros(4, int), "expected a batch of 2"),
    ],
)
def test_bad_data_is_said_in_one_line(images, labels, words):
    with pytest.raises(SoftscopeError, match=words):
        train(build("toy"), images, labels, FAST)


@pytest.mark.filterwarnings("ignore")
def test_a_diverging_training_stops_with_advice(blobs):
    points, labels = blobs
    with pytest.raises(SoftscopeError, match=r"diverged in epoch 1.*Lower the learning rate"):
        train(build("toy"), points * 1e20, labels, TrainSettings(optimizer="sgd", lr=1e30, threads=1))


def test_a_network_without_anything_to_train_is_refused(blobs):
    with pytest.raises(SoftscopeError, match="every parameter is frozen"):
        train(build("toy").requires_grad_(False), *blobs, FAST)


def test_any_module_can_be_trained_but_not_standardised(blobs):
    module = torch.nn.Linear(2, 3)
    before = evaluate(module, *blobs)
    train(module, *blobs, FAST)
    assert evaluate(module, *blobs).loss < before.loss
    with pytest.raises(SoftscopeError, match="no `normalise` step"):
        train(module, *blobs, TrainSettings(standardise=True))


def test_progress_tells_epoch_loss_and_test_accuracy_of_each_step(blobs):
    told = []
    train(build("toy"), *blobs, FAST, test=blobs, progress=lambda *words: told.append(words))
    texts, done, totals = zip(*told)
    assert done == tuple(range(1, totals[0] + 1))
    assert len(set(totals)) == 1
    assert texts[0].startswith("epoch 1/4  loss ")
    assert "test" not in texts[0]
    assert re.fullmatch(r"epoch 4/4  loss \d+\.\d{3}  accuracy \d+\.\d\d%  test \d+\.\d\d%", texts[-1])


def test_a_patient_training_ends_where_its_loss_is_flat(tmp_path, digits):
    images, labels = digits[0][:200], digits[1][:200]
    still = TrainSettings(epochs=9, batch=64, lr=1e-12, threads=1, patience=2)
    outcome = train(build("filter"), images, labels, still, checkpoint_dir=tmp_path)
    assert len(outcome.history) == 3
    again = train(build("filter"), images, labels, still, checkpoint_dir=tmp_path)
    assert again.resumed_from == 3
    assert again.history == outcome.history
