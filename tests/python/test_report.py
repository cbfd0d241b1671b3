"""carnot.report and the timeline of contexts and models."""

import json

import carnot as trt
import numpy as np
import pytest
from models import build_engine, build_plan, matmul_model


def spans(text: str) -> list:
    events = json.loads(text)["traceEvents"]
    threads = {e["tid"] for e in events if e["name"] == "thread_name"}
    found = [e for e in events if e["ph"] == "X"]
    assert all(e["dur"] >= 0 and e["tid"] in threads for e in found)
    return found


def test_timeline_of_a_context(logger):
    engine = build_engine(logger, matmul_model())
    context = engine.create_execution_context()
    x, y = np.ones((2, 4), np.float32), np.zeros((2, 4), np.float32)
    context.set_input_shape("x", (2, 4))
    context.set_tensor_address("x", x.ctypes.data)
    context.set_tensor_address("y", y.ctypes.data)
    found = spans(context.record_timeline(runs=2))
    assert [e["cat"] for e in found].count("run") == 1 and any(e["cat"] == "layer" for e in found)
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    with pytest.raises(trt.CarnotError, match=r"must be in \[1, 1000\]"):
        context.record_timeline(runs=0)


def test_timeline_of_a_model(tmp_path):
    model = trt.load(matmul_model())
    model.export_timeline(tmp_path / "t.json", x=np.ones((2, 4), np.float32))
    names = [layer["Name"] for layer in model.engine._info()["Layers"]]
    assert [e["name"] for e in spans((tmp_path / "t.json").read_text()) if e["cat"] == "layer"] == names


def test_report(tmp_path):
    plan = tmp_path / "m.plan"
    plan.write_bytes(bytes(build_plan(matmul_model())))
    page = trt.report(plan, tmp_path / "r.html", compare=plan, measure=False)
    text = (tmp_path / "r.html").read_text()
    assert page == str(tmp_path / "r.html") and text.startswith("<!doctype html>") and text.count("m.plan") >= 2
    with pytest.raises(RuntimeError, match="missing.plan"):
        trt.report(tmp_path / "missing.plan", tmp_path / "r.html")
