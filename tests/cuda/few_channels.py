#!/usr/bin/env python3
"""First layers and 1x1 convolutions of few channels by each of their CUDA rows, at odd sizes, against ONNX Runtime
in float32.

With a stand-in driver (CARNOT_CUDA_DRIVER) only the row at hand runs on its device.
Usage: few_channels.py [--only=TEXT ..] CARNOT     (a command of several words, for compute-sanitizer)
"""
import concurrent.futures
import os
import pathlib
import sys
import tempfile

import onnx
from fused_rows import LIMITS, Net, arguments, error, told
from tile_sizes import activate

RIVALS = ["cuda_conv_cudnn", "cuda_conv_patch", "cuda_conv_first", "cuda_tile", "cuda_bulk"]
OWN = ["cuda_conv_first", "cuda_conv_thin"]  # the stand-in driver runs these


def first(batch: int, channels: int, filters: int, sides: tuple[int, int], kernel: tuple[int, int], step: int,
          pads: list[int], activation: str, bias: bool, inside: bool = False) -> onnx.ModelProto:
    """|inside|: behind another layer, whose halves stand channels last."""
    net = Net(x=[batch, 6 if inside else channels, *sides])
    x = net.add("Conv", "x", net.weight(channels, 6, 1, 1), net.weight(channels)) if inside else "x"
    weights = [net.weight(filters, channels, *kernel, scale=(channels * kernel[0] * kernel[1]) ** -0.5)]
    y = net.add("Conv", x, *weights, *([net.weight(filters)] if bias else []), strides=[step, step], pads=pads)
    return net.model(activate(net, y, activation))


def thin(batch: int, channels: int, filters: int, sides: tuple[int, int], activation: str,
         residual: bool) -> onnx.ModelProto:
    net = Net(x=[batch, 5, *sides])
    x = net.add("Conv", "x", net.weight(channels, 5, 1, 1), net.weight(channels))
    y = net.add("Conv", x, net.weight(filters, channels, 1, 1, scale=channels**-0.5), net.weight(filters))
    if residual:
        y = net.add("Add", y, net.add("Conv", "x", net.weight(filters, 5, 1, 1), net.weight(filters)))
    return net.model(activate(net, y, activation))


ALONG, NONE = [1, 1, 1, 1], [0, 0, 0, 0]
FIRST = [
    (2, 3, 64, (37, 45), (7, 7), 2, [3, 3, 3, 3], "Relu", True),
    (3, 1, 40, (19, 23), (5, 3), 1, [1, 0, 2, 1], "silu", True),
    (1, 4, 96, (20, 5), (3, 5), 2, [2, 2, 1, 2], "relu6", False), (2, 2, 8, (9, 1), (3, 1), 1, NONE, "", True),
    (5, 3, 32, (64, 31), (3, 3), 2, ALONG, "HardSwish", True), (1, 4, 320, (16, 17), (3, 3), 1, ALONG, "", True),
    (1, 3, 24, (8, 300), (8, 8), 1, [0, 4, 0, 3], "Sigmoid", True), (1, 3, 72, (5, 3), (1, 1), 1, NONE, "Gelu", True),
    (2, 4, 48, (21, 18), (3, 3), 1, ALONG, "Relu", True, True),
    (1, 3, 8, (9, 40), (7, 5), 2, [0, 2, 1, 0], "", True, True)]
THIN = [
    (3, 16, 96, (40, 35), "relu6", False), (1, 24, 72, (64, 65), "silu", True), (2, 64, 40, (51, 41), "Relu", True),
    (1, 96, 24, (128, 33), "", False), (5, 120, 40, (37, 23), "HardSwish", True), (1, 8, 8, (90, 46), "Sigmoid", False)]
OTHERS = {"cuda_conv_direct": (2, 3, 12, (11, 13), (3, 3), 1, ALONG, "Relu", True),
          "cuda_conv_cudnn": (3, 3, 40, (21, 13), (3, 3), 2, ALONG, "silu", True)}
CASES = [(f"first {c}", first(*c), "cuda_conv_first") for c in FIRST]
CASES += [(f"thin {c}", thin(*c), "cuda_conv_thin") for c in THIN]
CASES += [(f"first {c}", first(*c), tactic) for tactic, c in OTHERS.items()]


def main() -> int:
    asked = arguments()
    stand_in = "CARNOT_CUDA_DRIVER" in os.environ

    def check(case: tuple[str, onnx.ModelProto, str], flag: str) -> bool:
        name, model, tactic = case
        rows = tactic if stand_in else "-" + ",".join(r for r in RIVALS if r != tactic)
        with tempfile.TemporaryDirectory() as folder:
            off, text = error(asked.carnot, model, flag, pathlib.Path(folder), level=1, CARNOT_CUDA_ROWS=rows)
        good = off <= LIMITS[flag] and tactic in text
        why = "" if good else f" (wanted {tactic}): {text[-600:]}"
        told(f"{'passed' if good else 'FAILED'} {name} {flag}: relative L2 {off:.1e}{why}")
        return good

    todo = [(case, flag) for flag in LIMITS for case in CASES if all(text in case[0] for text in asked.only)]
    todo = [t for t in todo if not stand_in or t[0][2] in OWN]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        done = list(pool.map(check, *zip(*todo)))
    return not all(done)


if __name__ == "__main__":
    sys.exit(main())
