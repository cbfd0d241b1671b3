"""Cases of convolutions, pools, matrix products, normalisation, resizing, quantization and boxes."""

import numpy as np
from op_case import case, f, i, k

ONES = [1, 1, 1, 1]
KERNEL = f(3, 3, 3, 4)

for padding in ("SAME", "VALID"):
    for stride, name in ((1, "stride_1"), (2, "stride_2"), (3, "stride_3")):
        strides, label = [1, stride, stride, 1], f"{padding}_{name}"
        case("Conv2D", label, input=f(2, 10, 11, 3), filter=k(KERNEL), strides=strides, padding=padding)
        case(
            "DepthwiseConv2dNative",
            label,
            input=f(2, 10, 11, 3),
            filter=k(f(3, 3, 3, 2)),
            strides=strides,
            padding=padding,
        )
        for op in "MaxPool AvgPool".split():
            name = "value" if op == "AvgPool" else "input"
            case(op, label, **{name: f(2, 10, 11, 3)}, ksize=[1, 3, 3, 1], strides=strides, padding=padding)
    case(
        "Conv2D",
        f"{padding}_dilated",
        input=f(2, 12, 13, 3),
        filter=k(KERNEL),
        strides=ONES,
        padding=padding,
        dilations=[1, 2, 3, 1],
    )
    case(
        "Conv2D",
        f"{padding}_even_kernel",
        input=f(2, 9, 10, 3),
        filter=k(f(2, 4, 3, 4)),
        strides=[1, 2, 2, 1],
        padding=padding,
    )
    case(
        "Conv2D",
        f"{padding}_uneven_strides",
        input=f(2, 9, 10, 3),
        filter=k(KERNEL),
        strides=[1, 1, 2, 1],
        padding=padding,
    )
    case(
        "Conv2D", f"{padding}_1x1", input=f(2, 9, 10, 3), filter=k(f(1, 1, 3, 4)), strides=[1, 2, 2, 1], padding=padding
    )
    case(
        "AvgPool",
        f"{padding}_even_window",
        value=f(2, 9, 10, 3),
        ksize=[1, 2, 2, 1],
        strides=[1, 2, 2, 1],
        padding=padding,
    )
    case(
        "MaxPool",
        f"{padding}_below_zero",
        input=f(2, 9, 10, 3, high=-1),
        ksize=[1, 2, 3, 1],
        strides=[1, 2, 2, 1],
        padding=padding,
    )
    case("MaxPoolV2", padding, input=f(2, 9, 10, 3), ksize=k([1, 3, 3, 1]), strides=k([1, 2, 2, 1]), padding=padding)
    strides = [1, 2, 1, 2, 1]
    case("Conv3D", padding, input=f(1, 5, 6, 7, 2), filter=k(f(3, 2, 3, 2, 4)), strides=strides, padding=padding)
    case("MaxPool3D", padding, input=f(1, 5, 6, 7, 2), ksize=[1, 3, 2, 3, 1], strides=strides, padding=padding)
    case("AvgPool3D", padding, input=f(1, 5, 6, 7, 2), ksize=[1, 3, 2, 3, 1], strides=strides, padding=padding)
case("Conv2D", "groups", open_sizes=False, input=f(2, 8, 9, 6), filter=k(f(3, 3, 3, 8)), strides=ONES, padding="SAME")
case(
    "Conv2D",
    "explicit",
    input=f(2, 8, 9, 3),
    filter=k(KERNEL),
    strides=[1, 2, 2, 1],
    padding="EXPLICIT",
    explicit_paddings=[0, 0, 1, 2, 0, 3, 0, 0],
)
case(
    "Conv2D",
    "filter_is_an_input",
    open_sizes=False,
    input=f(2, 8, 9, 3),
    filter=f(3, 3, 3, 4),
    strides=ONES,
    padding="SAME",
)
case(
    "Conv2D",
    "float64",
    input=f(2, 8, 9, 3, dtype="f8"),
    filter=k(f(3, 3, 3, 4, dtype="f8"), "f8"),
    strides=ONES,
    padding="SAME",
)
case(
    "DepthwiseConv2dNative",
    "explicit",
    input=f(2, 8, 9, 3),
    filter=k(f(3, 3, 3, 2)),
    strides=[1, 2, 2, 1],
    padding="EXPLICIT",
    explicit_paddings=[0, 0, 1, 2, 0, 3, 0, 0],
)
case(
    "MaxPool",
    "explicit",
    input=f(2, 8, 9, 3),
    ksize=[1, 3, 3, 1],
    strides=[1, 2, 2, 1],
    padding="EXPLICIT",
    explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0],
)
case("MaxPool", "of_channels", input=f(2, 4, 5, 6), ksize=[1, 1, 1, 2], strides=[1, 1, 1, 2], padding="VALID")
for padding, sizes in {"SAME": (2, 9, 10, 3), "VALID": (2, 11, 11, 3)}.items():
    given = (sizes[0], 5, 5, 4)
    case(
        "Conv2DBackpropInput",
        padding,
        input_sizes=k(list(sizes)),
        filter=k(KERNEL),
        out_backprop=f(*given),
        strides=[1, 2, 2, 1],
        padding=padding,
    )
case(
    "Conv2DBackpropInput",
    "even",
    input_sizes=k([2, 10, 10, 3]),
    filter=k(f(4, 4, 3, 4)),
    out_backprop=f(2, 5, 5, 4),
    strides=[1, 2, 2, 1],
    padding="SAME",
)
case(
    "Conv2DBackpropInput",
    "explicit",
    input_sizes=k([2, 9, 10, 3]),
    filter=k(KERNEL),
    out_backprop=f(2, 5, 5, 4),
    strides=[1, 2, 2, 1],
    padding="EXPLICIT",
    explicit_paddings=[0, 0, 1, 1, 0, 1, 0, 0],
)
for padding, sizes in {"SAME": [1, 5, 6, 7, 2], "VALID": [1, 7, 8, 9, 2]}.items():
    case(
        "Conv3DBackpropInputV2",
        padding,
        input_sizes=k(sizes),
        filter=k(f(3, 3, 3, 2, 4)),
        out_backprop=f(1, 3, 3, 4, 4),
        strides=[1, 2, 2, 2, 1],
        padding=padding,
    )

case("BiasAdd", value=f(2, 5, 6, 3), bias=k(f(3)))
case("BiasAdd", "rank_2", value=f(2, 3), bias=k(f(3)))
case("BiasAdd", "NCHW", value=f(2, 3, 5, 6), bias=k(f(3)), data_format="NCHW")
case("BiasAddV1", value=f(2, 5, 3), bias=k(f(3)))
for a in (False, True):
    for c in (False, True):
        name = f"transposed_{a:d}{c:d}"
        x, y = f(*((3, 4) if a else (4, 3))), f(*((5, 3) if c else (3, 5)))
        case("MatMul", name, a=x, b=k(y), transpose_a=a, transpose_b=c)
        x, y = f(2, *((3, 4) if a else (4, 3))), f(2, *((5, 3) if c else (3, 5)))
        for op in "BatchMatMul BatchMatMulV2".split():
            case(op, name, x=x, y=y, adj_x=a, adj_y=c)
case("MatMul", "int32", a=i(3, 4), b=k(i(4, 2)))
case("MatMul", "float64", a=f(3, 4, dtype="f8"), b=k(f(4, 2, dtype="f8"), "f8"))
case("BatchMatMulV2", "broadcast", x=f(2, 1, 4, 3), y=f(5, 3, 2))
case("BatchMatMulV2", "constant", x=f(2, 4, 3), y=k(f(3, 2)))
case("BatchMatMulV3", x=f(2, 4, 3), y=f(2, 3, 5), Tout="float32")
EQUATIONS = {
    "ab,bc->ac": ((3, 4), (4, 5)),
    "abc,cd->abd": ((2, 3, 4), (4, 5)),
    "aecd,abcd->acbe": ((2, 3, 4, 5), (2, 6, 4, 5)),
}
for n, (equation, sizes) in enumerate(EQUATIONS.items()):
    case("Einsum", f"two_{n}", inputs=[f(*s) for s in sizes], equation=equation)
case("Einsum", "ellipsis", inputs=[f(2, 3, 4), k(f(4, 5))], equation="...a,ab->...b")
case("Einsum", "one", inputs=[f(2, 3, 4)], equation="abc->ca")

STATS = [k(f(3, low=0.5, high=1.5)), k(f(3)), k(f(3)), k(f(3, low=0.5, high=1.5))]
for op in "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3".split():
    stats = dict(zip(("scale", "offset", "mean", "variance"), STATS))
    case(op, outputs=(0,), x=f(2, 5, 6, 3), **stats, is_training=False)
    case(op, "epsilon", outputs=(0,), x=f(2, 5, 6, 3), **stats, epsilon=0.1, is_training=False)
stats = dict(zip(("scale", "offset"), STATS)) | {"mean": k(np.zeros(0, "f4")), "variance": k(np.zeros(0, "f4"))}
case("FusedBatchNormV3", "training", outputs=(0, 1), x=f(2, 5, 6, 3), **stats, is_training=True)
case("LRN", input=f(2, 4, 5, 7))
case("LRN", "values", input=f(2, 4, 5, 7), depth_radius=2, bias=2.0, alpha=0.3, beta=0.75)

for op in "ResizeBilinear ResizeNearestNeighbor".split():
    for size in ([10, 14], [4, 3], [5, 11]):
        name = f"{size[0]}x{size[1]}"
        case(op, name, images=f(2, 5, 7, 3), size=k(size))
        case(op, name + "_aligned", images=f(2, 5, 7, 3), size=k(size), align_corners=True)
        case(op, name + "_half_pixel", images=f(2, 5, 7, 3), size=k(size), half_pixel_centers=True)
case("ResizeBilinear", "uint8", images=i(1, 5, 7, 3, low=0, high=255, dtype="u1"), size=k([10, 14]))
case("ResizeNearestNeighbor", "int32", images=i(1, 5, 7, 3), size=k([10, 14]))
case("ResizeBilinear", "size_is_an_input", images=f(2, 5, 7, 3), size=np.array([10, 14], "i4"), half_pixel_centers=True)
# TensorFlow looks the weights of cubic interpolation up in a table of 1024 steps.
for size in ([10, 14], [4, 3]):
    case("ResizeBicubic", f"{size[0]}", rel=1e-3, images=f(1, 5, 7, 3), size=k(size))
    case("ResizeBicubic", f"{size[0]}_aligned", rel=1e-3, images=f(1, 5, 7, 3), size=k(size), align_corners=True)
    case(
        "ResizeBicubic", f"{size[0]}_half_pixel", rel=1e-3, images=f(1, 5, 7, 3), size=k(size), half_pixel_centers=True
    )
    case("ResizeArea", f"{size[0]}", images=f(1, 5, 7, 3), size=k(size))

for bits, narrow in ((8, False), (8, True), (4, False)):
    name, more = f"{bits}_{narrow:d}", dict(num_bits=bits, narrow_range=narrow)
    case("FakeQuantWithMinMaxArgs", name, inputs=f(4, 6) * 3, min=-5.1, max=6.3, **more)
    case("FakeQuantWithMinMaxVars", name, inputs=f(4, 6) * 3, min=k(-2.1), max=k(6.3), **more)
    case("FakeQuantWithMinMaxVars", name + "_above_zero", inputs=f(4, 6) * 3, min=k(0.0), max=k(6.0), **more)
    low, high = k(np.array([-1, -2, -0.5], "f4")), k(np.array([1, 3, 4], "f4"))
    case("FakeQuantWithMinMaxVarsPerChannel", name, inputs=f(5, 3) * 3, min=low, max=high, **more)
limits = dict(input_min=k(-2.0), input_max=k(3.0))
case("QuantizeAndDequantizeV2", input=f(4, 6), **limits, range_given=True)
case(
    "QuantizeAndDequantizeV2",
    "unsigned",
    input=f(4, 6, low=0),
    input_min=k(0.0),
    input_max=k(3.0),
    signed_input=False,
    range_given=True,
)
case("QuantizeAndDequantizeV3", input=f(4, 6), **limits, num_bits=k(8), range_given=True)
case("QuantizeAndDequantizeV4", input=f(4, 6), **limits, range_given=True, round_mode="HALF_UP")

CORNER = f(30, 2, low=0, high=0.8)
BOXES, SCORES = np.concatenate([CORNER, CORNER + f(30, 2, low=0.05, high=0.4)], 1), f(30, low=0, high=1)
case("NonMaxSuppression", boxes=BOXES, scores=SCORES, max_output_size=k(10), iou_threshold=0.4)
case("NonMaxSuppressionV2", boxes=BOXES, scores=SCORES, max_output_size=k(10), iou_threshold=k(0.4))
case(
    "NonMaxSuppressionV3",
    boxes=BOXES,
    scores=SCORES,
    max_output_size=k(10),
    iou_threshold=k(0.4),
    score_threshold=k(0.3),
)
case(
    "NonMaxSuppressionV3",
    "flipped",
    boxes=BOXES[:, [2, 3, 0, 1]],
    scores=SCORES,
    max_output_size=k(30),
    iou_threshold=k(0.6),
    score_threshold=k(0.0),
)
