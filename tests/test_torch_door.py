"""The one door to torch: lazily opened, with its settings, and a clear line where torch is missing."""

import platform
import subprocess
import sys

import numpy as np
import pytest
import torch

from softscope.torch_door import best_device, image_tensor, keep_freed_memory, reproducible


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_networks_training_and_extraction_are_imported_without_torch():
    done = run(
        "import sys, softscope.paper.nets, softscope.paper.training, softscope.models, softscope.cli.extract\n"
        "softscope.paper.training.TrainSettings(epochs=1)\n"
        "assert 'torch' not in sys.modules"
    )
    assert done.returncode == 0, done.stderr


def test_missing_torch_is_one_line_that_says_what_to_install():
    done = run(
        "import sys; sys.modules['torch'] = None\n"
        "from softscope.paper.nets import build\n"
        "from softscope import SoftscopeError\n"
        "try: build('toy')\n"
        "except SoftscopeError as error: print(error)"
    )
    assert done.stdout.strip() == "torch is not installed. pip install 'softscope[torch]'", done.stderr


def test_waiting_threads_sleep_unless_the_user_decided_otherwise():
    code = "import os; {}; import softscope.torch_door; print(os.environ['OMP_WAIT_POLICY'])"
    clean = code.format("os.environ.pop('OMP_WAIT_POLICY', None)")
    assert run(clean).stdout.strip() == "PASSIVE"
    assert run(code.format("os.environ['OMP_WAIT_POLICY'] = 'ACTIVE'")).stdout.strip() == "ACTIVE"


def test_settings_come_back_even_after_an_error():
    torch.set_deterministic_debug_mode("default")  # whatever another test left
    before = torch.get_num_threads(), torch.utils.deterministic.fill_uninitialized_memory

    def fail():
        with reproducible(before[0] + 1, 0, torch.device("cpu")):
            assert torch.get_num_threads() == before[0] + 1
            assert torch.are_deterministic_algorithms_enabled()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (torch.get_num_threads(), torch.utils.deterministic.fill_uninitialized_memory) == before
    assert not torch.are_deterministic_algorithms_enabled()


def test_the_device_and_the_memory_setting_fit_this_machine():
    accelerators = [name for name in ("cuda", "mps") if getattr(torch, name).is_available()]
    assert best_device().type == [*accelerators, "cpu"][0]
    assert keep_freed_memory() == (platform.libc_ver()[0] == "glibc")


def test_a_read_only_array_is_not_written_through_its_tensor():
    array = np.arange(12, dtype=np.uint8).reshape(3, 4)
    array.flags.writeable = False
    tensor = image_tensor(array)
    tensor += 1
    assert array[0, 0] == 0
