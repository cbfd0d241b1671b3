"""torch.compile(model, backend="carnot") and carnot.torch.compile against eager PyTorch and float64."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch installs it")
pytest.importorskip("onnxscript", reason="onnxscript is not installed: make test-torch installs it")

import carnot.torch  # noqa: E402


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    carnot.torch.reset()


def first(value):
    value = getattr(value, "last_hidden_state", value)
    return value[0] if isinstance(value, (tuple, list)) else value


def same(model, *calls, engines=None):
    """Runs |model| eagerly and compiled; results agree within 1e-4 of the largest value."""
    model = model.eval()
    with torch.inference_mode():
        compiled = torch.compile(model, backend=carnot.torch.backend)
        for inputs in calls:
            want, got = first(model(*inputs)), first(compiled(*inputs))
            assert got.dtype == want.dtype and got.shape == want.shape
            assert float((got - want).abs().max()) <= 1e-4 * float(want.abs().max()), inputs[0].shape
    assert carnot.torch.reports and all(not r.refused and not r.fallback for r in carnot.torch.reports), (
        carnot.torch.reports
    )
    return compiled


# ---- whole models ----


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "mobilenet_v3_large"])
def test_image_models(name: str) -> None:
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
    same(
        getattr(models, name)(),
        (torch.randn(1, 3, 128, 128),),
        (torch.randn(2, 3, 128, 128),),
        (torch.randn(3, 3, 128, 128),),
    )


def test_bert() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.BertConfig(
        hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, vocab_size=1000
    )
    same(transformers.BertModel(config), (torch.randint(0, 1000, (2, 16)),), (torch.randint(0, 1000, (3, 24)),))


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_recurrent(kind: type) -> None:
    class Tagger(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = kind(32, 48, num_layers=2, batch_first=True, bidirectional=True)
            self.head = torch.nn.Linear(96, 7)

        def forward(self, x):
            return self.head(self.cells(x)[0])

    same(Tagger(), (torch.randn(2, 12, 32),))


# ---- batch normalization, story B ----

N, C = 4, 6
SHAPES = {2: (N, C), 3: (N, C, 7), 4: (N, C, 5, 6), 5: (N, C, 3, 4, 5)}


def oracle(x, mean, var, weight, bias, eps=1e-5, training=False):
    x = x.double()
    axes = [d for d in range(x.dim()) if d != 1]
    view = [1, -1] + [1] * (x.dim() - 2)
    if training or mean is None:
        mean, var = x.mean(axes), x.var(axes, unbiased=False)
    y = (x - mean.double().view(view)) / torch.sqrt(var.double().view(view) + eps)
    y = y * weight.double().view(view) if weight is not None else y
    return y + bias.double().view(view) if bias is not None else y


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("absent", [(), ("weight",), ("bias",), ("weight", "bias")])
@pytest.mark.parametrize("as_inputs", [True, False])
def test_batch_norm_with_given_statistics(rank: int, absent: tuple, as_inputs: bool) -> None:
    x = torch.randn(SHAPES[rank]) * 3 + 1
    given = {"mean": torch.randn(C), "var": torch.rand(C) + 0.1, "weight": torch.randn(C), "bias": torch.randn(C)}
    given.update({name: None for name in absent})

    if as_inputs:

        def call(x, mean, var, weight, bias):
            return torch.nn.functional.batch_norm(x * 1, mean, var, weight, bias)

        run = torch.compile(call, backend=carnot.torch.backend)
        with torch.inference_mode():
            got = run(x, *given.values())
    else:

        class Net(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                for name, value in given.items():
                    self.register_buffer(name, value)

            def forward(self, x):
                return torch.nn.functional.batch_norm(x, self.mean, self.var, self.weight, self.bias)

        with torch.inference_mode():
            got = torch.compile(Net(), backend=carnot.torch.backend)(x)
    want = oracle(x, *given.values())
    assert float((got.double() - want).abs().max()) < 1e-5 * float(want.abs().max())
    assert carnot.torch.reports[-1].engines and not carnot.torch.reports[-1].fallback, carnot.torch.reports


def test_statistics_made_inside_the_network() -> None:
    """running_var is a tensor of the network; this failed with a type error in TensorRT's converter."""

    def call(x, scale):
        mean, var = (scale * 0.5).tanh(), scale.abs() + 0.3
        return torch.nn.functional.batch_norm(x, mean, var, eps=1e-3)

    x, scale = torch.randn(SHAPES[4]), torch.randn(C)
    with torch.inference_mode():
        got = torch.compile(call, backend=carnot.torch.backend)(x, scale)
    want = oracle(x, (scale.double() * 0.5).tanh(), scale.double().abs() + 0.3, None, None, 1e-3)
    assert float((got.double() - want).abs().max()) < 1e-5
    assert carnot.torch.reports[-1].engines and not carnot.torch.reports[-1].fallback


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("running", [True, False])
def test_batch_statistics_are_computed(rank: int, running: bool) -> None:
    """training=True, or no statistics: mean 0 and variance 1 are never used silently."""
    x = torch.randn(SHAPES[rank]) * 2 + 5
    mean, var = (torch.zeros(C), torch.ones(C)) if running else (None, None)

    def call(x, mean, var):
        return torch.relu(torch.nn.functional.batch_norm(x * 1.5, mean, var, training=True))

    with torch.inference_mode():
        got = torch.compile(call, backend=carnot.torch.backend)(x, mean, var)
    want = oracle(x * 1.5, None, None, None, None).relu()
    assert float((got.double() - want).abs().max()) < 1e-4
    if running:  # the caller's running statistics change
        assert float((mean - 0.1 * (x * 1.5).transpose(0, 1).reshape(C, -1).mean(1)).abs().max()) < 1e-5


@pytest.mark.parametrize("form", ["no_training", "no_stats", "native"])
def test_exported_programs(form: str) -> None:
    x, mean, var, weight, bias = (
        torch.randn(SHAPES[4]),
        torch.randn(C),
        torch.rand(C) + 0.5,
        torch.randn(C),
        torch.randn(C),
    )
    aten = torch.ops.aten

    class Net(torch.nn.Module):
        def forward(self, x, mean, var, weight, bias):
            if form == "no_training":
                return aten._native_batch_norm_legit_no_training(x, weight, bias, mean, var, 0.1, 1e-5)[0]
            if form == "no_stats":
                return aten._native_batch_norm_legit.no_stats(x, weight, bias, True, 0.1, 1e-5)[0]
            return aten.native_batch_norm(x, weight, bias, mean, var, False, 0.1, 1e-5)[0]

    inputs = (x, mean, var, weight, bias)
    compiled = carnot.torch.compile(torch.export.export(Net(), inputs), inputs=inputs)
    got = compiled(*inputs)
    want = oracle(x, mean, var, weight, bias, training=form == "no_stats")
    assert float((first(got).double() - want).abs().max()) < 1e-5 * float(want.abs().max())


# ---- partitions, gradients, refit ----


def test_unknown_operators_stay_in_torch() -> None:
    @torch.library.custom_op("carnot_test::doubled", mutates_args=())
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @doubled.register_fake
    def _(x):
        return torch.empty_like(x)

    def call(x, w):
        return torch.relu(torch.ops.carnot_test.doubled(x @ w) @ w)

    x, w = torch.randn(8, 8), torch.randn(8, 8)
    with torch.inference_mode():
        got = torch.compile(call, backend=carnot.torch.backend)(x, w)
        assert torch.allclose(got, call(x, w), rtol=1e-5, atol=1e-5)
    report = carnot.torch.reports[-1]
    assert len(report.engines) == 2 and any("doubled" in name for name in report.fallback), report


def test_gradients_stay_in_torch() -> None:
    model = torch.nn.Linear(4, 4)
    torch.compile(model, backend=carnot.torch.backend)(torch.randn(2, 4)).sum().backward()
    assert model.weight.grad is not None and "gradients" in carnot.torch.reports[-1].refused[0]


def test_changed_weights_are_refitted() -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 36, 5),
    ).eval()
    x = torch.randn(2, 3, 8, 8)
    with torch.inference_mode():
        compiled = torch.compile(model, backend=carnot.torch.backend)
        assert torch.allclose(compiled(x), model(x), rtol=1e-4, atol=1e-5)
        built = len(carnot.torch.reports)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1.5)
        model[1].running_var.add_(0.7)
    with torch.inference_mode():
        assert torch.allclose(compiled(x), model(x), rtol=1e-4, atol=1e-5)
        assert len(carnot.torch.reports) == built, "the engine was refitted, not built again"


def test_modules_compile_with_example_inputs() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.GELU()).eval()
    x = torch.randn(3, 6)
    got = carnot.torch.compile(model, inputs=(x,), fp16=True)(x)
    assert np.allclose(got.detach().numpy(), model(x).detach().numpy(), atol=2e-3)


def test_the_backend_is_found_by_name() -> None:
    model = torch.nn.Linear(4, 3).eval()
    x = torch.randn(2, 4)
    with torch.inference_mode():
        assert torch.allclose(
            torch.compile(model, backend="carnot", options={"optimization_level": 1})(x), model(x), atol=1e-5
        )
    assert carnot.torch.reports[-1].engines
