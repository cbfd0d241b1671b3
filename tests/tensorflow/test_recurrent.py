"""Recurrent layers against TensorFlow. Their loops become LSTM, GRU and RNN: no plan has a loop."""

import pathlib

import numpy as np
import pytest
from harness import carnot, close, run
from recurrent_cases import KERAS, V1
from tensorflow_python import write_cases


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return write_cases("write_recurrent.py", tmp_path_factory.mktemp("recurrent"))


@pytest.mark.parametrize("name", [*KERAS, *V1])
def test_values(folder: pathlib.Path, tmp_path: pathlib.Path, name: str) -> None:
    data = np.load(folder / f"{name}.npz")
    for n in range(len([key for key in data.files if key.startswith("in:")])):
        head = f"out:{n}:"
        want = {key[len(head) :]: data[key] for key in data.files if key.startswith(head)}
        flags = ["--outputs=" + ",".join(want)]
        got = run(folder / f"{name}.pb", {"x": data[f"in:{n}:x"]}, tmp_path / str(n), *flags)
        for key in want:
            close(got[key], want[key])


@pytest.mark.parametrize("name", [*KERAS, *V1])
def test_plan_has_no_loop(folder: pathlib.Path, tmp_path: pathlib.Path, name: str) -> None:
    data, plan = np.load(folder / f"{name}.npz"), tmp_path / "m.plan"
    outputs = ",".join(key.removeprefix("out:0:") for key in data.files if key.startswith("out:0:"))
    done = carnot("build", folder / f"{name}.pb", f"--outputs={outputs}", "--output", plan)
    assert done.returncode == 0, done.stderr
    steps = [line.split() for line in carnot("inspect", plan).stdout.splitlines() if "RECURRENCE" in line]
    kinds = name.replace("bidirectional", "lstm gru").replace("_", " ").split()
    assert steps
    if "rnn" not in kinds:  # RNN has the reference kernel alone
        assert all("lstm" in step[1] or "gru" in step[1] or "reference" in step[1] for step in steps)
    graph = carnot("build", folder / f"{name}.pb", f"--outputs={outputs}", "--output", plan, "--dumpGraph=dce").stderr
    assert " = loop(" not in graph
    assert any(f" = {op}(" in graph for op in ("lstm", "gru", "rnn"))
