"""bfloat16 only where there is hardware for it, it is clearly faster, and the training is long enough to measure."""

import pytest
import torch

from softscope.paper.nets import build
from softscope.paper.training.parts import StepTimes, batch_loss, choose_precision, has_bfloat16, step_times


@pytest.mark.parametrize(
    ("wanted", "steps", "hardware", "times", "choice"),
    [
        ("auto", 1000, True, (2.0, 1.0), "bfloat16"),
        ("auto", 1000, True, (1.1, 1.0), "float32"),
        ("auto", 1000, True, (1.0, 3.0), "float32"),
        ("auto", 1000, False, (2.0, 1.0), "float32"),
        ("auto", 10, True, (2.0, 1.0), "float32"),
        ("float32", 1000, True, (2.0, 1.0), "float32"),
        ("bfloat16", 10, False, (1.0, 3.0), "bfloat16"),
    ],
)
def test_the_choice_follows_hardware_measurement_and_length(wanted, steps, hardware, times, choice):
    assert choose_precision(wanted, steps, hardware, lambda: StepTimes(*times)) == choice


def test_nothing_is_measured_where_the_answer_is_known():
    def measured():
        raise AssertionError("measured")

    assert choose_precision("auto", 1000, False, measured) == "float32"
    assert choose_precision("auto", 10, True, measured) == "float32"


def test_a_measurement_leaves_the_network_as_it_was():
    net = build("vgg", blocks=1, size=8)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    images, labels = torch.randint(0, 256, (4, 8, 8, 1), dtype=torch.uint8), torch.tensor([0, 1, 2, 3])
    times = step_times(net, images, labels)
    assert times.float32 > 0
    assert times.bfloat16 > 0
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())


def test_the_hardware_question_has_an_answer_on_this_machine():
    assert has_bfloat16(torch.device("cpu")) in (True, False)
    assert not has_bfloat16(torch.device("meta"))


def test_in_bfloat16_the_last_layer_still_works_in_float32():
    net = build("lenet", classes=3).eval()
    images = torch.randint(0, 256, (4, 28, 28, 1), dtype=torch.uint8)
    seen = []
    net.classifier.register_forward_hook(lambda module, inputs, output: seen.append((inputs[0], output)))
    _, short = batch_loss(net, images, torch.tensor([0, 1, 2, 0]), bfloat16=True)
    _, plain = batch_loss(net, images, torch.tensor([0, 1, 2, 0]), bfloat16=False)
    assert short.dtype == seen[0][0].dtype == torch.float32
    assert torch.equal(seen[0][0], seen[0][0].bfloat16().float())
    assert not torch.equal(short, short.bfloat16().float())
    torch.testing.assert_close(short, plain, atol=0.05, rtol=0.05)
