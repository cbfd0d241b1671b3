"""Single operators against TensorFlow, with the sizes of the inputs known and open.

TensorFlow is found in this Python or in the one that CARNOT_TENSORFLOW_PYTHON names.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from harness import close, run
from op_case import Case
from op_cases import CASES

HERE = pathlib.Path(__file__).parent


def tensorflow_python() -> str | None:
    if importlib.util.find_spec("tensorflow"):
        return sys.executable
    return os.environ.get("CARNOT_TENSORFLOW_PYTHON")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    python = tensorflow_python()
    if not python:
        pytest.skip("TensorFlow is not installed, and CARNOT_TENSORFLOW_PYTHON names no Python that has it")
    path = tmp_path_factory.mktemp("op_cases")
    done = subprocess.run([python, HERE / "write_op_cases.py", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
@pytest.mark.parametrize("sizes", ["known", "open"])
def test_operator(folder: pathlib.Path, tmp_path: pathlib.Path, case: Case, sizes: str) -> None:
    if sizes == "open" and not case.open_sizes:
        pytest.skip("this operator needs the sizes of its input")
    data = np.load(folder / f"{case.id}.npz")
    feeds = {key: data[key] for key in data.files if key.startswith("in_")}
    want = {key: data[key] for key in data.files if key.startswith("out_")}
    graph = folder / f"{case.id}{'-open' * (sizes == 'open')}.pb"
    got = run(graph, feeds, tmp_path)
    assert sorted(got) == sorted(want)
    for key in want:
        close(got[key], want[key], case.rel)
