"""The generated type stubs hold every public name, method and property of the package."""

import ast
import inspect
import pathlib
import subprocess
import sys

import carnot as trt
import pytest

STUB = pathlib.Path(trt.__file__).parent / "__init__.pyi"


@pytest.fixture(scope="module")
def stub():
    assert STUB.exists(), "the build makes it: ninja python_stubs"
    return ast.parse(STUB.read_text())


def names_of(body):
    found = set()
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname for alias in node.names if alias.asname}
    return found


def test_every_name(stub):
    wanted = {n for n, v in vars(trt).items() if not n.startswith("_") and not inspect.ismodule(v)}
    assert wanted <= names_of(stub.body)


def test_every_member(stub):
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    assert {"ICudaEngine", "INetworkDefinition", "IBuilderConfig", "IPluginV3", "OnnxParser"} <= set(classes)
    for name, node in classes.items():
        kind = getattr(trt, name)
        public = {n for n in vars(kind) if not n.startswith("_")}
        assert public <= names_of(node.body), name
    adders = {n for n in dir(trt.INetworkDefinition) if n.startswith("add_")}
    assert adders <= names_of(classes["INetworkDefinition"].body)
    assert "profiling_verbosity" in names_of(classes["IBuilderConfig"].body), "attributes of the constructor too"


def test_short_forms_have_types(stub):
    functions = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}
    for name in ("build", "load"):
        assert not functions[name].args.kwarg, f"{name} takes options without a name"
        for argument in functions[name].args.args + functions[name].args.kwonlyargs:
            assert ast.unparse(argument.annotation) != "Any", f"{name}: {argument.arg}"
        assert inspect.getdoc(getattr(trt, name))
    for name in ("__call__", "profile", "close", "inputs", "outputs"):
        assert inspect.getdoc(getattr(trt.Model, name)), name


GOOD = """
import carnot as trt
logger = trt.Logger(trt.Logger.WARNING)
builder = trt.Builder(logger)
network = builder.create_network(0)
x = network.add_input("x", trt.float32, (1, 3))
network.mark_output(network.add_activation(x, trt.ActivationType.RELU).get_output(0))
config = builder.create_builder_config()
config.set_flag(trt.BuilderFlag.FP16)
plan = builder.build_serialized_network(network, config)
engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
assert engine is not None
print(engine.get_tensor_name(0))
"""


def test_type_checker(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    for text, code in ((GOOD, 0), (GOOD + "engine.no_such_thing()\n", 1), (GOOD + "config.set_flag(3)\n", 1)):
        (tmp_path / "script.py").write_text(text)
        words = [sys.executable, "-m", "mypy", "--cache-dir", tmp_path / "cache", tmp_path / "script.py"]
        environment = {"MYPYPATH": str(pathlib.Path(trt.__file__).parents[1]), "PATH": ""}
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
        assert done.returncode == code, done.stdout
