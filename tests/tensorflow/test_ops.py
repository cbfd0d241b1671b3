"""Single operators against TensorFlow, with the sizes of the inputs known and open."""

import pathlib

import numpy as np
import pytest
from harness import close, refused, run
from op_case import Case
from op_cases import CASES
from tensorflow_python import write_cases


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return write_cases("write_op_cases.py", tmp_path_factory.mktemp("op_cases"))


OPEN = [case for case in CASES if case.open_sizes]


def pairs(a: np.ndarray) -> np.ndarray:
    """Complex numbers as their parts along a last axis."""
    return np.stack([a.real, a.imag], -1) if a.dtype.kind == "c" else a


def check(folder: pathlib.Path, tmp_path: pathlib.Path, case: Case, graph: str, reason: str) -> None:
    if reason:
        message = refused(folder / graph)
        assert reason in message and case.op in message, message
        return
    data = np.load(folder / f"{case.id}.npz")
    feeds = {key: pairs(data[key]) for key in data.files if key.startswith("in_")}
    want = {key: pairs(data[key]) for key in data.files if key.startswith("out_")}
    got = run(folder / graph, feeds, tmp_path, "--outputs=" + ",".join(want))
    assert sorted(got) == sorted(want)
    for key in want:
        close(got[key], want[key], case.rel)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_operator(folder: pathlib.Path, tmp_path: pathlib.Path, case: Case) -> None:
    check(folder, tmp_path, case, f"{case.id}.pb", case.refused)


@pytest.mark.parametrize("case", OPEN, ids=lambda c: c.id)
def test_operator_with_open_sizes(folder: pathlib.Path, tmp_path: pathlib.Path, case: Case) -> None:
    check(folder, tmp_path, case, f"{case.id}-open.pb", case.refused_open)
