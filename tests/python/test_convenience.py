"""carnot.load and calls with arrays of NumPy, torch and DLPack."""

import carnot as trt
import numpy as np
import pytest
from models import ort_run

rng = np.random.default_rng(3)


def test_easy_layer(model):
    net = trt.load(model("ultraface_rfb_320.onnx"), level=0)
    x = rng.standard_normal((1, 3, 240, 320)).astype(np.float32)
    got, wanted = net(input=x), ort_run(model("ultraface_rfb_320.onnx"), {"input": x})
    for name, array in zip(("scores", "boxes"), wanted):
        np.testing.assert_allclose(got[name], array, atol=1e-5)
    report = net.engine.profile()
    assert report.total_ms > 0 and "<table>" in net._repr_html_() and "<table>" in report._repr_html_()
    with pytest.raises(TypeError, match="float64"):
        net(input=x.astype(np.float64))
    with pytest.raises(TypeError, match="outpost"):
        net(outpost=x)


def test_torch_and_dlpack(net):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = net.network.add_input("x", trt.float32, (2, 3))
    y = net.network.add_unary(x, trt.UnaryOperation.NEG).get_output(0)
    y.name = "y"
    net.network.mark_output(y)
    tensor, out = torch.randn(2, 3), torch.empty(2, 3)
    engine = net.engine()
    context = engine.create_execution_context()
    context.set_tensor_address("x", tensor.data_ptr())
    context.set_tensor_address("y", out.data_ptr())
    assert context.execute_async_v3(0) and torch.equal(out, -tensor)
    assert np.array_equal(trt.Model(engine)(x=tensor)["y"], -tensor.numpy())

    class OnDevice:
        __cuda_array_interface__ = {}

    with pytest.raises(ValueError, match="GPU"):
        trt.Model(engine)(x=OnDevice())
