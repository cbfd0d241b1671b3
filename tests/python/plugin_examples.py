"""Example plugins of version 2 and 3 that several tests use."""

import carnot as trt
import carnot.plugin as trtp
import numpy as np


def array_of(desc, pointer):
    """The operand in memory, as a CPU plugin reads and writes it."""
    return np.asarray(trtp.Tensor(desc, pointer))


class CircPad(trt.IPluginV2DynamicExt):
    made = 0

    def __init__(self, fc=None):
        trt.IPluginV2DynamicExt.__init__(self)
        self.pads = []
        self.num_outputs = 1
        self.plugin_namespace = ""
        self.plugin_type = "CircPadPlugin"
        self.plugin_version = "1"
        CircPad.made += 1
        if fc is not None:
            assert fc[0].name == "pads" and fc[0].type == trt.PluginFieldType.INT32 and fc[0].size == len(fc[0].data)
            self.pads = fc[0].data

    def get_output_datatype(self, index, input_types):
        return input_types[0]

    def get_output_dimensions(self, output_index, inputs, exprBuilder):
        output_dims = trt.DimsExprs(inputs[0])
        for i in range(len(self.pads) // 2):
            at = len(output_dims) - i - 1
            output_dims[at] = exprBuilder.operation(
                trt.DimensionOperation.SUM,
                inputs[0][at],
                exprBuilder.constant(self.pads[i * 2] + self.pads[i * 2 + 1]),
            )
        return output_dims

    def serialize(self):
        return ",".join(str(p) for p in self.pads)

    def configure_plugin(self, inp, out):
        assert list(inp[0].min) <= list(inp[0].opt) <= list(inp[0].max) and len(out) == 1
        assert inp[0].desc.type == trt.float32

    def supports_format_combination(self, pos, in_out, num_inputs):
        assert num_inputs == 1 and pos < len(in_out)
        desc = in_out[pos]
        return desc.format == trt.TensorFormat.LINEAR and desc.type == trt.DataType.FLOAT

    def get_workspace_size(self, input_desc, output_desc):
        return 4 * trt.volume(input_desc[0].dims)

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        import ctypes

        x, y = array_of(input_desc[0], inputs[0]), array_of(output_desc[0], outputs[0])
        scratch = np.ctypeslib.as_array((ctypes.c_float * x.size).from_address(workspace)).reshape(x.shape)
        scratch[...] = x
        pads = [(0, 0)] * (x.ndim - len(self.pads) // 2)
        pads += [(self.pads[2 * i], self.pads[2 * i + 1]) for i in reversed(range(len(self.pads) // 2))]
        y[...] = np.pad(scratch, pads, mode="wrap")

    def clone(self):
        cloned = CircPad()
        cloned.__dict__.update(self.__dict__)
        return cloned


class CircPadCreator(trt.IPluginCreator):
    def __init__(self):
        trt.IPluginCreator.__init__(self)
        self.name = "CircPadPlugin"
        self.plugin_namespace = ""
        self.plugin_version = "1"
        self.field_names = trt.PluginFieldCollection([trt.PluginField("pads", np.array([]), trt.PluginFieldType.INT32)])

    def create_plugin(self, name, fc):
        return CircPad(fc)

    def deserialize_plugin(self, name, data):
        deserialized = CircPad()
        deserialized.pads = [int(p) for p in data.decode("utf-8").split(",")]
        return deserialized


def pads_field(*pads):
    return trt.PluginFieldCollection(
        [trt.PluginField("pads", np.array(pads, dtype=np.int32), trt.PluginFieldType.INT32)]
    )


class Scale(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuildV2, trt.IPluginV3OneRuntime):
    """y = factor · x, with two tactics."""

    calls = []

    def __init__(self, factor, offset=0.0):
        trt.IPluginV3.__init__(self)
        trt.IPluginV3OneCore.__init__(self)
        trt.IPluginV3OneBuildV2.__init__(self)
        trt.IPluginV3OneRuntime.__init__(self)
        self.plugin_name, self.plugin_version, self.plugin_namespace = "Scale", "2", "mine"
        self.num_outputs = 1
        self.timing_cache_id = "scale"
        self.factor, self.offset, self.tactic = float(factor), offset, 0

    def get_capability_interface(self, type):
        return self

    def get_output_data_types(self, input_types):
        return [input_types[0]]

    def get_output_shapes(self, inputs, shape_inputs, exprBuilder):
        return [trt.DimsExprs(inputs[0])]

    def supports_format_combination(self, pos, in_out, num_inputs):
        desc = in_out[pos].desc
        return desc.format == trt.TensorFormat.LINEAR and desc.type == in_out[0].desc.type

    def configure_plugin(self, inp, out):
        Scale.calls.append("configure")

    def on_shape_change(self, inp, out):
        assert inp[0].dims == out[0].dims
        Scale.calls.append(f"shape {tuple(inp[0].dims)}")

    def get_valid_tactics(self):
        return [3, 7]

    def set_tactic(self, tactic):
        self.tactic = tactic

    def get_fields_to_serialize(self):
        return trt.PluginFieldCollection(
            [
                trt.PluginField("factor", np.array([self.factor]), trt.PluginFieldType.FLOAT64),
                trt.PluginField("offset", np.array([self.offset], np.float32), trt.PluginFieldType.FLOAT32),
            ]
        )

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        assert self.tactic in (3, 7)
        x, y = array_of(input_desc[0], inputs[0]), array_of(output_desc[0], outputs[0])
        if self.tactic == 3:
            import time

            time.sleep(0.002)
        y[...] = x * self.factor + self.offset

    def attach_to_context(self, context):
        assert context.error_recorder is None and context.gpu_allocator is None
        Scale.calls.append("attach")
        return self.clone()

    def clone(self):
        made = Scale(0)
        made.__dict__.update(self.__dict__)
        return made


class ScaleCreator(trt.IPluginCreatorV3One):
    def __init__(self):
        trt.IPluginCreatorV3One.__init__(self)
        self.name, self.plugin_version, self.plugin_namespace = "Scale", "2", "mine"
        self.field_names = trt.PluginFieldCollection([trt.PluginField("factor", None, trt.PluginFieldType.FLOAT64)])
        self.phases = []

    def create_plugin(self, name, fc, phase):
        self.phases.append(phase)
        fields = {f.name: f.data[0] for f in fc}
        return Scale(fields["factor"], fields.get("offset", 0.0))
