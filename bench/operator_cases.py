"""Problems of single operators for operators.py: one line each, sizes of real networks and a few odd ones.

A case is: name, operator, inputs, constants behind them, settings. An input is its dimensions, behind a type where it is not float32.
None among the constants is an operand left out. Settings are the operator's attributes, and "outputs" (how many the node has), "opset" and
"first", a constant before the inputs.
"""
import numpy as np

RNG = np.random.default_rng(3)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def weight(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(np.float32)


def whole(kind: type, low: int, high: int, *dims: int) -> np.ndarray:
    return RNG.integers(low, high, dims).astype(kind)


def places(high: int, *dims: int) -> np.ndarray:
    return RNG.integers(0, high, dims)


def distinct(rows: int, high: int, count: int) -> np.ndarray:
    return np.stack([RNG.permutation(high)[:count] for _ in range(rows)])


def boxes(count: int, low: float, high: float) -> np.ndarray:
    corner = RNG.random((count, 2)) * 20
    return np.concatenate([corner, corner + RNG.uniform(low, high, (count, 2))], 1).astype(np.float32)


SQUARE = [512, 512]
PICTURE = [1, 64, 56, 56]
I64, I32, U8, I8, BOOL, F64 = "int64", "int32", "uint8", "int8", "bool", "float64"


def unary(op: str, **settings) -> tuple:
    return (f"{op} [512,512]", op, [SQUARE], [], settings)


ELEMENT_WISE = [
    *(unary(op) for op in ("Exp", "Log", "Sqrt", "Tanh", "Sigmoid", "Erf", "Sin", "Tan", "Softplus", "HardSwish", "Mish", "Round", "IsNaN")),
    unary("Gelu"), unary("LeakyRelu", alpha=0.1), unary("Elu"),
    ("Add [64,1,256] and [1,64,256]", "Add", [[64, 1, 256], [1, 64, 256]], [], {}),
    ("Mul [1,64,56,56] and [1,64,1,1]", "Mul", [PICTURE, [1, 64, 1, 1]], [], {}),
    ("Div [512,512] and [512,1]", "Div", [SQUARE, [512, 1]], [], {}),
    ("Sum of three [512,512]", "Sum", [SQUARE] * 3, [], {}),
    ("PRelu [1,64,56,56]", "PRelu", [PICTURE], [weight(64, 1, 1)], {}),
    ("Pow [512,512]", "Pow", [SQUARE] * 2, [], {}),
    ("Pow 3 of [512,512]", "Pow", [SQUARE], [np.float32(3)], {}),
    ("Mod of float32 [512,512]", "Mod", [SQUARE] * 2, [], {"fmod": 1}),
    ("Clip [512,512]", "Clip", [SQUARE], [np.float32(-0.5), np.float32(0.5)], {}),
    ("Where [512,512]", "Where", [(BOOL, SQUARE), SQUARE, SQUARE], [], {}),
    ("Greater [512,512]", "Greater", [SQUARE] * 2, [], {}),
    ("And [512,512]", "And", [(BOOL, SQUARE)] * 2, [], {}),
    ("Not [512,512]", "Not", [(BOOL, SQUARE)], [], {}),
    ("Equal of int64 [512,512]", "Equal", [(I64, SQUARE)] * 2, [], {}),
    ("Add of int64 [512,512]", "Add", [(I64, SQUARE)] * 2, [], {}),
    ("Mul of int32 [512,512]", "Mul", [(I32, SQUARE)] * 2, [], {}),
    ("Div of int64 by 7", "Div", [(I64, SQUARE)], [np.array(7)], {}),
    ("Mod of int64 by 7", "Mod", [(I64, SQUARE)], [np.array(7)], {}),
    ("Where of int64 [512,512]", "Where", [(BOOL, SQUARE), (I64, SQUARE), (I64, SQUARE)], [], {}),
    ("Max of int32 [512,512]", "Max", [(I32, SQUARE)] * 2, [], {}),
    ("BitwiseAnd of int32 [512,512]", "BitwiseAnd", [(I32, SQUARE)] * 2, [], {}),
    ("Mul of float64 [512,512]", "Mul", [(F64, SQUARE)] * 2, [], {}),
    ("Cast float32 to float16", "Cast", [SQUARE], [], {"to": 10}),
    ("Cast float32 to int64", "Cast", [SQUARE], [], {"to": 7}),
    ("Cast int64 to float32", "Cast", [(I64, SQUARE)], [], {"to": 1}),
    ("Cast uint8 to float32", "Cast", [(U8, SQUARE)], [], {"to": 1}),
    ("Cast bool to float32", "Cast", [(BOOL, SQUARE)], [], {"to": 1}),
    ("Cast int64 to int32", "Cast", [(I64, SQUARE)], [], {"to": 6}),
    ("QuantizeLinear [512,512]", "QuantizeLinear", [SQUARE], [np.float32(0.02), np.uint8(128)], {}),
    ("DequantizeLinear by rows", "DequantizeLinear", [(I8, SQUARE)], [RNG.random(512).astype(np.float32) + 0.5], {"axis": 0}),
    ("DynamicQuantizeLinear [512,512]", "DynamicQuantizeLinear", [SQUARE], [], {"outputs": 3}),
]
REDUCTIONS_AND_NORMS = [
    ("ReduceMean of [1,64,56,56] but channels", "ReduceMean", [PICTURE], [ints(0, 2, 3)], {}),
    ("ReduceMean [128,768], last axis", "ReduceMean", [[128, 768]], [ints(1)], {}),
    ("ReduceSum [1000,512], first axis", "ReduceSum", [[1000, 512]], [ints(0)], {}),
    ("ReduceSum of all of [512,512]", "ReduceSum", [SQUARE], [], {}),
    ("ReduceMax [16,128,256], middle axis", "ReduceMax", [[16, 128, 256]], [ints(1)], {}),
    ("ReduceL2 [1000,512]", "ReduceL2", [[1000, 512]], [ints(1)], {}),
    ("ReduceLogSumExp [1000,512]", "ReduceLogSumExp", [[1000, 512]], [ints(1)], {}),
    ("ReduceProd [1000,512]", "ReduceProd", [[1000, 512]], [ints(1)], {}),
    ("ReduceSum of int64 [512,512]", "ReduceSum", [(I64, SQUARE)], [ints(1)], {}),
    ("ReduceMax of int32 [512,512]", "ReduceMax", [(I32, SQUARE)], [ints(1)], {}),
    ("ReduceMean of float64 [512,512]", "ReduceMean", [(F64, SQUARE)], [ints(1)], {}),
    ("ArgMax [1000,1000]", "ArgMax", [[1000, 1000]], [], {"axis": 1}),
    ("ArgMax over 21 classes, 128x128", "ArgMax", [[1, 21, 128, 128]], [], {"axis": 1}),
    ("CumSum [512,512]", "CumSum", [SQUARE], [np.array(1)], {}),
    ("CumSum of int64, first axis", "CumSum", [(I64, SQUARE)], [np.array(0)], {}),
    ("Softmax [1536,128]", "Softmax", [[1536, 128]], [], {}),
    ("Softmax [16,64,256], middle axis", "Softmax", [[16, 64, 256]], [], {"axis": 1}),
    ("LogSoftmax [1000,512]", "LogSoftmax", [[1000, 512]], [], {}),
    ("Hardmax [1000,1000]", "Hardmax", [[1000, 1000]], [], {}),
    ("LayerNormalization [128,768]", "LayerNormalization", [[128, 768]], [weight(768), weight(768)], {}),
    ("RMSNormalization [128,1000]", "RMSNormalization", [[128, 1000]], [weight(1000)], {"opset": 23}),
    ("InstanceNormalization [1,64,56,56]", "InstanceNormalization", [PICTURE], [weight(64), weight(64)], {}),
    ("GroupNormalization [1,64,56,56], 8 groups", "GroupNormalization", [PICTURE], [weight(64), weight(64)], {"num_groups": 8, "opset": 21}),
    ("BatchNormalization [1,64,56,56]", "BatchNormalization", [PICTURE], [weight(64), weight(64), weight(64), np.abs(weight(64))], {}),
    ("LpNormalization [1000,512]", "LpNormalization", [[1000, 512]], [], {}),
    ("MeanVarianceNormalization [1,64,56,56]", "MeanVarianceNormalization", [PICTURE], [], {}),
    ("LRN [1,64,56,56]", "LRN", [PICTURE], [], {"size": 5}),
]
WINDOWS = [
    ("MaxPool 3/2 of [1,64,4096]", "MaxPool", [[1, 64, 4096]], [], {"kernel_shape": [3], "strides": [2]}),
    ("MaxPool 3x3/2 of [1,64,112,112]", "MaxPool", [[1, 64, 112, 112]], [], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
    ("MaxPool 3x3 dilated by 2", "MaxPool", [PICTURE], [], {"kernel_shape": [3, 3], "dilations": [2, 2]}),
    ("MaxPool 2x2x2 of [1,16,8,64,64]", "MaxPool", [[1, 16, 8, 64, 64]], [], {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}),
    ("MaxPool 3x3/2 of uint8 [1,64,112,112]", "MaxPool", [(U8, [1, 64, 112, 112])], [], {"kernel_shape": [3, 3], "strides": [2, 2]}),
    ("AveragePool 3x3 of [1,64,56,56]", "AveragePool", [PICTURE], [], {"kernel_shape": [3, 3], "pads": [1] * 4}),
    ("AveragePool 2x2x2 of [1,16,8,64,64]", "AveragePool", [[1, 16, 8, 64, 64]], [], {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}),
    ("LpPool 3x3/2 of [1,64,56,56]", "LpPool", [PICTURE], [], {"kernel_shape": [3, 3], "strides": [2, 2]}),
    ("GlobalAveragePool [1,512,7,7]", "GlobalAveragePool", [[1, 512, 7, 7]], [], {}),
    ("GlobalMaxPool [1,512,14,14]", "GlobalMaxPool", [[1, 512, 14, 14]], [], {}),
    ("Conv 3x3, 64 to 64, 56x56", "Conv", [PICTURE], [weight(64, 64, 3, 3)], {"pads": [1] * 4}),
    ("Conv 1x1, 64 to 256, 56x56", "Conv", [PICTURE], [weight(256, 64, 1, 1), weight(256)], {}),
    ("Conv 7x7/2, 3 to 64, 224x224", "Conv", [[1, 3, 224, 224]], [weight(64, 3, 7, 7)], {"pads": [3] * 4, "strides": [2, 2]}),
    ("Conv 3x3 dilated by 2, 64 to 64, 28x28", "Conv", [[1, 64, 28, 28]], [weight(64, 64, 3, 3)], {"pads": [2] * 4, "dilations": [2, 2]}),
    ("Conv 5x5, 3 to 5, 31x29", "Conv", [[1, 3, 31, 29]], [weight(5, 3, 5, 5)], {}),
    ("Conv 9, 64 to 64, 1000", "Conv", [[1, 64, 1000]], [weight(64, 64, 9)], {"pads": [4, 4]}),
    ("Conv 3x3x3, 16 to 16, [1,16,8,32,32]", "Conv", [[1, 16, 8, 32, 32]], [weight(16, 16, 3, 3, 3)], {"pads": [1] * 6}),
    ("Conv 3x3, 4 groups of 16, 56x56", "Conv", [PICTURE], [weight(64, 16, 3, 3)], {"pads": [1] * 4, "group": 4}),
    ("Conv 3x3, 32 groups of 4, 28x28", "Conv", [[1, 128, 28, 28]], [weight(128, 4, 3, 3)], {"pads": [1] * 4, "group": 32}),
    ("Conv depthwise 3x3, 56x56", "Conv", [PICTURE], [weight(64, 1, 3, 3)], {"pads": [1] * 4, "group": 64}),
    ("Conv depthwise 7x7, 96 of 56x56", "Conv", [[1, 96, 56, 56]], [weight(96, 1, 7, 7)], {"pads": [3] * 4, "group": 96}),
    ("Conv depthwise 31, 144 of 300", "Conv", [[1, 144, 300]], [weight(144, 1, 31)], {"pads": [15, 15], "group": 144}),
    ("ConvTranspose 4x4/2, 32 to 32, 32x32", "ConvTranspose", [[1, 32, 32, 32]], [weight(32, 32, 4, 4)], {"strides": [2, 2], "pads": [1] * 4}),
    ("ConvTranspose 2x2x2/2, 16 to 8", "ConvTranspose", [[1, 16, 8, 16, 16]], [weight(16, 8, 2, 2, 2)], {"strides": [2, 2, 2]}),
    ("DeformConv 3x3, 16 to 16, 28x28", "DeformConv", [[1, 16, 28, 28]], [weight(16, 16, 3, 3), weight(1, 18, 28, 28)], {"pads": [1] * 4}),
    ("ConvInteger 3x3, 32 to 32, 28x28", "ConvInteger", [(U8, [1, 32, 28, 28])], 
     [whole(np.uint8, 0, 256, 32, 32, 3, 3), np.uint8(128), np.uint8(128)], {"pads": [1] * 4}),
    ("QLinearConv 3x3, 64 to 64, 28x28", "QLinearConv", [(U8, [1, 64, 28, 28])],
     [np.float32(0.02), np.uint8(128), whole(np.int8, -99, 99, 64, 64, 3, 3), np.float32(0.01), np.int8(0), np.float32(0.1), np.uint8(100)],
     {"pads": [1] * 4}),
    ("Col2Im 64 of 28x28", "Col2Im", [[1, 64 * 9, 784]], [ints(28, 28), ints(3, 3)], {"pads": [1] * 4}),
]
PRODUCTS = [
    ("MatMul [128,768] by [768,768]", "MatMul", [[128, 768]], [weight(768, 768)], {}),
    ("MatMul 12 of [128,64] by [64,128]", "MatMul", [[12, 128, 64], [12, 64, 128]], [], {}),
    ("MatMul [37,129] by [129,65]", "MatMul", [[37, 129], [129, 65]], [], {}),
    ("MatMul [1,1024] by [1024,1024]", "MatMul", [[1, 1024], [1024, 1024]], [], {}),
    ("MatMul of float64 [256,256]", "MatMul", [(F64, [256, 256])], [weight(256, 256).astype(np.float64)], {}),
    ("Gemm of transposed [256,128] and [192,256]", "Gemm", [[256, 128]], [weight(192, 256), weight(192)], {"transA": 1, "transB": 1}),
    ("MatMulInteger [128,512] by [512,512]", "MatMulInteger", [(U8, [128, 512])], [whole(np.int8, -127, 127, 512, 512)], {}),
    ("QLinearMatMul [128,512] by [512,512]", "QLinearMatMul", [(U8, [128, 512])],
     [np.float32(0.02), np.uint8(128), whole(np.int8, -99, 99, 512, 512), np.float32(0.01), np.int8(0), np.float32(0.1), np.uint8(100)], {}),
    ("Einsum bij,bjk->bik, 8 of 128", "Einsum", [[8, 128, 128], [8, 128, 128]], [], {"equation": "bij,bjk->bik"}),
    ("Einsum bqhd,bkhd->bhqk, 128 by 12 by 64", "Einsum", [[1, 128, 12, 64], [1, 128, 12, 64]], [], {"equation": "bqhd,bkhd->bhqk"}),
    ("Attention, 12 heads of 64, 128 rows", "Attention", [[1, 12, 128, 64]] * 3, [], {"opset": 23}),
    ("RotaryEmbedding [1,12,128,64]", "RotaryEmbedding", [[1, 12, 128, 64]], [weight(128, 32), weight(128, 32), places(128, 1, 128)], {"opset": 23}),
    ("Det of 64 of 16x16", "Det", [[64, 16, 16]], [], {}),
    ("GRU 32 steps, 64", "GRU", [[32, 1, 64]], [weight(1, 192, 64), weight(1, 192, 64), weight(1, 384)], {"hidden_size": 64, "outputs": 2}),
    ("LSTM 32 steps of 16, 128", "LSTM", [[32, 16, 128]], [weight(1, 512, 128), weight(1, 512, 128), weight(1, 1024)], {"hidden_size": 128, "outputs": 2}),
    ("RNN 32 steps of 4, both ways, 64", "RNN", [[32, 4, 64]], [weight(2, 64, 64), weight(2, 64, 64)],
     {"hidden_size": 64, "direction": "bidirectional", "outputs": 2}),
    ("DFT 64 of 512", "DFT", [[64, 512, 1]], [], {}), ("DFT 64 of 400", "DFT", [[64, 400, 1]], [], {}),
    ("STFT of 16000, 400 by 160", "STFT", [[1, 16000, 1]], [np.array(160), np.hanning(400).astype(np.float32), np.array(400)], {}),
]
MOVEMENT = [
    ("Transpose 3210 of [16,32,32,16]", "Transpose", [[16, 32, 32, 16]], [], {"perm": [3, 2, 1, 0]}),
    ("Transpose 0231 of [1,64,56,56]", "Transpose", [PICTURE], [], {"perm": [0, 2, 3, 1]}),
    ("Transpose 0213 of [1,128,12,64]", "Transpose", [[1, 128, 12, 64]], [], {"perm": [0, 2, 1, 3]}),
    ("Concat of two [128,512,8], last axis", "Concat", [[128, 512, 8], [128, 512, 8]], [], {"axis": 2}),
    ("Concat of two [1,64,56,56], channels", "Concat", [PICTURE] * 2, [], {"axis": 1}),
    ("Split [128,2304] into 3", "Split", [[128, 2304]], [], {"axis": 1, "num_outputs": 3, "outputs": 3}),
    ("Slice, every other of [1024,1024]", "Slice", [[1024, 1024]], [ints(0, 0), ints(1024, 1024), ints(0, 1), ints(2, 2)], {}),
    ("Slice, reversed [512,512]", "Slice", [SQUARE], [ints(-1), ints(-10000), ints(1), ints(-1)], {}),
    ("Pad [1,64,56,56] by 1", "Pad", [PICTURE], [ints(0, 0, 1, 1, 0, 0, 1, 1)], {}),
    ("Pad [1,64,56,56] by 3, reflect", "Pad", [PICTURE], [ints(0, 0, 3, 3, 0, 0, 3, 3)], {"mode": "reflect"}),
    ("Pad [1,64,56,56] by 3, edge", "Pad", [PICTURE], [ints(0, 0, 3, 3, 0, 0, 3, 3)], {"mode": "edge"}),
    ("Tile [128,64] by 4 by 8", "Tile", [[128, 64]], [ints(4, 8)], {}),
    ("Expand [8,1,64] to [8,512,64]", "Expand", [[8, 1, 64]], [ints(8, 512, 64)], {}),
    ("Gather 512 rows of [30000,128]", "Gather", [[30000, 128]], [places(30000, 512)], {}),
    ("Gather 49 of axis 2 of [8,12,169]", "Gather", [[8, 12, 169]], [places(169, 49, 49)], {"axis": 2}),
    ("GatherND 4096 rows of [8192,64]", "GatherND", [[8192, 64]], [places(8192, 4096, 1)], {}),
    ("GatherElements [512,512]", "GatherElements", [SQUARE], [places(512, 512, 512)], {"axis": 1}),
    ("ScatterND 4096 rows of [8192,64]", "ScatterND", [[8192, 64]], [distinct(1, 8192, 4096).T, weight(4096, 64)], {}),
    ("ScatterElements [512,64] in [512,512]", "ScatterElements", [SQUARE], [distinct(512, 512, 64), weight(512, 64)], {"axis": 1}),
    ("DepthToSpace [1,64,64,64]", "DepthToSpace", [[1, 64, 64, 64]], [], {"blocksize": 2}),
    ("SpaceToDepth [1,16,128,128]", "SpaceToDepth", [[1, 16, 128, 128]], [], {"blocksize": 2}),
    ("ReverseSequence [128,16,64]", "ReverseSequence", [[128, 16, 64]], [places(128, 16) + 1], {}),
    ("Trilu [12,128,128]", "Trilu", [[12, 128, 128]], [], {"upper": 0}),
    ("TopK, 5 of [128,1000]", "TopK", [[128, 1000]], [ints(5)], {"outputs": 2}),
    ("TopK, 300 of 100000", "TopK", [[1, 100000]], [ints(300)], {"outputs": 2}),
    ("TopK, all of [64,1000]: a sort", "TopK", [[64, 1000]], [ints(1000)], {"outputs": 2}),
    ("Unique of int64 [10000]", "Unique", [(I64, [10000])], [], {}),
    ("NonZero [1000,1000]", "NonZero", [[1000, 1000]], [], {}),
    ("Compress half of [4096,256]", "Compress", [[4096, 256]], [np.arange(4096) % 2 == 0], {"axis": 0}),
    ("OneHot 1000 of 1000", "OneHot", [(I64, [1000])], [np.array(1000), floats(0, 1)], {}),
    ("Resize linear, [1,16,64,64] twice", "Resize", [[1, 16, 64, 64]], [None, floats(1, 1, 2, 2)], {"mode": "linear"}),
    ("Resize nearest, [1,64,28,28] twice", "Resize", [[1, 64, 28, 28]], [None, floats(1, 1, 2, 2)], {"mode": "nearest"}),
    ("Resize cubic, [1,16,64,64] twice", "Resize", [[1, 16, 64, 64]], [None, floats(1, 1, 2, 2)], {"mode": "cubic"}),
    ("Resize linear, [1,8,8,32,32] twice", "Resize", [[1, 8, 8, 32, 32]], [None, floats(1, 1, 2, 2, 2)], {"mode": "linear"}),
    ("Resize linear, [1,3,500,375] to 224x224", "Resize", [[1, 3, 500, 375]], [None, None, ints(1, 3, 224, 224)], {"mode": "linear", "antialias": 1}),
    ("GridSample [1,16,64,64]", "GridSample", [[1, 16, 64, 64]], [(RNG.random((1, 64, 64, 2)) * 2 - 1).astype(np.float32)], {}),
    ("AffineGrid [4,3,64,64]", "AffineGrid", [[4, 2, 3]], [ints(4, 3, 64, 64)], {}),
    ("RoiAlign 200 of [1,64,50,50]", "RoiAlign", [[1, 64, 50, 50]], [boxes(200, 5, 25), np.zeros(200, np.int64)],
     {"output_height": 7, "output_width": 7, "sampling_ratio": 2}),
    ("MaxRoiPool 50 of [1,64,50,50]", "MaxRoiPool", [[1, 64, 50, 50]], [np.concatenate([np.zeros((50, 1), np.float32), boxes(50, 5, 25)], 1)],
     {"pooled_shape": [7, 7]}),
    ("NonMaxSuppression of 1000 boxes", "NonMaxSuppression", [[1, 1, 1000]], [ints(100), floats(0.5), floats(0)], {"first": boxes(1000, 2, 8)[None]}),
]
CASES = ELEMENT_WISE + REDUCTIONS_AND_NORMS + WINDOWS + PRODUCTS + MOVEMENT
