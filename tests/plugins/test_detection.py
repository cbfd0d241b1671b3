"""Non-maximum suppression and prior boxes against plain loops in NumPy."""

import math
import pathlib

import numpy as np
import pytest
from harness import plugin, refusal

RNG = np.random.default_rng(11)


def some_boxes(*shape: int) -> np.ndarray:
    """Corners of boxes in [0,1] that overlap often."""
    corner = RNG.uniform(0, 0.6, (*shape, 2))
    return np.concatenate([corner, corner + RNG.uniform(0.15, 0.4, (*shape, 2))], -1).astype(np.float32)


def scores_of(*shape: int) -> np.ndarray:
    """Distinct numbers in (0,1)."""
    count = math.prod(shape)
    return ((RNG.permutation(count) + 0.5) / count).reshape(shape).astype(np.float32)


def iou(a: np.ndarray, b: np.ndarray, extra: float = 0) -> float:
    a, b = a.astype(np.float64), b.astype(np.float64)
    a, b = (np.r_[np.minimum(v[:2], v[2:]), np.maximum(v[:2], v[2:])] for v in (a, b))
    size = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]) + extra
    if (size <= 0).any():
        return 0
    area = size.prod()
    return area / ((a[2:] - a[:2] + extra).prod() + (b[2:] - b[:2] + extra).prod() - area)


def efficient(boxes, scores, threshold, limit, most, agnostic=False, background=-1) -> list:
    """(score, class, index, box) of one image, best first; boxes [B,C,4] or [B,1,4]."""
    every = [(scores[i, c], c, i, boxes[i, c % boxes.shape[1]]) for i, c in np.ndindex(scores.shape)]
    kept: list = []
    for one in sorted((e for e in every if e[0] >= threshold and e[1] != background), key=lambda e: -e[0]):
        rivals = [k for k in kept if agnostic or k[1] == one[1]]
        if all(iou(k[3], one[3]) < limit for k in rivals):
            kept.append(one)
    return kept[:most]


def check_efficient(found: list, wanted: list, most: int) -> None:
    numbers, boxes, scores, classes = found
    assert numbers.dtype == classes.dtype == np.int32
    assert boxes.shape == (len(wanted), most, 4)
    for n, image in enumerate(wanted):
        assert numbers.reshape(-1)[n] == len(image)
        assert classes[n, : len(image)].tolist() == [e[1] for e in image]
        np.testing.assert_allclose(scores[n, : len(image)], [e[0] for e in image], rtol=1e-6)
        np.testing.assert_allclose(boxes[n, : len(image)], [e[3] for e in image], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("agnostic", [0, 1])
@pytest.mark.parametrize("shared", [True, False])
def test_efficient_nms(tmp_path: pathlib.Path, agnostic: int, shared: bool) -> None:
    boxes, scores = some_boxes(2, 30, 1 if shared else 3), scores_of(2, 30, 3)
    fields = {
        "score_threshold": 0.3,
        "iou_threshold": 0.4,
        "max_output_boxes": 20,
        "background_class": 1,
        "class_agnostic": agnostic,
    }
    inputs = {"boxes": boxes[:, :, 0] if shared else boxes, "scores": scores}
    found = plugin(tmp_path, "EfficientNMS_TRT", inputs, 4, score_activation=0, box_coding=0, **fields)
    assert found[0].shape == (2, 1)
    check_efficient(found, [efficient(boxes[n], scores[n], 0.3, 0.4, 20, bool(agnostic), 1) for n in range(2)], 20)


def test_efficient_nms_of_logits_and_centers(tmp_path: pathlib.Path) -> None:
    boxes, scores = some_boxes(1, 25), scores_of(1, 25, 2)
    centers = np.concatenate([(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], -1)
    logits = np.log(scores / (1 - scores))
    fields = {
        "score_threshold": 0.4,
        "iou_threshold": 0.5,
        "max_output_boxes": 10,
        "score_activation": 1,
        "box_coding": 1,
    }
    found = plugin(tmp_path, "EfficientNMS_TRT", {"boxes": centers, "scores": logits}, 4, **fields)
    check_efficient(found, [efficient(boxes[0][:, None], scores[0], 0.4, 0.5, 10)], 10)


def test_efficient_nms_decodes(tmp_path: pathlib.Path) -> None:
    anchors, scores = some_boxes(1, 25), scores_of(2, 25, 2)
    anchors[..., 2:] -= anchors[..., :2]
    anchors[..., :2] += anchors[..., 2:] / 2
    shift = (0.2 * RNG.standard_normal((2, 25, 4))).astype(np.float32)
    wide = anchors.astype(np.float64)
    center, size = shift[..., :2] * wide[..., 2:] + wide[..., :2], np.exp(shift[..., 2:]) * wide[..., 2:]
    boxes = np.concatenate([center - size / 2, center + size / 2], -1)
    fields = {"score_threshold": 0.2, "iou_threshold": 0.5, "max_output_boxes": 30, "box_coding": 1}
    found = plugin(tmp_path, "EfficientNMS_TRT", {"boxes": shift, "scores": scores, "anchors": anchors}, 4, **fields)
    check_efficient(found, [efficient(boxes[n][:, None], scores[n], 0.2, 0.5, 30) for n in range(2)], 30)


@pytest.mark.parametrize("form", ["Explicit", "Implicit"])
def test_efficient_nms_of_tensorflow(tmp_path: pathlib.Path, form: str) -> None:
    boxes, scores = some_boxes(2, 20, 1), scores_of(2, 20, 3)
    fields = {"max_output_size_per_class": 3, "max_total_size": 12, "iou_threshold": 0.4, "score_threshold": 0.1}
    found = plugin(
        tmp_path,
        f"EfficientNMS_{form}_TF_TRT",
        {"boxes": boxes, "scores": scores},
        4,
        pad_per_class=1,
        clip_boxes=1,
        **fields,
    )
    wanted = []
    for n in range(2):
        taken: list = []
        for e in efficient(boxes[n], scores[n], 0.1, 0.4, 1000):
            if sum(t[1] == e[1] for t in taken) < 3:
                taken.append((*e[:3], e[3].clip(0, 1)))
        wanted.append(taken)
    assert found[0].shape == ((2, 1) if form == "Explicit" else (2,))
    check_efficient(found, wanted, 9)


def test_efficient_nms_of_onnx(tmp_path: pathlib.Path) -> None:
    boxes, scores = some_boxes(1, 20, 1), scores_of(1, 20, 2)
    fields = {"score_threshold": 0.2, "iou_threshold": 0.4, "max_output_boxes_per_class": 5, "center_point_box": 0}
    (found,) = plugin(tmp_path, "EfficientNMS_ONNX_TRT", {"boxes": boxes[:, :, 0], "scores": scores}, **fields)
    wanted = [[0, e[1], e[2]] for e in efficient(boxes[0], scores[0], 0.2, 0.4, 5)]
    assert found.tolist() == wanted + [wanted[-1]] * (5 - len(wanted))


def by_class(boxes, scores, threshold, limit, top_k, keep, background, extra=0.0) -> list:
    every: list = []
    for c in range(scores.shape[1]):
        order = [i for i in np.argsort(-scores[:, c], kind="stable") if scores[i, c] > threshold][:top_k]
        kept: list = []
        for i in order if c != background else []:
            at = boxes[i, c % boxes.shape[1]]
            if all(iou(k[3], at, extra) <= limit for k in kept):
                kept.append((scores[i, c], c, i, at))
        every += kept
    return sorted(every, key=lambda e: -e[0])[:keep]


@pytest.mark.parametrize("name", ["BatchedNMS_TRT", "BatchedNMSDynamic_TRT"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("normalized", [0, 1])
def test_batched_nms(tmp_path: pathlib.Path, name: str, shared: bool, normalized: int) -> None:
    scale = 1 if normalized else 20
    boxes, scores = some_boxes(2, 30, 1 if shared else 3) * scale, scores_of(2, 30, 3)
    fields = {
        "shareLocation": int(shared),
        "backgroundLabelId": 0,
        "numClasses": 3,
        "topK": 15,
        "keepTopK": 12,
        "scoreThreshold": 0.25,
    }
    fields |= {"iouThreshold": 0.4, "isNormalized": normalized, "clipBoxes": normalized}
    numbers, found, found_scores, classes = plugin(tmp_path, name, {"boxes": boxes, "scores": scores}, 4, **fields)
    for n in range(2):
        wanted = by_class(boxes[n], scores[n], 0.25, 0.4, 15, 12, 0, 0 if normalized else 1)
        count = len(wanted)
        assert numbers[n, 0] == count
        assert classes[n].tolist() == [e[1] for e in wanted] + [-1] * (12 - count)
        np.testing.assert_allclose(found_scores[n], [e[0] for e in wanted] + [0] * (12 - count), rtol=1e-6)
        corners = np.array([e[3] for e in wanted])
        np.testing.assert_allclose(found[n, :count], corners.clip(0, 1) if normalized else corners, rtol=1e-6)


def decoded(location: np.ndarray, prior: np.ndarray, variance: np.ndarray, code: int, encoded: bool) -> np.ndarray:
    location, prior, variance = (v.astype(np.float64) for v in (location, prior, variance))
    if code == 3:
        location, encoded = location[..., [1, 0, 3, 2]], False
    moved = location if encoded else location * variance
    size, center = prior[..., 2:] - prior[..., :2], (prior[..., 2:] + prior[..., :2]) / 2
    if code == 0:
        return prior + moved
    if code == 2:
        return prior + moved * np.concatenate([size, size], -1)
    center, half = moved[..., :2] * size + center, np.exp(moved[..., 2:]) * size / 2
    return np.concatenate([center - half, center + half], -1)


@pytest.mark.parametrize("code", [0, 1, 2, 3])
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_ssd_nms(tmp_path: pathlib.Path, code: int, order: list) -> None:
    count, classes = 20, 3
    priors, scores = some_boxes(count), scores_of(2, count, classes)
    variance = np.full((count, 4), 0.2, np.float32)
    locations = (0.5 * RNG.standard_normal((2, count, 4))).astype(np.float32)
    given = [
        locations.reshape(2, -1, 1, 1),
        scores.reshape(2, -1, 1, 1),
        np.stack([priors, variance]).reshape(1, 2, -1, 1),
    ]
    inputs = {f"x{order[i]}": given[i] for i in range(3)}
    fields = {
        "shareLocation": 1,
        "varianceEncodedInTarget": 0,
        "backgroundLabelId": 0,
        "numClasses": classes,
        "topK": 12,
        "keepTopK": 8,
    }
    fields |= {
        "confidenceThreshold": 0.2,
        "nmsThreshold": 0.4,
        "inputOrder": order,
        "confSigmoid": 0,
        "isNormalized": 1,
        "codeType": code,
    }
    found, numbers = plugin(tmp_path, "NMS_TRT", dict(sorted(inputs.items())), 2, **fields)
    assert found.shape == (2, 1, 8, 7)
    for n in range(2):
        boxes = decoded(locations[n], priors, variance, code, False)
        wanted = by_class(boxes[:, None], scores[n], 0.2, 0.4, 12, 8, 0)
        assert numbers[n, 0, 0, 0] == len(wanted)
        rows = [[n, e[1], e[0], *e[3].clip(0, 1)] for e in wanted] + [[n, -1, 0, 0, 0, 0, 0]] * (8 - len(wanted))
        np.testing.assert_allclose(found[n, 0], rows, rtol=1e-5, atol=1e-6)


# ---- prior boxes ----


@pytest.mark.parametrize("clip", [0, 1])
def test_prior_box(tmp_path: pathlib.Path, clip: int) -> None:
    features, image = np.zeros((1, 2, 3, 4), np.float32), np.zeros((1, 3, 60, 100), np.float32)
    variance = [0.1, 0.1, 0.2, 0.2]
    fields = {
        "minSize": [20.0, 30.0],
        "maxSize": [40.0, 50.0],
        "aspectRatios": [1.0, 2.0, 3.0],
        "flip": 1,
        "clip": clip,
    }
    inputs = {"features": features, "image": image}
    (y,) = plugin(tmp_path, "PriorBox_TRT", inputs, dynamic=False, variance=variance, offset=0.5, **fields)
    boxes = []
    for row, column in np.ndindex(3, 4):
        x, y0 = (column + 0.5) * 25, (row + 0.5) * 20
        for least, most in ((20, 40), (30, 50)):
            sizes = [(least, least), (math.sqrt(least * most),) * 2]
            sizes += [(least * math.sqrt(r), least / math.sqrt(r)) for r in (2, 1 / 2, 3, 1 / 3)]
            boxes += [[(x - w / 2) / 100, (y0 - h / 2) / 60, (x + w / 2) / 100, (y0 + h / 2) / 60] for w, h in sizes]
    wanted = np.array(boxes)
    assert y.shape == (1, 2, wanted.size, 1)
    np.testing.assert_allclose(y[0, 0, :, 0], (wanted.clip(0, 1) if clip else wanted).ravel(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(y[0, 1, :, 0], np.tile(variance, len(boxes)), rtol=1e-6)


@pytest.mark.parametrize("name", ["GridAnchor_TRT", "GridAnchorRect_TRT"])
def test_grid_anchor(tmp_path: pathlib.Path, name: str) -> None:
    maps = [(4, 4), (2, 2), (1, 1)] if name == "GridAnchor_TRT" else [(4, 3), (2, 2), (1, 2)]
    shapes = [m[0] for m in maps] if name == "GridAnchor_TRT" else [n for m in maps for n in m]
    ratios, variance = [1.0, 2.0, 0.5], [0.1, 0.1, 0.2, 0.2]
    fields = {
        "minSize": 0.2,
        "maxSize": 0.8,
        "aspectRatios": ratios,
        "featureMapShapes": shapes,
        "variance": variance,
        "numLayers": 3,
    }
    found = plugin(tmp_path, name, {}, 3, **fields)
    for layer, (rows, columns) in enumerate(maps):
        scale = 0.2 + 0.3 * layer
        sizes = [(0.1 if layer == 0 and i == 0 else scale, r) for i, r in enumerate(ratios)]
        if layer:
            sizes.append((math.sqrt(scale * (1 if layer == 2 else scale + 0.3)), 1))
        boxes = []
        for row, column in np.ndindex(rows, columns):
            x, y = (column + 0.5) / columns, (row + 0.5) / rows
            for s, r in sizes:
                w, h = s * math.sqrt(r) / 2, s / math.sqrt(r) / 2
                boxes.append([x - w, y - h, x + w, y + h])
        np.testing.assert_allclose(found[layer][0, 0, :, 0], np.ravel(boxes), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[layer][0, 1, :, 0], np.tile(variance, len(boxes)), rtol=1e-6)


def test_wrong_sizes_are_told(tmp_path: pathlib.Path) -> None:
    boxes, scores = some_boxes(1, 5, 1), scores_of(1, 5, 2)
    said = refusal(
        tmp_path, "BatchedNMS_TRT", {"boxes": boxes[:, :, 0], "scores": scores}, 4, numClasses=2, topK=5, keepTopK=5
    )
    assert "BatchedNMS_TRT" in said
    assert "boxes of rank 3" in said
