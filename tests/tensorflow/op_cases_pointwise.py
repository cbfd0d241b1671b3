"""Cases of operators that work element by element, reductions and comparisons."""

import numpy as np
from op_case import b, case, f, i, k

SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1], "f4")
HALVES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4, -2.6], "f4")

for op in "Abs Neg Exp Square Sin Cos Tan Atan Sinh Cosh Tanh Asinh Sigmoid".split():
    case(op, x=f(2, 3, 5))
for op in "Softplus Softsign Relu Relu6 Elu Selu".split():
    case(op, features=f(2, 3, 5) * 3)
for op in "Erf Erfc Expm1 Floor Ceil Round Rint Sign Inv Reciprocal".split():
    case(op, x=f(2, 3, 5))
for op in "Log Sqrt Rsqrt".split():
    case(op, x=f(2, 3, 5, low=0.1))
for op in "Asin Acos Atanh".split():
    case(op, x=f(2, 3, 5, low=-0.95, high=0.95))
case("Acosh", x=f(2, 3, 5, low=1.01))
case("Log1p", x=f(2, 3, 5, low=-0.9))
case("Log1p", "near_zero", x=f(20, low=-1e-6, high=1e-6))
case("Expm1", "near_zero", x=f(20, low=-1e-6, high=1e-6))
for op in "Round Rint Floor Ceil".split():
    case(op, "halves", x=HALVES)
for op in "IsNan IsInf IsFinite".split():
    case(op, x=SPECIAL)
case("Sign", "special", x=SPECIAL[:4])
case("Relu", "nan", features=SPECIAL)
for op in "Abs Neg Square Sign".split():
    case(op, "int32", x=i(3, 4))
    case(op, "int64", x=i(3, 4, dtype="i8"))
    case(op, "float64", x=f(3, 4, dtype="f8"))
for op in "Exp Sqrt Tanh Sigmoid Rsqrt".split():
    case(op, "float16", x=f(3, 4, low=0.1, dtype="f2"), rel=2e-3)
    case(op, "float64", x=f(3, 4, low=0.1, dtype="f8"))
case("Relu", "int32", features=i(3, 4))
case("LeakyRelu", features=f(3, 4))
case("LeakyRelu", "alpha", features=f(3, 4), alpha=0.35)
for op in "Identity StopGradient PreventGradient Snapshot".split():
    case(op, input=f(2, 3))
case("Identity", "int64", input=i(2, 3, dtype="i8"))
case("IdentityN", input=[f(2, 3), i(4)])
case("CheckNumerics", tensor=f(2, 3), message="numbers")
case("CheckNumericsV2", tensor=f(2, 3), message="numbers")
case("ConjugateTranspose", x=f(2, 3, 4), perm=k([2, 0, 1]))
for op in "OnesLike ZerosLike".split():
    case(op, x=f(2, 3))
    case(op, "int64", x=i(2, 3, dtype="i8"))
    case(op, "bool", x=b(2, 3))
case("LogicalNot", x=b(2, 3))
for dtype in ("i4", "i8", "u1", "i1"):
    case("Invert", dtype, x=i(3, 4, low=0, dtype=dtype))
case("EnsureShape", input=f(2, 3), shape=[None, 3])
case("ToBool", "scalar", input=np.float32(0.5))
case("ToBool", "zero", input=np.float32(0))

PAIRS = {
    "same": ((2, 3, 4), (2, 3, 4)),
    "row": ((2, 3, 4), (4,)),
    "column": ((2, 1, 4), (3, 1)),
    "scalar": ((), (3, 2)),
}
for op in "Add AddV2 Sub Mul Maximum Minimum SquaredDifference RealDiv Div FloorDiv".split():
    for name, (x, y) in PAIRS.items():
        case(op, name, x=f(*x), y=f(*y) + np.float32(0.011))
for op in "Add AddV2 Sub Mul Maximum Minimum SquaredDifference".split():
    case(op, "int32", x=i(3, 4), y=i(4))
    case(op, "int64", x=i(3, 4, dtype="i8"), y=i(4, dtype="i8"))
    case(op, "float64", x=f(3, 4, dtype="f8"), y=f(4, dtype="f8"))
case("AddV2", "constant", x=f(3, 4), y=k(2.5))
case("Mul", "constant_first", x=k(f(4)), y=f(3, 4))
SIGNS = np.array([7, -7, 7, -7, 6, -6, 0, 8], "i4")
DIVISORS = np.array([3, 3, -3, -3, 3, -3, 5, -8], "i4")
for op in "Div FloorDiv FloorMod Mod TruncateDiv TruncateMod".split():
    case(op, "int32", x=SIGNS, y=DIVISORS)
    case(op, "int64", x=SIGNS.astype("i8"), y=DIVISORS.astype("i8"))
for op in "FloorMod Mod TruncateMod".split():
    case(op, "float", x=SIGNS.astype("f4") + np.float32(0.25), y=DIVISORS.astype("f4"))
case("Pow", x=f(3, 4, low=0.1), y=f(4))
case("Pow", "square", x=f(3, 4), y=k(2.0))
case("Pow", "int32", x=i(3, 4), y=i(4, low=0, high=4))
case("AddN", inputs=[f(2, 3), f(2, 3), f(2, 3)])
case("AddN", "one", inputs=[f(2, 3)])
for op in "Less LessEqual Greater GreaterEqual Equal NotEqual".split():
    case(op, x=i(3, 4, high=-5).astype("f4"), y=i(4, high=-5).astype("f4"))
    case(op, "int32", x=i(3, 4, high=-5), y=i(4, high=-5))
    case(op, "nan", x=SPECIAL, y=SPECIAL)
for op in "Equal NotEqual".split():
    case(op, "bool", x=b(3, 4), y=b(4))
    case(op, "sizes_that_differ", x=f(2), y=f(3), incompatible_shape_error=False, open_sizes=False)
for op in "LogicalAnd LogicalOr".split():
    case(op, x=b(3, 4), y=b(4))
for op in "BitwiseAnd BitwiseOr BitwiseXor".split():
    case(op, x=i(3, 4), y=i(4))
    case(op, "uint8", x=i(3, 4, low=0, high=255, dtype="u1"), y=i(4, low=0, high=255, dtype="u1"))
for op in "LeftShift RightShift".split():
    case(op, x=i(3, 4, low=-90, high=90), y=i(4, low=0, high=5))
    case(op, "uint8", x=i(3, 4, low=0, high=255, dtype="u1"), y=i(4, low=0, high=5, dtype="u1"))
case("ClipByValue", t=f(3, 4), clip_value_min=k(-1.0), clip_value_max=k(1.5))
case("ClipByValue", "tensors", t=f(3, 4), clip_value_min=f(3, 4, high=-1), clip_value_max=f(3, 4, low=1))
case("Select", condition=b(3, 4), x=f(3, 4), y=f(3, 4))
case("Select", "rows", condition=b(3), x=f(3, 4), y=f(3, 4))
case("Select", "scalar", condition=np.array(True), x=f(3, 4), y=f(3, 4))
case("SelectV2", condition=b(3, 1), t=f(3, 4), e=f(4))
case("SelectV2", "scalar", condition=np.array(False), t=f(3, 4), e=k(1.0))
CASTS = "f4:i4 f4:i8 f4:bool f4:f8 f4:f2 i4:f4 i8:i4 i4:bool bool:f4 bool:i4 u1:f4 i4:i1 f8:f4 f2:f4"
for pair in CASTS.split():
    src, dst = pair.split(":")
    x = b(3, 4) if src == "bool" else f(3, 4, low=0 if src[0] == "u" else -3, high=100).astype(src)
    case("Cast", f"{src}_{dst}", x=x, DstT=np.dtype(dst).name)

for op in "Sum Mean Max Min Prod".split():
    case(op, input=f(2, 3, 4), axis=k([1]))
    case(op, "keep_dims", input=f(2, 3, 4), axis=k([1]), keep_dims=True)
    case(op, "negative", input=f(2, 3, 4), axis=k(-1))
    case(op, "several", input=f(2, 3, 4, 2), axis=k([-1, 1]), keep_dims=True)
    case(op, "all", input=f(2, 3, 4), axis=k([0, 1, 2]))
    case(op, "no_axis", input=f(2, 3, 4), axis=k(np.zeros(0, "i4")))
    case(op, "int32", input=i(3, 4), axis=k([0]))
    case(op, "axis_int64", input=f(3, 4), axis=k([0], "i8"))
for op in "Sum Mean Max".split():
    case(op, "axis_is_an_input", input=f(2, 3, 4), axis=np.array([0, 2], "i4"), keep_dims=True)
for op in "All Any".split():
    case(op, input=b(3, 4), axis=k([1]))
    case(op, "keep_dims", input=b(3, 4), axis=k([0]), keep_dims=True)
    case(op, "all", input=b(3, 4), axis=k([0, 1]))
case("EuclideanNorm", input=f(2, 3, 4), axis=k([1, 2]), keep_dims=True)
case("L2Loss", t=f(3, 4))
for op in "ArgMax ArgMin".split():
    case(op, input=f(3, 4), dimension=k(1))
    case(op, "negative", input=f(2, 3, 4), dimension=k(-2))
    case(op, "int32", input=f(3, 4), dimension=k(0), output_type="int32")
    case(op, "first_of_equal", input=i(4, 9, low=0, high=3).astype("f4"), dimension=k(1))
for op in "Cumsum Cumprod".split():
    for name, flags in {"plain": (0, 0), "exclusive": (1, 0), "reverse": (0, 1), "both": (1, 1)}.items():
        case(op, name, x=f(3, 4, 2), axis=k(1), exclusive=bool(flags[0]), reverse=bool(flags[1]))
    case(op, "negative", x=f(3, 4), axis=k(-1))
    case(op, "int32", x=i(3, 4), axis=k(0))
for op in "Softmax LogSoftmax".split():
    case(op, logits=f(3, 5) * 4)
    case(op, "rank_4", logits=f(2, 3, 2, 5))
case("Softmax", "float16", logits=f(3, 5, dtype="f2"), rel=2e-3)
