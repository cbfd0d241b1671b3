"""Cases of complex numbers and Fourier transforms."""

import numpy as np
from op_case import case, f, k


def c(*sizes: int) -> np.ndarray:
    return (f(*sizes) + 1j * f(*sizes)).astype("c8")


case("Complex", real=f(3, 4), imag=f(4))
case("Complex", "double", real=f(3, 4, dtype="f8"), imag=f(3, 4, dtype="f8"), Tout="complex128")
for op in "Real Imag Conj Angle".split():
    case(op, input=c(3, 4))
case("ComplexAbs", x=c(3, 4))
case("ComplexAbs", "limits", x=np.array([0, 3e30 + 4e30j, 3e-30 + 4e-30j, -5, 2j], "c8"))
for rank, name in ((1, ""), (2, "2D"), (3, "3D")):
    sizes, shorter = (2, 3, 4, 5, 6), [3, 4, 5][-rank:]
    case(f"FFT{name}", input=c(*sizes[-rank - 1 :]))
    case(f"IFFT{name}", input=c(*sizes[-rank - 1 :]))
    for label, length in (("same", list(sizes[-rank:])), ("shorter", shorter)):
        case(f"RFFT{name}", label, input=f(*sizes[-rank - 1 :]), fft_length=k(length))
    half = sizes[-rank - 1 : -1] + (sizes[-1] // 2 + 1,)
    case(f"IRFFT{name}", input=c(*half), fft_length=k(list(sizes[-rank:])))
case("IRFFT", "shorter", input=c(2, 6), fft_length=k([5]))
for op in "Add AddV2 Sub Mul RealDiv".split():
    case(op, "complex", x=c(3, 4), y=c(4))
for op in "Neg Square Reciprocal Exp".split():
    case(op, "complex", x=c(3, 4))
case("BatchMatMulV2", "complex", x=c(2, 3, 4), y=c(2, 4, 5))
case("BatchMatMulV2", "complex_adjoint", x=c(2, 4, 3), y=c(2, 5, 4), adj_x=True, adj_y=True)
case("MatMul", "complex_transposed", a=c(4, 3), b=c(5, 4), transpose_a=True, transpose_b=True)
case("ConjugateTranspose", "complex", x=c(2, 3, 4), perm=k([0, 2, 1]))
case("Transpose", "complex", x=c(2, 3, 4), perm=k([2, 0, 1]))
case("Reshape", "complex", tensor=c(2, 3, 4), shape=k([4, -1]))
case("Sum", "complex", input=c(2, 3, 4), axis=k([0, 2]))
case("Mean", "complex", input=c(2, 3, 4), axis=k([1]), keep_dims=True)
case("ConcatV2", "complex", values=[c(2, 3), c(2, 4)], axis=k(1))
case("Pack", "complex", values=[c(2, 3), c(2, 3)], axis=1)
case("StridedSlice", "complex", input=c(4, 5), begin=k([1, 0]), end=k([4, 5]), strides=k([2, 3]))
case("GatherV2", "complex", params=c(4, 5), indices=np.array([3, 0], "i4"), axis=k(0))
case("Pad", "complex", input=c(2, 3), paddings=k([[1, 0], [0, 2]]))
case("Cast", "to_complex", x=f(3, 4), DstT="complex64")
case("Cast", "of_complex", x=c(3, 4), DstT="float32")
case("Shape", "complex", input=c(3, 4))
case("Equal", "complex", x=np.array([1 + 2j, 1, 3j], "c8"), y=np.array([1 + 2j, 1j, 3j], "c8"))
case("ZerosLike", "complex", x=c(3, 4))
