"""PyTorch: torch.compile(model, backend="carnot") and carnot.torch.compile(exported_program, inputs).

torch.onnx exports a graph to ONNX for the engine. Partitions that the exporter or Carnot does not support stay in
torch. Inference only: a graph that needs gradients runs in torch.
"""

from __future__ import annotations

import logging
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
from torch import fx

from .engine_module import EngineModule
from .export import BoundGraph, build_engine, example_of
from .partition import Report, first_line, partitioned, uses_batch_statistics

log = logging.getLogger("carnot.torch")

# Recurrent layers are traced into the graph; torch breaks the graph at them otherwise.
torch._dynamo.config.allow_rnn = True

reports: List[Report] = []  # of the graphs compiled so far, the newest last


def reset() -> None:
    """Clears the reports."""
    reports.clear()


# ---- torch.compile ----


def _compile(program: torch.export.ExportedProgram, options: Dict[str, Any], report: Report) -> Callable[..., Any]:
    mutates = bool(program.graph_signature.buffers_to_mutate or program.graph_signature.user_inputs_to_mutate)
    statistics = any(uses_batch_statistics(n) for n in program.graph.nodes)
    if not mutates and not statistics:
        try:
            engine = build_engine(program, options)
            report.engines.append(engine)
            return engine
        except Exception as error:
            report.refused.append(first_line(error))
            log.info("the graph as a whole: %s", first_line(error))
    return partitioned(program, options, report)


def backend(
    gm: fx.GraphModule, example_inputs: Sequence[Any], options: Optional[Dict[str, Any]] = None, **others: Any
) -> Callable[..., Any]:
    """The backend of torch.compile. |options|: fp16, bf16, optimization_level (0 … 5)."""
    options = {**(options or {}), **others}
    report = Report()
    reports.append(report)
    live = [v for v in example_inputs if isinstance(v, torch.Tensor)]
    if torch.is_grad_enabled() and any(v.requires_grad for v in live):
        report.refused.append("gradients are wanted: call it under torch.inference_mode()")
        log.warning("carnot runs inference; this graph wants gradients and stays in torch (use torch.inference_mode())")
        return gm.forward
    try:
        bound = BoundGraph(gm, example_inputs)
        values = [example_of(v) for v in (example_inputs[i] for i in bound.live)]
        dynamic = tuple(bound.dynamic) if any(bound.dynamic) else None
        # Size constraints found during export must not become guards of the caller.
        with torch.no_grad(), torch._guards.tracing(None):
            program = torch.export.export(bound.inner, tuple(values), dynamic_shapes=dynamic, strict=False)
            program = program.run_decompositions({})
            run = _compile(program, options, report)
    except Exception as error:
        report.refused.append(first_line(error))
        log.warning("a graph stays in torch: %s", first_line(error))
        return gm.forward
    indices = bound.live

    def call(*inputs: Any) -> Any:
        return run(*(inputs[i] for i in indices))

    return call


# ---- exported programs ----


class CompiledProgram(torch.nn.Module):
    """An exported program on engines, with the program's inputs and outputs."""

    def __init__(self, program: torch.export.ExportedProgram, run: Callable[..., Any], report: Report) -> None:
        super().__init__()
        self._program, self._run, self.report = program, run, report

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        from torch.utils import _pytree

        spec = self._program.call_spec
        if not isinstance(self._run, EngineModule):
            return self._run(*args, **kwargs)
        flat, given = _pytree.tree_flatten((args, kwargs))
        if given != spec.in_spec:
            raise TypeError(f"arguments are {given}, the program takes {spec.in_spec}")
        return _pytree.tree_unflatten(self._run(*(v for v in flat if isinstance(v, torch.Tensor))), spec.out_spec)


def compile(program: torch.export.ExportedProgram, inputs: Any = None, **options: Any) -> CompiledProgram:
    """An exported program on Carnot. |inputs| are example arguments for a module that is not exported yet.

    Options: fp16, bf16, optimization_level.
    """
    if isinstance(program, torch.nn.Module):
        program = torch.export.export(program, tuple(inputs or ()))
    report = Report()
    reports.append(report)
    with torch.no_grad():
        return CompiledProgram(program, _compile(program.run_decompositions({}), options, report), report)
