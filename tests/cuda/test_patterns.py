"""Every pattern of pattern_networks.py is computed on the device, but for operators of host_ops.txt.

The builder alone runs, for a GPU that is not there and without libraries: a pattern has built-in tactics.
"""

import pathlib
import subprocess
import sys

import pattern_networks
import pytest
from harness import Device
from pattern_tactics import LIBRARIES, inspect, is_allowed_on_host

TARGET = "cuda:sm_90"


@pytest.mark.concurrent
@pytest.mark.parametrize("dtype", ["fp16", "float32"])
@pytest.mark.parametrize("anchor", pattern_networks.ANCHORS)
def test_patterns_are_computed_on_the_device(device: Device, anchor: str, dtype: str) -> None:
    only = "" if dtype == "fp16" else ":residual"  # what follows is the same in all types
    for pattern, steps in inspect(device.command, TARGET, dtype, anchor, only, LIBRARIES):
        on_host = [step for step in steps if not is_allowed_on_host(step)]
        assert not on_host, f"{pattern} in {dtype}: on the host: {on_host}"


def test_page_says_what_tactics_say(device: Device) -> None:
    script = pathlib.Path(__file__).with_name("conditions")
    done = subprocess.run([sys.executable, script, device.command[-1], "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run {script} {device.command[-1]}\n{done.stdout}{done.stderr}"
