"""Cases of seldom used operators: colours, special functions, linear algebra, dilation, text."""

import numpy as np
from op_case import case, f, i, k

RGB = f(2, 5, 6, 3, low=0, high=1)
RGB[0, 0, :3] = [[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.25]]
case("RGBToHSV", images=RGB)
case("HSVToRGB", images=RGB)
case("HSVToRGB", "round_trip", images=f(7, 3, low=0, high=1))
for delta in (0.3, -0.7, 0.0):
    case("AdjustHue", f"by_{delta}", images=RGB, delta=k(delta))
for scale in (0.5, 2.5):
    case("AdjustSaturation", f"by_{scale}", images=RGB, scale=k(scale))
case("AdjustContrastv2", images=RGB, contrast_factor=k(1.7))

SPREAD = np.concatenate([f(40, low=-8, high=8), f(20, low=0, high=60), [0.5, 1, 2, 3, 1.5, 1e-3, -0.5, np.inf]])
case("Lgamma", x=SPREAD.astype("f4"))
case("Lgamma", "double", x=SPREAD.astype("f8"))
case("Lgamma", "poles", x=np.array([0, -1, -2, 1, 2, 3.5], "f4"))
DIFFERENTIATED = np.concatenate([f(40, low=0.3, high=30), f(30, low=-6, high=0), [0.5, 1, 2]])
case("Digamma", x=DIFFERENTIATED.astype("f4"))
case("Digamma", "poles", x=np.array([-1, -2, 3], "f4"))
OPEN = np.concatenate([f(40, low=-0.999, high=0.999), [0, 1, -1, 0.99999, -0.99999]])
case("Erfinv", x=OPEN.astype("f4"))
case("Ndtri", x=f(30, low=0.001, high=0.999))
for dtype in "i1 u1 i2 u2 i4 u4 i8 u8".split():
    limits = np.iinfo(dtype)
    x = np.random.default_rng(1).integers(limits.min, limits.max, 20, dtype, endpoint=True)
    case("PopulationCount", dtype, x=np.concatenate([x, np.array([0, limits.min, limits.max], dtype)]))

MATRIX = f(2, 4, 4) + 3 * np.eye(4, dtype="f4")
POSITIVE = (MATRIX @ MATRIX.transpose(0, 2, 1)).astype("f4")
for adjoint in (False, True):
    case("MatrixInverse", f"adjoint_{adjoint:d}", input=MATRIX, adjoint=adjoint)
    case("MatrixSolve", f"adjoint_{adjoint:d}", matrix=MATRIX, rhs=f(2, 4, 3), adjoint=adjoint)
    for lower in (False, True):
        more = dict(matrix=MATRIX, rhs=f(2, 4, 3), lower=lower, adjoint=adjoint)
        case("MatrixTriangularSolve", f"lower_{lower:d}_adjoint_{adjoint:d}", **more)
case("MatrixInverse", "needs_an_exchange", input=np.array([[0, 1, 2], [1, 0, 3], [4, -3, 8]], "f8"))
case("Cholesky", input=POSITIVE)
case("Cross", a=f(4, 3), b=f(4, 3))
case("Cross", "int32", a=i(2, 4, 3), b=i(2, 4, 3))

for exclusive in (False, True):
    for reverse in (False, True):
        name, more = f"{exclusive:d}{reverse:d}", dict(exclusive=exclusive, reverse=reverse)
        size = "known size"
        case("CumulativeLogsumexp", name, refused_open=size, x=f(3, 7) * 20, axis=k(1), **more)
case("CumulativeLogsumexp", "far_apart", refused_open=size, x=np.array([-500, 0, 400, -np.inf], "f4"), axis=k(0))

case(
    "SparseToDense",
    sparse_indices=np.array([[0, 1], [1, 3], [2, 0], [3, 3]], "i4"),
    output_shape=k([4, 4]),
    sparse_values=k(2.5),
    default_value=k(-1.0),
)
case(
    "SparseToDense",
    "list",
    sparse_indices=np.array([1, 4], "i4"),
    output_shape=k([6]),
    sparse_values=f(2),
    default_value=k(0.0),
)
case("SparseToDense", "one", sparse_indices=np.int32(3), output_shape=k([6]), sparse_values=i(), default_value=k(7))

for padding in ("SAME", "VALID"):
    for name, strides, rates in (("plain", [1, 1, 1, 1], [1, 1, 1, 1]), ("strides", [1, 2, 3, 1], [1, 2, 1, 1])):
        more = dict(strides=strides, rates=rates, padding=padding)
        case("Dilation2D", f"{name}_{padding}", input=f(2, 8, 9, 3), filter=f(3, 2, 3), open_sizes=False, **more)
        case("Dilation2D", f"{name}_{padding}_constant", input=f(2, 8, 9, 3), filter=k(f(3, 2, 3)), **more)

WORDS = np.array([b"one", b"two", b"", b"three"])
case("StaticRegexFullMatch", input=k(WORDS), pattern="t.*|one")
case("RegexFullMatch", input=k(WORDS), pattern=k(np.array(b".{3}")))

SOUND = f(100, 2)
for squared in (False, True):
    more = dict(window_size=20, stride=7, magnitude_squared=squared)
    case("AudioSpectrogram", f"squared_{squared:d}", input=SOUND, **more)
case("AudioSpectrogram", "whole_power", input=SOUND, window_size=16, stride=16)
for a in (False, True):
    for b in (False, True):
        shape, right = ([3, 5] if a else [5, 3]), (f(2, 3) if b else f(3, 2))
        case(
            "SparseTensorDenseMatMul",
            f"adjoint_{a:d}{b:d}",
            a_indices=np.array([[0, 1], [1, 0], [2, 2]], "i8"),
            a_values=f(3),
            a_shape=k(shape, "i8"),
            b=right,
            adjoint_a=a,
            adjoint_b=b,
        )
NUMBERS = np.array([[0, 0, 3, 1, 1, 3, 1, 2, 2], [3] * 9, [2, 2, 2, 0, 3, 0, 0, 1, 3]]).T
LABELS = f(9, 3, 4) + 8 * np.eye(4, dtype="f4")[NUMBERS]
lengths = np.array([9, 5, 7], "i4")
for merge in (False, True):
    more = dict(sequence_length=lengths, merge_repeated=merge)
    case("CTCGreedyDecoder", f"merge_{merge:d}", inputs=LABELS, **more)
case("CTCGreedyDecoder", "blank_0", inputs=LABELS, sequence_length=lengths, blank_index=0)

MAPS = np.array([[0.8, 0.3, -1.2, -0.2, 0.9, 1.1, 0.01, -0.02], [1.5, 0, -3.3, 0.1, 1.2, -2.2, 0, 0]], "f4")
for interpolation in ("NEAREST", "BILINEAR"):
    for mode in ("CONSTANT", "REFLECT", "NEAREST"):
        more = dict(interpolation=interpolation, fill_mode=mode, fill_value=k(0.5), output_shape=k([5, 8]))
        case("ImageProjectiveTransformV3", f"{interpolation}_{mode}", images=f(2, 6, 7, 3), transforms=MAPS, **more)
pictures = dict(images=f(2, 6, 7, 3), output_shape=k([6, 7]), interpolation="BILINEAR")
case("ImageProjectiveTransformV3", "one_map", transforms=MAPS[:1], fill_value=k(0.0), **pictures)
case("ImageProjectiveTransformV2", transforms=MAPS, **pictures)
more = dict(transforms=MAPS, fill_value=k(0.0), fill_mode="WRAP")
case("ImageProjectiveTransformV3", "wrap", refused="fill_mode", **more, **pictures)
