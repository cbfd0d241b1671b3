"""Cases of operators that move, join, cut, gather and scatter elements, and of shapes."""

import numpy as np
from op_case import b, case, f, i, k

X = f(2, 3, 4, 5)

case("Reshape", tensor=f(2, 3, 4), shape=k([3, 8]))
case("Reshape", "minus_one", tensor=f(2, 3, 4), shape=k([4, -1]))
case("Reshape", "scalar", tensor=f(1, 1), shape=k(np.zeros(0, "i4")))
case("Reshape", "int64", tensor=f(2, 3, 4), shape=k([-1, 2], "i8"))
case("Reshape", "shape_is_an_input", tensor=f(2, 3, 4), shape=np.array([4, 6], "i4"))
case("Squeeze", input=f(2, 1, 3, 1), open_sizes=False)
case("Squeeze", "axes", input=f(2, 1, 3, 1), axis=[1])
case("Squeeze", "negative", input=f(2, 1, 3, 1), axis=[-1, 1])
for axis in (0, 1, -1, -3):
    case("ExpandDims", f"{axis}", input=f(2, 3), axis=k(axis))
case("Transpose", x=X, perm=k([0, 3, 1, 2]))
case("Transpose", "int64", x=X, perm=k([3, 2, 1, 0], "i8"))
case("Shape", input=X)
case("Shape", "int64", input=X, out_type="int64")
case("ShapeN", input=[X, f(3)])
case("Size", input=X)
case("Rank", input=X)
case("Pack", values=[f(2, 3), f(2, 3), f(2, 3)])
case("Pack", "axis", values=[f(2, 3), f(2, 3)], axis=1)
case("Pack", "negative", values=[i(2, 3), i(2, 3)], axis=-1)
case("Unpack", value=f(3, 4), num=3)
case("Unpack", "axis", value=f(3, 2, 4), num=2, axis=-2)
case("ConcatV2", values=[f(2, 3), f(4, 3)], axis=k(0))
case("ConcatV2", "negative", values=[f(2, 3), f(2, 1), f(2, 2)], axis=k(-1))
case("ConcatV2", "int64", values=[i(2, 3, dtype="i8"), k(i(2, 1), "i8")], axis=k(1))
case("Concat", concat_dim=k(1), values=[f(2, 3), f(2, 1)])
case("Split", axis=k(1), value=f(2, 6), num_split=3)
case("Split", "negative", axis=k(-2), value=f(4, 6), num_split=2)
case("SplitV", value=f(2, 6), size_splits=k([1, 3, 2]), axis=k(1), num_split=3)
case("SplitV", "rest", value=f(6, 2), size_splits=k([1, -1, 2]), axis=k(0), num_split=3)
case("Slice", input=f(4, 5), begin=k([1, 2]), size=k([2, 3]))
case("Slice", "rest", input=f(4, 5), begin=k([1, 2]), size=k([-1, 2]))
case("Slice", "begin_is_an_input", input=f(4, 5), begin=np.array([1, 2], "i4"), size=k([2, 2]))
MASKS = "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask".split()
STRIDED = {
    "plain": ([1, 0, 1, 2], [2, 2, 4, 5], [1, 1, 1, 1], {}),
    "steps": ([0, 0, 0, 0], [2, 3, 4, 5], [1, 2, 3, 2], {}),
    "negative_index": ([-1, -2, -3, 0], [2, 3, -1, -1], [1, 1, 1, 1], {}),
    "backwards": ([0, 2, -1, 4], [2, 0, -4, 0], [1, -1, -1, -2], {}),
    "begin_mask": ([1, 1, 1, 1], [2, 2, 3, 4], [1, 1, 1, 1], {"begin_mask": 5}),
    "end_mask": ([1, 1, 1, 1], [2, 2, 3, 4], [1, 1, 1, 1], {"end_mask": 10}),
    "backwards_all": ([0], [0], [-1], {"begin_mask": 1, "end_mask": 1}),
    "shrink": ([1, 0, 2], [2, 3, 3], [1, 1, 1], {"shrink_axis_mask": 5}),
    "shrink_negative": ([-1], [0], [1], {"shrink_axis_mask": 1}),
    "new_axis": ([0, 0, 1], [2, 0, 3], [1, 1, 1], {"new_axis_mask": 2}),
    "ellipsis": ([1, 0, 2], [2, 0, 4], [1, 1, 1], {"ellipsis_mask": 2}),
    "ellipsis_first": ([0, 1, 2], [0, 3, 4], [1, 1, 1], {"ellipsis_mask": 1}),
    "all_masks": (
        [0, 0, 0, 1, 0],
        [1, 0, 0, -1, 5],
        [1, 1, 1, 1, 2],
        {"ellipsis_mask": 4, "new_axis_mask": 2, "shrink_axis_mask": 1, "begin_mask": 16},
    ),
    "beyond_the_end": ([0, 1], [99, 99], [1, 1], {}),
    "nothing_left": ([1, 2], [2, 1], [1, 1], {}),
}
for name, (begin, end, strides, masks) in STRIDED.items():
    case(
        "StridedSlice",
        name,
        input=X,
        begin=k(begin),
        end=k(end),
        strides=k(strides),
        **{m: masks.get(m, 0) for m in MASKS},
    )
case(
    "StridedSlice",
    "end_is_an_input",
    input=f(4, 5),
    begin=k([0, 1]),
    end=np.array([3, 4], "i4"),
    strides=k([1, 1]),
    **{m: 0 for m in MASKS},
)
case(
    "StridedSlice",
    "of_a_vector",
    input=i(4),
    begin=k([1]),
    end=k([2]),
    strides=k([1]),
    **{m: int(m == MASKS[4]) for m in MASKS},
)

PADS = k([[1, 2], [0, 0], [2, 1]])
case("Pad", input=f(2, 3, 4), paddings=PADS)
case("Pad", "int32", input=i(2, 3, 4), paddings=PADS)
case("Pad", "paddings_are_an_input", input=f(2, 3), paddings=np.array([[1, 0], [0, 2]], "i4"))
case("PadV2", input=f(2, 3, 4), paddings=PADS, constant_values=k(-1.5))
for mode in ("REFLECT", "SYMMETRIC"):
    case("MirrorPad", mode, input=f(3, 3, 4), paddings=PADS, mode=mode)
case("Tile", input=f(2, 3), multiples=k([2, 3]))
case("Tile", "int64", input=i(2, 3, dtype="i8"), multiples=k([1, 2], "i8"))
case("BroadcastTo", input=f(3, 1), shape=k([2, 3, 4]))
case("Fill", dims=k([2, 3]), value=np.float32(1.5))
case("Fill", "dims_are_an_input", dims=np.array([3, 2], "i4"), value=k(2.5))
case("Range", start=np.int32(2), limit=k(11), delta=k(3))
case("Range", "down", start=k(9), limit=np.int32(-2), delta=k(-4))
case("Range", "float", start=np.float32(0.5), limit=k(3.0), delta=k(0.25))
case("Reverse", tensor=f(2, 3, 4), dims=k([True, False, True]))
case("ReverseV2", tensor=f(2, 3, 4), axis=k([-1, 0]))
case("ReverseV2", "no_axis", tensor=f(2, 3), axis=k(np.zeros(0, "i4")))
case("ReverseSequence", input=f(3, 5, 2), seq_lengths=np.array([2, 5, 0], "i4"), seq_dim=1, batch_dim=0)
case("ReverseSequence", "time_first", input=f(5, 3, 2), seq_lengths=np.array([2, 5, 1], "i8"), seq_dim=0, batch_dim=1)
case("ReverseSequence", "last", input=f(3, 2, 5), seq_lengths=np.array([2, 5, 3], "i4"), seq_dim=2, batch_dim=0)
case("Roll", input=f(3, 4), shift=k([1, -2]), axis=k([0, 1]))
case("Roll", "scalar", input=f(3, 4), shift=k(5), axis=k(1))
case("OneHot", indices=np.array([0, 2, -1, 5], "i4"), depth=k(4), on_value=k(1.0), off_value=k(0.0))
case("OneHot", "axis", indices=i(2, 3, low=0, high=4), depth=k(4), on_value=k(2.5), off_value=k(-1.0), axis=0)
case("OneHot", "int64", indices=i(2, 3, low=0, high=4, dtype="i8"), depth=k(4), on_value=k(3), off_value=k(1), axis=1)
for op in "SpaceToDepth DepthToSpace".split():
    case(op, input=f(2, 4, 6, 12), block_size=2)
    case(op, "int32", input=i(1, 6, 3, 9), block_size=3)
case("SpaceToBatchND", input=f(2, 4, 5, 3), block_shape=k([2, 3]), paddings=k([[0, 0], [1, 0]]))
case("SpaceToBatchND", "one_axis", input=f(2, 5, 3), block_shape=k([2]), paddings=k([[1, 2]]))
case("BatchToSpaceND", input=f(12, 2, 3, 2), block_shape=k([2, 3]), crops=k([[0, 1], [2, 0]]))
case("SpaceToBatch", input=f(2, 4, 5, 3), paddings=k([[0, 0], [1, 0]]), block_size=2)
case("BatchToSpace", input=f(8, 2, 3, 2), crops=k([[0, 1], [1, 0]]), block_size=2)
for low, high in ((-1, -1), (0, 0), (1, 2), (-1, 0), (0, -1)):
    case("MatrixBandPart", f"{low}_{high}", input=f(2, 4, 5), num_lower=k(low), num_upper=k(high))

ROWS = i(2, 3, low=0, high=5)
case("Gather", params=f(5, 4), indices=ROWS)
case("GatherV2", params=f(5, 4), indices=ROWS, axis=k(0))
case("GatherV2", "axis", params=f(4, 5, 2), indices=ROWS, axis=k(1))
case("GatherV2", "negative", params=f(4, 2, 5), indices=ROWS.astype("i8"), axis=k(-1))
case("GatherV2", "scalar", params=f(5, 4), indices=k(3), axis=k(0))
case("GatherV2", "batch", params=f(2, 5, 4), indices=ROWS, axis=k(1), batch_dims=1)
case("GatherV2", "batch_and_axis", params=f(2, 4, 5), indices=ROWS, axis=k(2), batch_dims=1)
case("GatherV2", "int32", params=i(5, 4), indices=ROWS, axis=k(0))
case("GatherNd", params=f(4, 5, 2), indices=np.array([[0, 1], [3, 4], [2, 2]], "i4"))
case("GatherNd", "elements", params=f(4, 5), indices=np.array([[[0, 1]], [[3, 4]]], "i8"))
case("GatherNd", "rows", params=f(4, 5), indices=np.array([[2], [0]], "i4"))
AT, NEW = np.array([[4], [1], [3]], "i4"), f(3, 2)
case("ScatterNd", indices=AT, updates=NEW, shape=k([6, 2]))
case("ScatterNd", "twice", indices=np.array([[1], [1], [0]], "i4"), updates=NEW, shape=k([4, 2]))
case("ScatterNd", "elements", indices=np.array([[1, 0], [0, 1]], "i4"), updates=f(2), shape=k([3, 2]))
for op in "Update Add Sub Max Min".split():
    case("TensorScatter" + op, tensor=f(6, 2), indices=AT, updates=NEW)
for op in "Add Sub Max Min".split():
    case("TensorScatter" + op, "twice", tensor=f(6, 2), indices=np.array([[1], [1], [0]], "i4"), updates=NEW)
case("Where", condition=b(3, 4))
case("Where", "rank_1", condition=b(9))
case("Where", "float", condition=f(3, 4).round())
case("TopKV2", input=f(3, 8), k=k(3))
case("TopKV2", "equal_elements", input=i(3, 8, low=0, high=3).astype("f4"), k=k(4))
case("TopKV2", "int32", input=i(8, low=-90, high=90), k=k(2))
case("TopKV2", "k_is_an_input", input=f(3, 8), k=np.int32(2))
case("NthElement", input=f(3, 8), n=k(2))
case("NthElement", "reverse", input=f(3, 8), n=k(0), reverse=True)
case("InTopKV2", predictions=f(4, 6), targets=i(4, low=0, high=6), k=k(2))
