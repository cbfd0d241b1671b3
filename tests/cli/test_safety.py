"""What must not go wrong in silence: output files, signals, standard output, the environment, shared timing caches."""

import fcntl
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import stat
import subprocess
import time
from typing import Callable

import numpy as np
import onnx
import pytest
from harness import CARNOT, carnot, fails, passes
from onnx import TensorProto, helper, numpy_helper

MODULE = pathlib.Path(CARNOT).parent.parent / "lib/libcarnot_cuda.so"


def matmul_chain(path: pathlib.Path, count: int, size: int, seed: int = 0) -> pathlib.Path:
    """A model of |count| square MatMuls with weights of their own."""
    rng = np.random.default_rng(seed)
    weights = [numpy_helper.from_array(rng.random((size, size), np.float32), f"w{i}") for i in range(count)]
    nodes = [helper.make_node("MatMul", [f"t{i}", f"w{i}"], [f"t{i + 1}"]) for i in range(count)]
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, size]) for n in ("t0", f"t{count}")]
    graph = helper.make_graph(nodes, "chain", value[:1], value[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


# ---- output files ----


@pytest.mark.parametrize("device", ["/dev/full", "/dev/null"])
def test_a_device_stays_a_device(model: pathlib.Path, device: str) -> None:
    before = os.stat(device)
    done = carnot("build", model, "--output", device)
    assert stat.S_ISCHR(os.stat(device).st_mode) and os.stat(device).st_rdev == before.st_rdev
    assert done.returncode == (1 if device == "/dev/full" else 0), done.stderr
    assert (device != "/dev/full") or "/dev/full: No space left on device" in done.stderr


def test_a_folder_is_refused(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert "it is a folder" in fails("build", model, "--output", tmp_path)


def test_the_standard_output_takes_an_engine(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = subprocess.run([CARNOT, "build", model, "--output", "/dev/stdout"], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (tmp_path / "piped.plan").write_bytes(done.stdout)
    passes("inspect", tmp_path / "piped.plan")


def test_a_link_keeps_pointing(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target, link, dangling = tmp_path / "v3.plan", tmp_path / "current.plan", tmp_path / "next.plan"
    target.write_bytes(b"old")
    link.symlink_to(target.name)
    passes("build", model, "--output", link)
    assert link.is_symlink() and target.read_bytes()[:6] == b"CARNOT"
    (tmp_path / "folder").mkdir()
    dangling.symlink_to("folder/v4.plan")
    passes("build", model, "--output", dangling)
    assert dangling.is_symlink() and (tmp_path / "folder/v4.plan").read_bytes()[:6] == b"CARNOT"


@pytest.mark.parametrize("mode", [0o640, 0o600, 0o664])
def test_the_mode_of_a_replaced_file_stays(model: pathlib.Path, tmp_path: pathlib.Path, mode: int) -> None:
    path = tmp_path / "live.plan"
    path.write_bytes(b"old")
    path.chmod(mode)
    passes("build", model, "--output", path)
    assert stat.S_IMODE(path.stat().st_mode) == mode and path.stat().st_size > 100


def test_a_new_file_has_the_mode_of_the_mask(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    old = os.umask(0o027)
    try:
        passes("build", model, "--output", tmp_path / "m.plan")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "m.plan").stat().st_mode) == 0o640


def test_a_file_size_limit_is_an_error(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [CARNOT, "build", model, "--output", tmp_path / "m.plan"],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )
    assert done.returncode == 1 and "File too large" in done.stderr, done
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_leave_no_temporary_file(tmp_path: pathlib.Path, number: int) -> None:
    """The write blocks on a full pipe's worth of a slow disk: a stopped process is as slow as any."""
    model = matmul_chain(tmp_path / "big.onnx", 40, 1024)  # 160 MB
    for delay in (0.1, 0.3, 0.5, 0.7):
        process = subprocess.Popen([CARNOT, "build", model, "--output", tmp_path / "big.plan"], stdout=subprocess.DEVNULL)
        time.sleep(delay)
        process.send_signal(number)
        code = process.wait(timeout=60)
        assert code in (0, -number), code
        left = sorted(p.name for p in tmp_path.iterdir())
        assert left in (["big.onnx"], ["big.onnx", "big.plan"]), left


@pytest.mark.parametrize("arguments", [["inspect", "--json"], ["inspect"], ["bench", "--duration=0.05"], ["help"]])
def test_lost_output_is_an_error(plan: pathlib.Path, arguments: list[str]) -> None:
    command = [CARNOT, arguments[0], *([] if arguments[0] == "help" else [str(plan)]), *arguments[1:]]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and "cannot write to the standard output" in done.stderr, done


# ---- engines that change while they run ----


def embedding(path: pathlib.Path) -> pathlib.Path:
    """A table of 8 MB whose rows a Gather picks, and a MatMul."""
    rng = np.random.default_rng(0)
    tables = [numpy_helper.from_array(rng.random(shape, np.float32), name) for name, shape in (("table", (65536, 32)), ("w", (32, 32)))]
    nodes = [helper.make_node("Gather", ["table", "ids"], ["rows"]), helper.make_node("MatMul", ["rows", "w"], ["y"])]
    values = [helper.make_tensor_value_info("ids", TensorProto.INT64, [4]), helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 32])]
    graph = helper.make_graph(nodes, "embedding", values[:1], values[1:], tables)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def grants_leases(path: pathlib.Path) -> bool:
    with open(path, "rb") as file:
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError:
            return False
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return True


@pytest.mark.parametrize(
    "make", [lambda p: matmul_chain(p, 4, 256), lambda p: matmul_chain(p, 4, 1024), embedding], ids=["small file", "weights", "table"]
)
def test_an_engine_that_is_overwritten_keeps_running(tmp_path: pathlib.Path, make: Callable) -> None:
    """Writing over the file of a loaded engine does not end the process: its bytes are copied before, a table's only then."""
    plan = tmp_path / "live.plan"
    passes("build", make(tmp_path / "m.onnx"), "--output", plan)
    stays = make is embedding and grants_leases(plan)
    process = subprocess.Popen([CARNOT, "bench", plan, "--duration=2"], stdout=subprocess.PIPE, text=True)
    maps = pathlib.Path(f"/proc/{process.pid}/maps")
    time.sleep(0.7)
    assert not stays or str(plan) in maps.read_text()
    with open(plan, "r+b") as file:
        file.truncate(100)
    assert str(plan) not in maps.read_text()
    assert process.wait(timeout=60) == 0 and "median" in process.stdout.read()


# ---- the timing cache ----


def test_builds_at_once_merge_their_timings(tmp_path: pathlib.Path) -> None:
    cache = tmp_path / "timing.cache"
    models = [matmul_chain(tmp_path / f"m{i}.onnx", 2, 64 + 32 * i, i) for i in range(6)]

    def builds(folder: pathlib.Path, file: pathlib.Path, at_once: bool) -> None:
        folder.mkdir()
        commands = [[CARNOT, "build", m, "--output", folder / m.name, f"--timingCacheFile={file}"] for m in models]
        if at_once:
            processes = [subprocess.Popen(c, stdout=subprocess.DEVNULL) for c in commands]
            assert [p.wait(timeout=120) for p in processes] == [0] * len(models)
        else:
            for command in commands:
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)

    builds(tmp_path / "together", cache, True)
    builds(tmp_path / "alone", tmp_path / "alone.cache", False)

    def problems(path: pathlib.Path) -> set[str]:
        """Which tactics of a problem are timed depends on times: those that cannot win are not."""
        return {line.split()[0] for line in path.read_text().splitlines()[1:]}

    assert problems(cache) == problems(tmp_path / "alone.cache") and len(problems(cache)) >= len(models)
    assert sorted(p.name for p in tmp_path.glob("*.cache*")) == ["alone.cache", "timing.cache"]


# ---- the environment ----


@pytest.mark.parametrize(
    "variable, said",
    [
        ("CARNOT_ISA=bogus", "CARNOT_ISA is 'bogus', must be one of scalar, avx2"),
        ("CARNOT_THREADS=abc", "CARNOT_THREADS is 'abc', must be an integer in [0, 1024]"),
        ("CARNOT_DEVICE=foo", "CARNOT_DEVICE is 'foo', must be cpu, cuda"),
        ("CARNOT_THREAD=4", "CARNOT_THREAD is not known; known are CARNOT_ISA, CARNOT_THREADS"),
    ],
)
def test_unknown_variables_are_refused(model: pathlib.Path, plan: pathlib.Path, variable: str, said: str) -> None:
    environment = dict([variable.split("=")])
    for command in (["device", "--no-measure"], ["build", model, "--output", "/dev/null"], ["bench", plan, "--duration=0.05"], ["exec", f"--onnx={model}"]):
        done = carnot(*command, env=environment)
        assert done.returncode == 1 and said in done.stdout + done.stderr, done


def test_the_number_of_threads_by_the_environment(plan: pathlib.Path) -> None:
    done = carnot("bench", plan, "--duration=0.05", "--json", env={"CARNOT_THREADS": "3"})
    assert json.loads(done.stdout)["threads"] == 3
    done = carnot("bench", plan, "--duration=0.05", "--json", "--threads=1", env={"CARNOT_THREADS": "3"})
    assert json.loads(done.stdout)["threads"] == 1


# ---- the CUDA module ----


@pytest.mark.skipif(not MODULE.exists(), reason="built without the CUDA module")
def test_the_module_is_found_from_PATH(tmp_path: pathlib.Path) -> None:
    """The program is started by its name, from another folder."""
    path = os.pathsep.join([str(pathlib.Path(CARNOT).resolve().parent), os.environ["PATH"]])
    command = "carnot device --backend=cuda:sm_90 --json"
    done = subprocess.run(command.split(), env=dict(os.environ, PATH=path), cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout)["arch"] == "sm_90", done.stderr


def test_a_missing_module_is_an_error(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    program = tmp_path / "bin" / "carnot"
    program.parent.mkdir()
    shutil.copy(CARNOT, program)
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "CARNOT_DEVICE")}
    for device in ("cuda", "cuda:sm_90"):
        command = [program, "build", model, "--output", tmp_path / "m.plan", f"--backend={device}"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 1 and "the CUDA module libcarnot_cuda.so does not open" in done.stderr, done
        done = subprocess.run(command[:-1], env=dict(environment, CARNOT_DEVICE=device), capture_output=True, text=True)
        assert done.returncode == 1 and "the CUDA module libcarnot_cuda.so does not open" in done.stderr, done
    # By default the CPU is taken where an accelerator cannot be used; that is said.
    done = subprocess.run(
        [program, "bench", model, "--duration=0.05", "--json"],
        env=dict(environment, CARNOT_CUDA_DRIVER="stand-in"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and json.loads(done.stdout)["device"] == "cpu"
    assert "warning: the engine is built for the CPU: the CUDA module" in done.stderr, done.stderr


# ---- the command line ----


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["foo"], "there is no command foo\n"),
        (["bnech"], "the nearest is bench"),
        (["bench", "m.onnx", "--batch=8"], "unknown flag --batch=8; use --shapes"),
        (["build", "m.onnx", "--outptu=x"], "unknown flag --outptu=x; the nearest is --output"),
        (["build", "m.onnx", "-o"], "--output needs a value"),
        (["build", "m.onnx", "--zyxwvu"], "unknown flag --zyxwvu; `carnot help` lists them"),
        (["build", "m.onnx", "--output"], "--output needs a value"),
        (["build", "m.onnx", "--output="], "--output needs a value"),
        (["run", "m.onnx", "--input"], "--input needs a value"),
        (["build", "a.onnx", "b.onnx", "--output=p"], "unexpected argument 'b.onnx'"),
        (["run"], "usage: carnot run"),
        (["build", "m.onnx", "--verbose", "--quiet"], "exclude each other"),
        (["build", "m.onnx", "--log=xml"], "--log is 'xml', must be one of text, json"),
    ],
)
def test_a_wrong_command_line_ends_with_2(arguments: list[str], said: str) -> None:
    done = carnot(*arguments)
    assert done.returncode == 2 and said in done.stderr, done


def test_negative_dimensions_are_refused(model: pathlib.Path) -> None:
    assert "is no list of dimensions" in fails("bench", model, "--shapes=x:-1x8")


def test_exit_codes_of_compare(model: pathlib.Path, plan: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """0: the same, 1: different, 2: one of them cannot be read."""
    assert carnot("compare", model, plan, "--shapes=x:1x8").returncode == 0
    other = onnx.load(model)
    other.graph.node[0].op_type = "Neg"
    onnx.save(other, tmp_path / "other.onnx")
    done = carnot("compare", model, tmp_path / "other.onnx")
    assert done.returncode == 1 and "different: 8 of 8 elements by more than" in done.stderr, done
    assert carnot("compare", model, tmp_path / "none.onnx").returncode == 2


# ---- messages ----


def test_messages_as_json(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = carnot("bench", model, "--duration=0.05", "--log=json")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert {"tactics", "passes"} <= {line.get("phase") for line in lines}
    assert any(line.get("severity") == "warning" and "no shapes were provided" in line["message"] for line in lines)
    done = carnot("run", tmp_path / "none.onnx", "--log=json")
    assert json.loads(done.stderr)["severity"] == "error"


def test_verbose_and_quiet(model: pathlib.Path) -> None:
    assert "warning" in carnot("bench", model, "--duration=0.05").stderr
    assert carnot("bench", model, "--duration=0.05", "--quiet").stderr == ""
    assert "Layer(" in carnot("bench", model, "--duration=0.05", "--verbose").stderr


def test_progress_on_a_terminal(tmp_path: pathlib.Path) -> None:
    """A build of more than a second shows a line that is removed at the end, on terminals only."""
    pty = pytest.importorskip("pty")
    rng = np.random.default_rng(0)
    channels = [16 + i for i in range(160)]  # every convolution is another problem to time
    shapes = list(zip(channels[1:], channels))
    weights = [numpy_helper.from_array(rng.random((*s, 3, 3), np.float32), f"w{i}") for i, s in enumerate(shapes)]
    nodes = [helper.make_node("Conv", [f"t{i}", f"w{i}"], [f"t{i + 1}"], pads=[1] * 4) for i in range(len(shapes))]
    value = [(f"t{i}", TensorProto.FLOAT, [1, c, 32, 32]) for i, c in ((0, 16), (len(shapes), channels[-1]))]
    x, y = (helper.make_tensor_value_info(*v) for v in value)
    graph = helper.make_graph(nodes, "chain", [x], [y], weights)
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), model)
    # Level 5 times every candidate: seconds on any machine, where the default level may take less than one.
    command = [CARNOT, "build", model, "--output", tmp_path / "m.plan", "--builderOptimizationLevel=5"]
    master, slave = pty.openpty()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    shown = b""
    try:
        while chunk := os.read(master, 4096):
            shown += chunk
    except OSError:  # the other side is closed
        pass
    assert process.wait(timeout=60) == 0
    assert re.search(rb"\r\x1b\[Ktiming tactics \d+ of \d+", shown) and shown.endswith(b"\r\x1b[K"), shown
    assert subprocess.run(command, capture_output=True, timeout=60).stderr == b""


def test_values_of_small_outputs(tmp_path: pathlib.Path, model: pathlib.Path) -> None:
    x = np.array([[1, 2, 3, 4, 5, 6, 7, 8], [0] * 8], np.float32)
    np.save(tmp_path / "x.npy", x)
    wanted = np.exp(x - x.max(1, keepdims=True))
    wanted /= wanted.sum(1, keepdims=True)
    lines = passes("run", model, "--input", tmp_path / "x.npy").splitlines()
    assert lines[0] == "y/odd:0: float32 [2,8]" and len(lines) == 3
    np.testing.assert_allclose([[float(v) for v in line.split()] for line in lines[1:]], wanted, rtol=1e-5)
    (output,) = json.loads(passes("run", model, "--input", tmp_path / "x.npy", "--json"))["outputs"]
    assert output["name"] == "y/odd:0" and output["shape"] == [2, 8] and output["dtype"] == "float32"
    np.testing.assert_allclose(output["values"], wanted.ravel(), rtol=1e-6)
    np.save(tmp_path / "x.npy", np.zeros((100, 8), np.float32))
    assert "min 0.125, max 0.125, mean 0.125" in passes("run", model, "--input", tmp_path / "x.npy")


def test_bench_of_an_empty_batch(plan: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """GFLOP/s would divide the work of one batch by the time of another."""
    passes_line = passes("bench", plan, "--duration=0.05", "--shapes=x:2x8")
    assert "GFLOP" not in passes_line
    facts = json.loads(passes("bench", plan, "--duration=0.05", "--json"))
    assert "times_ms" not in facts and facts["runs"] > 0
