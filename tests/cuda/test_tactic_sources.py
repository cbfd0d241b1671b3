"""Tactic sources: the libraries that an engine calls, by --tacticSources and by the cost of loading them.

Needs the stand-in driver and a stand-in of cuBLASLt on the library path.
"""

import json
import os
import pathlib
import subprocess
from typing import Callable, NamedTuple

import onnx
import pytest
import test_fp8
from harness import Device
from net import Net

LIBRARY, BUILT_IN = "cuda_gemm_cublaslt", "cuda_gemm_simt_32x32"


def network(rows: int, depth: int, columns: int) -> onnx.ModelProto:
    net = Net(x=[rows, depth])
    return net.model(net.add("Gemm", "x", net.weight(depth, columns), net.weight(columns)))


class Built(NamedTuple):
    """The tactics and libraries of an engine, and why other tactics were not taken; or the error."""

    tactics: list[str]
    libraries: list[str]
    why: str


class Builder:
    """Builds one GEMM with given tactic sources."""

    def __init__(self, device: Device, folder: pathlib.Path) -> None:
        self.run, self.model, self.plan = device.run, folder / "net.onnx", folder / "net.plan"
        onnx.save(network(8, 16, 24), self.model)

    def inspect(self) -> dict:
        return json.loads(self.run("inspect", self.plan, "--json").stdout)

    def build(self, *flags: str) -> Built:
        done = self.run("build", self.model, "--output", self.plan, "--backend=cuda:sm_90", *flags)
        return Built([], [], done.stderr) if done.returncode else self.built()

    def built(self) -> Built:
        told = self.inspect()
        why = " ".join(layer["Rejected"] for layer in told["Layers"])
        return Built([layer["TacticName"] for layer in told["Layers"]], told["Libraries"], why)


@pytest.fixture
def builder(stand_in: Device, tmp_path: pathlib.Path) -> Builder:
    return Builder(stand_in, tmp_path)


def test_all_sources_are_on(builder: Builder) -> None:
    built = builder.build()
    assert LIBRARY in built.tactics and built.libraries == ["cuBLASLt"], built


def test_a_source_that_is_off_is_left_out(builder: Builder) -> None:
    built = builder.build("--tacticSources=-CUBLAS_LT,-CUDNN")
    assert BUILT_IN in built.tactics and built.libraries == [], built


@pytest.mark.parametrize(("name", "taken"), [(BUILT_IN[:-1], False), (f"{BUILT_IN[:-1]}$", True), (f"{BUILT_IN}$", False)])
def test_tactics_are_left_out_by_prefix_and_by_whole_name(builder: Builder, name: str, taken: bool) -> None:
    flags = (builder.model, "--output", builder.plan, "--backend=cuda:sm_90", "--tacticSources=-CUBLAS_LT,-CUDNN")
    done = builder.run("build", *flags, CARNOT_CUDA_TACTICS=f"-{name}")
    assert done.returncode == 0, done.stderr
    assert (BUILT_IN in builder.built().tactics) == taken


def test_the_reason_is_told(builder: Builder) -> None:
    built = builder.build("--tacticSources=-CUBLAS_LT,-CUDNN")
    assert f"{LIBRARY}: needs cuBLASLt, which the tactic sources leave out" in built.why


def test_inspect_tells_what_an_engine_needs(builder: Builder) -> None:
    builder.build("--tacticSources=-CUBLAS_LT,-CUDNN")
    assert "libraries: none but the driver" in builder.run("inspect", builder.plan).stdout


def test_the_driver_alone_runs_it(builder: Builder) -> None:
    builder.build("--tacticSources=-CUBLAS_LT,-CUDNN")
    done = builder.run("bench", builder.plan, "--iterations=1", "--duration=0", LD_LIBRARY_PATH="")
    assert done.returncode == 0, done.stderr


def test_a_source_is_put_back(builder: Builder) -> None:
    built = builder.build("--tacticSources=-CUBLAS_LT,+CUBLAS_LT")
    assert LIBRARY in built.tactics, built.why


@pytest.mark.parametrize("wrong", ["CUDNN", "-CUDN", "+"])
def test_a_wrong_source_is_refused(builder: Builder, wrong: str) -> None:
    assert f"tactic source '{wrong}' must be + or -" in builder.build(f"--tacticSources={wrong}").why


def test_exec_takes_it_too(builder: Builder) -> None:
    flags = ("--backend=cuda:sm_90", "--skipInference", "--tacticSources=-CUBLAS_LT")
    done = builder.run("exec", f"--onnx={builder.model}", f"--saveEngine={builder.plan}", *flags)
    assert done.returncode == 0, done.stderr
    assert BUILT_IN in [layer["TacticName"] for layer in builder.inspect()["Layers"]], done.stderr


@pytest.fixture
def program(builder: Builder, tmp_path: pathlib.Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs an engine with a generated program where NVRTC is a library that lacks its functions."""
    net = Net(x=[4, 16])
    onnx.save(net.model(net.add("Sigmoid", net.add("Exp", "x"))), builder.model)
    built = builder.run("build", builder.model, "--output", builder.plan, "--backend=cuda", XDG_CACHE_HOME=f"{tmp_path}/own")
    assert built.returncode == 0 and builder.inspect()["Libraries"] == ["NVRTC"], built.stderr
    for name in ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"):
        (tmp_path / name).symlink_to(pathlib.Path(os.environ["LD_LIBRARY_PATH"].split(":")[0]) / "libcublasLt.so.13")

    def run(*flags: str, cache: str) -> subprocess.CompletedProcess[str]:
        environment = dict(LD_LIBRARY_PATH=str(tmp_path), XDG_CACHE_HOME=f"{tmp_path}/{cache}")
        return builder.run("bench", builder.plan, "--iterations=1", "--duration=0", *flags, **environment)

    return run


def test_programs_are_compiled_when_an_engine_is_loaded(program: Callable) -> None:
    done = program(cache="none")
    assert done.returncode and "NVRTC" in done.stderr, done.stderr


def test_the_code_in_an_engine_runs_where_it_is_allowed(program: Callable) -> None:
    assert program("--allowEngineCode", cache="none").returncode == 0


def test_what_this_user_compiled_is_not_compiled_again(program: Callable, tmp_path: pathlib.Path) -> None:
    assert program(cache="own").returncode == 0
    for change in (lambda text: text[:-1], lambda text: text[:100] + b"x" + text[101:], lambda text: b""):
        for file in (tmp_path / "own/carnot/programs").iterdir():
            file.write_bytes(change(file.read_bytes()))
        assert "NVRTC" in program(cache="own").stderr
    (tmp_path / "own/carnot/programs").chmod(0o777)
    assert "NVRTC" in program(cache="own").stderr


# ---- pruning: a library stays in an engine when 1 ms of loading saves at least 10 ns of a run, beyond 150 ms 100 ns ----

# The tile is close to the library, so that end-to-end tuning compares both engines; it keeps the library.
TIMES = {LIBRARY: 1000, "cuda_gemm_multistage_64x64": 1200, "start": 300000000}


def dictate(cache: pathlib.Path, times: dict) -> None:
    """Replaces times of a timing cache; None removes one."""
    lines = [line.split() for line in cache.read_text().splitlines()[1:]]
    kept = [f"{key} {what} {times.get(what, ns)}" for key, what, ns in lines if times.get(what, ns) is not None]
    cache.write_text("\n".join(["carnot-timing-cache 3", *kept, ""]))


class Pruning:
    """Builds with the entries of a timing cache dictated."""

    def __init__(self, device: Device, folder: pathlib.Path) -> None:
        self.builder, self.cache = Builder(device, folder), folder / "times"
        onnx.save(network(64, 64, 64), self.builder.model)
        self.build({})

    def build(self, times: dict) -> tuple[list[str], str]:
        """The engine's libraries, the log and the new cache. |times| replaces the cache's times; None removes one."""
        if self.cache.exists():
            dictate(self.cache, times)
        flags = ("--backend=cuda", "--fp16", f"--timingCacheFile={self.cache}")
        tactics = f"{LIBRARY},cuda_gemm_multistage_64x64"
        done = self.builder.run(
            "build", self.builder.model, "--output", self.builder.plan, *flags, CARNOT_CUDA_TACTICS=tactics
        )
        libraries = self.builder.inspect()["Libraries"] if done.returncode == 0 else []
        return libraries, f"{done.stderr} {self.cache.read_text()}"


@pytest.fixture(scope="module")
def pruning(stand_in: Device, tmp_path_factory: pytest.TempPathFactory) -> Pruning:
    return Pruning(stand_in, tmp_path_factory.mktemp("pruning"))


def test_the_run_is_timed_with_the_library_and_without(pruning: Pruning) -> None:
    _, said = pruning.build({**TIMES, "with": None, "without": None})
    assert said.count(LIBRARY) == 2 and " without " in said, said


@pytest.mark.parametrize("load_ms, without, stays", [(100, 2000, True), (100, 1999, False), (100, 900, False), (300, 17500, True), (300, 17499, False)])
def test_loading_is_weighed(pruning: Pruning, load_ms: int, without: int, stays: bool) -> None:
    """A run takes 1000 ns with the library and |without| ns without it."""
    libraries, said = pruning.build({**TIMES, "start": load_ms * 1000000, "with": 1000, "without": without})
    assert ("cuBLASLt" in libraries) == stays and " without " in said, f"{libraries} {said}"


# ---- FP8 by the library ----

FP8_TILE = "cuda_gemm_tma_64x64"


def build_fp8(builder: Builder, activation: str, quantizes: bool) -> Built:
    """A GEMM of FP8 operands where the library takes less time than the tile."""
    cache = builder.plan.with_name("times")
    onnx.save(test_fp8.gemm(64, 32, 48, activation, False, quantizes), builder.model)
    environment = {"CARNOT_CUDA_TACTICS": f"{test_fp8.LIBRARY},{FP8_TILE},cuda_pointwise,copies"}
    times = {test_fp8.LIBRARY: 1000, FP8_TILE: 3000, "start": 1000000, "with": 1000, "without": 3000}
    for _ in range(3):  # its time, then those of the run with the library and without it
        flags = ("--backend=cuda", "--fp16", f"--timingCacheFile={cache}")
        done = builder.run("build", builder.model, "--output", builder.plan, *flags, **environment)
        assert done.returncode == 0, done.stderr
        dictate(cache, times)
    return builder.built()


def test_fp8_operands_by_the_library(builder: Builder) -> None:
    built = build_fp8(builder, "", False)
    assert test_fp8.LIBRARY in built.tactics and "cuBLASLt" in built.libraries, built
    done = builder.run("bench", builder.plan, "--iterations=2", "--duration=0")
    assert done.returncode == 0, done.stderr
    done = builder.run("bench", builder.plan, "--iterations=1", "--duration=0", LD_LIBRARY_PATH="")
    assert done.returncode and "cuBLASLt" in done.stderr, done.stderr


@pytest.mark.parametrize(("activation", "quantizes", "why"), [("Gelu", False, "an activation"), ("", True, "the result is float8e4m3fn")])
def test_what_the_library_does_not_take_in_fp8(builder: Builder, activation: str, quantizes: bool, why: str) -> None:
    built = build_fp8(builder, activation, quantizes)
    assert FP8_TILE in built.tactics and f"{test_fp8.LIBRARY}: {why}" in built.why, built
