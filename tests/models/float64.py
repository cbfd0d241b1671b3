"""Evaluates an ONNX model in double precision: onnx.reference, with NumPy's own sums where its loops take minutes.

evaluate(model, feeds) -> outputs. What the model holds as float32 or float16 is float64 in it: weights, constants, casts,
types. Operators that newer ONNX has no more (ImageScaler, Crop, Affine) are added. Needs onnx and numpy alone.
"""
import math

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

NARROW = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)


def widen(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in NARROW:
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def widen_graph(graph: onnx.GraphProto) -> None:
    for tensor in graph.initializer:
        widen(tensor)
    for info in [*graph.input, *graph.output, *graph.value_info]:
        if info.type.tensor_type.elem_type in NARROW:
            info.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for node in graph.node:
        for a in node.attribute:
            if node.op_type == "Cast" and a.name == "to" and a.i in NARROW:
                a.i = onnx.TensorProto.DOUBLE
            if a.type == onnx.AttributeProto.TENSOR:
                widen(a.t)
            if a.type == onnx.AttributeProto.GRAPH:
                widen_graph(a.g)


def in_float64(model: onnx.ModelProto) -> onnx.ModelProto:
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    widen_graph(wide.graph)
    return wide


def begins_and_ends(pads, auto_pad, sizes, kernel, strides, dilations):
    """Padding of each axis before and after."""
    rank = len(kernel)
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        total = [max(0, (math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n) for n, k, s, d in zip(sizes, kernel, strides, dilations)]
        less, more = [t // 2 for t in total], [t - t // 2 for t in total]
        return (less, more) if auto_pad == "SAME_UPPER" else (more, less)
    pads = [0] * 2 * rank if pads is None or auto_pad == "VALID" else list(pads)
    return pads[:rank], pads[rank:]


def taps(kernel, strides, dilations, counts):
    """Each tap's index and the slices of |counts| positions that it meets."""
    for tap in np.ndindex(*kernel):
        yield tap, tuple(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in zip(tap, dilations, strides, counts))


def ones(value, rank):
    return list(value) if value else [1] * rank


class Conv(OpRun):
    op_domain = ""

    def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=None, kernel_shape=None, pads=None, strides=None):
        kernel, rank, group = w.shape[2:], w.ndim - 2, group or 1
        strides, dilations = ones(strides, rank), ones(dilations, rank)
        begin, end = begins_and_ends(pads, auto_pad, x.shape[2:], kernel, strides, dilations)
        x = np.pad(x, [(0, 0), (0, 0), *zip(begin, end)])
        counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations)]
        x = x.reshape(len(x), group, -1, *x.shape[2:])
        w = w.reshape(group, -1, *w.shape[1:])
        y = np.zeros((len(x), group, w.shape[1], math.prod(counts)))
        for tap, at in taps(kernel, strides, dilations, counts):
            pixels = x[(..., *at)].reshape(*x.shape[:3], -1)
            filters = w[(..., *tap)]
            y += filters * pixels if filters.shape[1:] == (1, 1) else filters @ pixels
        y = y.reshape(len(x), -1, *counts)
        return (y if b is None else y + b.reshape(-1, *[1] * rank),)


class ConvTranspose(OpRun):
    op_domain = ""

    def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=None, kernel_shape=None, output_padding=None, output_shape=None, pads=None,
             strides=None):
        kernel, rank, sizes, group = w.shape[2:], w.ndim - 2, x.shape[2:], group or 1
        strides, dilations = ones(strides, rank), ones(dilations, rank)
        full = [(n - 1) * s + (k - 1) * d + 1 for n, k, s, d in zip(sizes, kernel, strides, dilations)]
        extra = list(output_padding or [0] * rank)
        begin, end = begins_and_ends(pads, auto_pad, sizes, kernel, strides, dilations)
        if output_shape:
            total = [f + e - o for f, e, o in zip(full, extra, output_shape)]
            less, more = [max(t, 0) // 2 for t in total], [t - max(t, 0) // 2 for t in total]
            begin, end = (less, more) if auto_pad == "SAME_UPPER" else (more, less)
            begin, end = [max(t, 0) for t in begin], [e + min(t, 0) for t, e in zip(begin, end)]
        x = x.reshape(len(x), group, -1, math.prod(sizes))
        w = w.reshape(group, -1, *w.shape[1:])
        y = np.zeros((len(x), group, w.shape[2], *(f + max(e - t, 0) for f, e, t in zip(full, extra, end))))
        for tap, at in taps(kernel, strides, dilations, sizes):
            y[(..., *at)] += (w[(..., *tap)].swapaxes(1, 2) @ x).reshape(len(x), group, -1, *sizes)
        y = y.reshape(len(x), -1, *y.shape[3:])
        sizes = output_shape or [f + e - t - u for f, e, t, u in zip(full, extra, begin, end)]
        y = y[(..., *(slice(t, t + o) for t, o in zip(begin, sizes)))]
        return (y if b is None else y + b.reshape(-1, *[1] * rank),)


class MaxPool(OpRun):
    op_domain = ""

    def _run(self, x, auto_pad=None, ceil_mode=None, dilations=None, kernel_shape=None, pads=None, storage_order=None, strides=None):
        rank = x.ndim - 2
        strides, dilations = ones(strides, rank), ones(dilations, rank)
        begin, end = begins_and_ends(pads, auto_pad, x.shape[2:], kernel_shape, strides, dilations)
        if ceil_mode:
            end = [e + s - 1 for e, s in zip(end, strides)]
        x = np.pad(x, [(0, 0), (0, 0), *zip(begin, end)], constant_values=-np.inf)
        counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel_shape, strides, dilations)]
        return (np.max([x[(..., *at)] for _, at in taps(kernel_shape, strides, dilations, counts)], axis=0),)


class Resize(OpRun):
    """Linear, by half pixels."""

    op_domain = ""

    def _run(self, x, roi=None, scales=None, sizes=None, coordinate_transformation_mode=None, mode=None, **unused):
        if mode != "linear" or coordinate_transformation_mode != "half_pixel":
            raise NotImplementedError(f"Resize {mode} {coordinate_transformation_mode}")
        for axis, old in enumerate(x.shape):
            new = int(sizes[axis]) if sizes is not None else int(old * scales[axis])
            if new == old:
                continue
            factor = new / old if sizes is not None else scales[axis]
            at = np.clip((np.arange(new) + 0.5) / factor - 0.5, 0, old - 1)
            first = np.minimum(at.astype(int), old - 1)
            part = (at - first).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
            x = np.take(x, first, axis) * (1 - part) + np.take(x, np.minimum(first + 1, old - 1), axis) * part
        return (x,)


class GatherElements(OpRun):
    op_domain = ""

    def _run(self, x, indices, axis=None):
        return (np.take_along_axis(x, np.where(indices < 0, indices + x.shape[axis or 0], indices), axis or 0),)


class Softmax(OpRun):
    """Of the operator sets before 13: over all axes from |axis| on. Its default was 1; what comes is today's, -1."""

    op_domain = ""

    def _run(self, x, axis=None):
        rows = x.reshape(math.prod(x.shape[: 1 if axis == -1 else axis]), -1)
        rows = np.exp(rows - rows.max(axis=1, keepdims=True))
        return ((rows / rows.sum(axis=1, keepdims=True)).reshape(x.shape),)


def overlaps(box, boxes):
    """Intersection over union of corners [y1, x1, y2, x2] with y1 <= y2, x1 <= x2."""
    sides = np.maximum(np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2]), 0)
    area = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    common = np.prod(sides, axis=1)
    return common / np.maximum(np.prod(box[2:] - box[:2]) + area - common, 1e-300)


class NonMaxSuppression(OpRun):
    op_domain = ""

    def _run(self, boxes, scores, most=None, iou=None, least_score=None, center_point_box=None):
        if center_point_box:
            half = boxes[..., 3:1:-1] / 2
            boxes = np.concatenate([boxes[..., 1::-1] - half, boxes[..., 1::-1] + half], axis=-1)
        boxes = np.concatenate([np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])], axis=-1)
        most, iou = (int(np.ravel(most)[0]) if most is not None else 0), (float(np.ravel(iou)[0]) if iou is not None else 0.0)
        kept = []
        for n, c in np.ndindex(*scores.shape[:2]):
            order = np.argsort(-scores[n, c], kind="stable")
            if least_score is not None:
                order = order[scores[n, c][order] > np.ravel(least_score)[0]]
            count = 0
            while len(order) and count < most:
                kept.append((n, c, order[0]))
                count += 1
                order = order[1:][overlaps(boxes[n, order[0]], boxes[n, order[1:]]) <= iou]
        return (np.array(kept, np.int64).reshape(-1, 3),)


class ImageScaler(OpRun):
    op_domain = ""

    def _run(self, x, bias=None, scale=None):
        return (x * scale + np.asarray(bias, np.float64).reshape(-1, 1, 1),)


class Crop(OpRun):
    op_domain = ""

    def _run(self, x, border=None, scale=None):
        left, top, right, bottom = border
        return (x[:, :, top : x.shape[2] - bottom, left : x.shape[3] - right],)


class Affine(OpRun):
    op_domain = ""

    def _run(self, x, alpha=None, beta=None):
        return (alpha * x + beta,)


def evaluate(model: onnx.ModelProto, feeds: dict) -> list:
    wide = {k: v.astype(np.float64) if v.dtype in (np.float32, np.float16) else v for k, v in feeds.items()}
    own = [Conv, ConvTranspose, MaxPool, Resize, GatherElements, NonMaxSuppression, ImageScaler, Crop, Affine]
    if next(o.version for o in model.opset_import if o.domain == "") < 13:
        own.append(Softmax)
    return ReferenceEvaluator(in_float64(model), new_ops=own).run(None, wide)
