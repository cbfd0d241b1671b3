"""INetworkDefinition: inputs, outputs and layers of a network, and how they reach the C graph.

A layer keeps its inputs and properties as the user set them. Its nodes of the C graph are made when a shape is
requested or a build starts, and made again after a change. Properties may therefore be set one by one in any order,
even while the network is temporarily invalid. Layers from a parser start as nodes; a change of one of their
properties makes their nodes again too.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

from .._carnot import ffi, lib
from ..core import CarnotError, Manual, Reporter, address, check, reported, text, to_c_dims, utf8
from ..enums import DataType, NetworkDefinitionCreationFlag
from ..types import Weights, from_c_dtype, to_c_dtype
from .control import IIfConditional, ILoop
from .emitter import Emitter
from .from_node import layer_from_node
from .layer import ILayer
from .network_layers import NetworkLayers
from .sync import make_dirty, mark_readers, mark_weights, name_nodes, set_precision
from .tensor import DEBUG_PREFIX, ITensor
from .weights import visit_weights


class INetworkDefinition(NetworkLayers, Reporter, Manual):
    """A network definition, created by Builder.create_network."""

    def __init__(self, builder: Any, flags: int = 0) -> None:
        self._builder = builder
        self._logger = builder._logger
        self._recorder = None
        made = ffi.new("carnot_network**")
        check(lib.carnot_network_create(made))
        self._c = ffi.gc(made[0], lib.carnot_network_destroy)
        self._flags = int(flags)
        self._name = ""
        self._inputs: List[ITensor] = []
        self._outputs: List[ITensor] = []
        self._shape_outputs: List[ITensor] = []
        self._layers: List[ILayer] = []
        self._loops: List[Any] = []  # and conditionals
        self._inner_values: Dict[int, Any] = {}  # by id of a tensor inside the loop or conditional being made
        self._by_value: Dict[int, ITensor] = {}
        self._keep: List[Any] = []  # borrowed by the C network
        self._weight_names: Dict[int, str] = {}
        self._refittable: set = set()
        self._debug: List[ITensor] = []
        self._boundary: List[Any] = []  # nodes between tensors and network outputs
        self._shown: Dict[int, Any] = {}  # the inner values of tensors behind such nodes
        self._outputs_changed = False
        self._stale = False  # shapes must be inferred again
        self._errors: List[str] = []

    # ---- from Python to C ----

    def _sync(self, strict: bool) -> None:
        """Emits the nodes of dirty layers and infers shapes. Strict: raises errors, and updates the outputs."""
        make_dirty(self, strict)
        if self._stale:
            try:
                check(lib.carnot_network_infer(self._c))
                self._stale = False
            except CarnotError:
                if strict:
                    raise
        if strict:
            names = [t._name for t in self._inputs + self._outputs]
            for name in names:
                if names.count(name) > 1:
                    raise CarnotError(lib.CARNOT_INVALID_MODEL, f"two inputs or outputs are called {name}")
            self._sync_outputs()

    def _changed_below(self, tensor: ITensor) -> None:
        """After a change of |tensor|: its readers are emitted again, imported ones inferred again."""
        self._stale = True
        mark_readers(self, tensor)

    def _set_input_dtype(self, tensor: ITensor, dtype: DataType) -> None:
        was, shape = tensor.dtype, tensor.shape
        is_read = any(tensor in layer._inputs for layer in self._layers)
        tensor._set_type(dtype, shape)
        if not is_read or self.get_flag(NetworkDefinitionCreationFlag.STRONGLY_TYPED):
            return
        # Weak typing: only the type in memory changes; readers compute in the old type.
        first, out = lib.carnot_network_first_layer(self._c), ffi.new("carnot_value**")
        declared = tensor._read and lib.carnot_value_dtype(tensor._read) or to_c_dtype(was)
        if tensor._read is None:
            check(lib.carnot_network_insert_before(self._c, first))
            check(lib.carnot_network_add_cast(self._c, tensor._value, declared, out))
            check(lib.carnot_network_insert_before(self._c, ffi.NULL))
            tensor._read = out[0]
            check(lib.carnot_network_replace_value(self._c, tensor._value, tensor._read))
            check(lib.carnot_layer_set_input(self._c, lib.carnot_value_layer(tensor._read), 0, tensor._value))
        self._stale = True

    def _boundary_of(self, tensor: ITensor) -> bool:
        return id(tensor) in self._shown

    def _sync_outputs(self) -> None:
        if not self._outputs_changed:
            return
        while lib.carnot_network_output_count(self._c):
            check(lib.carnot_network_unmark_output(self._c, lib.carnot_network_output(self._c, 0)))
        for node in reversed(self._boundary):
            check(lib.carnot_layer_remove(self._c, node))
        for tensor in self._outputs + self._shape_outputs + self._debug:
            if tensor._value is not None:
                check(lib.carnot_value_set_name(tensor._value, utf8(tensor._name)))
        self._boundary, self._shown = [], {}
        for tensor in self._outputs + [t for t in self._shape_outputs if t not in self._outputs]:
            self._show(tensor)
        for tensor in self._debug:
            out = ffi.new("carnot_value**")
            check(lib.carnot_network_add_identity(self._c, tensor._value, out))
            self._boundary.append(lib.carnot_value_layer(out[0]))
            check(lib.carnot_value_set_name(out[0], utf8(DEBUG_PREFIX + tensor._name)))
            check(lib.carnot_network_mark_output(self._c, out[0], ffi.NULL))
        self._outputs_changed = False

    def _show(self, tensor: ITensor) -> None:
        value = tensor._value
        is_constant = lib.carnot_value_constant(value, ffi.NULL) != ffi.NULL
        has_type = from_c_dtype(lib.carnot_value_dtype(value))
        wanted = tensor._io_dtype if tensor._io_dtype is not None else has_type
        if is_constant or wanted != has_type:
            out = ffi.new("carnot_value**")
            check(lib.carnot_network_add_cast(self._c, value, to_c_dtype(wanted), out))
            check(lib.carnot_value_set_name(value, utf8(tensor._name + " (inside)")))
            check(lib.carnot_value_set_name(out[0], utf8(tensor._name)))
            node = lib.carnot_value_layer(out[0])
            check(lib.carnot_layer_set_name(node, utf8(tensor._name + " (output)")))
            self._boundary.append(node)
            self._shown[id(tensor)] = value
            value = out[0]
        check(lib.carnot_network_mark_output(self._c, value, ffi.NULL))

    # ---- changes of layers ----

    def _layer_changed(self, layer: Any) -> None:
        layer._dirty = True
        for tensor in layer._outputs:
            mark_readers(self, tensor)

    def _layer_renamed(self, layer: Any) -> None:
        if layer._nodes:
            name_nodes(layer, layer._nodes)
        if not layer._imported and any(isinstance(value, Weights) for value in layer._p.values()):
            layer._dirty = True

    def _precision_changed(self, layer: Any) -> None:
        set_precision(layer)

    def _rewire_imported(self, layer: Any, index: int, tensor: Any) -> None:
        try:
            if tensor is not None:
                self._sync(strict=True)
            check(
                lib.carnot_layer_set_input(
                    self._c, layer._nodes[0], index, ffi.NULL if tensor is None else Emitter(self).value(tensor)
                )
            )
        except CarnotError as error:
            self._fail(error, f"layer {layer._name}")
            return
        layer._inputs[index] = tensor
        self._stale = True
        for output in layer._outputs:
            mark_readers(self, output)

    # ---- from C to Python, after a parser has added to the C network ----

    def _wrap(self, value: Any) -> Optional[ITensor]:
        if not value:
            return None
        key = address(value)
        if key not in self._by_value:
            self._by_value[key] = ITensor(self, text(lib.carnot_value_name(value)), value=value)
        return self._by_value[key]

    def _take_parsed(self, after: Any, input_count: int) -> None:
        for i in range(input_count, lib.carnot_network_input_count(self._c)):
            tensor = self._wrap(lib.carnot_network_input(self._c, i))
            tensor._is_input = True
            self._inputs.append(tensor)
        node = lib.carnot_layer_next(after) if after else lib.carnot_network_first_layer(self._c)
        while node:
            self._layers.append(layer_from_node(self, node))
            node = lib.carnot_layer_next(node)
        for i in range(lib.carnot_network_output_count(self._c)):
            tensor = self._wrap(lib.carnot_network_output(self._c, i))
            if tensor not in self._outputs:
                self._outputs.append(tensor)
        if not self._name:
            self._name = text(lib.carnot_network_name(self._c))

    # ---- inputs, outputs, layers ----

    @reported(None)
    def add_input(self, name: str, dtype: DataType, shape: Any) -> ITensor:
        out = ffi.new("carnot_value**")
        check(lib.carnot_network_add_input(self._c, utf8(name), to_c_dtype(dtype), to_c_dims(shape), ffi.NULL, out))
        tensor = self._wrap(out[0])
        tensor._is_input = True
        self._inputs.append(tensor)
        return tensor

    def mark_output(self, tensor: ITensor) -> None:
        if not isinstance(tensor, ITensor):
            raise TypeError(f"mark_output takes an ITensor, not {type(tensor).__name__}")
        if tensor._network is not self:
            return self._fail(f"mark_output: tensor {tensor._name} belongs to another network")
        if tensor._is_input:
            return self._fail(f"mark_output: {tensor._name} is an input; add an identity layer to show it")
        if any(t._name == tensor._name for t in self._outputs if t is not tensor):
            return self._fail(f"mark_output: there is an output {tensor._name} already")
        if tensor not in self._outputs:
            self._outputs.append(tensor)
            self._outputs_changed = True
        return None

    def unmark_output(self, tensor: ITensor) -> None:
        if tensor in self._outputs:
            self._outputs.remove(tensor)
            self._outputs_changed = True

    def mark_output_for_shapes(self, tensor: ITensor) -> bool:
        if tensor not in self._shape_outputs:
            self._shape_outputs.append(tensor)
            self._outputs_changed = True
        return True

    def unmark_output_for_shapes(self, tensor: ITensor) -> bool:
        if tensor not in self._shape_outputs:
            return False
        self._shape_outputs.remove(tensor)
        self._outputs_changed = True
        return True

    @reported(None)
    def remove_tensor(self, tensor: ITensor) -> None:
        if tensor._is_input:
            check(lib.carnot_network_remove_input(self._c, tensor._value))
            self._inputs.remove(tensor)
        elif tensor in self._outputs:
            self.unmark_output(tensor)

    def mark_debug(self, tensor: ITensor) -> bool:
        if tensor not in self._debug:
            self._debug.append(tensor)
            self._outputs_changed = True
        return True

    def unmark_debug(self, tensor: ITensor) -> bool:
        if tensor in self._debug:
            self._debug.remove(tensor)
            self._outputs_changed = True
        return True

    def is_debug_tensor(self, tensor: ITensor) -> bool:
        return tensor in self._debug

    def mark_unfused_tensors_as_debug_tensors(self) -> bool:
        for layer in self._layers:
            for tensor in layer._outputs:
                if tensor is not None and tensor not in self._outputs:
                    self.mark_debug(tensor)
        return True

    def unmark_unfused_tensors_as_debug_tensors(self) -> bool:
        self._debug.clear()
        self._outputs_changed = True
        return True

    num_inputs = property(lambda self: len(self._inputs))
    num_outputs = property(lambda self: len(self._outputs))
    def _dynamic_ranges(self) -> Dict[str, Tuple[float, float]]:
        """Tensors' dynamic ranges by the names of their C values."""
        tensors = [*self._inputs, *(tensor for layer in self._layers for tensor in layer._outputs)]
        return {
            text(lib.carnot_value_name(tensor._value)): tensor._range
            for tensor in tensors
            if tensor._range is not None and tensor._value is not None
        }

    num_layers = property(lambda self: len(self._layers))
    builder = property(lambda self: self._builder)
    flags = property(lambda self: self._flags)
    has_implicit_batch_dimension = property(lambda self: False)
    has_explicit_precision = property(lambda self: bool(self._flags & 1 << 8))

    @property
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        check(lib.carnot_network_set_name(self._c, utf8(name)))
        self._name = name

    @staticmethod
    def _at(items: List[Any], index: int) -> Any:
        return items[index] if 0 <= index < len(items) else None

    def get_input(self, index: int) -> Optional[ITensor]:
        return self._at(self._inputs, index)

    def get_output(self, index: int) -> Optional[ITensor]:
        return self._at(self._outputs, index)

    def get_layer(self, index: int) -> Optional[ILayer]:
        return self._at(self._layers, index)

    def get_flag(self, flag: NetworkDefinitionCreationFlag) -> bool:
        if flag == NetworkDefinitionCreationFlag.EXPLICIT_BATCH:
            return True
        return bool(self._flags >> int(flag) & 1)

    def __len__(self) -> int:
        return len(self._layers)

    def __getitem__(self, index: Any) -> Any:
        return self._layers[index]

    def __iter__(self) -> Iterator[ILayer]:
        return iter(self._layers)

    def __bool__(self) -> bool:
        return True

    # ---- weights ----

    def set_weights_name(self, weights: Any, name: str) -> bool:
        weights = Weights.of(weights)
        if weights._array is None:
            return False
        self._weight_names[weights._array.__array_interface__["data"][0]] = name
        self._keep.append(weights)
        mark_weights(self, weights)
        return True

    def _all_weight_names(self) -> List[str]:
        self._sync(strict=False)
        return [name for name, *_ in visit_weights(self._c)]

    def mark_weights_refittable(self, name: str) -> bool:
        if name not in self._all_weight_names():
            self._fail(f"mark_weights_refittable: the network has no weights {name}")
            return False
        self._refittable.add(name)
        return True

    def unmark_weights_refittable(self, name: str) -> bool:
        self._refittable.discard(name)
        return True

    def are_weights_marked_refittable(self, name: str) -> bool:
        return name in self._refittable

    def serialize(self) -> None:
        self._fail("a network itself is not serialized: build it, or keep its ONNX file")

    # ---- control flow ----

    def add_loop(self) -> ILoop:
        loop = ILoop(self)
        self._loops.append(loop)
        return loop

    def add_if_conditional(self) -> IIfConditional:
        conditional = IIfConditional(self)
        self._loops.append(conditional)
        return conditional
