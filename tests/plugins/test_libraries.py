"""Plugins and engines: libraries of plugins, engines that carry them, overrides, missing plugins, threads."""

import pathlib
import subprocess

import numpy as np
import pytest
from harness import CARNOT, LIBRARY, carnot, model, run_model
from onnx import helper

X = np.linspace(-6, 6, 24, dtype=np.float32).reshape(2, 3, 4)


def swish(x: np.ndarray, shift: float = 0.5) -> np.ndarray:
    x = x.astype(np.float64)
    return x * (x / 6 + shift).clip(0, 1)


def swish_model(folder: pathlib.Path, dynamic: bool = True, **attrs: object) -> pathlib.Path:
    nodes = [
        helper.make_node("Neg", ["x"], ["a"], "before"),
        helper.make_node("ExampleHardSwish", ["a"], ["b"], "swish", domain="my.ops", **attrs),
        helper.make_node("Neg", ["b"], ["y"], "after"),
    ]
    return model(folder, nodes, {"x": X}, ["y"], dynamic=dynamic)


@pytest.mark.parametrize("flag", ["--plugins", "--staticPlugins", "--dynamicPlugins"])
def test_library(tmp_path: pathlib.Path, flag: str) -> None:
    (y,) = run_model(tmp_path, swish_model(tmp_path, shift=0.25), {"x": X}, ["y"], f"{flag}={LIBRARY}")
    np.testing.assert_allclose(y, -swish(-X, 0.25), rtol=1e-6, atol=1e-6)


def test_engine_needs_the_library(tmp_path: pathlib.Path) -> None:
    engine = tmp_path / "m.plan"
    done = carnot(
        "exec",
        f"--onnx={swish_model(tmp_path, dynamic=False)}",
        f"--plugins={LIBRARY}",
        f"--saveEngine={engine}",
        "--skipInference",
    )
    assert done.returncode == 0, done.stderr
    (y,) = run_model(tmp_path, engine, {"x": X}, ["y"], f"--plugins={LIBRARY}")
    np.testing.assert_allclose(y, -swish(-X), rtol=1e-6, atol=1e-6)
    done = carnot("exec", f"--loadEngine={engine}")
    assert done.returncode == 1
    for part in ("ExampleHardSwish version 1", "plugin_hard_swish", "node swish"):
        assert part in done.stderr + done.stdout


def test_engine_carries_the_library(tmp_path: pathlib.Path) -> None:
    engine = tmp_path / "m.plan"
    flags = [f"--setPluginsToSerialize={LIBRARY}", f"--saveEngine={engine}", "--skipInference"]
    done = carnot("exec", f"--onnx={swish_model(tmp_path, dynamic=False)}", *flags)
    assert done.returncode == 0, done.stderr
    done = carnot("exec", f"--loadEngine={engine}")
    assert done.returncode == 1
    assert "the engine carries plugin library" in done.stderr + done.stdout
    (y,) = run_model(tmp_path, engine, {"x": X}, ["y"], "--allowEngineCode")
    np.testing.assert_allclose(y, -swish(-X), rtol=1e-6, atol=1e-6)


def test_refit_strip_and_inspect(tmp_path: pathlib.Path) -> None:
    engine = tmp_path / "m.plan"
    flags = [
        f"--plugins={LIBRARY}",
        "--refit",
        f"--saveEngine={engine}",
        "--skipInference",
        "--dumpLayerInfo",
        "--profilingVerbosity=detailed",
    ]
    done = carnot("exec", f"--onnx={swish_model(tmp_path, dynamic=False)}", *flags)
    assert done.returncode == 0, done.stderr
    for part in ("PLUGIN_V3", "ExampleHardSwish", "cpu_plugin"):
        assert part in done.stdout
    (y,) = run_model(tmp_path, engine, {"x": X}, ["y"], f"--plugins={LIBRARY}")
    np.testing.assert_allclose(y, -swish(-X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("taken", [True, False])
def test_plugin_in_a_branch(tmp_path: pathlib.Path, taken: bool) -> None:
    out = helper.make_tensor_value_info("b", 1, None)
    then = helper.make_graph([helper.make_node("ExampleHardSwish", ["x"], ["b"], domain="my.ops")], "then", [], [out])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "else", [], [out])
    node = helper.make_node("If", ["flag"], ["y"], "choice", then_branch=then, else_branch=other)
    inputs = {"flag": np.array(taken), "x": X}
    (y,) = run_model(tmp_path, model(tmp_path, [node], inputs, ["y"]), inputs, ["y"], f"--plugins={LIBRARY}")
    np.testing.assert_allclose(y, swish(X) if taken else -X, rtol=1e-6, atol=1e-6)


def test_threads_give_the_same_bits(tmp_path: pathlib.Path) -> None:
    x = np.random.default_rng(5).standard_normal((3, 40000)).astype(np.float32)
    path = model(tmp_path, [helper.make_node("ExampleHardSwish", ["x"], ["y"], domain="my.ops")], {"x": x}, ["y"])
    found = [run_model(tmp_path, path, {"x": x}, ["y"], f"--plugins={LIBRARY}", f"--threads={n}")[0] for n in (1, 3)]
    assert np.array_equal(*found)
    np.testing.assert_allclose(found[0], swish(x), rtol=1e-5, atol=1e-6)


def missing(folder: pathlib.Path, op: str, **attrs: object) -> str:
    node = helper.make_node(op, ["x"], ["y"], "lonely", domain="trt.plugins", **attrs)
    done = carnot("exec", f"--onnx={model(folder, [node], {'x': X}, ['y'])}", "--skipInference")
    assert done.returncode == 1
    return done.stderr + done.stdout


def test_missing_plugin_lists_the_nearest(tmp_path: pathlib.Path) -> None:
    said = missing(tmp_path, "GroupNormalisationPlugin")
    for part in ("lonely", "GroupNormalisationPlugin version 1", "GroupNormalizationPlugin version 1"):
        assert part in said


def test_missing_version_lists_those_there_are(tmp_path: pathlib.Path) -> None:
    said = missing(tmp_path, "InstanceNormalization_TRT", plugin_version="9")
    for version in "123":
        assert f"InstanceNormalization_TRT version {version}" in said


def instance_norm(folder: pathlib.Path, *flags: str) -> tuple:
    x = np.random.default_rng(3).standard_normal((2, 3, 4, 5)).astype(np.float32)
    scale, bias = np.array([1, 2, 3], np.float32), np.array([0.5, 0, -1], np.float32)
    node = helper.make_node("InstanceNormalization", ["x", "scale", "bias"], ["y"], "norm", epsilon=1e-3)
    path = model(folder, [node], {"x": x}, ["y"], {"scale": scale, "bias": bias})
    return x, run_model(folder, path, {"x": x}, ["y"], *flags)[0]


def test_instance_norm_by_plugin_gives_the_same(tmp_path: pathlib.Path) -> None:
    x, native = instance_norm(tmp_path)
    _, by_plugin = instance_norm(tmp_path, "--pluginInstanceNorm")
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean((2, 3), keepdims=True)) / np.sqrt(wide.var((2, 3), keepdims=True) + 1e-3)
    wanted = wanted * np.array([1, 2, 3]).reshape(1, 3, 1, 1) + np.array([0.5, 0, -1]).reshape(1, 3, 1, 1)
    np.testing.assert_allclose(native, wanted, rtol=1e-5, atol=1e-5)
    assert np.array_equal(native, by_plugin)


OVERRIDE = r"""
#include <stdlib.h>
#include "carnot/plugin.h"
static carnot_plugin self;
static bool dims(void* s, const carnot_plugin_shape* in, int32_t n, carnot_plugin_shape* out, int32_t m,
                 const carnot_exprs* e, carnot_plugin_error* error) {
  out[0] = in[0];
  return true;
}
static bool enqueue(void* s, const carnot_plugin_run* run, carnot_plugin_error* error) {
  int64_t count = 1;
  for (int i = 0; i < run->inputs[0].dims.rank; i++) count *= run->inputs[0].dims.d[i];
  for (int64_t i = 0; i < count; i++) ((float*)run->outputs[0].data)[i] = 42;
  return true;
}
static bool fields(void* s, const carnot_plugin_field** out, int32_t* n, carnot_plugin_error* e) {
  *out = NULL;
  *n = 0;
  return true;
}
static void destroy(void* s) {}
static carnot_plugin self = {.size = sizeof(self), .api_version = API, .name = "Relu", .version = "1",
                             .output_count = 1, .output_dims = dims, .enqueue = enqueue,
                             .serialize = fields, .destroy = destroy};
static carnot_plugin* create(void* u, const char* n, const carnot_plugin_field* f, int32_t c, carnot_plugin_phase p,
                             carnot_plugin_error* e) { return &self; }
static const carnot_plugin_creator creator = {.size = sizeof(creator), .api_version = API, .name = "Relu",
                                              .version = "1", .create = create};
CARNOT_API int32_t carnot_plugin_creators(const carnot_plugin_creator* const** out);
int32_t carnot_plugin_creators(const carnot_plugin_creator* const** out) {
  static const carnot_plugin_creator* const all[] = {&creator};
  *out = all;
  return 1;
}
"""


def library(folder: pathlib.Path, api: str) -> pathlib.Path:
    (folder / "relu.c").write_text(OVERRIDE)
    include = pathlib.Path(__file__).resolve().parents[2] / "include"
    out = folder / "librelu.so"
    subprocess.run(["cc", "-shared", "-fPIC", f"-DAPI={api}", f"-I{include}", folder / "relu.c", "-o", out], check=True)
    return out


def test_override(tmp_path: pathlib.Path) -> None:
    path = model(tmp_path, [helper.make_node("Relu", ["x"], ["y"], "relu")], {"x": X}, ["y"])
    flag = f"--plugins={library(tmp_path, 'CARNOT_PLUGIN_API_VERSION')}"
    (y,) = run_model(tmp_path, path, {"x": X}, ["y"], flag)
    assert np.array_equal(y, X.clip(0))
    (y,) = run_model(tmp_path, path, {"x": X}, ["y"], flag, "--enablePluginOverride")
    assert (y == 42).all()


def test_interface_of_another_version(tmp_path: pathlib.Path) -> None:
    done = carnot("exec", "--onnx=none.onnx", f"--plugins={library(tmp_path, '7')}")
    assert done.returncode == 1
    for part in ("librelu.so", "version 7", "versions 1 to 1 work"):
        assert part in done.stderr


def test_file_that_is_no_library(tmp_path: pathlib.Path) -> None:
    (tmp_path / "lib.so").write_text("text")
    done = carnot("run", "none.onnx", f"--plugins={tmp_path / 'lib.so'}")
    assert done.returncode == 1
    assert "no shared object" in done.stderr
    assert pathlib.Path(CARNOT).exists()
