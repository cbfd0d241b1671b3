"""The device under test, runs of the command line on it, and comparison with ONNX Runtime in float32."""

from __future__ import annotations

import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import tempfile
from typing import Callable, NamedTuple

import numpy as np
import onnx
import onnxruntime as ort

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMITS = {"fp16": 2e-3, "bf16": 1.6e-2, "float32": 1e-5}  # of the relative L2 error
HALF_TYPES = ("fp16", "bf16")
TIMEOUT_S = 400  # for one build and run, under compute-sanitizer and on a loaded machine too


def is_stand_in() -> bool:
    """Whether the stand-in driver is in use; test modules choose their cases by it."""
    return "CARNOT_CUDA_DRIVER" in os.environ


class Device:
    """The device under test. |wrapper|: words before the binary. |is_untimed|: builds take the first fitting tactic."""

    def __init__(self, wrapper: str = "", is_untimed: bool = False) -> None:
        carnot = os.environ.get("CARNOT", str(ROOT / "build/bin/carnot"))
        self.command = [*shlex.split(wrapper), carnot]
        self.is_stand_in = is_stand_in()
        self.level = 1 if is_untimed else 3
        self.tactics = os.environ.get("CARNOT_CUDA_TACTICS", "")
        # A copy: pytest changes PYTEST_CURRENT_TEST while cases run on threads.
        self.environment = dict(os.environ)

    def why_absent(self) -> str:
        """Why no CUDA test can run; empty where they can."""
        if self.is_stand_in:
            return ""
        if shutil.which("nvidia-smi") is None or subprocess.run(["nvidia-smi"], capture_output=True).returncode:
            return "CARNOT_CUDA_DRIVER names no stand-in driver, and there is no GPU"
        return ""

    def run(
        self, *arguments: object, timeout: float | None = TIMEOUT_S, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs the binary. A run beyond |timeout| seconds is killed with its children; its exit status is 124."""
        command = [*self.command, *map(str, arguments)]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment | environment,
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=timeout)
                return subprocess.CompletedProcess(command, process.returncode, out, err)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return subprocess.CompletedProcess(command, 124, f"no end in {timeout} s", "")


class Case(NamedTuple):
    """A network and the tactic that must run it."""

    name: str
    make: Callable[[], onnx.ModelProto]
    tactic: str
    forbidden: tuple[str, ...] = ()  # tactics that an engine of half precision must not contain


def relative_l2(got: np.ndarray, wanted: np.ndarray) -> float:
    """|got - wanted| / |wanted|; infinity where the shapes differ."""
    if got.shape != wanted.shape:
        return float("inf")
    wide = wanted.astype(np.float64)
    return float(np.linalg.norm(got.astype(np.float64) - wide) / np.linalg.norm(wide))


def random_inputs(session: ort.InferenceSession, device: Device) -> dict[str, np.ndarray]:
    """Normal values; a "mask" holds 0 and 1, with rows that are all 0 unless the reference tactics read it."""
    feeds, rng = {}, np.random.default_rng(11)
    for value in session.get_inputs():
        array = rng.standard_normal(value.shape).astype(np.float32)
        if value.name == "mask":
            array = (array > -0.5).astype(np.float32)
            keys = value.shape[-1]
            array[..., : keys // 2], array[..., keys - keys // 5 :] = 1, 0
            if device.tactics != "copies":  # the reference tactics store masks as FP16
                rows = array.reshape(-1, keys)
                rows[1 : len(rows) // 4 : 3] = 0
        feeds[value.name] = array
    return feeds


def compare(
    device: Device, model: onnx.ModelProto, precision: str, level: int | None = None, **environment: str
) -> tuple[float, str]:
    """Builds and runs |model|; the relative L2 error to ONNX Runtime and the profile, or infinity and the failure."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        path = folder / "net.onnx"
        onnx.save(model, path)
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1  # many cases run at once
        # By AVX2 alone ONNX Runtime's GEMM of uint8 by int8 saturates in 16 bits; not with this.
        options.add_session_config_entry("session.x64quantprecision", "1")
        # ONNX Runtime 1.30 drops a Relu in front of QuantizeLinear to FP8 with zero point 0, as if FP8 were unsigned.
        if any(w.data_type == onnx.TensorProto.FLOAT8E4M3FN for w in model.graph.initializer):
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        feeds = random_inputs(session, device)
        for key, array in feeds.items():
            np.save(folder / f"{key}.npy", array)
        wanted = session.run(None, feeds)[0]
        done = device.run(
            "run",
            path,
            "--backend=cuda",
            *[f"--{precision}"] * (precision in HALF_TYPES),
            *[f"--input={key}={folder}/{key}.npy" for key in feeds],
            "--dumpProfile",
            "--threads=1",
            f"--builderOptimizationLevel={device.level if level is None else level}",
            f"--output-dir={folder}/out",
            **environment,
        )
        if done.returncode:
            return float("inf"), f"{done.stdout[-1200:]} {done.stderr[-400:]}"
        got = np.load(next((folder / "out").glob("*.npy")))
        if got.shape != wanted.shape:
            return float("inf"), f"shape {got.shape}, must be {wanted.shape}"
        return relative_l2(got, wanted), done.stderr
