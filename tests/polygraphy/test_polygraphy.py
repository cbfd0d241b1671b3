"""The unmodified polygraphy package on the alias, on a machine without a GPU. Part of make test-long."""

import os
import pathlib
import subprocess
import sys

import pytest

from carnot import alias

pytest.importorskip("polygraphy", reason="polygraphy is not installed")
pytestmark = pytest.mark.skipif(alias.has_driver(), reason="a CUDA driver is present: the stand-ins are not used")

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = pathlib.Path(os.environ.get("CARNOT_MODELS", ROOT.parent / "shared" / "models"))


@pytest.fixture(params=["ultraface_rfb_320.onnx", "squeezenet_fp16.onnx"])
def model(request):
    path = MODELS / request.param
    if not path.exists():
        pytest.skip(f"{path} is absent")
    return path


def polygraphy(*arguments, folder=None):
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(alias.__file__).parents[2])}
    words = [sys.executable, "-m", "carnot.alias", "-m", "polygraphy", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=folder)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


ALL = ["--trt-outputs", "mark", "all"]
# The models' own float16, and half layers, are compared at their precision; so are inner tensors of any size.
CASES = [
    ([], None),
    (ALL, None),
    (["--fp16"], "1e-3"),
    (["--bf16"], "1e-1"),
    ([*ALL, "--onnx-outputs", "mark", "all"], "1e-3"),
]


@pytest.mark.parametrize("flags, tolerance", CASES, ids=[" ".join(flags) for flags, _ in CASES])
def test_run(model, flags, tolerance):
    tolerance = "2e-2" if "fp16" in model.name and tolerance in (None, "1e-3") else tolerance
    tolerances = ["--rtol", tolerance, "--atol", tolerance] if tolerance else []
    assert "PASSED" in polygraphy("run", model, "--trt", "--onnxrt", *flags, *tolerances)


def test_inspect_and_convert(model, tmp_path):
    assert "Layer" in polygraphy("inspect", "model", model, "--display-as", "trt", "--show", "layers", "attrs")
    plan = tmp_path / "model.plan"
    polygraphy("convert", model, "--convert-to", "trt", "-o", plan)
    assert "layer(s)" in polygraphy("inspect", "model", plan, "--model-type", "engine", "--show", "layers").lower()
    assert "PASSED" in polygraphy("run", plan, "--trt", "--model-type", "engine", "--validate")
    polygraphy("inspect", "capability", model, "-o", tmp_path / "capability")


def test_saved_inputs_and_outputs(model, tmp_path):
    polygraphy("run", model, "--onnxrt", "--save-inputs", "in.json", "--save-outputs", "out.json", folder=tmp_path)
    tolerances = ["--rtol", "2e-2", "--atol", "2e-2"] if "fp16" in model.name else []
    said = polygraphy(
        "run", model, "--trt", "--load-inputs", "in.json", "--load-outputs", "out.json", *tolerances, folder=tmp_path
    )
    assert "PASSED" in said


def test_debug_precision(tmp_path):
    """Bisects the layers that must stay in float32, by builds and polygraphy's own check."""
    path = MODELS / "ultraface_rfb_320.onnx"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    polygraphy("run", path, "--onnxrt", "--save-inputs", "in.json", "--save-outputs", "out.json", folder=tmp_path)
    check = (
        f"{sys.executable} -m carnot.alias -m polygraphy run polygraphy_debug.engine --trt --model-type engine "
        "--load-inputs in.json --load-outputs out.json --rtol 1e-1 --atol 1e-1"
    )
    said = polygraphy(
        "debug", "precision", path, "--fp16", "--mode", "bisect", "--check", *check.split(), folder=tmp_path
    )
    assert "Finished" in said or "PASSED" in said


@pytest.mark.parametrize("flags, tolerance", [([], "5e-2"), (["--fp16"], "1")], ids=["", "--fp16"])
def test_candy_on_pictures(flags, tolerance):
    """Inputs and outputs are in [0, 255], the range for which the normalizations of the model are conditioned.

    On [0, 1] the two differ by 0.3, and ONNX Runtime from itself, with and without its optimizer, by 0.06. Against
    float64 the error of Carnot is 0.21 at most and 0.0051 in the mean, that of ONNX Runtime 0.23 and 0.0078.
    """
    path = MODELS / "candy.onnx"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    said = polygraphy(
        "run", path, "--trt", "--onnxrt", "--val-range", "inputImage:[0,255]", "--atol", tolerance, *flags
    )
    assert "PASSED" in said
