"""Einsum decomposed into GEMM and reshapes: results against NumPy in float64, and the graph behind the pass."""

import json
import pathlib
import re

import numpy as np
import onnx
import pytest
from harness import carnot, passes
from onnx import TensorProto, helper, numpy_helper

SIZES = dict(zip("bhqkdijmnst", (2, 3, 5, 7, 8, 4, 6, 9, 10, 5, 3)))


def dims_of(term: str) -> list:
    return [SIZES[letter] for letter in term]


def save(
    path: pathlib.Path, equation: str, dims: list, dtype: int = TensorProto.FLOAT, constant: np.ndarray | None = None
) -> pathlib.Path:
    """Writes a model with operands x0, x1, ... of |dims|; |constant| replaces the last one if given."""
    names = [f"x{i}" for i in range(len(dims))]
    inputs = [helper.make_tensor_value_info(n, dtype, d) for n, d in zip(names, dims)]
    weights = [] if constant is None else [numpy_helper.from_array(constant, inputs.pop().name)]
    node = helper.make_node("Einsum", names, ["y"], "sum", equation=equation)
    graph = helper.make_graph([node], "net", inputs, [helper.make_tensor_value_info("y", dtype, None)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def check(folder: pathlib.Path, equation: str, arrays: list, dims: list | None = None, constant: bool = False) -> list:
    """Builds and runs; returns the operators of the graph after the pass."""
    dtype = helper.np_dtype_to_tensor_dtype(arrays[0].dtype)
    dims = dims or [list(a.shape) for a in arrays]
    model = save(folder / "m.onnx", equation, dims, dtype, arrays[-1] if constant else None)
    fed = arrays[:-1] if constant else arrays
    flags = []
    if any(isinstance(d, str) for operand in dims for d in operand):
        for flag, change in ("min", lambda d: 1), ("opt", lambda d: d), ("max", lambda d: 2 * d):
            flags.append(
                f"--{flag}Shapes="
                + ",".join(
                    f"x{i}:" + "x".join(str(change(n) if isinstance(d, str) else n) for d, n in zip(dims[i], a.shape))
                    for i, a in enumerate(fed)
                )
            )
    built = carnot("build", model, "--output", folder / "m.plan", "--backend=cpu", "--dumpGraph=decompose_einsum", *flags)
    assert built.returncode == 0, built.stderr
    for i, a in enumerate(fed):
        np.save(folder / f"x{i}.npy", a)
    passes(
        "run",
        folder / "m.plan",
        *[f"--input=x{i}={folder}/x{i}.npy" for i in range(len(fed))],
        "--output-dir",
        folder / "out",
    )
    found = np.load(folder / "out" / "y.npy")
    if arrays[0].dtype.kind == "f":
        wide = [a.astype(np.float64) for a in arrays]
        wanted, bound = np.einsum(equation, *wide), np.einsum(equation, *map(np.abs, wide))
        assert found.shape == wanted.shape
        assert (np.abs(found - wanted) <= 8 * np.finfo(arrays[0].dtype).eps * bound + 1e-30).all()
    else:
        assert np.array_equal(found, np.einsum(equation, *arrays))
    return re.findall(r"^%\d+ = (\w+)\(", built.stderr, re.M)


def arrays_of(equation: str, seed: int = 3) -> list:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(dims_of(term)).astype(np.float32) for term in equation.split("->")[0].split(",")]


EQUATIONS = {
    # Nothing is moved.
    "bij,bjk->bik": ["matmul"],
    "ij,jk->ik": ["matmul"],
    "bhqd,bhkd->bhqk": ["matmul"],
    "ij,j->i": "matmul+reshape",
    "ij,kj->ki": ["matmul"],
    "i,i->": "matmul+reshape",
    "bi,bi->b": ["mul", "reduce"],
    "bij,jbi->b": "transpose+mul+reduce",
    "bhij,hjk->bhik": "matmul+reshape+transpose",
    "bqd,dhk->bqhk": "matmul+reshape",
    "bqhd,hdk->bqk": "matmul+reshape",
    # Operands or results are.
    "bqhd,bkhd->bhqk": "matmul+transpose",
    "bhqk,bkhd->bqhd": "matmul+transpose",
    "ji,jk->ik": "matmul+transpose",
    "bij,bjk->bki": "matmul+transpose",
    "bijm,kjbm->bki": "matmul+reshape+transpose",
    "ij,jk": ["matmul"],
    "bqd,hqk->bhdk": "matmul+reshape+transpose",
    # Sums of one operand alone go first.
    "ijm,jk->ik": "matmul+reduce",
    "ij,km->ik": "mul+reduce+unsqueeze",
    # Without anything to sum.
    "i,j->ij": "mul+unsqueeze",
    "ij,ij->ij": ["mul"],
    "bi,bi->ib": "mul+transpose",
    "bi,i->bi": ["mul"],
    ",ij->ij": ["mul"],
    # One operand.
    "ij->ji": ["transpose"],
    "ij->i": ["reduce"],
    "bij->jb": "reduce+transpose",
    "ij->": ["reduce"],
    "ij->ij": ["identity"],
    "ii->i": ["einsum"],
    "bii,bi->b": ["einsum"],
    # More than two.
    "ij,jk,km->im": ["matmul", "matmul"],
    "bi,bj,bij->b": "mul+reduce+unsqueeze",
    "i,j,k->ijk": "mul+unsqueeze",
    "ni,nj,nk,ijk->n": "mul+matmul+reshape+unsqueeze",
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_equations(equation: str, tmp_path: pathlib.Path) -> None:
    found, wanted = check(tmp_path, equation, arrays_of(equation)), EQUATIONS[equation]
    assert found == wanted if isinstance(wanted, list) else set(found) == set(wanted.split("+")), found


@pytest.mark.parametrize("equation", ["bqd,dk->bqk", "qd,bkd->bkq", "bqhd,hdk->bqk", "ijm,jk->ik"])
def test_constant_weights(equation: str, tmp_path: pathlib.Path) -> None:
    assert "matmul" in check(tmp_path, equation, arrays_of(equation), constant=True)


SYMBOLIC = {
    "bij,bjk->bik": [["b", 4, "j"], ["b", "j", 7]],
    "bqhd,bkhd->bhqk": [["b", "q", 3, 8], ["b", "k", 3, 8]],
    "bhqk,bkhd->bqhd": [["b", 3, "q", "k"], ["b", "k", 3, 8]],
    "bqd,dk->bqk": [["b", "q", 8], [8, 7]],
    "bqd,dhk->bqhk": [["b", "q", 8], [8, 3, 7]],
    "bi,bi->b": [["b", 4], ["b", 4]],
    "bi,bj->bij": [["b", "i"], ["b", "j"]],
    "ij,jk,km->im": [["i", 6], [6, "k"], ["k", 9]],
    "bij->jb": [["b", 4, "j"]],
}


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("equation", SYMBOLIC)
def test_symbolic_dimensions(equation: str, constant: bool, tmp_path: pathlib.Path) -> None:
    dims = SYMBOLIC[equation]
    if constant and (len(dims) < 2 or any(isinstance(d, str) for d in dims[-1])):
        pytest.skip("the last operand has no fixed dimensions")
    assert "einsum" not in check(tmp_path, equation, arrays_of(equation), dims, constant)


def test_what_no_list_of_integers_says(tmp_path: pathlib.Path) -> None:
    """Two dynamic dimensions on both sides of a batch: the operator is not decomposed."""
    equation = "bmnij,bkj->bmnik"
    dims = [["b", "m", "n", 4, "j"], ["b", "k", "j"]]
    assert check(tmp_path, equation, arrays_of(equation), dims) == ["einsum"]


@pytest.mark.parametrize(
    "equation,shapes",
    [
        ("...ij,...jk->...ik", [(2, 3, 4, 5), (2, 3, 5, 6)]),
        ("...ij,...jk->...ik", [(3, 4, 5), (2, 1, 5, 6)]),
        ("...ij,...jk", [(2, 1, 4, 5), (3, 5, 6)]),
        ("...i->...", [(2, 3, 4)]),
        ("b...,b...->b...", [(2, 3, 4), (2, 1, 4)]),
        ("...hd,hd->...", [(2, 5, 3, 4), (3, 4)]),
        ("bi,bj->bij", [(1, 3), (4, 5)]),
        ("bij,bjk->bik", [(1, 3, 4), (6, 4, 5)]),
    ],
)
def test_dimensions_that_broadcast(equation: str, shapes: list, tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(5)
    assert "einsum" not in check(tmp_path, equation, [rng.standard_normal(s).astype(np.float32) for s in shapes])


def test_a_sum_that_broadcasts_stays(tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(5)
    assert check(tmp_path, "ij,jk->ik", [rng.standard_normal(s).astype(np.float32) for s in [(4, 1), (5, 6)]]) == [
        "einsum"
    ]


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("equation", ["bij,bjk->bik", "bqhd,bkhd->bhqk", "ijm,jk->ik", "bi,bi->bi", "ij,jk,km->im"])
def test_types(equation: str, dtype: type, tmp_path: pathlib.Path) -> None:
    whole = np.issubdtype(dtype, np.integer)
    arrays = [(a * 1000).astype(dtype) if whole else a.astype(dtype) for a in arrays_of(equation)]
    assert "einsum" not in check(tmp_path, equation, arrays)


def test_attention_is_recognised(tmp_path: pathlib.Path) -> None:
    """As Flax and Keras write it: both matmuls are einsums over [batch, steps, heads, elements]."""
    names = ["q", "k", "v"]
    nodes = [
        helper.make_node("Einsum", ["q", "k"], ["s"], "scores", equation="bqhd,bkhd->bhqk"),
        helper.make_node("Softmax", ["s"], ["p"], "weights", axis=-1),
        helper.make_node("Einsum", ["p", "v"], ["y"], "mix", equation="bhqk,bkhd->bqhd"),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["b", "t", 4, 16]) for n in names]
    graph = helper.make_graph(nodes, "net", values, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "m.onnx")
    flags = [
        f"--{flag}Shapes=" + ",".join(f"{n}:{shape}" for n in names)
        for flag, shape in (("min", "1x1x4x16"), ("opt", "2x9x4x16"), ("max", "4x32x4x16"))
    ]
    passes("build", tmp_path / "m.onnx", "--output", tmp_path / "m.plan", *flags)
    report = json.loads(passes("inspect", tmp_path / "m.plan", "--json"))["Layers"]
    assert len([row for row in report if row["TacticName"] != "view"]) == 1, report
    rng = np.random.default_rng(6)
    q, k, v = (rng.standard_normal((2, 9, 4, 16)).astype(np.float32) for _ in names)
    for name, array in zip(names, (q, k, v)):
        np.save(tmp_path / f"{name}.npy", array)
    passes(
        "run",
        tmp_path / "m.plan",
        *[f"--input={n}={tmp_path}/{n}.npy" for n in names],
        "--output-dir",
        tmp_path / "out",
    )
    scores = np.exp(np.einsum("bqhd,bkhd->bhqk", q.astype(np.float64), k))
    wanted = np.einsum("bhqk,bkhd->bqhd", scores / scores.sum(-1, keepdims=True), v)
    assert np.abs(np.load(tmp_path / "out" / "y.npy") - wanted).max() <= 1e-5 * np.abs(wanted).max()
