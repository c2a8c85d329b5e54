"""bfloat16 only where there is hardware for it, it is clearly faster, and the training is long enough to measure."""

import pytest
import torch

from softscope.nets import build
from softscope.training.precision import choose_precision, has_bfloat16, step_seconds


def timer(plain, short):
    return lambda bfloat16: short if bfloat16 else plain


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
    assert choose_precision(wanted, steps, hardware, timer(*times)) == choice


def test_nothing_is_measured_where_the_answer_is_known():
    def measured(bfloat16):
        raise AssertionError("measured")

    assert choose_precision("auto", 1000, False, measured) == "float32"
    assert choose_precision("auto", 10, True, measured) == "float32"


def test_a_measurement_leaves_the_network_as_it_was():
    net = build("vgg", blocks=1, size=8)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    images, labels = torch.randint(0, 256, (4, 8, 8, 1), dtype=torch.uint8), torch.tensor([0, 1, 2, 3])
    assert step_seconds(net, images, labels, True) > 0
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())


def test_the_hardware_question_has_an_answer_on_this_machine():
    assert has_bfloat16(torch.device("cpu")) in (True, False)
    assert not has_bfloat16(torch.device("meta"))
