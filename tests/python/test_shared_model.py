"""carnot.load models: calls from many threads, inputs that are missing, addresses, memory, close."""

import gc
import threading
import weakref

import carnot as trt
import numpy as np
import pytest
from conftest import Net, Messages

THREADS, CALLS = 16, 2000


def dynamic_plan():
    """y[n,4] = max(x, 0) * 3, with a reshape whose shape depends on n."""
    net = Net(Messages())
    x = net.network.add_input("x", trt.float32, (-1, 2, 2))
    relu = net.network.add_activation(x, trt.ActivationType.RELU).get_output(0)
    flat = net.network.add_shuffle(relu)
    flat.reshape_dims = (-1, 4)
    three = net.constant(np.full((1, 4), 3, np.float32))
    y = net.network.add_elementwise(flat.get_output(0), three, trt.ElementWiseOperation.PROD).get_output(0)
    y.name = "y"
    net.network.mark_output(y)
    profile = net.builder.create_optimization_profile()
    profile.set_shape("x", (1, 2, 2), (2, 2, 2), (8, 2, 2))
    net.config.add_optimization_profile(profile)
    plan = net.builder.build_serialized_network(net.network, net.config)
    assert plan is not None, net.logger.errors()
    return bytes(plan)


@pytest.fixture(scope="module")
def plan():
    return dynamic_plan()


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_threads_share_one_model(plan):
    model = trt.load(plan, threads=2, contexts=4)
    batches = [np.random.default_rng(i).standard_normal((i % 8 + 1, 2, 2)).astype(np.float32) for i in range(24)]
    wanted = [np.maximum(x, 0).reshape(-1, 4) * 3 for x in batches]
    wrong, errors, middle = [], [], []

    def work(seed):
        try:
            for i in range(CALLS):
                k = (i * 5 + seed) % len(batches)
                if not np.array_equal(model(x=batches[k])["y"], wanted[k]):
                    wrong.append(k)
                if i == CALLS // 2:
                    middle.append(resident_bytes())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and not wrong
    assert model._pool.count <= 4
    assert resident_bytes() - max(middle) < 8 << 20, "memory grows with the calls"


def test_pool_waits_at_its_limit(plan):
    model = trt.load(plan, contexts=1)
    entered, done = threading.Event(), threading.Event()

    def call():
        entered.set()
        model(np.zeros((1, 2, 2), np.float32))
        done.set()

    with model._pool.use():
        thread = threading.Thread(target=call)
        thread.start()
        assert entered.wait(60)
        assert not done.is_set() and model._pool.count == 1
    thread.join(60)
    assert done.is_set() and model._pool.count == 1


def test_failed_call_gives_its_context_back(plan):
    model = trt.load(plan, contexts=1)
    for _ in range(3):
        with pytest.raises(trt.CarnotError, match="dimension 0 is 9"):
            model(np.zeros((9, 2, 2), np.float32))
    assert model(np.ones((1, 2, 2), np.float32))["y"].tolist() == [[3, 3, 3, 3]]


def test_inputs_that_are_missing_or_surplus(plan):
    model, x = trt.load(plan), np.ones((2, 2, 2), np.float32)
    assert (model(x)["y"] == 3).all()
    with pytest.raises(TypeError, match="missing input x"):
        model()
    with pytest.raises(TypeError, match="2 inputs given, the model takes 1: x"):
        model(x, x)
    with pytest.raises(TypeError, match="unknown input z; the model takes x"):
        model(x, z=x)
    with pytest.raises(TypeError, match="input x is given by position and by name"):
        model(x, x=x)
    with pytest.raises(TypeError, match="unknown input y"):
        model(y=x)


def test_no_address_outlives_its_call(plan):
    model = trt.load(plan, contexts=1)
    model(np.ones((2, 2, 2), np.float32))
    with model._pool.use() as context:
        assert trt.convenience.lib.carnot_context_output_data(context._c, b"y") == trt.convenience.ffi.NULL
        status = trt.convenience.lib.carnot_context_run(context._c)
        with pytest.raises(trt.CarnotError, match="input x has no data"):
            trt.core.check(status)


def test_outputs_belong_to_the_caller(plan):
    model = trt.load(plan, contexts=1)
    first = model(np.ones((2, 2, 2), np.float32))["y"]
    model(np.full((2, 2, 2), 5, np.float32))
    assert (first == 3).all()


def test_model_is_freed_without_the_collector(plan):
    gc.collect()
    gc.disable()
    try:
        model = trt.load(plan)
        model(np.ones((1, 2, 2), np.float32))
        engine = weakref.ref(model.engine)
        context = model.engine.create_execution_context()
        kept = weakref.ref(context)
        del context
        assert kept() is None
        del model
        assert engine() is None
    finally:
        gc.enable()


def test_close_and_with(plan):
    with trt.load(plan) as model:
        assert (model(np.ones((1, 2, 2), np.float32))["y"] == 3).all()
        engine = weakref.ref(model.engine)
    assert engine() is None and "closed" in repr(model)
    with pytest.raises(RuntimeError, match="the model is closed"):
        model(np.ones((1, 2, 2), np.float32))
    model.close()


def test_close_waits_for_no_call_and_frees_its_context(plan):
    model = trt.load(plan)
    with model._pool.use() as context:
        model.close()
        assert model._pool.count == 1
        del context
    assert model._pool.count == 0


def test_context_refuses_a_second_thread(plan, logger):
    """The output allocator is Python code inside carnot_context_run."""
    engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
    context = engine.create_execution_context()
    x, y = np.ones((1, 2, 2), np.float32), np.zeros((1, 4), np.float32)
    context.set_input_shape("x", x.shape)
    context.set_tensor_address("x", x.ctypes.data)
    running, go_on, results = threading.Event(), threading.Event(), []

    class Allocator(trt.IOutputAllocator):
        def reallocate_output_async(self, name, memory, size, alignment, stream):
            running.set()
            assert go_on.wait(60)
            return y.ctypes.data

        def notify_shape(self, name, shape):
            pass

    assert context.set_output_allocator("y", Allocator())
    thread = threading.Thread(target=lambda: results.append(context.execute_async_v3(0)))
    thread.start()
    assert running.wait(60)
    assert context.execute_async_v3(0) is False
    assert context.set_input_shape("x", (2, 2, 2)) is False
    assert any("another thread is using this context" in line for line in logger.errors())
    go_on.set()
    thread.join()
    assert results == [True] and (y == 3).all()


# ---- what load and build take ----


def onnx_bytes():
    from onnx import TensorProto, helper

    node = helper.make_node("Relu", ["x"], ["y"], name="act")
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4])  # noqa: E731
    graph = helper.make_graph([node], "g", [value("x")], [value("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def test_load_takes_bytes(plan, tmp_path):
    x = np.array([[-1, 0, 1, 2]], np.float32)
    built = trt.build(onnx_bytes(), level=0)
    (tmp_path / "model.onnx").write_bytes(onnx_bytes())
    (tmp_path / "model.plan").write_bytes(bytes(built))
    for model in (built, bytes(built), bytearray(built), memoryview(bytes(built)), onnx_bytes()):
        assert trt.load(model)(x)["y"].tolist() == [[0, 0, 1, 2]]
    for model in (tmp_path / "model.onnx", str(tmp_path / "model.plan")):
        assert trt.load(model)(x)["y"].tolist() == [[0, 0, 1, 2]]
    with pytest.raises(TypeError, match="load takes a path or bytes, not int"):
        trt.load(3)


def test_options(plan):
    x = np.array([[-1, 0, 1, 2]], np.float32)
    model = trt.load(onnx_bytes(), fp16=True, bf16=True, level=0, threads=1)
    assert model(x)["y"].tolist() == [[0, 0, 1, 2]]
    with pytest.raises(TypeError, match="fp16: an option of build"):
        trt.load(plan, fp16=True)
    with pytest.raises(ValueError, match="unknown builder flag FP61; there are"):
        trt.build(onnx_bytes(), flags=["FP61"])
    with pytest.raises(ValueError, match="level must be 0 to 5, got 77"):
        trt.build(onnx_bytes(), level=77)
    with pytest.raises(ValueError, match="threads must be at least 1, got 0"):
        trt.load(plan, threads=0)
    with pytest.raises(ValueError, match="contexts must be at least 1, got 0"):
        trt.load(plan, contexts=0)


def test_messages_are_for_users(tmp_path):
    with pytest.raises(trt.CarnotError) as error:
        trt.load(tmp_path / "absent.onnx")
    assert str(error.value) == f"{tmp_path}/absent.onnx: No such file or directory"
    with pytest.raises(trt.CarnotError) as error:
        trt.load(tmp_path / "absent.plan")
    assert str(error.value) == f"{tmp_path}/absent.plan: No such file or directory"
    bad = tmp_path / "bad.plan"
    bad.write_bytes(b"not an engine, not at all")
    no_such_input = {"q": (1, 4)}
    for call in (
        lambda: trt.load(bad),
        lambda: trt.load(b"nonsense" * 9),
        lambda: trt.build(onnx_bytes(), level=0, shapes=no_such_input),
    ):
        with pytest.raises(trt.CarnotError) as error:
            call()
        assert str(error.value)
        for inside in ("_load", "_deserialize", "DESERIALIZE_FAILED", "the build failed"):
            assert inside not in str(error.value)
