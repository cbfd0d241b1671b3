"""Random graphs of GEMMs, normalizations, reshapes and slices give equal results with and without passes."""

import pathlib
import random

import numpy as np
import onnx
import pytest
from harness import passes
from onnx import TensorProto, helper, numpy_helper


class Stack:
    """A random network by seed. |values|: names and dimensions of all tensors."""

    def __init__(self, seed: int) -> None:
        self.choose, self.rng = random.Random(seed), np.random.default_rng(seed)
        self.nodes, self.weights = [], []
        self.dims = [self.choose.choice([1, 2, 3]), self.choose.choice([1, 4, 5]), self.choose.choice([8, 12])]
        self.values = [("x", self.dims)]

    def constant(self, array: object) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def weight(self, *dims: int) -> str:
        return self.constant((self.rng.standard_normal(dims) * 0.4).astype(np.float32))

    def add(self, op: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(
            helper.make_node(op, list(inputs), [f"v{len(self.nodes)}"], f"n{len(self.nodes)}", **attributes)
        )
        return self.nodes[-1].output[0]

    def product(self, v: str, dims: list) -> tuple[str, list]:
        wide = dims[:-1] + [self.choose.choice([8, 12])]
        return self.add("MatMul", v, self.weight(dims[-1], wide[-1])), wide

    def flat_product(self, v: str, dims: list) -> tuple[str, list]:
        wide = dims[:-1] + [self.choose.choice([8, 12])]
        flat = self.add("Reshape", v, self.constant(np.array([-1, dims[-1]])))
        bias = [self.weight(wide[-1])] * self.choose.randint(0, 1)
        y = self.add("Gemm", flat, self.weight(wide[-1], dims[-1]), *bias, transB=1)
        return self.add(
            "Reshape", y, self.constant(np.array([-1] + wide[1:] if self.choose.random() < 0.5 else wide))
        ), wide

    def bias(self, v: str, dims: list) -> tuple[str, list]:
        return self.add(
            "Add", v, self.weight(*self.choose.choice([[], [dims[-1]], [1, dims[-1]], [1, 1, dims[-1]]]))
        ), dims

    def activation(self, v: str, dims: list) -> tuple[str, list]:
        return self.add(self.choose.choice(["Relu", "Tanh", "Sigmoid"]), v), dims

    def residual(self, v: str, dims: list) -> tuple[str, list]:
        return self.add("Add", v, self.choose.choice([name for name, d in self.values if d == dims])), dims

    def norm(self, v: str, dims: list) -> tuple[str, list]:
        return self.add("LayerNormalization", v, self.weight(dims[-1]), self.weight(dims[-1]), axis=-1), dims

    def turned(self, v: str, dims: list) -> tuple[str, list]:
        return self.add("Transpose", v, perm=[1, 0, 2]), [dims[1], dims[0], dims[2]]

    def taken(self, v: str, dims: list) -> tuple[str, list]:
        axis, kind = self.choose.randrange(len(dims)), self.choose.choice(["one", "list", "slice"])
        if kind == "one" and len(dims) > 1:
            index = np.array(self.choose.randrange(-dims[axis], dims[axis]))
            return self.add("Gather", v, self.constant(index), axis=axis), dims[:axis] + dims[axis + 1 :]
        if kind == "slice":
            start = self.choose.randrange(dims[axis])
            lists = [self.constant(np.array([n])) for n in (start, dims[axis], axis)]
            return self.add("Slice", v, *lists), dims[:axis] + [dims[axis] - start] + dims[axis + 1 :]
        index = [self.choose.randrange(dims[axis]) for _ in range(self.choose.randint(1, 3))]
        return self.add("Gather", v, self.constant(np.array(index)), axis=axis - len(dims)), dims[:axis] + [
            len(index)
        ] + dims[axis + 1 :]

    def save(self, path: pathlib.Path) -> list:
        steps = [
            self.product,
            self.product,
            self.flat_product,
            self.bias,
            self.activation,
            self.residual,
            self.norm,
            self.turned,
        ]
        for _ in range(self.choose.randint(4, 14)):
            self.values.append(self.choose.choice(steps)(*self.choose.choice(self.values[-3:])))
        outputs = [self.choose.choice(self.values[1:])[0]] * self.choose.randint(0, 1)
        last = self.values[-1]
        for _ in range(self.choose.randint(0, 2)):
            last = self.taken(*last)
        outputs = list(dict.fromkeys([last[0], *outputs]))
        shape = [self.choose.choice(["batch", self.dims[0]]), *self.dims[1:]]
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
            self.weights,
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
        return outputs


@pytest.mark.parametrize("seed", range(60))
def test_passes_change_nothing(seed: int, tmp_path: pathlib.Path) -> None:
    stack = Stack(seed)
    outputs = stack.save(tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", stack.rng.standard_normal(stack.dims).astype(np.float32))
    results = []
    for flags in [], ["--noPasses"]:
        folder = tmp_path / f"out{len(results)}"
        passes("run", tmp_path / "m.onnx", f"--input=x={tmp_path / 'x.npy'}", f"--output-dir={folder}", *flags)
        results.append([np.load(folder / f"{name}.npy") for name in outputs])
    for found, plain in zip(*results):
        assert found.shape == plain.shape and np.abs(found - plain).max(initial=0) <= 2e-4 * max(
            1, np.abs(plain).max(initial=0)
        )
