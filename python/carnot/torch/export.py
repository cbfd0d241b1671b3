"""Export of torch graphs to ONNX, and the build of their engines."""

from __future__ import annotations

import io
from typing import Any, Dict, List, Sequence, Set, Tuple

import torch
from torch import fx

from ..convenience import QuietLogger, build
from ..engine.refit import Refitter
from ..enums import BuilderFlag
from .engine_module import EngineModule


def _to_onnx(program: torch.export.ExportedProgram) -> bytes:
    """ONNX of an exported program; weights keep their names, so that refit finds them."""
    exported = torch.onnx.export(program, dynamo=True, optimize=False, verbose=False)
    out = io.BytesIO()
    exported.save(out)
    return out.getvalue()


def build_engine(program: torch.export.ExportedProgram, options: Dict[str, Any]) -> EngineModule:
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


class BoundGraph(torch.nn.Module):
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


def example_of(value: Any) -> Any:
    """A new tensor of the same type and (hinted) shape."""
    if not isinstance(value, torch.Tensor):
        return value
    shape = [int(s.node.hint) if _is_dynamic(s) else int(s) for s in value.shape]
    fill = torch.ones if value.dtype == torch.bool else torch.zeros
    return fill(shape, dtype=value.dtype, device=value.device)
