"""Programs with control flow, lists, arrays and complex numbers against TensorFlow: as functions, lowered, and as
TensorFlow 1 writes them (the forms of write_programs.py)."""

import pathlib

import numpy as np
import pytest
from harness import close, run
from program_cases import PROGRAMS, Program
from tensorflow_python import write_cases


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return write_cases("write_programs.py", tmp_path_factory.mktemp("programs"))


@pytest.mark.parametrize("form", ["functions", "lowered", "graph_v1"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_program(folder: pathlib.Path, tmp_path: pathlib.Path, program: Program, form: str) -> None:
    data = np.load(folder / f"{program.name}.npz")
    for n, feeds in enumerate(program.feeds):
        head = f"out:{n}:"
        want = {key[len(head) :]: data[key] for key in data.files if key.startswith(head)}
        flags = ["--outputs=" + ",".join(want)]
        got = run(folder / f"{program.name}-{form}.pb", feeds, tmp_path / str(n), *flags)
        assert sorted(got) == sorted(want)
        for key in want:
            close(got[key], want[key])
