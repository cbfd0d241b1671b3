"""PyTorch: torch.compile(model, backend="carnot") and carnot.torch.compile(exported_program, inputs).

torch.onnx exports a graph to ONNX for the engine. Partitions that the exporter or Carnot does not support stay in
torch. Inference only: a graph that needs gradients runs in torch.
"""

from __future__ import annotations

import io
import logging
import operator
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import torch
from torch import fx

from ._carnot import ffi, lib
from .convenience import QuietLogger, build
from .core import CarnotError, check, to_c_dims, utf8
from .engine.context import IExecutionContext
from .engine.refit import Refitter
from .engine.runtime import Runtime
from .enums import BuilderFlag

log = logging.getLogger("carnot.torch")

_DTYPES = {
    "FLOAT": torch.float32, "HALF": torch.float16, "BF16": torch.bfloat16, "INT64": torch.int64, "INT32": torch.int32,
    "INT8": torch.int8, "UINT8": torch.uint8, "BOOL": torch.bool, "FLOAT64": torch.float64, "DOUBLE": torch.float64,
}  # fmt: skip

# Recurrent layers are traced into the graph; torch breaks the graph at them otherwise.
torch._dynamo.config.allow_rnn = True


# ---- engines on tensors ----


class _OnDevice:
    """Device memory that torch can view; the engine keeps ownership."""

    _KINDS = {torch.float32: "<f4", torch.float16: "<f2", torch.float64: "<f8", torch.int64: "<i8", torch.int32: "<i4",
              torch.int8: "|i1", torch.uint8: "|u1", torch.bool: "|b1"}  # fmt: skip

    def __init__(self, address: int, shape: Sequence[int], dtype: torch.dtype) -> None:
        kind = self._KINDS[torch.float16 if dtype == torch.bfloat16 else dtype]  # two bytes either way
        self.__cuda_array_interface__ = {"shape": tuple(shape), "typestr": kind, "data": (address, False), "version": 3}


class EngineModule(torch.nn.Module):
    """An engine on torch tensors without copies, in host memory or on one GPU, there in torch's current stream.

    |weights| are the engine's refittable weights by name. After one is changed in place or replaced, the next run refits
    the engine first.
    """

    def __init__(self, plan: Any, weights: Dict[str, torch.Tensor], device: torch.device) -> None:
        super().__init__()
        self.device = device
        logger = QuietLogger()
        self.engine = Runtime(logger).deserialize_cuda_engine(plan)
        if self.engine is None:
            raise CarnotError(lib.CARNOT_INVALID_MODEL, "\n".join(logger.errors))
        self.context = IExecutionContext(self.engine, device=str(device) if device.type == "cuda" else None)
        self._held = weights
        self._seen = self._versions()
        tensors = list(self.engine._tensors.values())
        self._inputs = [t for t in tensors if t.is_input]
        self._outputs = [t for t in tensors if not t.is_input]
        self._names = {t.name: i for i, t in enumerate(self._inputs)}

    def _versions(self) -> List[Tuple[int, int]]:
        return [(w.data_ptr(), w._version) for w in self._held.values()]

    def refit(self) -> None:
        """Refits the engine with the current weights."""
        now = self._versions()
        if now == self._seen:
            return
        made = ffi.new("carnot_refit**")
        check(lib.carnot_refit_begin(self.engine._c, made))
        refit = ffi.gc(made[0], lib.carnot_refit_free)
        kept = []
        for (name, weight), old, new in zip(self._held.items(), self._seen, now):
            if old == new:
                continue
            dtype, dims, data = ffi.new("carnot_dtype*"), ffi.new("carnot_dims*"), ffi.new("const void**")
            check(lib.carnot_refit_weight(refit, utf8(name), dtype, dims, data))
            kept.append(weight.detach().cpu().contiguous())
            check(
                lib.carnot_refit_set_weights(refit, utf8(name), dtype[0], dims, ffi.cast("void*", kept[-1].data_ptr()))
            )
        check(lib.carnot_refit_commit(refit))
        self._seen = now

    def forward(self, *inputs: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        self.refit()
        context, keep = self.context._c, []
        for tensor, value in zip(self._inputs, inputs):
            if value.device != self.device:
                raise RuntimeError(f"input {tensor.name} is on {value.device}; this engine runs on {self.device}")
            value = (
                value.detach().to("cpu" if tensor.is_shape else self.device, _DTYPES[tensor.dtype.name]).contiguous()
            )
            keep.append(value)
            check(
                lib.carnot_context_set_input(
                    context, tensor.c_name, to_c_dims(value.shape), ffi.cast("void*", value.data_ptr())
                )
            )
        for tensor in self._outputs:  # outputs of the last run belong to the caller
            check(lib.carnot_context_set_tensor_address(context, tensor.c_name, ffi.NULL, 0))
        check(lib.carnot_context_infer_shapes(context))
        made: List[Optional[torch.Tensor]] = []
        for tensor in self._outputs:
            dims = ffi.new("carnot_dims*")
            check(lib.carnot_context_tensor_dims(context, tensor.c_name, dims))
            shape = [dims.d[i] for i in range(dims.rank)]
            if dims.rank < 0 or -1 in shape:
                made.append(None)
                continue
            out = torch.empty(shape, dtype=_DTYPES[tensor.dtype.name], device=self.device)
            made.append(out)
            check(
                lib.carnot_context_set_tensor_address(
                    context, tensor.c_name, ffi.cast("void*", out.data_ptr()), out.numel() * out.element_size()
                )
            )
        if self.device.type == "cuda":
            stream = torch.cuda.current_stream(self.device).cuda_stream
            check(lib.carnot_context_enqueue(context, ffi.cast("void*", stream)))
        else:
            check(lib.carnot_context_run(context))
        for i, tensor in enumerate(self._outputs):  # data-dependent outputs are in the context's memory
            if made[i] is not None:
                continue
            dims = ffi.new("carnot_dims*")
            check(lib.carnot_context_tensor_dims(context, tensor.c_name, dims))
            out = torch.empty(
                [dims.d[k] for k in range(dims.rank)], dtype=_DTYPES[tensor.dtype.name], device=self.device
            )
            source = lib.carnot_context_output_data(context, tensor.c_name)
            if out.numel() and self.device.type == "cuda":
                there = _OnDevice(int(ffi.cast("uintptr_t", source)), out.shape, out.dtype)
                out.copy_(torch.as_tensor(there, device=self.device).view(out.dtype))
            elif out.numel():
                ffi.memmove(ffi.cast("void*", out.data_ptr()), source, out.numel() * out.element_size())
            made[i] = out
        return tuple(made)


# ---- graphs to engines ----


def _to_onnx(program: torch.export.ExportedProgram) -> bytes:
    """ONNX of an exported program; weights keep their names, so that refit finds them."""
    exported = torch.onnx.export(program, dynamo=True, optimize=False, verbose=False)
    out = io.BytesIO()
    exported.save(out)
    return out.getvalue()


def _build(program: torch.export.ExportedProgram, options: Dict[str, Any]) -> EngineModule:
    flags = [BuilderFlag.REFIT]
    flags += [flag for name, flag in (("fp16", BuilderFlag.FP16), ("bf16", BuilderFlag.BF16)) if options.get(name)]
    device = _device_of(program)
    plan = build(_to_onnx(program), flags=flags, level=options.get("optimization_level", 3), backend=str(device))
    signature = program.graph_signature
    state = {**program.state_dict, **program.constants}
    named = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    weights = {
        target: state[target]
        for target in named.values()
        if target in state and isinstance(state[target], torch.Tensor)
    }
    module = EngineModule(plan, {}, device)
    known = _refittable(module)
    module._held = {name: weight for name, weight in weights.items() if name in known}
    module._seen = module._versions()
    return module


def _device_of(program: torch.export.ExportedProgram) -> torch.device:
    """The device of a program's tensors: the CPU or one GPU; scalars may be on any device."""
    values = [n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"]
    devices = {v.device for v in values if isinstance(v, torch.Tensor) and v.dim()}
    if len(devices) > 1 or any(d.type not in ("cpu", "cuda") for d in devices):
        raise NotImplementedError(
            f"tensors on {', '.join(sorted(map(str, devices)))}: an engine runs on the CPU or on one GPU"
        )
    return devices.pop() if devices else torch.device("cpu")


def _refittable(module: EngineModule) -> Set[str]:
    return set(Refitter(module.engine, QuietLogger()).get_all_weights())


def _is_dynamic(value: Any) -> bool:
    return isinstance(value, torch.SymInt)


class _Bound(torch.nn.Module):
    """A graph with static tensors as attributes and sizes taken from its tensors."""

    def __init__(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> None:
        super().__init__()
        graph = fx.Graph()
        copied: Dict[fx.Node, fx.Node] = {}
        self.live: List[int] = []
        sizes: List[Tuple[fx.Node, Any]] = []
        tensors: List[Tuple[fx.Node, torch.Tensor]] = []
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        statics: List[Tuple[fx.Node, torch.Tensor]] = []
        for i, (node, value) in enumerate(zip(placeholders, inputs)):
            if isinstance(value, torch.Tensor) and (
                isinstance(value, torch.nn.Parameter) or getattr(value, "_dynamo_static_input_type", None)
            ):
                statics.append((node, value))
            elif isinstance(value, torch.Tensor):
                copied[node] = graph.placeholder(node.name)
                tensors.append((copied[node], node.meta.get("example_value", value)))
                self.live.append(i)
            else:
                sizes.append((node, value))
        for k, (node, value) in enumerate(statics):
            name = f"weight{k}"
            if isinstance(value, torch.nn.Parameter):
                self.register_parameter(name, value)
            else:
                self.register_buffer(name, value)
            copied[node] = graph.get_attr(name)
        for node, value in sizes:
            copied[node] = _find_size(graph, tensors, value) if _is_dynamic(value) else value
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op in ("get_attr", "call_module"):
                self._adopt(gm, str(node.target))
            if node.op == "output":
                graph.output(fx.map_arg(node.args[0], lambda n: copied[n]))
            else:
                copied[node] = graph.node_copy(node, lambda n: copied[n])
        graph.lint()
        self.inner = fx.GraphModule(self, graph)
        self.dynamic = [
            {d: torch.export.Dim.AUTO for d, size in enumerate(value.shape) if _is_dynamic(size)}
            for _, value in tensors
        ]

    def _adopt(self, gm: fx.GraphModule, target: str) -> None:
        owner, _, name = target.rpartition(".")
        value = getattr(gm.get_submodule(owner), name)
        if "." in target:
            raise NotImplementedError(f"attribute {target} of a nested module")
        if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
            self.register_buffer(name, value)
        else:
            setattr(self, name, value)


def _find_size(graph: fx.Graph, tensors: Any, size: torch.SymInt) -> fx.Node:
    for node, value in tensors:
        for d, other in enumerate(value.shape):
            if _is_dynamic(other) and str(other) == str(size):
                return graph.call_function(torch.ops.aten.sym_size.int, (node, d))
    raise NotImplementedError(f"size {size} is the size of no input")


def _real(value: Any) -> Any:
    """A new tensor of the same type and (hinted) shape."""
    if not isinstance(value, torch.Tensor):
        return value
    shape = [int(s.node.hint) if _is_dynamic(s) else int(s) for s in value.shape]
    fill = torch.ones if value.dtype == torch.bool else torch.zeros
    return fill(shape, dtype=value.dtype, device=value.device)


# ---- partitions ----


def _registered() -> Callable[[Any], bool]:
    """Whether the exporter supports an operator. Its table is private; without it all operators count as supported."""
    try:
        from torch.onnx._internal.exporter import _registration

        registry = _registration.ONNXRegistry().from_torchlib()
        return lambda target: not isinstance(target, torch._ops.OpOverload) or registry.is_registered(target)
    except Exception:  # pragma: no cover
        return lambda target: True


# The exporter writes their inference form, so layers that use batch statistics stay in torch.
def _uses_batch_statistics(node: fx.Node) -> bool:
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


def _partitioned(program: torch.export.ExportedProgram, options: Dict[str, Any], report: "Report") -> torch.nn.Module:
    """The program's graph with supported partitions as engines and the rest in torch."""
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    known = _registered()
    module = program.module()

    class Support(OperatorSupportBase):
        def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
            if node.op != "call_function":
                return False
            taken = node.target is operator.getitem or (known(node.target) and not _uses_batch_statistics(node))
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
        values = [_real(n.meta["val"]) for n in node.all_input_nodes]
        try:
            inner = torch.export.export(part, tuple(values), strict=False)
            engine = _build(inner, options)
        except Exception as error:
            report.refused.append(f"{name}: {_first_line(error)}")
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


def _first_line(error: BaseException) -> str:
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


reports: List[Report] = []  # of the graphs compiled so far, the newest last


def reset() -> None:
    """Clears the reports."""
    reports.clear()


# ---- torch.compile ----


def _compile(program: torch.export.ExportedProgram, options: Dict[str, Any], report: Report) -> Callable[..., Any]:
    mutates = bool(program.graph_signature.buffers_to_mutate or program.graph_signature.user_inputs_to_mutate)
    statistics = any(_uses_batch_statistics(n) for n in program.graph.nodes)
    if not mutates and not statistics:
        try:
            engine = _build(program, options)
            report.engines.append(engine)
            return engine
        except Exception as error:
            report.refused.append(_first_line(error))
            log.info("the graph as a whole: %s", _first_line(error))
    return _partitioned(program, options, report)


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
        bound = _Bound(gm, example_inputs)
        values = [_real(v) for v in (example_inputs[i] for i in bound.live)]
        dynamic = tuple(bound.dynamic) if any(bound.dynamic) else None
        # Size constraints found during export must not become guards of the caller.
        with torch.no_grad(), torch._guards.tracing(None):
            program = torch.export.export(bound.inner, tuple(values), dynamic_shapes=dynamic, strict=False)
            program = program.run_decompositions({})
            run = _compile(program, options, report)
    except Exception as error:
        report.refused.append(_first_line(error))
        log.warning("a graph stays in torch: %s", _first_line(error))
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
