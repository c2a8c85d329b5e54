"""A small trained-like network: random weights scaled up, so that some inputs are confident."""

import pytest

from softscope.paper.nets import Net, build


@pytest.fixture(params=[1, 2, 3], ids=lambda depth: f"{depth} convolutions")
def net(request: pytest.FixtureRequest) -> Net:
    return confident(request.param)


def confident(depth: int, scale: float = 8.0) -> Net:
    net = build("filter", seed=depth, conv_layers=depth)
    net.classifier.weight.data *= scale
    return net
