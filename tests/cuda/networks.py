"""Networks of the CUDA tests: layers whose neighbours the half-precision tactics fuse."""

from __future__ import annotations

import numpy as np
import onnx
from net import Net
from onnx import TensorProto


def exported_mask(net: Net, batch: int, length: int) -> str:
    """A key mask [batch, length] by index arithmetic, as the export of transformers writes it."""
    places = np.stack(np.meshgrid(np.arange(batch), np.arange(length), indexing="ij"), -1)
    y = net.add("GatherND", net.add("Cast", "mask", to=TensorProto.BOOL), net.constant(places[:, None, None]))
    y = net.add("And", net.constant(np.ones((1, 1, length, 1), bool)), y)
    return net.add("Where", y, net.constant(np.float32(0)), net.constant(np.float32(-3.4e38)))


def attention(
    batch: int,
    length: int,
    heads: int,
    size: int,
    masked: bool,
    hidden: int = 48,
    layers: int = 1,
    exported: bool = False,
) -> onnx.ModelProto:
    inputs = {"x": [batch, length, hidden]}
    if masked:
        inputs["mask"] = [batch, length] if exported else [batch, 1, 1, length]
    net = Net(**inputs)
    x = "x"
    for _ in range(layers):
        parts = []
        for _ in range(3):
            y = net.add(
                "Add",
                net.add("MatMul", x, net.weight(hidden, heads * size, scale=hidden**-0.5)),
                net.weight(heads * size, scale=0.1),
            )
            y = net.add("Reshape", y, net.constant(np.array([0, 0, heads, size])))
            parts.append(net.add("Transpose", y, perm=[0, 2, 1, 3]))
        q, k, v = parts
        scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))
        scores = net.add("Mul", scores, net.constant(np.float32(size**-0.5)))
        if exported:
            scores = net.add("Add", scores, exported_mask(net, batch, length))
        elif masked:
            off = net.add("Sub", net.constant(np.float32(1)), "mask")
            scores = net.add("Add", scores, net.add("Mul", off, net.constant(np.float32(-3.4e38))))
        y = net.add("MatMul", net.add("Softmax", scores, axis=-1), v)
        y = net.add("Reshape", net.add("Transpose", y, perm=[0, 2, 1, 3]), net.constant(np.array([0, 0, heads * size])))
        y = net.add(
            "Add",
            net.add("MatMul", y, net.weight(heads * size, hidden, scale=(heads * size) ** -0.5)),
            net.weight(hidden),
        )
        x = net.add("LayerNormalization", net.add("Add", y, x), net.weight(hidden), net.weight(hidden), axis=-1)
    return net.model(x)


def feed_forward(batch: int, length: int, hidden: int, inner: int, approximate: str) -> onnx.ModelProto:
    net = Net(x=[batch, length, hidden])
    y = net.add(
        "Add", net.add("MatMul", "x", net.weight(hidden, inner, scale=hidden**-0.5)), net.weight(inner, scale=0.5)
    )
    y = net.add("Gelu", y, approximate=approximate)
    y = net.add("Add", net.add("MatMul", y, net.weight(inner, hidden, scale=inner**-0.5)), net.weight(hidden))
    return net.model(net.add("Add", y, "x"))


def packed(batch: int, length: int, heads: int, size: int) -> onnx.ModelProto:
    """PyTorch's MultiheadAttention as it is exported: [S,B,..] inside, one projection for all."""
    hidden = heads * size
    net = Net(x=[batch, length, hidden])
    y = net.add("Transpose", "x", perm=[1, 0, 2])
    y = net.add("Add", net.add("MatMul", y, net.weight(hidden, 3 * hidden, scale=hidden**-0.5)), net.weight(3 * hidden))
    y = net.add("Reshape", y, net.constant(np.array([length, batch, 3, hidden])))
    y = net.add("Transpose", net.add("Unsqueeze", y, net.constant(np.array([0]))), perm=[3, 1, 2, 0, 4])
    y = net.add("Squeeze", y, net.constant(np.array([3])))
    parts = []
    for i in range(3):
        z = net.add("Gather", y, net.constant(np.array(i)), axis=0)
        z = net.add("Reshape", z, net.constant(np.array([length, batch * heads, size])))
        z = net.add("Transpose", z, perm=[1, 0, 2])
        parts.append(net.add("Reshape", z, net.constant(np.array([batch, heads, length, size]))))
    q, k, v = parts
    scores = net.add(
        "MatMul", net.add("Mul", q, net.constant(np.float32(size**-0.5))), net.add("Transpose", k, perm=[0, 1, 3, 2])
    )
    y = net.add("Transpose", net.add("MatMul", net.add("Softmax", scores, axis=-1), v), perm=[2, 0, 1, 3])
    y = net.add("Reshape", y, net.constant(np.array([length * batch, hidden])))
    y = net.add("Gemm", y, net.weight(hidden, hidden, scale=hidden**-0.5), net.weight(hidden), transB=1)
    y = net.add("Reshape", y, net.constant(np.array([length, batch, hidden])))
    return net.model(net.add("Add", net.add("Transpose", y, perm=[1, 0, 2]), "x"))


def heads(batch: int, count: int, queries: int, keys: int, size: int, kind: str = "", *mask: int) -> onnx.ModelProto:
    """softmax(q k' + mask) v. |kind|: masked keys get -3.4e38 ("off"), guarded -inf ("log") or a bias ("bias")."""
    inputs = {"x": [batch, queries, 16], "z": [batch, keys, 16]}
    net = Net(**inputs | ({"bias" if kind == "bias" else "mask": list(mask)} if kind else {}))
    shape = net.constant(np.array([0, 0, count, size]))

    def project(x: str, *perm: int) -> str:
        y = net.add("MatMul", x, net.weight(16, count * size, scale=0.25))
        return net.add("Transpose", net.add("Reshape", y, shape), perm=perm)

    scores = net.add("MatMul", project("x", 0, 2, 1, 3), project("z", 0, 2, 3, 1))
    scores = net.add("Mul", scores, net.constant(np.float32(size**-0.5)))
    if kind == "bias":
        scores = net.add("Add", scores, "bias")
    elif kind == "log":
        scores = net.add("Add", scores, net.add("Log", "mask"))
    elif kind:
        off = net.add("Sub", net.constant(np.float32(1)), "mask")
        scores = net.add("Add", scores, net.add("Mul", off, net.constant(np.float32(-3.4e38))))
    weights = net.add("Softmax", scores, axis=-1)
    if kind == "log":
        weights = net.add("Where", net.add("IsNaN", weights), net.constant(np.float32(0)), weights)
    y = net.add("Transpose", net.add("MatMul", weights, project("z", 0, 2, 1, 3)), perm=[0, 2, 1, 3])
    y = net.add("Reshape", y, net.constant(np.array([0, 0, count * size])))
    return net.model(net.add("MatMul", y, net.weight(count * size, 16, scale=(count * size) ** -0.5)))


def group_norm(batch: int, channels: int, groups: int, side: int, silu: bool) -> onnx.ModelProto:
    net = Net(x=[batch, 5, side, side + 1])
    y = net.add("Conv", "x", net.weight(channels, 5, 3, 3, scale=0.15), net.weight(channels), pads=[1, 1, 1, 1])
    y = net.add("GroupNormalization", y, net.weight(channels), net.weight(channels), num_groups=groups)
    if silu:
        y = net.add("Mul", y, net.add("Sigmoid", y))
    return net.model(net.add("Conv", y, net.weight(8, channels, 1, 1, scale=channels**-0.5), net.weight(8)))


def depthwise(
    batch: int, channels: int, kernel: int | tuple[int, int], step: int, side: int, activation: str, dilation: int = 1
) -> onnx.ModelProto:
    """|kernel|: rows and columns, or both. |dilation|: of rows."""
    rows, columns = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    net = Net(x=[batch, 3, side, side + 3])
    y = net.add("Conv", "x", net.weight(channels, 3, 1, 1), net.weight(channels))
    y = net.add(
        "Conv",
        y,
        net.weight(channels, 1, rows, columns, scale=(rows * columns) ** -0.5),
        net.weight(channels),
        group=channels,
        strides=[step, step],
        pads=[rows // 2 * dilation, columns // 2] * 2,
        dilations=[dilation, 1],
    )
    y = net.activate(y, activation)
    z = net.add("Conv", y, net.weight(channels, channels, 1, 1, scale=channels**-0.5), net.weight(channels))
    return net.model(net.add("Add", z, y))


def depthwise_sequence(batch: int, channels: int, kernel: int, step: int, length: int, activation: str) -> onnx.ModelProto:
    net = Net(x=[batch, 3, length])
    y = net.add("Conv", "x", net.weight(channels, 3, 1), net.weight(channels))
    given = dict(group=channels, strides=[step], pads=[kernel // 2] * 2)
    y = net.add("Conv", y, net.weight(channels, 1, kernel, scale=kernel**-0.5), net.weight(channels), **given)
    return net.model(net.activate(y, activation))


def branches(channels: int, kernel: int, step: int, group: int, side: int) -> onnx.ModelProto:
    """Convolutions of one input, and at stride 1 a normalized copy of it, summed."""
    net = Net(x=[2, 3, side, side + 1])
    y = net.add("Conv", "x", net.weight(channels, 3, 1, 1), net.weight(channels))
    total = None
    for size, shift in ((kernel, 0), (1, 0), (kernel - 1, 1), (3, 0)):
        pad = (size - 1) // 2
        z = net.add(
            "Conv", y, net.weight(channels, channels // group, size, size, scale=1 / size), net.weight(channels),
            group=group, strides=[step, step], pads=[pad, pad, pad + shift, pad + shift],
        )  # fmt: skip
        total = z if total is None else net.add("Add", total, z)
    if step == 1:
        numbers = [net.constant(np.linspace(0.5, 1.5, channels, dtype=np.float32)) for _ in range(4)]
        total = net.add("Add", net.add("BatchNormalization", y, *numbers), total)
    return net.model(net.add("Relu", total))


def rolled(net: Net, x: str, shift: int, axis: int) -> str:
    parts = [
        net.add("Slice", x, *(net.constant(np.array([v])) for v in (begin, end, axis)))
        for begin, end in ((shift, 2**31), (0, shift))
    ]
    return net.add("Concat", *parts, axis=axis)


def shifted_windows(side: int, window: int, shift: int, channels: int) -> onnx.ModelProto:
    """Pixels shifted along both axes and cut into windows, a product, and the way back."""
    net, count = Net(x=[2, side, side, channels]), side // window
    y = rolled(net, rolled(net, net.add("Relu", "x"), shift, 1), shift, 2)
    y = net.add("Reshape", y, net.constant(np.array([2, count, window, count, window, channels])))
    y = net.add("Transpose", y, perm=[0, 1, 3, 2, 4, 5])
    y = net.add("Reshape", y, net.constant(np.array([-1, window * window, channels])))
    y = net.add("MatMul", y, net.weight(channels, channels, scale=channels**-0.5))
    y = net.add("Reshape", y, net.constant(np.array([2, count, count, window, window, channels])))
    y = net.add("Transpose", y, perm=[0, 1, 3, 2, 4, 5])
    y = net.add("Reshape", y, net.constant(np.array([2, side, side, channels])))
    y = rolled(net, rolled(net, y, side - shift, 1), side - shift, 2)
    return net.model(net.add("Add", y, "x"))


def rotary(length: int, heads: int, size: int, interleaved: bool) -> onnx.ModelProto:
    """Heads turned by angles, halves or neighbours negated, as exporters write it."""
    net, width = Net(x=[2, length, heads * size]), heads * size
    y = net.add("MatMul", "x", net.weight(width, width, scale=width**-0.5))
    y = net.add("Transpose", net.add("Reshape", y, net.constant(np.array([2, length, heads, size]))), perm=[0, 2, 1, 3])
    begins, ends, step = ((0, 1), (2**31, 2**31), 2) if interleaved else ((0, size // 2), (size // 2, 2**31), 1)
    first, second = (
        net.add("Slice", y, *(net.constant(np.array([v])) for v in (begin, end, 3, step)))
        for begin, end in zip(begins, ends)
    )
    second = net.add("Neg", second)
    if interleaved:
        parts = [net.add("Unsqueeze", part, net.constant(np.array([-1]))) for part in (second, first)]
        turned = net.add("Concat", *parts, axis=-1)
        turned = net.add("Reshape", turned, net.constant(np.array([2, heads, length, size])))
    else:
        turned = net.add("Concat", second, first, axis=-1)
    angles = np.arange(length)[:, None] * 100.0 ** -(np.arange(size) / size)
    sums = [net.add("Mul", a, net.constant(f(angles).astype(np.float32))) for a, f in ((y, np.cos), (turned, np.sin))]
    return net.model(net.add("Add", *sums))


def selected_heads(length: int, heads: int, size: int) -> onnx.ModelProto:
    """Q, K and V of one projection, transposed together and taken apart, each scaled."""
    net, width = Net(x=[2, length, heads * size]), heads * size
    y = net.add("MatMul", "x", net.weight(width, 3 * width, scale=width**-0.5))
    y = net.add("Reshape", y, net.constant(np.array([2, length, 3, heads, size])))
    y = net.add("Transpose", y, perm=[2, 0, 3, 1, 4])
    parts = [net.add("Gather", y, net.constant(np.array(i)), axis=0) for i in range(3)]
    parts = [net.add("Mul", part, net.weight(heads, 1, 1)) for part in parts]
    return net.model(net.add("Max", *parts))


def normalized(rows: int, size: int, least: float) -> onnx.ModelProto:
    """x / max(|x|, least), with rows that are zero and rows below the bound."""
    net = Net(x=[3, rows, size])
    scale = np.where(np.arange(rows) % 3 == 0, 0, 10.0 ** -(np.arange(rows) % 4))[:, None].astype(np.float32)
    y = net.add("MatMul", "x", net.weight(size, size, scale=size**-0.5))
    y = net.add("Mul", y, net.constant(scale))
    z = net.add("ReduceL2", y, net.constant(np.array([-1])), keepdims=1)
    z = net.add("Clip", z, net.constant(np.float32(least)))
    z = net.add("Expand", z, net.constant(np.array([3, rows, size])))
    return net.model(net.add("Div", y, z))


def pooled(op: str, batch: int, channels: int, side: int) -> onnx.ModelProto:
    """A reduction over all pixels; a 1x1 convolution of it scales the channels."""
    net = Net(x=[batch, 3, side, side + 1])
    y = net.add("Conv", "x", net.weight(channels, 3, 1, 1), net.weight(channels))
    z = net.add(op, y) if op.startswith("Global") else net.add(op, y, net.constant(np.array([2, 3])), keepdims=1)
    z = net.add("Mul", z, net.constant(np.float32(1 / (side * side) if op == "ReduceSum" else 1)))
    z = net.add("Conv", z, net.weight(channels, channels, 1, 1, scale=channels**-0.5), net.weight(channels))
    y = net.add("Mul", y, net.add("Sigmoid", z))
    return net.model(net.add("Conv", y, net.weight(8, channels, 1, 1, scale=channels**-0.5), net.weight(8)))


def squeezed(op: str, batch: int, channels: int, hidden: int, side: int, inner: str, outer: str) -> onnx.ModelProto:
    """Squeeze and excitation behind a convolution, the hidden layer with a bias, the outer one without if it is odd."""
    net = Net(x=[batch, 3, side, side + 1])
    y = net.add("Conv", "x", net.weight(channels, 3, 1, 1), net.weight(channels))
    z = net.add(op, y) if op.startswith("Global") else net.add(op, y, net.constant(np.array([-1, -2])), keepdims=1)
    z = net.add("Conv", z, net.weight(hidden, channels, 1, 1, scale=4 * channels**-0.5), net.weight(hidden))
    z = net.activate(z, inner)
    z = net.add(
        "Conv",
        z,
        net.weight(channels, hidden, 1, 1, scale=2 * hidden**-0.5),
        *([] if hidden % 2 else [net.weight(channels)]),
    )
    y = net.add("Mul", net.add(outer, z), y)
    return net.model(net.add("Conv", y, net.weight(8, channels, 1, 1, scale=channels**-0.5), net.weight(8)))


def reduced(op: str, dims: list[int], axis: int) -> onnx.ModelProto:
    net = Net(x=dims)
    return net.model(net.add(op, "x", net.constant(np.array([axis])), keepdims=0))


def reduced_product(op: str, batch: int, rows: int, columns: int) -> onnx.ModelProto:
    """The columns of a product, which half precision stores; their sums of squares may be beyond it."""
    net = Net(x=[batch, rows, 24])
    y = net.add("MatMul", "x", net.weight(24, columns, scale=24**-0.5))
    return net.model(net.add(op, y, net.constant(np.array([1])), keepdims=1))


def windows(op: str, channels: int, side: int, **attributes: object) -> onnx.ModelProto:
    net = Net(x=[2, 3, side, side + 2])
    y = net.add("Conv", "x", net.weight(channels, 3, 1, 1), net.weight(channels))
    y = net.add(op, y, **attributes)
    return net.model(net.add("Conv", y, net.weight(8, channels, 1, 1, scale=channels**-0.5), net.weight(8)))


def patches(batch: int, size: int, filters: int, side: int, bias: bool) -> onnx.ModelProto:
    """The patch embedding of a vision transformer; the result has the shape [batch, patches, filters]."""
    net = Net(x=[batch, 3, side, side + size])
    weights = [net.weight(filters, 3, size, size, scale=0.5 / size), *([net.weight(filters)] if bias else [])]
    y = net.add("Conv", "x", *weights, strides=[size, size])
    y = net.add("Reshape", y, net.constant(np.array([0, 0, -1])))
    y = net.add("Transpose", y, perm=[0, 2, 1])
    return net.model(net.add("LayerNormalization", y, net.weight(filters), net.weight(filters), axis=-1))


def channels_inside(channels: int, side: int) -> onnx.ModelProto:
    """ConvNeXt's layer norm over the channels, between transposes that are no copies in channels-last layout."""
    net = Net(x=[2, 3, side, side])
    y = net.add("Conv", "x", net.weight(channels, 3, 3, 3, scale=0.2), net.weight(channels))
    y = net.add("Transpose", y, perm=[0, 2, 3, 1])
    y = net.add("LayerNormalization", y, net.weight(channels), net.weight(channels), axis=-1)
    y = net.add("Transpose", y, perm=[0, 3, 1, 2])
    return net.model(net.add("Conv", y, net.weight(8, channels, 3, 3, scale=channels**-0.5), net.weight(8)))


def two_orders(batch: int, channels: int, side: int) -> onnx.ModelProto:
    """Sums of a convolution's result and of a product over its channels, stored channels last, with their pixels in rows."""
    net = Net(x=[batch, 3, side, side + 1])
    y = net.add("Conv", "x", net.weight(channels, 3, 1, 1), net.weight(channels))
    y = net.add("Conv", y, net.weight(channels, channels, 3, 3, scale=0.3 * channels**-0.5), pads=[1, 1, 1, 1])
    pixels = side * (side + 1)
    rows = net.add("Reshape", y, net.constant(np.array([batch, channels, pixels])))
    mixed_rows = net.add("MatMul", rows, net.weight(pixels, pixels, scale=pixels**-0.5))
    added = net.add("Mul", net.add("Add", rows, mixed_rows), net.weight(1, channels, 1))
    turned = net.add("Transpose", added, perm=[0, 2, 1])
    return net.model(net.add("MatMul", turned, net.weight(channels, 24, scale=channels**-0.5)))


def window_attention(images: int, count: int, length: int, heads: int, size: int, cosine: bool) -> onnx.ModelProto:
    """Attention in |count| shifted windows of each image: a bias of each head, and a mask of each window. |cosine|: queries and
    keys have the length 1, scores a scale of each head."""
    width, rng = heads * size, np.random.default_rng(5)
    net = Net(x=[images * count, length, width])

    def rows() -> str:
        y = net.add("MatMul", "x", net.weight(width, width, scale=width**-0.5))
        y = net.add("Reshape", y, net.constant(np.array([images * count, length, heads, size])))
        return net.add("Transpose", y, perm=[0, 2, 1, 3])

    q, k, v = rows(), rows(), rows()
    if cosine:
        last = net.constant(np.array([-1], np.int64))
        q, k = (net.add("Div", y, net.add("ReduceL2", y, last, keepdims=1)) for y in (q, k))
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))
    scale = rng.uniform(1, 8, (1, heads, 1, 1)) if cosine else size**-0.5
    scores = net.add("Mul", scores, net.constant(np.asarray(scale, np.float32)))
    scores = net.add("Add", scores, net.weight(1, heads, length, length))
    mask = np.where(rng.random((1, count, 1, length, length)) < 0.3, np.float32(-100), np.float32(0))
    mask[..., 0] = 0
    scores = net.add("Reshape", scores, net.constant(np.array([images, count, heads, length, length])))
    scores = net.add("Add", scores, net.constant(mask))
    scores = net.add("Reshape", scores, net.constant(np.array([images * count, heads, length, length])))
    y = net.add("MatMul", net.add("Softmax", scores, axis=-1), v)
    y = net.add("Reshape", net.add("Transpose", y, perm=[0, 2, 1, 3]), net.constant(np.array([images * count, length, width])))
    return net.model(net.add("MatMul", y, net.weight(width, 16, scale=width**-0.5)))


def broadcast(*dims: int) -> onnx.ModelProto:
    """[a, b, c, d] plus [1, b, 1, d], and times [a, 1, c, 1]: axes that do not join."""
    a, b, c, d = dims
    net = Net(x=[a, b, c, d], s=[a, 1, c, 1])
    return net.model(net.add("Mul", net.add("Add", "x", net.weight(1, b, 1, d)), "s"))


def mixed(*dims: int) -> onnx.ModelProto:
    """A pointwise chain through comparisons, bool and integers, away from the thresholds."""
    net = Net(x=[*dims], mask=[*dims])
    wide = net.add("Cast", net.add("Mul", "x", net.constant(np.float32(100))), to=TensorProto.INT32)
    high = net.add(
        "Greater",
        net.add("Cast", net.add("Cast", "mask", to=TensorProto.INT64), to=TensorProto.FLOAT),
        net.constant(np.float32(0.5)),
    )
    both = net.add("And", high, net.add("Cast", "mask", to=TensorProto.BOOL))
    y = net.add("Where", both, net.add("Mul", "x", net.constant(np.float32(0.5))), net.add("Neg", "x"))
    return net.model(
        net.add("Add", y, net.add("Mul", net.add("Cast", net.add("Sign", wide), to=TensorProto.FLOAT), "mask"))
    )
