"""Partitions of a graph that Carnot supports, and the report of a compilation."""

from __future__ import annotations

import operator
from typing import Any, Callable, Dict, List

import torch
from torch import fx

from .engine_module import EngineModule
from .export import build_engine, example_of


def _registered() -> Callable[[Any], bool]:
    """Whether the exporter supports an operator. Its table is private; without it all operators count as supported."""
    try:
        from torch.onnx._internal.exporter import _registration

        registry = _registration.ONNXRegistry().from_torchlib()
        return lambda target: not isinstance(target, torch._ops.OpOverload) or registry.is_registered(target)
    except Exception:  # pragma: no cover
        return lambda target: True


# The exporter writes their inference form, so layers that use batch statistics stay in torch.
def uses_batch_statistics(node: fx.Node) -> bool:
    name = str(node.target)
    if "_native_batch_norm_legit_no_training" in name:
        return False
    if "batch_norm" not in name:
        return False
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return False
    named = dict(zip([a.name for a in schema.arguments], node.args), **node.kwargs)
    return bool(named.get("training", named.get("train", "functional" in name)))


def partitioned(program: torch.export.ExportedProgram, options: Dict[str, Any], report: "Report") -> torch.nn.Module:
    """The program's graph with supported partitions as engines and the rest in torch."""
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    known = _registered()
    module = program.module()

    class Support(OperatorSupportBase):
        def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
            if node.op != "call_function":
                return False
            taken = node.target is operator.getitem or (known(node.target) and not uses_batch_statistics(node))
            if not taken:
                report.fallback.append(str(node.target))
            return taken

    partitioner = CapabilityBasedPartitioner(module, Support(), allows_single_node_partition=True)
    partitions = partitioner.propose_partitions()
    fused = partitioner.fuse_partitions(partitions)
    for name, part in list(fused.named_children()):
        if not name.startswith("fused_"):
            continue
        node = next(n for n in fused.graph.nodes if n.op == "call_module" and n.target == name)
        values = [example_of(n.meta["val"]) for n in node.all_input_nodes]
        try:
            inner = torch.export.export(part, tuple(values), strict=False)
            engine = build_engine(inner, options)
        except Exception as error:
            report.refused.append(f"{name}: {first_line(error)}")
            continue
        report.engines.append(engine)
        setattr(fused, name, _Part(engine, isinstance(_results(part), (tuple, list))))
    fused.recompile()
    return fused


def _results(part: fx.GraphModule) -> Any:
    return next(n for n in part.graph.nodes if n.op == "output").args[0]


class _Part(torch.nn.Module):
    def __init__(self, engine: EngineModule, several: bool) -> None:
        super().__init__()
        self.engine, self.several = engine, several

    def forward(self, *inputs: torch.Tensor) -> Any:
        outputs = self.engine(*inputs)
        return outputs if self.several else outputs[0]


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


class Report:
    """The result for a graph: engines, operators that stayed in torch, refused partitions with reasons."""

    def __init__(self) -> None:
        self.engines: List[EngineModule] = []
        self.fallback: List[str] = []
        self.refused: List[str] = []

    def __repr__(self) -> str:
        fallback = sorted(set(self.fallback)) or "nothing"
        return f"<{len(self.engines)} engines, in torch: {fallback}, refused: {self.refused or 'nothing'}>"
