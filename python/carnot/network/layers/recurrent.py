"""The recurrent layer of TensorRT 8.6."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np

from ..._carnot import ffi, lib
from ...enums import DataType, LayerType, RNNDirection, RNNGateType, RNNInputMode, RNNOperation
from ...types import Weights
from ..emitter import Emitter, model_error
from ..layer import ILayer, enum_prop


class IRNNv2Layer(ILayer):
    """RNNv2 of TensorRT 8.6, with weights set per gate. Data is [batch, time, features]."""

    _layer_type = LayerType.RNN_V2
    _defaults = {
        "input_mode": RNNInputMode.LINEAR,
        "direction": RNNDirection.UNIDIRECTION,
        "hidden_state": None,
        "cell_state": None,
        "seq_lengths": None,
    }
    # Gates in ONNX's packing order.
    _GATES = {
        RNNOperation.RELU: ["INPUT"],
        RNNOperation.TANH: ["INPUT"],
        RNNOperation.LSTM: ["INPUT", "OUTPUT", "FORGET", "CELL"],
        RNNOperation.GRU: ["UPDATE", "RESET", "HIDDEN"],
    }
    op, input_mode = enum_prop("op", RNNOperation), enum_prop("input_mode", RNNInputMode)
    direction = enum_prop("direction", RNNDirection)
    num_layers, hidden_size = (
        property(lambda self: self._p["layer_count"]),
        property(lambda self: self._p["hidden_size"]),
    )
    max_seq_length = property(lambda self: self._p["max_seq_length"])
    data_length = property(lambda self: self._inputs[0].shape[-1])

    def _state(name: str, index: int) -> Any:  # type: ignore[misc]
        def put(self: Any, tensor: Any) -> None:
            self._p[name] = tensor
            self._rewire(index, tensor)

        return property(lambda self: self._p[name], put)

    hidden_state, cell_state, seq_lengths = _state("hidden_state", 1), _state("cell_state", 2), _state("seq_lengths", 3)
    del _state

    def __init__(self, network: Any, inputs: Any = (), **properties: Any) -> None:
        super().__init__(network, inputs, **properties)
        self._gates: Dict[tuple, Weights] = {}
        self._output_count = 3 if properties.get("op") == RNNOperation.LSTM else 2

    def set_weights_for_gate(self, layer_index: int, gate: RNNGateType, is_w: bool, weights: Any) -> None:
        self._gates[layer_index, gate.name, bool(is_w), False] = Weights.of(weights)
        self._changed()

    def set_bias_for_gate(self, layer_index: int, gate: RNNGateType, is_w: bool, bias: Any) -> None:
        self._gates[layer_index, gate.name, bool(is_w), True] = Weights.of(bias)
        self._changed()

    def get_weights_for_gate(self, layer_index: int, gate: RNNGateType, is_w: bool) -> Any:
        return self._gates[layer_index, gate.name, bool(is_w), False].numpy()

    def get_bias_for_gate(self, layer_index: int, gate: RNNGateType, is_w: bool) -> Any:
        return self._gates[layer_index, gate.name, bool(is_w), True].numpy()

    def _packed(self, e: Emitter, level: int, is_w: bool, is_bias: bool, width: int) -> Any:
        """[directions, gates * hidden, width], or without width for a bias."""
        directions = 1 + (self.direction == RNNDirection.BIDIRECTION)
        parts = []
        for d in range(directions):
            for gate in self._GATES[self.op]:
                at = (level * directions + d, gate, is_w, is_bias)
                if at in self._gates:
                    parts.append(self._gates[at].numpy().astype(np.float32))
                elif is_bias:
                    parts.append(np.zeros(self.hidden_size, np.float32))
                else:
                    raise model_error(f"layer {self._name}: no weights for gate {gate} of layer {at[0]}")
        return np.concatenate(parts).reshape([directions, -1] + ([] if is_bias else [width]))

    def _initial(self, e: Emitter, name: str, level: int, directions: int) -> Any:
        """The state [batch, layers * directions, hidden] of one level as [directions, batch, hidden]."""
        if self._p[name] is None:
            return ffi.NULL
        state = e.transpose(e.value(self._p[name]), [1, 0, 2])
        first, last = e.ints([level * directions]), e.ints([(level + 1) * directions])
        return e.add("slice_dynamic", state, first, last, e.ints([0]), ffi.NULL)

    def _emit(self, e: Emitter) -> List[Any]:
        if self.input_mode == RNNInputMode.SKIP:
            raise model_error(f"layer {self._name}: input mode SKIP", lib.CARNOT_UNSUPPORTED)
        directions = 1 + (self.direction == RNNDirection.BIDIRECTION)
        steps = e.transpose(e.value(self._inputs[0]), [1, 0, 2])
        hidden_states, cells = [], []
        for level in range(self.num_layers):
            config = ffi.new("carnot_rnn_config*")
            config.type = getattr(lib, "CARNOT_RNN_" + self.op.name)
            config.hidden, config.bidirectional = self.hidden_size, directions == 2
            config.initial_hidden = self._initial(e, "hidden_state", level, directions)
            config.initial_cell = self._initial(e, "cell_state", level, directions)
            if self._p["seq_lengths"] is not None:
                config.lengths = e.cast(e.value(self._p["seq_lengths"]), DataType.INT32)
            w = self._packed(e, level, True, False, e.shape(steps)[2])
            r = self._packed(e, level, False, False, self.hidden_size)
            b = np.concatenate([self._packed(e, level, True, True, 0), self._packed(e, level, False, True, 0)], 1)
            out = [ffi.new("carnot_value**") for _ in range(3)]
            e.call("add_rnn", steps, e.array(w), e.array(r), e.array(b), config, *out)
            if self.op == RNNOperation.GRU:  # the reset gate applies after the GEMM, bias included
                lib.carnot_status_free(
                    lib.carnot_layer_set_int(lib.carnot_value_layer(out[0][0]), b"linear_before_reset", 1)
                )
            steps = e.reshape(e.transpose(out[0][0], [0, 2, 1, 3]), [0, 0, -1])
            hidden_states.append(out[1][0])
            cells.append(out[2][0])
        outputs = [steps] + [
            e.add("concatenation", states, len(states), 0)
            for states in ([hidden_states, cells] if self.op == RNNOperation.LSTM else [hidden_states])
        ]
        return [e.transpose(value, [1, 0, 2]) for value in outputs]
