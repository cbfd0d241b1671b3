"""Which tactics the builder chooses for the patterns of pattern_networks.py."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import tempfile
from typing import Iterator, NamedTuple

import onnx
import pattern_networks

TYPES = ("fp16", "bf16", "float32")
HOST_OPS = pathlib.Path(__file__).resolve().parents[1] / "conformance/host_ops.txt"
ALLOWED = {line.split()[0] for line in HOST_OPS.read_text().splitlines() if line.strip()}


LIBRARIES = "--tacticSources=-CUDNN,-CUBLAS_LT"
LEFT_OUT = "which the tactic sources leave out"  # the end of what tactics say that call these


class Step(NamedTuple):
    tactic: str
    operators: tuple[str, ...]
    makes: tuple[str, ...]  # the types of results
    refused: str = ""  # "TACTIC: reason; .."


def is_allowed_on_host(step: Step) -> bool:
    """Whether a step is on the device, moves nothing, makes lists of sizes, or belongs on the host."""
    on_device = step.tactic.startswith("cuda_") or step.tactic == "view"
    return on_device or all(t == "int64" for t in step.makes) or set(step.operators) <= ALLOWED


def inspect(carnot: list[str], target: str, dtype: str, anchor: str, only: str, *flags: str) -> list[tuple[str, list[Step]]]:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/net.onnx"
        onnx.save(pattern_networks.group(anchor, only), path)
        words = [*carnot, "inspect", path, f"--backend={target}", "--json", *flags]
        words += [f"--{dtype}"] * (dtype != "float32")
        done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{anchor} in {dtype}: {done.stderr[-500:]}")
    found: dict[str, list[Step]] = {}
    for layer in json.loads(done.stdout)["Layers"]:
        operators = tuple(o["Operator"] for o in layer["Operators"])
        makes = tuple(o["Format/Datatype"].split()[-1] for o in layer["Outputs"])
        names = (layer["Name"], *(v["Name"] for key in ("Outputs", "Inputs") for v in layer[key]))
        pattern = next((n.split("/")[0] for n in names if ":" in n), anchor)
        refused = layer.get("Rejected") or ""
        found.setdefault(pattern, []).append(Step(layer["TacticName"], operators, makes, refused))
    return list(found.items())


def tactics_of(carnot: list[str], target: str, dtype: str, only: str = "") -> Iterator[tuple[str, list[Step]]]:
    """Patterns and their steps, of those whose names contain |only|."""
    anchors = [a for a in pattern_networks.ANCHORS if pattern_networks.names(a, only)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda anchor: inspect(carnot, target, dtype, anchor, only), anchors):
            yield from found


def family(tactic: str) -> str:
    """The name without tile sizes."""
    return re.sub(r"(_\d+(x\d+)?)+$", "", tactic)


def reasons_of(refused: str) -> dict[str, list[str]]:
    """Reasons, each with the families of tactics that give it."""
    reasons: dict[str, list[str]] = {}
    for text in re.split(r"; (?=cuda_\w+: )", refused):
        tactic, _, reason = text.partition(": ")
        if not tactic.startswith("cuda_") or not reason or reason.endswith(LEFT_OUT):
            continue
        families = reasons.setdefault(reason, [])
        if family(tactic) not in families:
            families.append(family(tactic))
    return reasons


def conditions(carnot: list[str], target: str = "cuda:sm_90") -> Iterator[tuple[str, str, str]]:
    """Of each anchor with a Relu behind it: its name, the tactics that compute it, what the others say."""
    anchors = list(pattern_networks.ANCHORS)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for anchor, found in zip(anchors, pool.map(lambda a: inspect(carnot, target, "fp16", a, ":relu", LIBRARIES), anchors)):
            steps = [s for _, all_steps in found for s in all_steps if not set(s.operators) <= {"cast", "identity", "relu"}]
            taken = dict.fromkeys(family(s.tactic) for s in steps if s.tactic != "view")
            refused: dict[str, list[str]] = {}
            for step in steps:
                for reason, families in reasons_of(step.refused).items():
                    known = refused.setdefault(reason, [])
                    known += [f for f in families if f not in known]
            words = [f"{', '.join(families)}: {reason}" for reason, families in refused.items()]
            yield anchor, ", ".join(taken), "; ".join(words).replace("|", "\\|")
