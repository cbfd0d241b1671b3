"""ITensor: a tensor of a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional

from .._carnot import ffi, lib
from ..core import check, text, to_c_dims, utf8
from ..enums import DataType, TensorFormat, TensorLocation
from ..types import Dims, from_c_dtype, to_c_dtype
from .inner_types import find_inner_type
from .layer import ILayer

if TYPE_CHECKING:
    from .network import INetworkDefinition

DEBUG_PREFIX = "carnot.debug/"  # prefix of the engine outputs that hold debug tensors


class ITensor:
    """A tensor of a network."""

    def __init__(
        self, network: INetworkDefinition, name: str, producer: Optional[ILayer] = None, value: Any = None
    ) -> None:
        self._network = network
        self._name = name
        self._producer = producer
        self._value = value  # of the C network; None until its layer is made
        self._read = None  # the value that readers use instead, if the type of an input was changed
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
        """The C value, after emitting dirty layers; None where the network is invalid."""
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

    def _c_type(self) -> Any:
        """The C data type and dimensions; None where the network is invalid."""
        value = self._known()
        if value is None:
            return find_inner_type(self._network, self)
        return lib.carnot_value_dtype(value), lib.carnot_value_dims(value)

    @property
    def shape(self) -> Dims:
        known = self._c_type()
        if known is None:
            unknown = Dims()
            unknown._d = None
            return unknown
        return Dims._of_c(known[1])

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
        known = self._c_type()
        return DataType.FLOAT if known is None else from_c_dtype(known[0])

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
        formats = int(formats)
        known = {member.value: name for name, member in TensorFormat.__members__.items()}
        if formats <= 0 or any(bit not in known for bit in range(formats.bit_length()) if formats >> bit & 1):
            names = ", ".join(f"{name} = {1 << value}" for value, name in sorted(known.items()))
            raise ValueError(f"allowed_formats of {self._name} is {formats:#x}, must be a set of {names}")
        self._formats = formats

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
