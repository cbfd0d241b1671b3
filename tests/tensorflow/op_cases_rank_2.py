"""Cases of less common operators: segments, diagonals, uniqueness, cells, detection."""

import numpy as np
from op_case import case, f, i, k

X = f(6, 3)
SORTED, UNSORTED = np.array([0, 0, 1, 3, 3, 3], "i4"), np.array([2, 0, -1, 2, 4, 0], "i4")
for op in "Sum Max Min Mean Prod".split():
    case("Segment" + op, data=X, segment_ids=SORTED)
    if op != "Mean":
        case("UnsortedSegment" + op, data=X, segment_ids=UNSORTED, num_segments=k(5))
        case("UnsortedSegment" + op, "int32", data=i(6, 3), segment_ids=UNSORTED.astype("i8"), num_segments=k(5))
case("UnsortedSegmentSum", "rank_2_ids", data=f(2, 3, 4), segment_ids=i(2, 3, low=0, high=3), num_segments=k(4))
PICK = np.array([0, 2, 2, 5], "i4")
for op in "Sum Mean SqrtN".split():
    ids = np.array([0, 0, 1, 2], "i4")
    case("SparseSegment" + op, data=X, indices=PICK, segment_ids=ids)
    gaps = np.array([0, 0, 2, 3], "i4")
    case(f"SparseSegment{op}WithNumSegments", data=X, indices=PICK, segment_ids=gaps, num_segments=k(5))

case("Diag", diagonal=f(4))
case("DiagPart", input=f(4, 4))
case("MatrixDiag", diagonal=f(2, 4))
case("MatrixDiagPart", input=f(2, 4, 3))
case("MatrixDiagV2", diagonal=f(2, 3), k=k(1), num_rows=k(-1), num_cols=k(-1), padding_value=k(0.5))
case("MatrixDiagV3", diagonal=f(2, 4), k=k(0), num_rows=k(-1), num_cols=k(-1), padding_value=k(0.0))
case("MatrixDiagPartV2", input=f(2, 4, 5), k=k(1), padding_value=k(0.0))
case("MatrixDiagPartV3", input=f(2, 4, 5), k=k(0), padding_value=k(0.0))
# TensorFlow refuses to build bands of open sizes but for MatrixDiagPart.
ALIGNMENTS = "LEFT_LEFT RIGHT_LEFT LEFT_RIGHT RIGHT_RIGHT".split()
for rows, cols in ((4, 5), (5, 3), (4, 4)):
    for low, high in ((-1, 1), (-2, 0), (1, 2), (-3, -1), (-2, 2)):
        for align in ALIGNMENTS if (rows, low) == (4, -2) else ALIGNMENTS[low % 4 :][:1]:
            name, k_band = f"{rows}x{cols}_{low}_{high}_{align}", k([low, high])
            longest = min(rows + min(high, 0), cols - max(low, 0))
            x, diagonals = f(2, rows, cols), f(2, high - low + 1, longest)
            case("MatrixDiagPartV3", name, input=x, k=k_band, padding_value=k(9.0), align=align)
            sizes = dict(num_rows=k(rows), num_cols=k(cols), padding_value=k(7.0))
            case("MatrixDiagV3", name, open_sizes=False, diagonal=diagonals, k=k_band, **sizes, align=align)
            case("MatrixSetDiagV3", name, open_sizes=False, input=x, diagonal=diagonals, k=k_band, align=align)
band = dict(num_rows=k(-1), num_cols=k(-1), padding_value=k(0.5))
case("MatrixDiagV3", "no_sizes", open_sizes=False, diagonal=f(2, 3, 4), k=k([-1, 1]), **band)
case("MatrixDiagV3", "above", open_sizes=False, diagonal=f(2, 2, 4), k=k([1, 2]), **band)
case("MatrixDiagV2", "band", open_sizes=False, diagonal=f(2, 2, 4), k=k([-2, -1]), **band)
case("MatrixDiagPartV2", "band", input=f(2, 4, 5), k=k([-1, 2]), padding_value=k(9.0))
case("MatrixDiagPartV3", "one_below", input=i(2, 4, 5), k=k([-2, -2]), padding_value=k(9))
case("MatrixSetDiagV2", "band", open_sizes=False, input=f(2, 4, 3), diagonal=f(2, 2, 3), k=k([0, 1]))
case("Diag", "rank_2", diagonal=f(2, 3))
case("DiagPart", "rank_4", input=f(2, 3, 2, 3))
case("MatrixSetDiag", input=f(2, 4, 3), diagonal=f(2, 3))
case("MatrixSetDiagV3", input=f(2, 4, 3), diagonal=f(2, 3), k=k(0))

REPEATED = i(12, low=0, high=5)
case("Unique", x=REPEATED)
case("Unique", "float", x=REPEATED.astype("f4"), out_idx="int64")
case("UniqueV2", x=REPEATED, axis=k(np.zeros(0, "i4"), "i8"))
case("UniqueWithCounts", x=REPEATED)
case("ListDiff", x=np.arange(8, dtype="i4"), y=np.array([2, 5, 9], "i4"))
case("InvertPermutation", x=np.array([3, 0, 2, 1], "i4"))
case("UnravelIndex", indices=np.array([5, 0, 11], "i4"), dims=k([3, 4]))
case("LinSpace", start=np.float32(1), stop=k(4.0), num=k(7))
case("LinSpace", "one", start=np.float32(1), stop=k(4.0), num=k(1))
case("BroadcastArgs", s0=np.array([3, 1], "i4"), s1=np.array([2, 1, 4], "i4"))
STEPS = np.sort(f(2, 6), axis=1)
for op in "LowerBound UpperBound".split():
    case(op, sorted_inputs=STEPS, values=f(2, 4))
    case(op, "equal", sorted_inputs=np.array([[1, 2, 2, 3]], "i4"), values=np.array([[2, 0, 4]], "i4"))
case("Bucketize", input=f(3, 4), boundaries=[-2.0, 0.0, 1.5])
case("Bincount", arr=REPEATED, size=k(7), weights=k(np.zeros(0, "f4")))
case("Bincount", "weights", arr=REPEATED, size=k(7), weights=f(12))
case("DenseBincount", input=REPEATED, size=k(7), weights=k(np.zeros(0, "f4")))
case("DenseBincount", "rows", input=i(2, 5, low=0, high=5), size=k(5), weights=k(np.zeros(0, "f4")), binary_output=True)
case("DynamicPartition", data=X, partitions=np.array([0, 1, 1, 0, 2, 1], "i4"), num_partitions=3)
for op in "DynamicStitch ParallelDynamicStitch".split():
    case(op, indices=[k([0, 3]), k([1, 2])], data=[f(2, 3), f(2, 3)])
case("DynamicStitch", "twice", indices=[k([0, 1]), k([1, 2])], data=[f(2, 3), f(2, 3)])

case("Atan2", y=f(3, 4), x=f(3, 4))
case("Atan2", "axes", y=np.array([0, 0, 1, -1, 0], "f4"), x=np.array([1, -1, 0, 0, 0], "f4"))
ZEROS = np.array([0, 0, 2, 3], "f4")
case("DivNoNan", x=f(4), y=ZEROS)
case("MulNoNan", x=np.array([np.inf, np.nan, 2, 3], "f4"), y=ZEROS)
case("Xlogy", x=ZEROS, y=np.array([0, 2, 0.5, 3], "f4"))
case("Xlog1py", x=ZEROS, y=np.array([-1, 2, 0.5, 3], "f4"))
case("Xdivy", x=ZEROS, y=np.array([0, 2, 0.5, 3], "f4"))
case("ApproximateEqual", x=np.array([1, 2, 3], "f4"), y=np.array([1.005, 2.5, 3], "f4"), tolerance=0.01)
case("Bitcast", input=f(3, 4), type="int32")
for source in "i1 u1 i2 u2 f2 i4 u4 f4 i8 u8 f8".split():
    width, bits = np.dtype(source).itemsize, np.random.default_rng(2).integers(0, 256, (3, 2, 8), "u1")
    for target in "i1 u2 i2 f2 i4 u4 f4 i8 u8 f8".split():
        to = np.dtype(target).itemsize
        if width != to:
            x = bits.view(source)[..., : max(to // width, 1)]
            name = np.dtype(target).name
            case("Bitcast", f"{source}_{target}", input=x.copy(), type=name)
case("MatrixDeterminant", input=f(2, 3, 3))

for name, sizes in {"plain": [1, 2, 2, 1], "wide": [1, 3, 4, 1]}.items():
    for padding in ("SAME", "VALID"):
        x, more = f(2, 7, 8, 3), dict(ksizes=sizes, rates=[1, 1, 1, 1], padding=padding)
        case(
            "ExtractImagePatches",
            f"{name}_{padding}",
            images=x,
            strides=[1, 2, 2, 1],
            **more,
        )
case(
    "ExtractImagePatches",
    "rates",
    images=f(1, 9, 9, 2),
    ksizes=[1, 2, 2, 1],
    strides=[1, 1, 1, 1],
    rates=[1, 2, 3, 1],
    padding="VALID",
)
AREAS, WHICH = np.array([[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.9], [-0.2, 0.5, 1.3, 0.1]], "f4"), np.array([0, 1, 1], "i4")
for method in ("bilinear", "nearest"):
    case("CropAndResize", method, image=f(2, 6, 7, 3), boxes=AREAS, box_ind=WHICH, crop_size=k([4, 5]), method=method)
case(
    "CropAndResize",
    "outside",
    image=f(2, 6, 7, 3),
    boxes=AREAS,
    box_ind=WHICH,
    crop_size=k([3, 3]),
    extrapolation_value=7.0,
)
case("CropAndResize", "one_element", image=f(2, 6, 7, 3), boxes=AREAS, box_ind=WHICH, crop_size=k([1, 1]))
case("MaxPoolWithArgmax", input=f(2, 6, 7, 3), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
case(
    "MaxPoolWithArgmax",
    "batch",
    input=f(2, 6, 7, 3),
    ksize=[1, 3, 3, 1],
    strides=[1, 2, 2, 1],
    padding="VALID",
    include_batch_in_index=True,
)

CORNER = f(30, 2, low=0, high=0.8)
BOXES, SCORES = np.concatenate([CORNER, CORNER + f(30, 2, low=0.05, high=0.4)], 1), f(30, low=0, high=1)
limits = dict(max_output_size=k(10), iou_threshold=k(0.4), score_threshold=k(0.3))
case("NonMaxSuppressionV4", boxes=BOXES, scores=SCORES, **limits)
case(
    "NonMaxSuppressionV4",
    "padded",
    boxes=BOXES,
    scores=SCORES,
    **limits,
    pad_to_max_output_size=True,
)
padded = dict(soft_nms_sigma=k(0.0), pad_to_max_output_size=True)
case("NonMaxSuppressionV5", "padded", boxes=BOXES[:6], scores=SCORES[:6], **limits, **padded)
case("NonMaxSuppressionV5", boxes=BOXES, scores=SCORES, **limits, soft_nms_sigma=k(0.0))
for sigma in (0.1, 0.5, 5.0):
    case("NonMaxSuppressionV5", f"soft_{sigma}", boxes=BOXES, scores=SCORES, **limits, soft_nms_sigma=k(sigma))
case("NonMaxSuppressionV5", "soft_open", boxes=BOXES, scores=SCORES, **limits, soft_nms_sigma=np.float32(0.3))
case("NonMaxSuppressionV5", "hard_open", boxes=BOXES, scores=SCORES, **limits, soft_nms_sigma=np.float32(0))
case(
    "NonMaxSuppressionV5",
    "soft_padded",
    boxes=BOXES[:6],
    scores=np.array([0.5, 0.5, 0.9, 0.2, 0.5, 0.9], "f4"),
    **limits,
    soft_nms_sigma=k(0.2),
    pad_to_max_output_size=True,
)
limits = dict(max_output_size_per_class=k(4), max_total_size=k(9), iou_threshold=k(0.4), score_threshold=k(0.3))
MANY = np.stack([BOXES, BOXES[::-1]])[:, :, None]
case("CombinedNonMaxSuppression", boxes=MANY, scores=f(2, 30, 3, low=0, high=1), **limits)
case(
    "CombinedNonMaxSuppression",
    "per_class",
    boxes=MANY,
    scores=f(2, 30, 3, low=0, high=1),
    **limits,
    pad_per_class=True,
    clip_boxes=False,
)

cells = dict(cs_prev=f(2, 4), h_prev=f(2, 4), w=k(f(7, 16)), wci=k(f(4)), wcf=k(f(4)), wco=k(f(4)), b=k(f(16)))
case("LSTMBlockCell", outputs=(1, 6), x=f(2, 3), **cells)
case("LSTMBlockCell", "values", outputs=(1, 6), x=f(2, 3), **cells, forget_bias=0.5, cell_clip=1.0, use_peephole=True)
for longest in (0, 3, 5):  # TensorFlow sets the other results only up to seq_len_max
    block = dict(outputs=None if longest == 5 else (1, 6), seq_len_max=k(longest, "i8"), x=f(5, 2, 3), **cells)
    case("BlockLSTM", f"{longest}_steps", **block)
    case("BlockLSTM", f"{longest}_steps_values", **block, forget_bias=0.5, cell_clip=1.0, use_peephole=True)
    case("BlockLSTMV2", f"{longest}_steps", **block)
    case("BlockLSTMV2", f"{longest}_steps_values", **block, cell_clip=0.7, use_peephole=True)
case("BlockLSTM", "no_steps_of_the_run", outputs=(1, 6), seq_len_max=np.int64(0), x=f(5, 2, 3), **cells)
case("BlockLSTM", "state", outputs=(1, 6), seq_len_max=np.int64(4), x=f(5, 2, 3), **cells)
case("BlockLSTM", "hidden", outputs=(6,), seq_len_max=k(5, "i8"), x=f(5, 2, 3), **cells, cell_clip=0.0)
case(
    "GRUBlockCell", outputs=(3,), x=f(2, 3), h_prev=f(2, 4), w_ru=k(f(7, 8)), w_c=k(f(7, 4)), b_ru=k(f(8)), b_c=k(f(4))
)
