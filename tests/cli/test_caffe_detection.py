"""Caffe's layers of detectors, against NumPy by the definitions of SSD, R-FCN and YOLO's ports."""

import pathlib

import numpy as np
import pytest
from caffe_net import caffemodel, inputs_text, layer, run
from test_caffe_layers import sigmoid, softmax

R = np.random.default_rng(11)
EMPTY = caffemodel({"other": []})
CODES = ["CORNER", "CENTER_SIZE", "CORNER_SIZE"]


def decode(code: str, prior: np.ndarray, variance: np.ndarray, loc: np.ndarray) -> np.ndarray:
    """Boxes [P, 4] as corners."""
    loc = loc * variance
    sides = prior[:, 2:] - prior[:, :2]
    if code == "CORNER":
        return prior + loc
    if code == "CORNER_SIZE":
        return prior + loc * np.tile(sides, 2)
    middle, size = prior[:, :2] + sides / 2 + loc[:, :2] * sides, np.exp(loc[:, 2:]) * sides
    return np.concatenate([middle - size / 2, middle + size / 2], 1)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    both = np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0))
    area = [np.prod(v[2:] - v[:2]) if (v[2:] >= v[:2]).all() else 0 for v in (a, b)]
    return both / (sum(area) - both) if both else 0


def suppress(boxes: np.ndarray, scores: np.ndarray, least: float, most: float, top_k: int) -> list[int]:
    order = [i for i in np.argsort(-scores, kind="stable") if scores[i] > least][: top_k if top_k > 0 else None]
    kept: list[int] = []
    for i in order:
        if all(overlap(boxes[i], boxes[k]) <= most for k in kept):
            kept.append(i)
    return kept


def detect(loc, conf, prior, classes, shared, background, code, encoded, least, most, top_k, keep) -> np.ndarray:
    """Lines [count, 7]: image, label, score, corners."""
    lines, count = [], prior.shape[2] // 4
    boxes_of = prior[0, 0].reshape(-1, 4)
    variance = np.ones((count, 4)) if encoded else prior[0, 1].reshape(-1, 4)
    for image in range(loc.shape[0]):
        own = []
        for label in range(classes):
            if label == background:
                continue
            parts = loc[image].reshape(count, -1, 4)[:, 0 if shared else label]
            boxes, scores = decode(code, boxes_of, variance, parts), conf[image].reshape(count, classes)[:, label]
            own += [[image, label, scores[i], *boxes[i]] for i in suppress(boxes, scores, least, most, top_k)]
        lines += sorted(own, key=lambda v: -v[2])[: keep if keep > 0 else None]
    return np.array(lines).reshape(-1, 7)


def detection_case(folder: pathlib.Path, code: str = "CENTER_SIZE", shared: bool = True, background: int = 0, encoded: bool = False, least: float = 0.2, most: float = 0.4, top_k: int = 12, keep: int = 15, scores: float = 1) -> tuple[np.ndarray, np.ndarray]:
    count, classes, images = 20, 4, 2
    corner, size = R.uniform(0, 0.7, (count, 2)), R.uniform(0.1, 0.4, (count, 2))
    prior = np.stack([np.concatenate([corner, corner + size], 1).ravel(), np.tile([0.1, 0.1, 0.2, 0.2], count)])[None]
    loc = R.normal(0, 0.1 if encoded else 0.6, (images, count * 4 * (1 if shared else classes)))
    conf = softmax(R.normal(0, 2, (images, count, classes)), 2).reshape(images, -1) * scores
    more = f"detection_output_param {{ num_classes: {classes} share_location: {str(shared).lower()} background_label_id: {background} nms_param {{ nms_threshold: {most} top_k: {top_k} }} code_type: {code} variance_encoded_in_target: {str(encoded).lower()} keep_top_k: {keep} confidence_threshold: {least} }}"
    feeds = {"loc": loc.astype("f4"), "conf": conf.astype("f4"), "prior": prior.astype("f4")}
    text = inputs_text({k: a.shape for k, a in feeds.items()}) + layer("DetectionOutput", "loc conf prior", "y", more)
    wide = [feeds[k].astype("f8") for k in ("loc", "conf", "prior")]
    return run(folder, text, EMPTY, feeds)["y"], detect(*wide, classes, shared, background, code, encoded, least, most, top_k, keep)


def same_lines(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == (1, 1, len(wanted), 7)
    far = np.abs(found[0, 0][:, None] - wanted[None]).max(-1)
    assert max(far.min(0).max(), far.min(1).max()) < 1e-4


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("encoded", [True, False])
@pytest.mark.parametrize("code", CODES)
def test_detection_output(tmp_path: pathlib.Path, code: str, encoded: bool, shared: bool) -> None:
    found, wanted = detection_case(tmp_path, code, shared, encoded=encoded)
    assert len(wanted) > 10
    same_lines(found, wanted)


@pytest.mark.parametrize("more", [{"background": -1}, {"background": 2}, {"keep": -1}, {"keep": 3}, {"top_k": 4}, {"top_k": -1}, {"least": 0}, {"most": 0.9}, {"most": 0.01}])
def test_detection_output_parameters(tmp_path: pathlib.Path, more: dict) -> None:
    same_lines(*detection_case(tmp_path, **more))


def test_detection_of_nothing_is_a_line_for_each_image(tmp_path: pathlib.Path) -> None:
    found, wanted = detection_case(tmp_path, scores=0.1)
    assert len(wanted) == 0
    np.testing.assert_array_equal(found, [[[[0] + 6 * [-1], [1] + 6 * [-1]]]])


# ---- priors ----


def priors(grid: tuple, image: tuple, least: list, most: list, ratios: list, step: tuple, offset: float) -> np.ndarray:
    lines = []
    for i, j in np.ndindex(*grid):
        for s, size in enumerate(least):
            sides = [(size, size)] + ([(np.sqrt(size * most[s]),) * 2] if most else []) + [(size * np.sqrt(r), size / np.sqrt(r)) for r in ratios]
            for a, b in sides:
                x, y = (j + offset) * step[1], (i + offset) * step[0]
                lines.append([(x - a / 2) / image[1], (y - b / 2) / image[0], (x + a / 2) / image[1], (y + b / 2) / image[0]])
    return np.array(lines).ravel()


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ("min_size: 8", lambda: priors((3, 4), (24, 40), [8], [], [], (8, 10), 0.5)),
        ("min_size: [8, 12] max_size: [20, 30] aspect_ratio: [2, 3]", lambda: priors((3, 4), (24, 40), [8, 12], [20, 30], [2, 1 / 2, 3, 1 / 3], (8, 10), 0.5)),
        ("min_size: 8 aspect_ratio: [2, 0.5, 1] flip: false", lambda: priors((3, 4), (24, 40), [8], [], [2, 0.5], (8, 10), 0.5)),
        ("min_size: 8 aspect_ratio: [2, 0.5]", lambda: priors((3, 4), (24, 40), [8], [], [2, 0.5], (8, 10), 0.5)),
        ("min_size: 8 step: 6 offset: 0", lambda: priors((3, 4), (24, 40), [8], [], [], (6, 6), 0)),
        ("min_size: 8 step_h: 6 step_w: 7 img_h: 30 img_w: 50", lambda: priors((3, 4), (30, 50), [8], [], [], (6, 7), 0.5)),
        ("min_size: 8 img_size: 60", lambda: priors((3, 4), (60, 60), [8], [], [], (20, 15), 0.5)),
    ],
)
def test_prior_box(tmp_path: pathlib.Path, more: str, wanted) -> None:
    feeds = {"x": np.zeros((2, 2, 3, 4), "f4"), "d": np.zeros((2, 3, 24, 40), "f4")}
    text = inputs_text({k: a.shape for k, a in feeds.items()}) + layer("PriorBox", "x d", "p", f"prior_box_param {{ {more} variance: 0.3 }}") + layer("Power", "p", "y", "", "copy")
    found = run(tmp_path, text, EMPTY, feeds)["y"]
    assert found.shape == (1, 2, len(wanted()))
    np.testing.assert_allclose(found[0, 0], wanted(), atol=1e-6)
    np.testing.assert_allclose(found[0, 1], 0.3, atol=1e-7)


# ---- regions ----


def position_sensitive(x: np.ndarray, rois: np.ndarray, scale: float, outputs: int, group: int) -> np.ndarray:
    y = np.zeros((len(rois), outputs, group, group))
    for r, (n, *box) in enumerate(rois):
        first, last = np.floor(np.array(box[:2]) + 0.5) * scale, (np.floor(np.array(box[2:]) + 0.5) + 1) * scale
        bins = np.maximum(last - first, 0.1) / group
        for o, i, j in np.ndindex(outputs, group, group):
            low = [int(np.clip(np.floor(k * bins[d] + first[d]), 0, x.shape[3 - d])) for d, k in enumerate((j, i))]
            high = [int(np.clip(np.ceil((k + 1) * bins[d] + first[d]), 0, x.shape[3 - d])) for d, k in enumerate((j, i))]
            part = x[int(n), (o * group + i) * group + j, low[1] : high[1], low[0] : high[0]]
            y[r, o, i, j] = part.mean() if part.size else 0
    return y


def test_position_sensitive_roi_pooling(tmp_path: pathlib.Path) -> None:
    x = R.standard_normal((2, 18, 10, 12)).astype("f4")
    rois = np.array([[0, 0, 0, 43, 30], [1, 9, 13, 46, 38], [0, 20, 20, 21, 21], [1, 60, 60, 70, 70]], "f4")
    text = inputs_text({"x": x.shape, "r": rois.shape}) + layer("PSROIPooling", "x r", "y", "psroi_pooling_param { spatial_scale: 0.25 output_dim: 2 group_size: 3 }")
    found = run(tmp_path, text, EMPTY, {"x": x, "r": rois})["y"]
    np.testing.assert_allclose(found, position_sensitive(x.astype("f8"), rois, 0.25, 2, 3), atol=1e-5)


def proposals(scores, deltas, info, anchors, stride, least, before, after, most) -> tuple[np.ndarray, np.ndarray]:
    """Regions [count, 5] and scores, best first; boxes that are too small have the score 0."""
    a, (h, v) = len(anchors), deltas.shape[2:]
    boxes, own = [], []
    for i, j, k in np.ndindex(h, v, a):
        x0, y0, x1, y1 = anchors[k] + np.tile([j * stride, i * stride], 2)
        dx, dy, dw, dh = deltas[0, 4 * k : 4 * k + 4, i, j]
        w0, h0 = x1 - x0 + 1, y1 - y0 + 1
        cx, cy, w1, h1 = dx * w0 + x0 + w0 / 2, dy * h0 + y0 + h0 / 2, np.exp(dw) * w0, np.exp(dh) * h0
        box = np.clip([cx - w1 / 2, cy - h1 / 2, cx + w1 / 2, cy + h1 / 2], 0, np.tile([info[1] - 1, info[0] - 1], 2))
        boxes.append(box)
        large = box[2] - box[0] + 1 >= least * info[-1] and box[3] - box[1] + 1 >= least * info[2]
        own.append(scores[0, a + k, i, j] * large)
    boxes, own = np.array(boxes), np.array(own)
    kept: list[int] = []
    pixel = np.array([0, 0, 1, 1])
    for i in np.argsort(-own, kind="stable")[:before]:
        if len(kept) < after and all(overlap(boxes[i] + pixel, boxes[k] + pixel) <= most for k in kept):
            kept.append(i)
    return np.concatenate([np.zeros((len(kept), 1)), boxes[kept]], 1), own[kept]


# base_size 16: the sides 23 x 12, 16 x 16 and 11 x 22 times 8, 16 and 32 about 7.5
USUAL = np.array([[7.5 - (a * s - 1) / 2, 7.5 - (b * s - 1) / 2, 7.5 + (a * s - 1) / 2, 7.5 + (b * s - 1) / 2] for a, b in ((23, 12), (16, 16), (11, 22)) for s in (8, 16, 32)])
SMALL = np.array([[3.5 - (s - 1) / 2] * 2 + [3.5 + (s - 1) / 2] * 2 for s in (16, 32)])


@pytest.mark.parametrize(
    ("more", "anchors", "info", "limits"),
    [
        ("", USUAL, [300, 400, 1.5], (16, 16, 6000, 300, 0.7)),
        ("feat_stride: 8 base_size: 8 ratio: 1 scale: [2, 4] min_size: 12 pre_nms_topn: 60 post_nms_topn: 9 nms_thresh: 0.3", SMALL, [56, 80, 1, 1.5], (8, 12, 60, 9, 0.3)),
    ],
)
def test_proposal(tmp_path: pathlib.Path, more: str, anchors: np.ndarray, info: list, limits: tuple) -> None:
    stride, least, before, after, most = limits
    h, v, a = 7, 10, len(anchors)
    s = softmax(R.normal(0, 2, (1, 2, a, h, v)), 1).reshape(1, 2 * a, h, v).astype("f4")
    feeds = {"s": s, "d": R.normal(0, 0.3, (1, 4 * a, h, v)).astype("f4"), "i": np.array([info], "f4")}
    text = inputs_text({k: x.shape for k, x in feeds.items()}) + layer("Proposal", "s d i", "rois scores", f"proposal_param {{ {more} }}")
    found = run(tmp_path, text, EMPTY, feeds)
    rois, scores = proposals(s.astype("f8"), feeds["d"].astype("f8"), info, anchors, stride, least, before, after, most)
    assert found["rois"].shape == rois.shape
    np.testing.assert_allclose(found["scores"], scores, atol=1e-5)
    np.testing.assert_allclose(found["rois"][scores > 0], rois[scores > 0], atol=1e-2, rtol=1e-4)


def test_regions_of_proposals_are_pooled(tmp_path: pathlib.Path) -> None:
    """As in Faster R-CNN: how many regions there are is known when it runs."""
    s = softmax(R.normal(0, 2, (1, 2, 9, 5, 6)), 1).reshape(1, 18, 5, 6).astype("f4")
    feeds = {"s": s, "d": R.normal(0, 0.3, (1, 36, 5, 6)).astype("f4"), "i": np.array([[80, 96, 1]], "f4"), "x": R.standard_normal((1, 8, 5, 6)).astype("f4")}
    text = inputs_text({k: x.shape for k, x in feeds.items()})
    text += layer("Proposal", "s d i", "rois", "proposal_param { post_nms_topn: 20 }", "p")
    text += layer("PSROIPooling", "x rois", "y", "psroi_pooling_param { spatial_scale: 0.0625 output_dim: 2 group_size: 2 }", "pool")
    text += layer("ROIPooling", "x rois", "z", "roi_pooling_param { spatial_scale: 0.0625 pooled_h: 2 pooled_w: 3 }", "max")
    found = run(tmp_path, text, EMPTY, feeds, "--outputs=rois,y,z")
    assert 1 < len(found["rois"]) <= 20
    np.testing.assert_allclose(found["y"], position_sensitive(feeds["x"].astype("f8"), found["rois"], 0.0625, 2, 2), atol=1e-5)
    assert found["z"].shape == (len(found["rois"]), 8, 2, 3)


def test_region(tmp_path: pathlib.Path) -> None:
    num, classes = 3, 5
    x = R.standard_normal((2, num * (5 + classes), 4, 6)).astype("f4")
    text = inputs_text({"x": x.shape}) + layer("Region", "x", "y", f"region_param {{ classes: {classes} coords: 4 num: {num} softmax: true }}")
    found = run(tmp_path, text, EMPTY, {"x": x})["y"]
    parts = x.astype("f8").reshape(2, num, 5 + classes, 4, 6).copy()
    parts[:, :, [0, 1, 4]] = sigmoid(parts[:, :, [0, 1, 4]])
    parts[:, :, 5:] = softmax(parts[:, :, 5:], 2)
    np.testing.assert_allclose(found.reshape(parts.shape), parts, rtol=1e-4, atol=1e-5)
