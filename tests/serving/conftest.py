"""A Triton server with three small models, for the tests of clients, wrong requests and reloads.

It serves them by the backend of $CARNOT's build folder. With CARNOT_SERVING_PEER=FOLDER, which has a folder onnxruntime
with Triton's backend of that name, the same models are served by ONNX Runtime: tests of the clients must pass there too.
"""

import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
CARNOT = pathlib.Path(os.environ.get("CARNOT", ROOT / "build/bin/carnot")).resolve()
BUILD = CARNOT.parents[1]
PEER = os.environ.get("CARNOT_SERVING_PEER")
VENV = BUILD / "triton"
sys.path.insert(0, str(ROOT / "tools/serving"))
from triton_server import TritonServer, find_wheel  # noqa: E402

TYPES = {TensorProto.FLOAT: "TYPE_FP32", TensorProto.INT64: "TYPE_INT64", TensorProto.BOOL: "TYPE_BOOL"}
TYPES[TensorProto.STRING] = "TYPE_STRING"


def make_model(nodes, inputs, outputs, weights=()) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "served",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def picture_model() -> onnx.ModelProto:
    w = np.random.default_rng(1).standard_normal((5, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("ReduceMean", ["r", "axes"], ["y"], keepdims=0),
        helper.make_node("ReduceMax", ["r", "axes"], ["top"], keepdims=0),
    ]
    weights = [("w", w), ("axes", np.array([2, 3], np.int64))]
    outputs = [("y", 1, ["n", 5]), ("top", 1, ["n", 5])]
    return make_model(nodes, [("x", 1, ["n", 3, 16, 16])], outputs, weights)


def words_model() -> onnx.ModelProto:
    node = helper.make_node("StringConcat", ["a", "b"], ["y"])
    return make_model([node], [(n, TensorProto.STRING, ["n", 2]) for n in "ab"], [("y", TensorProto.STRING, ["n", 2])])


def choice_model() -> onnx.ModelProto:
    node = helper.make_node("Where", ["which", "a", "b"], ["y"])
    inputs = [("which", TensorProto.BOOL, ["n", 3]), ("a", TensorProto.INT64, ["n", 3]), ("b", TensorProto.INT64, ["n", 3])]
    return make_model([node], inputs, [("y", TensorProto.INT64, ["n", 3])])


MODELS = {"picture": picture_model(), "words": words_model(), "choice": choice_model()}
MOST = 8


def oracle(name, feeds):
    """The outputs by name, as ONNX Runtime computes them in this process."""
    session = onnxruntime.InferenceSession(MODELS[name].SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


def shape_flags(model: onnx.ModelProto) -> list:
    def shapes(rows):
        return ",".join(
            f"{i.name}:{'x'.join(str(d.dim_value or rows) for d in i.type.tensor_type.shape.dim)}"
            for i in model.graph.input
        )

    return [f"--minShapes={shapes(1)}", f"--optShapes={shapes(MOST)}", f"--maxShapes={shapes(MOST)}"]


def build_plan(model: onnx.ModelProto, plan: pathlib.Path) -> None:
    source = plan.with_suffix(".onnx")
    onnx.save(model, source)
    subprocess.run([CARNOT, "build", source, f"--output={plan}", "--quiet", *shape_flags(model)], check=True)
    source.unlink()


def write_for_carnot(folder: pathlib.Path, model: onnx.ModelProto, more: str = "") -> None:
    (folder / "1").mkdir(parents=True)
    build_plan(model, folder / "1/model.plan")
    (folder / "config.pbtxt").write_text('backend: "carnot"\n' + more)


def write_for_peer(folder: pathlib.Path, model: onnx.ModelProto) -> None:
    (folder / "1").mkdir(parents=True)
    onnx.save(model, folder / "1/model.onnx")

    def entries(key, values):
        return "".join(
            f'{key} [{{name: "{v.name}" data_type: {TYPES[v.type.tensor_type.elem_type]} '
            f"dims: [{','.join(str(d.dim_value) for d in v.type.tensor_type.shape.dim[1:])}]}}]\n"
            for v in values
        )

    (folder / "config.pbtxt").write_text(
        f'backend: "onnxruntime"\nmax_batch_size: {MOST}\ndefault_model_filename: "model.onnx"\ndynamic_batching {{}}\n'
        + "instance_group [{kind: KIND_CPU}]\n"
        + entries("input", model.graph.input)
        + entries("output", model.graph.output)
    )


@pytest.fixture(scope="session")
def needs_server():
    if find_wheel(VENV) is None:
        pytest.skip(f"the Triton server is not installed in {VENV}: tools/dev/setup_triton installs it")


@pytest.fixture(scope="session")
def server(needs_server, tmp_path_factory):
    work = tmp_path_factory.mktemp("triton")
    for name, model in MODELS.items():
        (write_for_peer if PEER else write_for_carnot)(work / "repository" / name, model)
    backends = pathlib.Path(PEER) if PEER else BUILD / "lib/triton/backends"
    with TritonServer(VENV, work / "repository", backends, work / "log") as running:
        yield running
