"""ITensor.allowed_formats: memory layouts of inputs and outputs, compared with NumPy transposes."""

import carnot as trt
import numpy as np
import pytest

F = trt.TensorFormat
CHANNELS_LAST = {F.HWC: (1, 2), F.HWC8: (8, 2), F.HWC16: (16, 2), F.DHWC: (1, 3), F.DHWC8: (8, 3)}
BLOCKED = {F.CHW2: (2, 2), F.CHW4: (4, 2), F.CHW16: (16, 2), F.CHW32: (32, 2), F.CDHW32: (32, 3)}
FORMATS = [*CHANNELS_LAST, *BLOCKED]
rng = np.random.default_rng(11)


def stored(array, format):
    """|array| as TensorRT documents the memory of |format|, with zeros as padding."""
    block, spatial = CHANNELS_LAST[format] if format in CHANNELS_LAST else BLOCKED[format]
    channel = array.ndim - 1 - spatial
    missing = -array.shape[channel] % block
    padded = np.pad(array, [(0, missing if d == channel else 0) for d in range(array.ndim)])
    if format in CHANNELS_LAST:
        return np.ascontiguousarray(np.moveaxis(padded, channel, -1))
    shape = (*padded.shape[:channel], padded.shape[channel] // block, block, *padded.shape[channel + 1 :])
    return np.ascontiguousarray(np.moveaxis(padded.reshape(shape), channel + 1, -1))


def engine_of(net, shape, dtype, input_format=F.LINEAR, output_format=F.LINEAR, profile=None):
    """y = x + x, or x for bool."""
    x = net.network.add_input("x", dtype, shape)
    y = net.network.add_elementwise(x, x, trt.ElementWiseOperation.SUM).get_output(0)
    y.name = "y"
    net.network.mark_output(y)
    x.allowed_formats, y.allowed_formats = 1 << int(input_format), 1 << int(output_format)
    if profile:
        made = net.builder.create_optimization_profile()
        made.set_shape("x", *profile)
        net.config.add_optimization_profile(made)
    return net.engine()


def run(engine, x, input_format, output_format):
    """One run with raw addresses; returns the bytes of the output, which begin as 0xff."""
    context = engine.create_execution_context()
    assert context.set_input_shape("x", x.shape)
    given = stored(x, input_format) if input_format != F.LINEAR else np.ascontiguousarray(x)
    size = context.get_max_output_size("y")
    out = np.full(size, 0xFF, np.uint8)
    context.set_tensor_address("x", given.ctypes.data)
    context.set_tensor_address("y", out.ctypes.data)
    assert context.execute_async_v3(0)
    assert tuple(context.get_tensor_shape("y")) == x.shape
    return out


SHAPES = [(2, 3, 5, 4), (1, 40, 3, 3), (1, 16, 2, 7), (5, 4, 3), (2, 9, 3, 2, 4)]
CASES = [(f, s) for f in FORMATS for s in SHAPES if len(s) > (CHANNELS_LAST.get(f) or BLOCKED[f])[1]]


@pytest.mark.parametrize("format, shape", CASES, ids=lambda v: getattr(v, "name", None))
@pytest.mark.parametrize("dtype", [trt.float32, trt.float16, trt.int32])
def test_every_format(net, format, shape, dtype):
    x = rng.integers(-100, 100, shape).astype(trt.nptype(dtype))
    engine = engine_of(net, shape, dtype, format, format)
    got = run(engine, x, format, format)
    wanted = stored(2 * x, format)
    assert got.nbytes == wanted.nbytes
    np.testing.assert_array_equal(got.view(x.dtype).reshape(wanted.shape), wanted)


@pytest.mark.parametrize("format", [F.HWC, F.HWC8, F.CHW4, F.CHW32], ids=lambda f: f.name)
def test_one_side_and_dynamic_shapes(net, logger, format):
    for sides in ((format, F.LINEAR), (F.LINEAR, format)):
        net.network, net.config = net.builder.create_network(0), net.builder.create_builder_config()
        net.config.builder_optimization_level = 0
        profile = ((1, 5, 1, 1), (2, 5, 4, 4), (4, 5, 9, 9))
        engine = engine_of(net, (-1, 5, -1, -1), trt.float32, *sides, profile=profile)
        assert engine.get_tensor_format("x") == sides[0] and engine.get_tensor_format("y") == sides[1]
        assert tuple(engine.get_tensor_shape("x")) == (-1, 5, -1, -1)
        assert [tuple(s) for s in engine.get_tensor_profile_shape("x", 0)] == list(profile)
        for shape in ((1, 5, 3, 2), (4, 5, 9, 7), (2, 5, 1, 1)):
            x = rng.standard_normal(shape).astype(np.float32)
            wanted = 2 * x if sides[1] == F.LINEAR else stored(2 * x, sides[1])
            got = run(engine, x, *sides).view(np.float32).reshape(wanted.shape)
            np.testing.assert_array_equal(got, wanted)
            np.testing.assert_array_equal(trt.Model(engine)(x)["y"], 2 * x)  # arrays are row-major in any case
        context = engine.create_execution_context()
        assert context.set_input_shape("x", (2, 6, 2, 2)) is False
        assert "dimension 1 is 6, must be 5" in logger.errors()[-1]


LAYOUTS = [  # of a float16 tensor (2, 20, 3, 5): strides in vectors, vectorized dimension, elements, bytes
    (F.LINEAR, (300, 15, 5, 1), -1, 1, 1200),
    (F.HWC, (300, 1, 100, 20), -1, 1, 1200),
    (F.HWC8, (45, 1, 15, 3), 1, 8, 1440),
    (F.HWC16, (30, 1, 10, 2), 1, 16, 1920),
    (F.CHW2, (150, 15, 5, 1), 1, 2, 1200),
    (F.CHW4, (75, 15, 5, 1), 1, 4, 1200),
    (F.CHW16, (30, 15, 5, 1), 1, 16, 1920),
    (F.CHW32, (15, 15, 5, 1), 1, 32, 1920),
]


@pytest.mark.parametrize("format, strides, dimension, count, size", LAYOUTS, ids=lambda v: getattr(v, "name", ""))
def test_what_the_engine_says(net, format, strides, dimension, count, size):
    engine = engine_of(net, (2, 20, 3, 5), trt.float16, format, format)
    context = engine.create_execution_context()
    for name in ("x", "y"):
        assert engine.get_tensor_format(name) == engine.get_tensor_format(name, 0) == format
        assert tuple(context.get_tensor_strides(name)) == strides
        assert engine.get_tensor_vectorized_dim(name) == dimension
        assert engine.get_tensor_components_per_element(name) == count
        assert engine.get_tensor_bytes_per_component(name) == 2
        assert f"(k{format.name})" in engine.get_tensor_format_desc(name)
    assert engine.get_binding_format(0) == format and engine.get_binding_vectorized_dim(0) == dimension
    assert context.get_max_output_size("y") == size


def test_linear_where_it_is_allowed(net):
    engine = engine_of(net, (1, 4, 2, 2), trt.float32)
    assert engine.get_tensor_format("x") == F.LINEAR
    net.network = net.builder.create_network(0)
    x = net.network.add_input("x", trt.float32, (1, 4, 2, 2))
    y = net.network.add_identity(x).get_output(0)
    y.name = "y"
    net.network.mark_output(y)
    x.allowed_formats = 1 << int(F.HWC) | 1 << int(F.LINEAR)
    y.allowed_formats = 1 << int(F.DHWC8) | 1 << int(F.CHW32)  # four dimensions: only one of them is possible
    engine = net.engine()
    assert engine.get_tensor_format("x") == F.LINEAR
    array = rng.standard_normal((1, 4, 2, 2)).astype(np.float32)
    assert engine.get_tensor_format("y") in (F.DHWC8, F.CHW32)
    np.testing.assert_array_equal(trt.Model(engine)(array)["y"], array)


def refused(net, logger, shape, format, dtype=trt.float32):
    x = net.network.add_input("x", dtype, shape)
    y = net.network.add_identity(x).get_output(0)
    net.network.mark_output(y)
    x.allowed_formats = 1 << int(format)
    assert net.builder.build_serialized_network(net.network, net.config) is None
    return logger.errors()[-1]


def test_impossible_formats_are_refused_by_name(net, logger):
    assert "tensor x: format hwc is for 3 to 7 dimensions, not for 2" in refused(net, logger, (3, 4), F.HWC)
    net.network = net.builder.create_network(0)
    assert "format dhwc is for 4 to 7 dimensions, not for 3" in refused(net, logger, (3, 4, 5), F.DHWC)
    net.network = net.builder.create_network(0)
    message = refused(net, logger, (1, -1, 2, 2), F.CHW4)
    assert "format chw4 needs a fixed number of channels, dimension 1 is dynamic" in message
    net.network = net.builder.create_network(0)
    assert "format dla_hwc4 is for DLA alone" in refused(net, logger, (1, 4, 2, 2), F.DLA_HWC4)
    x = net.network.get_input(0)
    for wrong in (0, 1 << 25, -1):
        with pytest.raises(ValueError, match="allowed_formats of x is"):
            x.allowed_formats = wrong


def test_a_convolution_between_formats(net):
    """The reformats and a real layer, with an output allocator that is asked for the padded size."""
    x = net.network.add_input("x", trt.float32, (1, 3, 8, 8))
    w = rng.standard_normal((5, 3, 3, 3)).astype(np.float32)
    conv = net.network.add_convolution_nd(x, 5, (3, 3), w, np.zeros(5, np.float32))
    y = conv.get_output(0)
    y.name = "y"
    net.network.mark_output(y)
    x.allowed_formats, y.allowed_formats = 1 << int(F.HWC), 1 << int(F.HWC8)
    engine = net.engine()
    array = rng.standard_normal((1, 3, 8, 8)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(array.astype(np.float64), (3, 3), axis=(2, 3))
    wanted = np.einsum("nchwrs,kcrs->nkhw", windows, w.astype(np.float64))
    asked, shapes, given = [], [], np.ascontiguousarray(array.transpose(0, 2, 3, 1))

    class Allocator(trt.IOutputAllocator):
        def reallocate_output(self, name, memory, size, alignment):
            asked.append(np.full(size, 0xFF, np.uint8))
            return asked[-1].ctypes.data

        def notify_shape(self, name, shape):
            shapes.append(tuple(shape))

    context = engine.create_execution_context()
    context.set_tensor_address("x", given.ctypes.data)
    allocator = Allocator()
    context.set_output_allocator("y", allocator)
    assert context.execute_async_v3(0)
    got = asked[-1].view(np.float32).reshape(1, 6, 6, 8)
    np.testing.assert_allclose(got[..., :5], wanted.transpose(0, 2, 3, 1), atol=1e-4)
    assert (got[..., 5:] == 0).all() and shapes == [(1, 5, 6, 6)]
    np.testing.assert_allclose(trt.Model(engine)(array)["y"], wanted, atol=1e-4)
