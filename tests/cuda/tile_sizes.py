#!/usr/bin/env python3
"""Products and convolutions by each size of the tile kernels, at odd sizes, against ONNX Runtime in float32.

With a stand-in driver (CARNOT_CUDA_DRIVER) only the row at hand runs on its device.
Usage: tile_sizes.py [--only=TEXT ..] CARNOT: TEXT as in "(1,", "relay" or "--fp16"     (a command of several words, for compute-sanitizer)
"""
import concurrent.futures
import os
import pathlib
import sys
import tempfile

import numpy as np
import onnx
from fused_rows import LIMITS, Net, arguments, error, told

SIZES = [("tile", 16, 64), ("tile", 32, 64), ("tile", 64, 32), ("tile", 64, 64), ("tile", 64, 128), ("tile", 128, 32),
         ("tile", 128, 64), ("tile", 128, 128), ("bulk", 64, 32), ("bulk", 64, 64), ("bulk", 128, 64), ("bulk", 128, 128),
         ("bulk", 128, 160), ("bulk", 128, 256), ("relay", 128, 128), ("relay", 128, 160), ("relay", 128, 192)]
if "CARNOT_CUDA_DRIVER" in os.environ:  # one kernel stands for all sizes there
    SIZES = [size for size in SIZES if size[0] == "tile" or size in (("bulk", 64, 64), ("bulk", 128, 160), ("relay", 128, 128))]
OTHERS = ["cuda_gemm_cublaslt", "cuda_conv_cudnn", "cuda_conv_patch"]


def activate(net: Net, y: str, activation: str) -> str:
    if activation == "silu":
        return net.add("Mul", y, net.add("Sigmoid", y))
    if activation == "relu6":
        return net.add("Clip", y, net.constant(np.float32(0)), net.constant(np.float32(6)))
    return net.add(activation, y) if activation else y


def product(rows: int, depth: int, columns: int, activation: str, residual: bool, gemm: bool) -> onnx.ModelProto:
    net = Net(x=[rows, depth] if gemm else [1, rows, depth], **({"r": [1, rows, columns]} if residual else {}))
    if gemm:
        y = net.add("Gemm", "x", net.weight(columns, depth, scale=depth**-0.5), net.weight(columns), transB=1)
    else:
        y = net.add("Add", net.add("MatMul", "x", net.weight(depth, columns, scale=depth**-0.5)), net.weight(columns))
    if residual:
        y = net.add("Add", y, "r")
    return net.model(activate(net, y, activation))


def convolution(batch: int, channels: int, filters: int, side: int, kernel: int, step: int, dilation: int,
                activation: str, residual: bool) -> onnx.ModelProto:
    net = Net(x=[batch, 3, side, side + 2])
    x = net.add("Conv", "x", net.weight(channels, 3, 1, 1), net.weight(channels))
    scale = (channels * kernel * kernel) ** -0.5
    same = dict(strides=[step, step], pads=[kernel // 2 * dilation] * 4, dilations=[dilation, dilation])
    y = net.add("Conv", x, net.weight(filters, channels, kernel, kernel, scale=scale), net.weight(filters), **same)
    if residual:
        z = net.add("Conv", "x", net.weight(filters, 3, 1, 1), net.weight(filters), strides=[step, step])
        y = net.add("Add", y, z)
    return net.model(activate(net, y, activation))


def cases(kind: str, rows: int, columns: int) -> list[tuple[str, onnx.ModelProto]]:
    least = 1 if rows == 16 else rows // 2 + 3
    wide = columns + 8
    side = {16: 5, 32: 6, 64: 9, 128: 14}[rows]
    if kind == "relay":  # filters by 32, half as many tiles as multiprocessors and more
        made = [("product", product, c) for c in [
            (66 * rows + 5, 24, columns, "Gelu", False, False), (34 * rows - 9, 16, columns + 32, "", True, False),
            (70 * rows, 8, columns - 32, "silu", False, True), (25 * rows + 1, 40, 3 * columns - 64, "Relu", True, False)]]
        made += [("convolution", convolution, (2, 64, columns + 32, 133, 1, 2, 1, "", True))]
        if "CARNOT_CUDA_DRIVER" not in os.environ:  # each block has several tiles
            made += [("product", product, (200 * rows - 3, 200, 2 * columns, "Gelu", False, False)),
                     ("product", product, (90 * rows - 3, 1032, 3 * columns - 32, "", True, False))]
            made += [("convolution", convolution, c) for c in [
                (3, 64, columns, 53, 3, 1, 1, "relu6", False), (3, 128, 2 * columns, 97, 3, 1, 2, "Relu", True),
                (9, 64, columns + 64, 101, 3, 2, 1, "silu", False)]]
        return [(f"{kind} {c}", make(*c)) for kind, make, c in made]
    made = [("product", product, c) for c in [
        (least, 136, columns, "Gelu", False, False), (rows + 5, 64 * 9 + 8, wide, "", True, False),
        (2 * rows, 64, wide, "Sigmoid", False, True), (3 * rows + 1, 2048, columns, "Relu", True, False)]]
    if kind == "bulk":  # channels by 64
        made += [("convolution", convolution, c) for c in [
            (1, 64, wide, side, 3, 1, 1, "relu6", False), (1, 128, columns, side, 3, 1, 2, "silu", True),
            (3, 64, wide, side, 3, 2, 1, "HardSwish", False), (2, 64, wide, side, 1, 2, 1, "", True)]]
        if "CARNOT_CUDA_DRIVER" not in os.environ:  # more tiles than multiprocessors
            made += [("convolution", convolution, (rows // 16, 128, 2 * columns, 50, 3, 1, 1, "", True))]
        return [(f"{kind} {c}", make(*c)) for kind, make, c in made]
    made += [("convolution", convolution, c) for c in [
        (1, 24, wide, side, 3, 1, 1, "relu6", False), (1, 128, columns, side, 3, 1, 2, "silu", True),
        (3, 40, wide, side, 3, 2, 1, "HardSwish", False), (1, 8, columns, side, 1, 1, 1, "Relu", True)]]
    return [(f"{kind} {c}", make(*c)) for kind, make, c in made]


def main() -> int:
    asked = arguments()

    def check(size: tuple[str, int, int], name: str, model: onnx.ModelProto, flag: str) -> bool:
        tactic, *others = [f"cuda_{kind}_{a}x{b}" for kind, a, b in [size, *SIZES]]
        others = OTHERS + [other for other in others if other != tactic]
        rows = tactic if "CARNOT_CUDA_DRIVER" in os.environ else "-" + ",".join(others)
        with tempfile.TemporaryDirectory() as folder:
            off, text = error(asked.carnot, model, flag, pathlib.Path(folder), level=1, CARNOT_CUDA_ROWS=rows)
        good = off <= LIMITS[flag] and tactic in text
        why = "" if good else f" (wanted {tactic}): {text[-600:]}"
        told(f"{'passed' if good else 'FAILED'} {tactic} {name} {flag}: relative L2 {off:.1e}{why}")
        return good

    todo = [(size, *case, flag) for flag in LIMITS for size in SIZES for case in cases(*size)]
    todo = [t for t in todo if all(text in f"{t[0][0]} {t[1]} {t[3]}" for text in asked.only)]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        done = list(pool.map(check, *zip(*todo)))
    return not all(done)


if __name__ == "__main__":
    sys.exit(main())
