#!/usr/bin/env python3
"""Writes cases whose expected outputs come from ONNX Runtime, for the conformance runner.

Usage: export_runtime_cases.py OUT [MODEL.onnx ...]

OUT/microsoft/<case>/ holds a model of one com.microsoft operator, OUT/old/<case>/ one of an operator in an old version,
OUT/large/<case>/ one with more elements than the cases of ONNX have, OUT/loops/<case>/ a loop or one that was unrolled,
OUT/models/<name>/ each model named, with random inputs; the layout is that of export_cases.py.
"""
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

TYPES = {np.dtype(t): p for t, p in ((np.float32, 1), (np.uint8, 2), (np.int8, 3), (np.int32, 6), (np.int64, 7),
                                     (np.bool_, 9), (np.float16, 10), (np.float64, 11))}
RANDOM = np.random.default_rng(7)


def rand(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def write(folder: pathlib.Path, model: onnx.ModelProto, feeds: dict, tolerance: tuple[float, float],
          of_largest: float = 0) -> bool:
    """|of_largest|: absolute tolerance as a part of the largest output, for whole models."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        wanted = session.run(None, feeds)
    except Exception as error:  # what this ONNX Runtime cannot run has no expected output
        print(f"left out {folder.name}: {str(error).splitlines()[0][:160]}")
        return False
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    absolute = max(tolerance[1], of_largest * max(float(np.abs(y.astype(np.float64)).max(initial=0)) for y in wanted))
    (folder / "tolerance.txt").write_text(f"{tolerance[0]!r} {absolute!r}\n")
    for i, value in enumerate(feeds.values()):
        (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())
    for i, value in enumerate(wanted):
        (data / f"output_{i}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())
    return True


class Cases:
    def __init__(self, out: pathlib.Path) -> None:
        self.out = out
        self.count = 0

    def add(self, name: str, op_type: str, inputs: list, outputs: int = 1, domain: str = "com.microsoft",
            version: int = 17, constant: tuple[int, ...] = (), tolerance: tuple[float, float] = (1e-4, 1e-5),
            **attributes) -> None:
        """One node; inputs numbered in |constant| become initializers, None is an absent one."""
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
        results = [f"y{i}" for i in range(outputs)]
        node = helper.make_node(op_type, names, results, name="node", domain=domain, **attributes)
        feeds = {n: x for i, (n, x) in enumerate(zip(names, inputs)) if x is not None and i not in constant}
        weights = [numpy_helper.from_array(inputs[i], names[i]) for i in constant]
        graph = helper.make_graph(
            [node], name,
            [helper.make_tensor_value_info(n, TYPES[x.dtype], x.shape) for n, x in feeds.items()],
            [helper.make_empty_tensor_value_info(r) for r in results], weights)
        opsets = [helper.make_opsetid("", version)] + ([helper.make_opsetid(domain, 1)] if domain else [])
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        # The runner reads outputs by their kind, which an output without a type has from inference.
        self.count += write(self.out / name, model, feeds, tolerance)


def write_group_query(c: Cases) -> None:
    """4 query heads over 2 of 16: grown and shared caches, sequences of different lengths, packed operands, windows."""
    heads, kv, size = 4, 2, 16
    cosines, sines = rand(40, size // 2), rand(40, size // 2)

    def case(name: str, batch: int, length: int, past: list[int], capacity: int = 0, packed: bool = False, rotary: int = -1,
             bias: bool = False, **attributes) -> None:
        rows = capacity or max(past)
        total = max(past) + length
        q, k, v = (rand(batch, length, n * size) for n in (heads, kv, kv))
        parts = [np.concatenate([q, k, v], -1), None, None] if packed else [q, k, v]
        caches = [rand(batch, kv, rows, size) for _ in range(2)]
        for cache in caches:
            for row, count in zip(cache, past):
                row[:, count:] = 0  # ONNX Runtime writes zeros there
        lengths = [np.array([p + length - 1 for p in past], np.int32), np.array(total, np.int32)]
        tables = [cosines, sines] if rotary >= 0 else [None, None]
        if rotary >= 0:
            attributes |= {"do_rotary": 1, "rotary_interleaved": rotary}
        more = [None, rand(1, heads, length, total)] if bias else []
        c.add(f"gqa_{name}", "GroupQueryAttention", [*parts, *caches, *lengths, *tables, *more], outputs=3, constant=(6,),
              num_heads=heads, kv_num_heads=kv, **attributes)

    case("prompt", 2, 5, [0, 0])
    case("token", 1, 1, [6])
    case("token_shared", 1, 1, [6], capacity=12)
    case("tokens_shared", 1, 3, [6], capacity=12)
    case("lengths", 2, 1, [9, 4], capacity=10)
    case("prompt_shared", 1, 5, [0], capacity=8, packed=True, rotary=0)
    case("packed", 1, 1, [7], packed=True)
    case("rotary", 1, 1, [7], rotary=0)
    case("rotary_interleaved", 2, 1, [7, 3], capacity=9, rotary=1, packed=True)
    case("window", 1, 4, [7], local_window_size=3)
    case("window_token", 1, 1, [20], capacity=24, local_window_size=6, rotary=0)
    case("softcap", 1, 2, [7], softcap=2.5, scale=0.4)
    case("bias", 1, 2, [7], bias=True)
    case("long", 1, 1, [700], capacity=800)


def write_microsoft(out: pathlib.Path) -> int:
    c = Cases(out)
    x, w, b = rand(2, 3, 9, 9), rand(4, 3, 3, 3), rand(4)
    for act, params in (("Relu", None), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.7]), ("HardSigmoid", [0.3, 0.4]),
                        ("Tanh", None), ("Sigmoid", None)):
        extra = {"activation_params": params} if params else {}
        c.add(f"fused_conv_{act.lower()}", "FusedConv", [x, w, b], activation=act, kernel_shape=[3, 3],
              pads=[1, 1, 1, 1], **extra)
    c.add("fused_conv_sum", "FusedConv", [x, w, b, rand(2, 4, 9, 9)], activation="Relu", kernel_shape=[3, 3],
          pads=[1, 1, 1, 1])
    c.add("fused_matmul", "FusedMatMul", [rand(2, 5, 3), rand(2, 4, 5)], transA=1, transB=1, alpha=0.5)
    c.add("fused_gemm", "FusedGemm", [rand(3, 5), rand(4, 5), rand(4)], transB=1, alpha=0.5, activation="LeakyRelu",
          activation_alpha=0.1)
    c.add("gelu", "Gelu", [rand(3, 7)])
    c.add("fast_gelu", "FastGelu", [rand(3, 7), rand(7)])
    c.add("bias_gelu", "BiasGelu", [rand(3, 7), rand(7)])
    c.add("quick_gelu", "QuickGelu", [rand(3, 7)])
    c.add("skip_layer_norm", "SkipLayerNormalization", [rand(2, 3, 8), rand(2, 3, 8), rand(8), rand(8), rand(8)])
    c.add("skip_simplified_layer_norm", "SkipSimplifiedLayerNormalization", [rand(2, 3, 8), rand(2, 3, 8), rand(8)],
          epsilon=1e-5)
    c.add("simplified_layer_norm", "SimplifiedLayerNormalization", [rand(2, 3, 8), rand(8)], domain="", epsilon=1e-5)
    ids = RANDOM.integers(0, 10, (2, 5)).astype(np.int32)
    segments, mask = (ids % 2).astype(np.int32), np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    c.add("embed_layer_norm", "EmbedLayerNormalization",
          [ids, segments, rand(10, 8), rand(6, 8), rand(2, 8), rand(8), rand(8), mask], outputs=2)
    scale, zero = np.float32(0.05).reshape(()), np.uint8(120).reshape(())
    q = lambda *s: RANDOM.integers(0, 256, s).astype(np.uint8)
    for op in ("QLinearAdd", "QLinearMul"):
        c.add(op.lower(), op, [q(2, 3, 4), scale, zero, q(3, 1), scale * 2, zero, scale * 3, zero], tolerance=(0, 1),
              constant=(1, 2, 4, 5, 6, 7))
    for op in ("QLinearSigmoid", "QLinearLeakyRelu"):
        c.add(op.lower(), op, [q(2, 3, 4), scale, zero, scale, zero], tolerance=(0, 1), constant=(1, 2, 3, 4))
    c.add("qlinear_global_average_pool", "QLinearGlobalAveragePool", [q(2, 3, 4, 5), scale, zero, scale, zero],
          tolerance=(0, 1), constant=(1, 2, 3, 4))
    c.add("qlinear_global_average_pool_last", "QLinearGlobalAveragePool", [q(2, 4, 5, 3), scale, zero, scale, zero],
          tolerance=(0, 1), constant=(1, 2, 3, 4), channels_last=1)
    c.add("qlinear_average_pool", "QLinearAveragePool", [q(2, 3, 6, 6), scale, zero, scale, zero], tolerance=(0, 1),
          constant=(1, 2, 3, 4), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for axis, opset in ((-1, 13), (1, 12), (1, 13)):
        c.add(f"qlinear_softmax_{opset}_{axis % 3}", "QLinearSoftmax",
              [q(2, 3, 8), scale, zero, np.float32(1 / 256).reshape(()), np.uint8(0).reshape(())], tolerance=(0, 1),
              constant=(1, 2, 3, 4), axis=axis, opset=opset)
    c.add("qlinear_concat", "QLinearConcat", [scale, zero, q(2, 3), scale * 2, zero, q(2, 5), scale / 2, zero],
          tolerance=(0, 1), constant=(0, 1, 3, 4, 6, 7), axis=1)
    c.add("dynamic_quantize_matmul", "DynamicQuantizeMatMul", [rand(3, 8), q(8, 5), rand(5) * rand(5), q(5), rand(5)],
          constant=(1, 2, 3, 4), tolerance=(1e-3, 1e-3))
    c.add("matmul_integer_to_float", "MatMulIntegerToFloat",
          [q(3, 8), q(8, 5), scale, abs(rand(5)), zero, q(5), rand(5)], constant=(1, 2, 3, 4, 5, 6))
    for bits in (4, 8):
        blob = 32 * bits // 8
        c.add(f"matmul_{bits}bits", "MatMulNBits", [rand(3, 64), q(6, 2, blob), abs(rand(12))], constant=(1, 2), K=64, N=6,
              bits=bits, block_size=32, tolerance=(1e-3, 1e-3))
    c.add("matmul_4bits_zero_point", "MatMulNBits", [rand(3, 48), q(6, 3, 8), abs(rand(18)), q(12)], constant=(1, 2, 3), K=48,
          N=6, bits=4, block_size=16, tolerance=(1e-3, 1e-3))
    weights, bias = rand(16, 48), rand(48)
    hidden = rand(2, 5, 16)
    c.add("attention", "Attention", [hidden, weights, bias], num_heads=4)
    c.add("attention_mask", "Attention", [hidden, weights, bias, mask], num_heads=4)
    c.add("attention_lengths", "Attention", [hidden, weights, bias, np.array([3, 5], np.int32)], num_heads=4)
    c.add("attention_causal", "Attention", [hidden, weights, bias], num_heads=4, unidirectional=1)
    c.add("attention_past", "Attention", [hidden, weights, bias, None, rand(2, 2, 4, 3, 4)], outputs=2, num_heads=4,
          unidirectional=1)
    c.add("multi_head_attention", "MultiHeadAttention", [rand(2, 5, 16), rand(2, 6, 16), rand(2, 6, 16)], num_heads=4)
    c.add("multi_head_attention_bias", "MultiHeadAttention",
          [rand(2, 5, 16), rand(2, 6, 16), rand(2, 6, 16), rand(48), None, rand(1, 4, 5, 6)], num_heads=4)
    c.add("multi_head_attention_heads", "MultiHeadAttention", [rand(2, 5, 16), rand(2, 4, 6, 4), rand(2, 4, 6, 4)],
          num_heads=4)
    c.add("multi_head_attention_past", "MultiHeadAttention",
          [rand(2, 5, 16), rand(2, 5, 16), rand(2, 5, 16), None, None, None, rand(2, 4, 3, 4), rand(2, 4, 3, 4)],
          outputs=3, num_heads=4)
    positions = np.tile(np.arange(5, dtype=np.int64), (2, 1))
    for interleaved in (0, 1):
        c.add(f"rotary_{interleaved}", "RotaryEmbedding", [rand(2, 4, 5, 8), positions, rand(16, 4), rand(16, 4)],
              interleaved=interleaved)
    c.add("rotary_offset", "RotaryEmbedding", [rand(2, 5, 32), np.array([3], np.int64), rand(16, 4), rand(16, 4)])
    write_group_query(c)
    c.add("nhwc_max_pool", "NhwcMaxPool", [q(2, 6, 6, 3)], kernel_shape=[2, 2], strides=[2, 2])
    boxes = np.array([[0, 0, 1, 1], [0.2, 0.9, 0.7, 0.1], [-0.3, 0.25, 1.2, 0.8]], np.float32)
    for mode, size in (("bilinear", (5, 4)), ("nearest", (1, 7))):
        c.add(f"crop_and_resize_{mode}", "CropAndResize",
              [rand(2, 19, 9, 11), boxes, np.array([1, 0, 1], np.int32), np.array(size, np.int32)], constant=(3,), mode=mode,
              extrapolation_value=0.5)
    return c.count


def write_old(out: pathlib.Path) -> int:
    c = Cases(out)
    x = rand(2, 3, 4, 5)
    old = dict(domain="")
    c.add("softmax_11", "Softmax", [x], version=11, axis=1, **old)
    c.add("softmax_11_last", "Softmax", [x], version=11, axis=3, **old)
    c.add("log_softmax_7", "LogSoftmax", [x], version=7, axis=2, **old)
    c.add("hardmax_7", "Hardmax", [x], version=7, axis=2, **old)
    c.add("upsample_7", "Upsample", [x], version=7, scales=[1.0, 1.0, 2.0, 3.0], mode="nearest", **old)
    c.add("upsample_9_linear", "Upsample", [x, np.array([1, 1, 2, 2], np.float32)], version=9, constant=(1,), mode="linear",
          **old)
    c.add("resize_10", "Resize", [x, np.array([1, 1, 0.5, 1.7], np.float32)], version=10, constant=(1,), mode="nearest", **old)
    c.add("resize_11", "Resize", [x, np.zeros(0, np.float32), np.zeros(0, np.float32), np.array([2, 3, 7, 6], np.int64)],
          version=11, constant=(1, 2, 3), mode="linear", coordinate_transformation_mode="align_corners", **old)
    c.add("resize_11_tf_half_pixel", "Resize", [x, np.zeros(0, np.float32), np.array([1, 1, 1.6, 2.3], np.float32)],
          version=11, constant=(1, 2), coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor", **old)
    c.add("slice_1", "Slice", [x], version=9, starts=[0, -3], ends=[2, 1000], axes=[1, 3], **old)
    c.add("pad_2", "Pad", [x], version=9, mode="constant", pads=[0, 1, 0, 2, 0, 0, 1, -1], value=1.5, **old)
    c.add("pad_2_reflect", "Pad", [x], version=9, mode="reflect", pads=[0, 0, 2, 2, 0, 0, 1, 1], **old)
    c.add("clip_6", "Clip", [x], version=10, min=-0.5, max=0.25, **old)
    c.add("dropout_7", "Dropout", [x], version=7, ratio=0.3, **old)
    c.add("squeeze_1", "Squeeze", [rand(1, 3, 1, 5)], version=11, axes=[0, 2], **old)
    c.add("unsqueeze_1", "Unsqueeze", [x], version=9, axes=[0], **old)
    c.add("reduce_mean_1", "ReduceMean", [x], version=9, axes=[1, -1], keepdims=0, **old) 
    c.add("topk_1", "TopK", [x], version=9, outputs=2, k=2, axis=1, **old)
    c.add("split_2", "Split", [x], version=9, outputs=2, axis=3, split=[2, 3], **old)
    c.add("batch_norm_7", "BatchNormalization", [x, rand(3), rand(3), rand(3), abs(rand(3))], version=7, **old)
    c.add("flatten_9", "Flatten", [x], version=9, axis=2, **old)
    c.add("gemm_7", "Gemm", [rand(3, 4), rand(4, 5), rand(5)], version=7, **old)
    c.add("prelu_7", "PRelu", [x, rand(3, 1, 1)], version=7, **old)
    c.add("scatter_9", "Scatter", [rand(3, 3), np.array([[1, 0, 2], [0, 2, 1]], np.int64), rand(2, 3)], version=9, **old)
    c.add("dft_17", "DFT", [rand(2, 8, 1)], version=17, axis=1, **old)
    c.add("image_scaler_1", "ImageScaler", [x], version=8, scale=0.5, bias=[0.1, 0.2, 0.3], **old)
    c.add("crop_1", "Crop", [rand(1, 3, 8, 9)], version=8, border=[1, 2, 3, 1], **old)
    c.add("affine_1", "Affine", [x], version=8, alpha=2.0, beta=0.5, **old)
    c.add("parametric_softplus_1", "ParametricSoftplus", [x], version=8, alpha=2.0, beta=0.5, **old)
    c.add("scaled_tanh_1", "ScaledTanh", [x], version=8, alpha=2.0, beta=0.5, **old)
    c.add("mean_variance_9", "MeanVarianceNormalization", [x], version=9, **old)
    c.add("pow_12_mixed", "Pow", [abs(x), np.full((1,), 2, np.int64)], version=12, **old)
    return c.count


def write_large(out: pathlib.Path) -> int:
    c = Cases(out)
    # Boxes of 8 to 72 pixels in an image of 640, shifted apart by class as exporters do, with ties among the scores.
    corners, size = RANDOM.uniform(0, 568, (2, 3000, 2)), RANDOM.uniform(8, 72, (2, 3000, 2))
    boxes = np.concatenate((corners, corners + size), 2)
    shifted = boxes + RANDOM.integers(0, 20, (2, 3000, 1)) * 641
    centred = np.concatenate((corners + size / 2, size), 2)
    flipped = np.concatenate((boxes[..., 2:], boxes[..., :2]), 2)
    one, three = (np.round(RANDOM.uniform(0, 1, (2, n, 3000)), 3) for n in (1, 3))

    def nms(name: str, boxes: np.ndarray, scores: np.ndarray, most: int, *limits: float, **attributes) -> None:
        inputs = [boxes.astype(np.float32), scores.astype(np.float32), np.array([most], np.int64)]
        c.add(f"nms_{name}", "NonMaxSuppression", inputs + [np.array([x], np.float32) for x in limits], version=11,
              domain="", tolerance=(0, 0), **attributes)

    nms("shifted", shifted, one, 3000, 0.55)
    nms("three_classes", boxes, three, 500, 0.3, 0.2)
    nms("touching", boxes, one, 3000, 0)
    nms("centred", centred, three, 3000, 0.5, 0.5, center_point_box=1)
    nms("flipped", flipped, one, 100, 0.5)
    nms("few", boxes[:, :40], three[:, :, :40], 40, 0.4, 0.1)
    return c.count


def parse(graph: str, **constants: np.ndarray) -> onnx.ModelProto:
    """ONNX's text of a graph, to which constants are added by name."""
    model = onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 18]> ' + graph)
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    return model


def grown(rows: int) -> onnx.ModelProto:
    """Elements of x, cut to one size, joined one by one behind |rows| rows."""
    return parse("""g (int64 n, float[6,4,5] x, int64[6,1] from) => (float[m,3,5] y) {
        y = Loop(n, , first) <body = b (int64 i, bool go, float[k,3,5] all) => (bool again, float[l,3,5] more) {
            again = Identity(go)
            item = Gather(x, i)
            start = Gather(from, i)
            end = Add(start, three)
            part = Slice(item, start, end)
            element = Unsqueeze(part, zero)
            more = Concat<axis = 0>(all, element)
        }>
    }""", first=rand(rows, 3, 5), three=np.array([3]), zero=np.array([0]))


def scanned(steps: int, channels: int, states: int) -> onnx.ModelProto:
    """h = a h + b of each step and its product with a vector of the step, as transformers' Mamba is exported."""
    lines, h = [], "h"
    for t in range(steps):
        lines += [f"at{t} = Constant<value_int = {t}>()", f"a{t} = Gather<axis = 2>(a, at{t})",
                  f"b{t} = Gather<axis = 2>(b, at{t})", f"p{t} = Mul(a{t}, {h})", f"h{t} = Add(p{t}, b{t})",
                  f"c{t} = Gather<axis = 1>(c, at{t})", f"v{t} = Unsqueeze(c{t}, last)", f"m{t} = MatMul(h{t}, v{t})",
                  f"s{t} = Gather<axis = 2>(m{t}, none)", f"y{t} = Unsqueeze(s{t}, last)"]
        h = f"h{t}"
    joined = ", ".join(f"y{t}" for t in range(steps))
    wide = f"float[2,{channels},{steps},{states}]"
    return parse(f"g ({wide} a, {wide} b, float[2,{steps},{states}] c) => (float[2,{channels},{steps}] y) {{"
                 f" {chr(10).join(lines)} y = Concat<axis = 2>({joined}) }}",
                 h=rand(2, channels, states), last=np.array([-1]), none=np.array(0))


def write_loops(out: pathlib.Path) -> int:
    x, start = rand(6, 4, 5), RANDOM.integers(0, 2, (6, 1))
    cases = {f"grown_{rows}_by_{n}": (grown(rows), {"n": np.array(n), "x": x, "from": start})
             for rows, n in ((0, 6), (2, 5), (0, 0), (3, 0))}
    for steps, channels, states in ((4, 9, 1), (7, 5, 16), (33, 19, 8)):
        factors = RANDOM.uniform(0.5, 1, (2, channels, steps, states)).astype(np.float32)
        feeds = {"a": factors, "b": rand(2, channels, steps, states), "c": rand(2, steps, states)}
        cases[f"scanned_{steps}_{channels}_{states}"] = (scanned(steps, channels, states), feeds)
    return sum(write(out / name, model, feeds, (1e-4, 1e-5)) for name, (model, feeds) in cases.items())


def random_input(info) -> np.ndarray:
    shape = [d.dim_value if d.dim_value > 0 else 1 for d in info.type.tensor_type.shape.dim]
    # Like an image: noise around 0 is ill-conditioned behind a normalization of 0 to 255.
    return RANDOM.uniform(0, 255, shape).astype(helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type))


def write_model(out: pathlib.Path, path: pathlib.Path) -> int:
    model = onnx.load(str(path))
    weights = {t.name for t in model.graph.initializer}
    feeds = {i.name: random_input(i) for i in model.graph.input if i.name not in weights}
    half = any(t.data_type == TensorProto.FLOAT16 for t in model.graph.initializer)
    return write(out / path.stem, model, feeds, (2e-2, 1e-2) if half else (1e-3, 1e-5), of_largest=1e-4)


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    out = pathlib.Path(sys.argv[1])
    count = write_microsoft(out / "microsoft") + write_old(out / "old") + write_large(out / "large")
    count += write_loops(out / "loops")
    count += sum(write_model(out / "models", pathlib.Path(p)) for p in sys.argv[2:])
    print(f"{count} cases of onnxruntime {onnxruntime.__version__} written to {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
