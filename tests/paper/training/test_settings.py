"""Settings refuse nonsense, and the one-cycle rate is torch's."""

import pytest
import torch

from softscope.errors import SoftscopeError
from softscope.paper.training import TrainSettings


@pytest.mark.parametrize("steps", [10, 37, 200])
def test_the_one_cycle_rate_equals_torchs_own_schedule(steps):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.4, total_steps=steps, cycle_momentum=False)
    settings = TrainSettings(optimizer="sgd", lr=0.4)
    for step in range(steps):
        assert settings.rate(step, steps) == pytest.approx(schedule.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        if step < steps - 1:
            schedule.step()


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_rate_of_very_short_trainings_is_positive_and_at_most_the_peak(steps):
    rates = [TrainSettings(optimizer="sgd", lr=0.4).rate(step, steps) for step in range(steps)]
    assert all(0 < rate <= 0.4 for rate in rates)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_stated_warm_up_is_torchs_pct_start(share):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.4, total_steps=40, pct_start=share, cycle_momentum=False
    )
    settings = TrainSettings(optimizer="sgd", lr=0.4, warm_up=share)
    for step in range(40):
        assert settings.rate(step, 40) == pytest.approx(schedule.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        if step < 39:
            schedule.step()


def test_fields_that_joined_later_leave_the_names_of_older_runs_alone():
    from softscope.canonical import plain

    assert plain(TrainSettings()).keys().isdisjoint({"warm_up", "average"})
    assert plain(TrainSettings(average=0.25))["average"] == 0.25


def test_adam_keeps_its_rate_and_adamw_has_one_cycle():
    assert {TrainSettings(lr=1e-3).rate(step, 10) for step in range(10)} == {1e-3}
    adamw, sgd = (TrainSettings(optimizer=name, lr=1e-3) for name in ("adamw", "sgd"))
    assert [adamw.rate(step, 10) for step in range(10)] == [sgd.rate(step, 10) for step in range(10)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"optimizer": "rmsprop"},
        {"augment": "mixup"},
        {"precision": "float16"},
        {"epochs": 0},
        {"batch": 0},
        {"threads": 0},
        {"lr": 0.0},
        {"lr": float("nan")},
        {"momentum": 1.0},
        {"label_smoothing": 1.0},
        {"weight_decay": -1.0},
        {"warm_up": 1.0},
        {"average": -0.1},
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(SoftscopeError, match=next(iter(wrong))):
        TrainSettings(**wrong)


def test_a_training_is_flat_when_its_last_epochs_bring_nothing_lower() -> None:
    patient = TrainSettings(patience=2)
    assert not patient.is_flat([1.0, 0.5])
    assert not patient.is_flat([1.0, 0.5, 0.4, 0.39])
    assert patient.is_flat([1.0, 0.5, 0.499, 0.496])
    assert not patient.is_flat([1.0, 0.5, 0.499, 0.494])
    assert not TrainSettings().is_flat([1.0, 1.0, 1.0, 1.0])
    with pytest.raises(SoftscopeError, match="patience: 2 with sgd"):
        TrainSettings(optimizer="sgd", patience=2)
