"""The models and servers that bench_serving compares: what a model repository has for each."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import random
import shutil
import struct
import subprocess
import typing


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    inputs: typing.Dict[str, typing.Tuple[str, typing.List[int]]]  # type and shape without the batch
    outputs: typing.Dict[str, typing.Tuple[str, typing.List[int]]]


PICTURE = {"input": ("FP32", [3, 224, 224])}
CLASSES = {"logits": ("FP32", [1000])}
TOKENS = {name: ("INT64", [128]) for name in ("input_ids", "attention_mask")}
MODELS = {
    "mobilenet_v2": Model("mobilenet_v2", PICTURE, CLASSES),
    "resnet50": Model("resnet50", PICTURE, CLASSES),
    "minilm": Model("minilm", TOKENS, {"hidden": ("FP32", [128, 384])}),
}
MOST = 8


@dataclasses.dataclass(frozen=True)
class Setting:
    """Instances of a model, threads of each, and whether the server gathers requests."""

    instances: int
    threads: int
    batching: bool

    def __str__(self) -> str:
        return f"{self.instances}x{self.threads}{' batches' if self.batching else ''}"

    @property
    def slug(self) -> str:
        return f"{self.instances}x{self.threads}{'b' if self.batching else ''}"


SETTINGS = [Setting(i, 2 // i, b) for i in (1, 2) for b in (False, True)]
SERVERS = ("carnot", "onnxruntime", "openvino")
MEMORY = ("none", "system")  # how requests hold tensors: in the message, or in memory that client and server share


def build_plan(carnot: pathlib.Path, models: pathlib.Path, model: Model, threads: int, plan: pathlib.Path) -> None:
    def shapes(rows: int) -> str:
        return ",".join(f"{name}:{rows}x{'x'.join(map(str, dims))}" for name, (_, dims) in model.inputs.items())

    command = [carnot, "build", models / f"{model.name}.onnx", f"--output={plan}", "--quiet", f"--threads={threads}"]
    command += [f"--minShapes={shapes(1)}", f"--optShapes={shapes(1)}", f"--maxShapes={shapes(MOST)}"]
    subprocess.run(command, check=True)


def _entries(key: str, tensors: typing.Dict[str, typing.Tuple[str, typing.List[int]]]) -> str:
    return "".join(
        f'{key} [{{name: "{name}" data_type: TYPE_{kind} dims: {dims}}}]\n' for name, (kind, dims) in tensors.items()
    )


def _parameter(key: str, value: typing.Any) -> str:
    return f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}\n'


# OpenVINO's backend has no setting for FP32: where this is built, its HINT_BF16 is made to ask for FP32, since the
# library computes FP32 models in BF16 otherwise.
THREADS = {
    "carnot": lambda n: _parameter("threads", n),
    "onnxruntime": lambda n: _parameter("intra_op_thread_count", n),
    "openvino": lambda n: _parameter("INFERENCE_NUM_THREADS", n) + _parameter("NUM_STREAMS", 1)
    + _parameter("HINT_BF16", "YES"),
}  # fmt: skip


def config(server: str, model: Model, setting: Setting) -> str:
    """The config.pbtxt. A server whose requests are not gathered takes one row at a time."""
    text = f'backend: "{server}"\ninstance_group [{{kind: KIND_CPU count: {setting.instances}}}]\n'
    text += f"max_batch_size: {MOST if setting.batching else 1}\n" + THREADS[server](setting.threads)
    text += "dynamic_batching { max_queue_delay_microseconds: 0 }\n" if setting.batching else ""
    if server == "openvino" and setting.batching:
        text += _parameter("ENABLE_BATCH_PADDING", "YES")
    if server == "onnxruntime":  # which wants open dimensions as the model has them
        tensors = [model.inputs, model.outputs]
        inputs, outputs = ({n: (k, [-1 if d == 128 else d for d in dims]) for n, (k, dims) in t.items()} for t in tensors)
    else:
        inputs, outputs = model.inputs, model.outputs
    if server != "carnot":
        text += 'default_model_filename: "model.onnx"\n' + _entries("input", inputs)
        text += _entries("output", outputs)
    return text


def write(repository: pathlib.Path, server: str, model: Model, setting: Setting, file: pathlib.Path) -> str:
    """Adds a model to |repository|; returns the name that it is served by."""
    name = f"{model.name}_{server}_{setting.slug}"
    folder = repository / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "1").mkdir(parents=True)
    (folder / "1" / ("model.plan" if server == "carnot" else "model.onnx")).symlink_to(file.resolve())
    (folder / "config.pbtxt").write_text(config(server, model, setting))
    return name


def write_data(folder: pathlib.Path, model: Model) -> None:
    """One row of each input as perf_analyzer reads it: token numbers, a mask of ones, normal numbers for pictures. Its own
    random data are random bytes: as float32 they hold NaN and infinities, which no picture does."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    for name, (kind, dims) in model.inputs.items():
        count = math.prod(dims)
        if kind == "FP32":
            row = struct.pack(f"<{count}f", *(rng.gauss(0, 1) for _ in range(count)))
        else:
            row = struct.pack(f"<{count}q", *(1 if "mask" in name else rng.randrange(1000, 30000) for _ in range(count)))
        (folder / name).write_bytes(row)
