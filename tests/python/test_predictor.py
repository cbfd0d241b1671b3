"""carnot.Predictor: batches of any number of rows, pickling, processes."""

import concurrent.futures
import inspect
import multiprocessing
import pathlib
import pickle

import carnot
import numpy as np
import pytest
from models import conv_model, onnx_bytes, ort_run
from onnx import helper

rng = np.random.default_rng(5)


def write_plan(folder, model, shapes=None) -> pathlib.Path:
    path = folder / "model.plan"
    path.write_bytes(bytes(carnot.build(model, shapes=shapes, level=1)))
    return path


MODEL = conv_model()


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """Takes 2 to 4 rows."""
    return write_plan(tmp_path_factory.mktemp("plan"), MODEL, {"x": ((2, 3, 8, 8), (4, 3, 8, 8), (4, 3, 8, 8))})


def wanted(x):
    return ort_run(MODEL, {"x": x})[0]


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 9, 32])
def test_any_number_of_rows(plan, rows):
    x = rng.standard_normal((rows, 3, 8, 8)).astype(np.float32)
    predict = carnot.Predictor(plan, threads=1)
    for batch in ({"x": x}, {"x": np.asfortranarray(x)}):
        y = predict(batch)["y"]
        assert y.shape == (rows, 4, 8, 8)
        np.testing.assert_allclose(y, wanted(x), atol=1e-5)
    np.testing.assert_array_equal(predict(x)["y"], y)


def test_no_rows(plan):
    y = carnot.Predictor(plan)({"x": np.zeros((0, 3, 8, 8), np.float32)})["y"]
    assert y.shape == (0, 4, 8, 8) and y.dtype == np.float32


def test_a_plan_of_a_fixed_batch(tmp_path):
    plan = write_plan(tmp_path, conv_model(batch=4))
    x = rng.standard_normal((6, 3, 8, 8)).astype(np.float32)
    y = carnot.Predictor(plan)({"x": x})["y"]
    assert y.shape == (6, 4, 8, 8)
    for row in range(6):
        assert np.abs(y[row] - carnot.Predictor(plan)({"x": x[row : row + 1]})["y"][0]).max() < 1e-6


def test_columns_that_are_no_inputs_stay(plan):
    x = rng.standard_normal((3, 3, 8, 8)).astype(np.float32)
    got = carnot.Predictor(plan)({"id": np.array([7, 8, 9]), "x": x})
    assert sorted(got) == ["id", "y"] and got["id"].tolist() == [7, 8, 9]


def test_rows(plan):
    x = rng.standard_normal((5, 3, 8, 8)).astype(np.float32)
    predict = carnot.Predictor(plan)
    for rows in (list(x), [{"x": row} for row in x]):
        got = predict(rows)
        assert len(got) == 5
        np.testing.assert_allclose(np.stack([row["y"] for row in got]), wanted(x), atol=1e-5)
    assert predict([]) == []
    with pytest.raises(ValueError, match="rows of input x have different shapes"):
        predict([x[0], x[1, :, :4]])


def test_two_inputs(tmp_path):
    model = onnx_bytes([helper.make_node("Sub", ["a", "b"], ["y"])], [(n, 1, ["n", 2]) for n in "ab"], [("y", 1, ["n", 2])])
    predict = carnot.Predictor(write_plan(tmp_path, model, {n: ((1, 2), (2, 2), (2, 2)) for n in "ab"}))
    a, b = rng.standard_normal((2, 3, 2)).astype(np.float32)
    np.testing.assert_array_equal(predict(a, b)["y"], a - b)
    assert len(inspect.signature(predict).parameters) == 2
    assert list(inspect.signature(carnot.Predictor).parameters) == ["path", "threads"]
    np.testing.assert_array_equal(predict([{"a": a[0], "b": b[0]}])[0]["y"], a[0] - b[0])
    with pytest.raises(ValueError, match="a 3, b 2"):
        predict(a, b[:2])
    with pytest.raises(TypeError, match="1 arrays given, the plan takes 2: a, b"):
        predict(a)
    with pytest.raises(TypeError, match="missing input b; the plan takes a, b"):
        predict({"a": a})
    with pytest.raises(TypeError, match="rows must be mappings"):
        predict([a[0]])


def test_an_output_without_rows(tmp_path):
    model = onnx_bytes([helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)], [("x", 1, ["n", 2])], [("y", 1, [])])
    predict = carnot.Predictor(write_plan(tmp_path, model, {"x": ((1, 2), (2, 2), (2, 2))}))
    with pytest.raises(carnot.CarnotError, match="output y has shape .* its first dimension is no row"):
        predict(np.zeros((2, 2), np.float32))


def test_errors(plan, tmp_path):
    with pytest.raises(carnot.CarnotError, match="nothing.plan"):
        carnot.Predictor(tmp_path / "nothing.plan")({})
    with pytest.raises(ValueError, match="threads must be at least 1"):
        carnot.Predictor(plan, threads=0)
    with pytest.raises(TypeError, match="float64"):
        carnot.Predictor(plan)({"x": np.zeros((2, 3, 8, 8))})
    with pytest.raises(carnot.CarnotError, match="x"):
        carnot.Predictor(plan)({"x": np.zeros((2, 3, 8, 9), np.float32)})


def test_pickle_is_the_path(plan, monkeypatch, tmp_path):
    monkeypatch.chdir(plan.parent)
    predict = carnot.Predictor("model.plan", threads=2)
    data = pickle.dumps(predict)
    assert len(data) < 300
    monkeypatch.chdir(tmp_path)
    copy = pickle.loads(data)
    assert repr(copy) == f"carnot.Predictor({str(plan)!r}, threads=2)"
    assert copy.model is predict.model  # of one process
    assert carnot.Predictor(plan).model is not predict.model  # other threads


def test_threads_of_a_process(plan):
    predict = carnot.Predictor(plan, threads=1)
    x = rng.standard_normal((16, 3, 3, 8, 8)).astype(np.float32)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for one, got in zip(x, pool.map(predict, x)):
            np.testing.assert_allclose(got["y"], wanted(one), atol=1e-5)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes(plan, method):
    predict = carnot.Predictor(plan, threads=1)
    x = rng.standard_normal((4, 3, 3, 8, 8)).astype(np.float32)
    first = predict(x[0])["y"]  # opened before the fork
    with multiprocessing.get_context(method).Pool(2) as pool:
        got = pool.map(predict, list(x))
    np.testing.assert_array_equal(got[0]["y"], first)
    for one, part in zip(x, got):
        np.testing.assert_allclose(part["y"], wanted(one), atol=1e-5)
