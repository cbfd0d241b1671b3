"""The runtime: engines from memory, streams and broken files."""

import carnot as trt
from conftest import Messages
from models import build_plan, conv_model


def test_runtime(logger):
    runtime = trt.Runtime(logger)
    runtime.max_threads, runtime.temporary_directory = 2, "/tmp"
    assert runtime.max_threads == 2 and runtime.temporary_directory == "/tmp" and runtime.num_DLA_cores == 0
    assert not runtime.engine_host_code_allowed and runtime.tempfile_control_flags == 3
    assert runtime.load_runtime("lean.so") is runtime and "lean.so" in logger.lines[-1][1]
    assert runtime.get_plugin_registry() is trt.get_plugin_registry()


def test_foreign_and_broken_engines():
    logger = Messages()
    runtime = trt.Runtime(logger)
    assert runtime.deserialize_cuda_engine(b"ftrt" + bytes(100)) is None
    assert "rebuild from ONNX" in logger.errors()[-1]
    plan = bytearray(build_plan(conv_model(batch=1)))
    plan[200] ^= 255
    assert runtime.deserialize_cuda_engine(bytes(plan)) is None
    assert runtime.deserialize_cuda_engine(b"") is None


def test_streams(net):
    class Reader(trt.IStreamReader):
        def __init__(self, data):
            trt.IStreamReader.__init__(self)
            self.data = data

        def read(self, size):
            part, self.data = self.data[:size], self.data[size:]
            return part

    class Writer(trt.IStreamWriter):
        def __init__(self):
            trt.IStreamWriter.__init__(self)
            self.data = b""

        def write(self, data):
            self.data += data
            return len(data)

    x = net.network.add_input("x", trt.float32, (2,))
    net.network.mark_output(net.network.add_identity(x).get_output(0))
    writer = Writer()
    assert net.builder.build_serialized_network_to_stream(net.network, net.config, writer)
    engine = trt.Runtime(net.logger).deserialize_cuda_engine(Reader(writer.data))
    assert engine.num_io_tensors == 2 and bytes(engine.serialize()) == writer.data
