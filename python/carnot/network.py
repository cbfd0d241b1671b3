"""Networks, their tensors, and how layers become nodes of the C graph.

A layer keeps what the user said (inputs and properties); its nodes are made when somebody asks for a shape or
builds, and made anew after a change. So properties may be set one by one in any order, also where the network makes
no sense in between. Layers that a parser made are nodes first; a change of their properties makes them anew too.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional

from . import nodes
from ._carnot import ffi, lib
from .adders import Adders
from .control import IIfConditional, ILoop
from .core import CarnotError, Manual, Reporter, address, check, reported, text, to_c_dims, utf8
from .enums import DataType, NetworkDefinitionCreationFlag, TensorFormat, TensorLocation
from .layers.base import ILayer
from .lift import lift
from .types import Dims, Weights, from_c_dtype, to_c_dtype

DEBUG_PREFIX = "carnot.debug/"  # of the outputs that hold debug tensors


class ITensor:
    """A tensor of a network."""

    def __init__(self, network: "INetworkDefinition", name: str, producer: Optional[ILayer] = None, value: Any = None):
        self._network = network
        self._name = name
        self._producer = producer
        self._value = value  # of the C network; None until its layer is made
        self._read = None  # what readers see in place of an input whose type was changed
        self._is_input = False
        self._io_dtype: Optional[DataType] = None
        self._formats = 1 << TensorFormat.LINEAR.value
        self._range: Optional[tuple] = None
        self._dim_names: Dict[int, str] = {}
        self._location = TensorLocation.DEVICE
        self.broadcast_across_batch = False

    def __dir__(self) -> List[str]:
        return [name for name in object.__dir__(self) if not name.startswith("_") or name.startswith("__")]

    def _known(self) -> Any:
        """The value in C, made if need be; None where the network does not fit together."""
        self._network._sync(strict=False)
        return self._value

    @property
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        utf8(name)
        self._name = name
        if self._value is not None and not self._network._boundary_of(self):
            check(lib.carnot_value_set_name(self._value, utf8(name)))
        self._network._outputs_changed = True

    @property
    def shape(self) -> Dims:
        value = self._known()
        if value is None:
            unknown = Dims()
            unknown._d = None
            return unknown
        return Dims._of_c(lib.carnot_value_dims(value))

    @shape.setter
    def shape(self, shape: Any) -> None:
        if not self._is_input:
            self._network._fail(f"the shape of {self._name} follows from its layer: only inputs' shapes can be set")
            return
        self._set_type(self.dtype, shape)

    def _set_type(self, dtype: DataType, shape: Any) -> None:
        dims = to_c_dims(shape)
        names = [
            ffi.new("char[]", utf8(self._dim_names[d]))
            if d in self._dim_names
            else ffi.new("char[]", lib_name)
            if (lib_name := self._c_dim_name(d))
            else ffi.NULL
            for d in range(dims.rank)
        ]
        check(
            lib.carnot_network_set_input_type(
                self._network._c, self._value, to_c_dtype(dtype), dims, ffi.new("char*[]", names + [ffi.NULL])
            )
        )
        self._network._changed_below(self)

    def _c_dim_name(self, d: int) -> bytes:
        return text(lib.carnot_value_dim_name(self._network._c, self._value, d)).encode()

    @property
    def dtype(self) -> Any:
        if self._io_dtype is not None and not self._is_input:
            return self._io_dtype
        value = self._known()
        return DataType.FLOAT if value is None else from_c_dtype(lib.carnot_value_dtype(value))

    @dtype.setter
    def dtype(self, dtype: DataType) -> None:
        to_c_dtype(dtype)
        if not self._is_input:
            self._io_dtype = dtype
            self._network._outputs_changed = True
        elif dtype != self.dtype:
            self._network._set_input_dtype(self, dtype)

    is_network_input = property(lambda self: self._is_input)
    is_network_output = property(lambda self: self in self._network._outputs)

    @property
    def is_shape_tensor(self) -> bool:
        value = self._known()
        if value is None or lib.carnot_value_dtype(value) not in (
            lib.CARNOT_DTYPE_I32,
            lib.CARNOT_DTYPE_I64,
            lib.CARNOT_DTYPE_BOOL,
        ):
            return False
        if lib.carnot_value_dims(value).rank not in (0, 1):
            return False
        if self._is_input:
            out = ffi.new("bool*")
            check(lib.carnot_network_is_shape_input(self._network._c, value, out))
            return bool(out[0])
        return lib.carnot_value_is_shape(value) or self in self._network._shape_outputs

    is_execution_tensor = property(lambda self: not self.is_shape_tensor)

    @property
    def location(self) -> TensorLocation:
        return self._location

    @location.setter
    def location(self, location: TensorLocation) -> None:
        self._location = TensorLocation(location)

    @property
    def allowed_formats(self) -> int:
        return self._formats

    @allowed_formats.setter
    def allowed_formats(self, formats: int) -> None:
        self._formats = int(formats)

    @property
    def dynamic_range(self) -> Optional[tuple]:
        return self._range

    @dynamic_range.setter
    def dynamic_range(self, given: Any) -> None:
        self._range = (float(given[0]), float(given[1]))

    def set_dynamic_range(self, min: float, max: float) -> bool:  # noqa: A002
        self._range = (float(min), float(max))
        return True

    def reset_dynamic_range(self) -> None:
        self._range = None

    def get_dimension_name(self, index: int) -> str:
        if index in self._dim_names:
            return self._dim_names[index]
        value = self._known()
        return "" if value is None else text(lib.carnot_value_dim_name(self._network._c, value, index))

    def set_dimension_name(self, index: int, name: str) -> None:
        if not self._is_input:
            self._network._fail(f"dimension {index} of {self._name} cannot be named: only inputs' dimensions can be")
            return
        self._dim_names[index] = name
        self._set_type(self.dtype, self.shape)


class INetworkDefinition(Adders, Reporter, Manual):
    """A network being defined; made by Builder.create_network."""

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
        self._by_value: Dict[int, ITensor] = {}
        self._keep: List[Any] = []  # what the C network borrows
        self._weight_names: Dict[int, str] = {}
        self._refittable: set = set()
        self._debug: List[ITensor] = []
        self._boundary: List[Any] = []  # nodes between a tensor and the output that shows it
        self._shown: Dict[int, Any] = {}  # tensors behind such nodes
        self._outputs_changed = False
        self._stale = False  # shapes must be inferred again
        self._errors: List[str] = []

    # ---- from Python to C ----

    def _sync(self, strict: bool) -> None:
        """Makes the nodes of all layers that are new or changed. Strict: raises where one cannot be made."""
        nodes.make_dirty(self, strict)
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
        """After a change of |tensor|: layers that read it are made again, imported ones are inferred again."""
        self._stale = True
        nodes.mark_readers(self, tensor)

    def _set_input_dtype(self, tensor: ITensor, dtype: DataType) -> None:
        was, shape = tensor.dtype, tensor.shape
        is_read = any(tensor in layer._inputs for layer in self._layers)
        tensor._set_type(dtype, shape)
        if not is_read or self.get_flag(NetworkDefinitionCreationFlag.STRONGLY_TYPED):
            return
        # Weak typing: the type of an input is that of its memory; what reads it computes as before.
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
            self._layers.append(lift(self, node))
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
        nodes.mark_weights(self, weights)
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


def visit_weights(network: Any) -> List[tuple]:
    """Name, type, dimensions and pointer of every named weight of a C network."""
    found: List[tuple] = []
    handle = ffi.new_handle(found)
    lib.carnot_network_visit_weights(network, lib.carnot_py_weight, handle)
    return found


@ffi.def_extern()
def carnot_py_weight(user: Any, name: Any, dtype: int, dims: Any, data: Any) -> None:
    ffi.from_handle(user).append((text(name), from_c_dtype(dtype), [dims.d[i] for i in range(dims.rank)], data))
