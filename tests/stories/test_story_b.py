"""Story B: batch normalization with parameters that are constants, tensors of the network, or inputs (ONNX)."""

import itertools
import json

import numpy as np
import onnx
import pytest
from onnx import helper

import carnot as trt

from story import build_and_load, save_model

rng = np.random.default_rng(2)
NAMES = ("weight", "bias", "running_mean", "running_var")


def parameters(channels):
    made = {name: rng.standard_normal(channels).astype(np.float32) for name in NAMES}
    made["running_var"] = np.abs(made["running_var"]) + 0.1
    return made


def oracle(x, p, eps=1e-5):
    def wide(name):
        return p[name].astype(np.float64).reshape(1, -1, *[1] * (x.ndim - 2))

    unit = (x.astype(np.float64) - wide("running_mean")) / np.sqrt(wide("running_var") + eps)
    return unit * wide("weight") + wide("bias")


def build(path, logger):
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    assert parser.parse_from_file(str(path)), [str(parser.get_error(i)) for i in range(parser.num_errors)]
    config = builder.create_builder_config()
    config.builder_optimization_level = 0
    return build_and_load(network, config, logger)


def layer_names(engine):
    info = engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON)
    return [layer["Name"] for layer in json.loads(info)["Layers"]]


@pytest.mark.parametrize("given", [c for n in range(5) for c in itertools.combinations(NAMES, n)], ids="-".join)
def test_any_of_the_four_as_input(logger, tmp_path, given):
    p = parameters(5)
    inputs = {"x": [2, 5, 3, 4], **{name: [5] for name in given}}
    model = save_model(
        tmp_path / "m.onnx",
        [helper.make_node("BatchNormalization", ["x", *NAMES], ["y"], name="bn")],
        inputs,
        {"y": [2, 5, 3, 4]},
        {name: p[name] for name in NAMES if name not in given},
    )
    engine = build(model, logger)
    assert len(layer_names(engine)) == 1, "one fused step"
    run = trt.Model(engine)
    for _ in range(2):
        x = rng.standard_normal((2, 5, 3, 4)).astype(np.float32)
        p.update({name: parameters(5)[name] for name in given})
        np.testing.assert_allclose(
            run(x=x, **{name: p[name] for name in given})["y"], oracle(x, p), atol=2e-5, rtol=2e-5
        )


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_ranks_and_tensors_of_the_network(logger, tmp_path, rank):
    """The network computes the variance; this failed with a type error at running_var + eps."""
    p, shape = parameters(4), [3, 4, 2, 5, 2][:rank]
    nodes = [
        helper.make_node("Exp", ["log_var"], ["running_var"]),
        helper.make_node("Neg", ["minus_mean"], ["running_mean"]),
        helper.make_node("BatchNormalization", ["x", *NAMES], ["y"], name="bn", epsilon=1e-3),
    ]
    model = save_model(
        tmp_path / "m.onnx",
        nodes,
        {"x": shape, "log_var": [4], "minus_mean": [4]},
        {"y": shape},
        {name: p[name] for name in ("weight", "bias")},
    )
    x = rng.standard_normal(shape).astype(np.float32)
    got = trt.Model(build(model, logger))(x=x, log_var=np.log(p["running_var"]), minus_mean=-p["running_mean"])["y"]
    np.testing.assert_allclose(got, oracle(x, p, eps=1e-3), atol=2e-5, rtol=2e-5)


def test_constants_fold_into_the_convolution(logger, tmp_path):
    p, w = parameters(6), rng.standard_normal((6, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c", *NAMES], ["y"], name="bn"),
    ]
    model = save_model(tmp_path / "m.onnx", nodes, {"x": [1, 3, 8, 8]}, {"y": [1, 6, 8, 8]}, {"w": w, **p})
    engine = build(model, logger)
    assert sum("conv" in name or "bn" in name for name in layer_names(engine)) == 1, layer_names(engine)
    x = rng.standard_normal((1, 3, 8, 8)).astype(np.float32)
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    wanted = oracle(np.einsum("ncxyij,kcij->nkxy", windows, w.astype(np.float64)), p)
    np.testing.assert_allclose(trt.Model(engine)(x=x)["y"], wanted, atol=1e-4, rtol=1e-4)


def test_training_mode_computes_batch_statistics(logger, tmp_path):
    """Neither mean 0 and variance 1 nor the running statistics are used silently."""
    p = parameters(4)
    node = helper.make_node("BatchNormalization", ["x", *NAMES], ["y", "mean", "var"], training_mode=1, momentum=0.9)
    shape = [4, 4, 3, 3]
    model = save_model(tmp_path / "m.onnx", [node], {"x": shape}, {"y": shape, "mean": [4], "var": [4]}, p)
    x = (rng.standard_normal(shape) * 3 + 5).astype(np.float32)
    got = trt.Model(build(model, logger))(x=x)
    batch = {
        **p,
        "running_mean": x.astype(np.float64).mean((0, 2, 3)),
        "running_var": x.astype(np.float64).var((0, 2, 3)),
    }
    np.testing.assert_allclose(got["y"], oracle(x, batch), atol=2e-5, rtol=2e-5)
    np.testing.assert_allclose(got["mean"], 0.9 * p["running_mean"] + 0.1 * batch["running_mean"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got["var"], 0.9 * p["running_var"] + 0.1 * batch["running_var"], rtol=1e-5, atol=1e-5)
    assert onnx.load(model).graph.node[0].op_type == "BatchNormalization"
