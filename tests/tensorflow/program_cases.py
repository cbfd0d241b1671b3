"""Small programs with control flow, tensor lists and tensor arrays.

Each function gets the module tensorflow and its inputs; it is only called where TensorFlow is installed.
"""

import collections.abc
import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Program:
    """|feeds|: inputs for several runs of one graph; sizes that differ between them are open."""

    name: str
    build: collections.abc.Callable
    feeds: list[dict]


PROGRAMS: list[Program] = []
X = np.array([[1, -2, 3], [4, 5, -6]], np.float32) / 4
FLAGS = [{"x": X, "flag": np.array(True)}, {"x": X, "flag": np.array(False)}]
COUNTS = [{"x": X, "n": np.int32(n)} for n in (0, 1, 5)]


def program(*feeds: dict) -> collections.abc.Callable:
    def add(build: collections.abc.Callable) -> collections.abc.Callable:
        PROGRAMS.append(Program(build.__name__, build, list(feeds)))
        return build

    return add


# ---- conditions ----


@program(*FLAGS)
def cond(tf, x, flag):
    return tf.cond(flag, lambda: x * 2, lambda: tf.exp(x))


@program(*FLAGS)
def cond_with_several_results(tf, x, flag):
    a, b = tf.cond(flag, lambda: (x * 2, tf.reduce_sum(x)), lambda: (x, tf.constant(7.0)))
    return a + 1, b


@program(*FLAGS)
def cond_that_gives_an_input(tf, x, flag):
    return tf.cond(flag, lambda: tf.identity(x), lambda: -x)


@program(*[{"x": X, "flag": np.array(a), "other": np.array(b)} for a in (True, False) for b in (True, False)])
def cond_in_a_cond(tf, x, flag, other):
    def inner():
        return tf.cond(other, lambda: x + 1, lambda: x - 1)

    return tf.cond(flag, inner, lambda: x * 3)


@program({"x": X}, {"x": -X})
def cond_by_values(tf, x):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.reduce_max(x), lambda: tf.reduce_min(x))


@program(*FLAGS)
def cond_with_sizes_that_differ(tf, x, flag):
    return tf.cond(flag, lambda: x[:1], lambda: x)


BRANCHES = [{"x": X, "n": np.int32(n)} for n in (0, 1, 2, 9, -1)]


@program(*BRANCHES)
def switch_case(tf, x, n):
    return tf.switch_case(n, [lambda: x + 1, lambda: x * 2, lambda: -x])


@program(*BRANCHES)
def switch_case_with_several_results(tf, x, n):
    branches = [lambda: (x, tf.constant(1.0)), lambda: (x * 2, tf.reduce_sum(x)), lambda: (-x, tf.constant(3.0))]
    a, b = tf.switch_case(n, [*branches, lambda: (x + 1, tf.reduce_max(x))])
    return a * 2, b


@program(*BRANCHES)
def switch_case_in_a_switch_case(tf, x, n):
    inner = lambda: tf.switch_case(n - 1, [lambda: x + 1, lambda: x + 2, lambda: x * 5])  # noqa: E731
    return tf.switch_case(n, [lambda: -x, inner, inner, lambda: x * 3])


@program(*COUNTS)
def switch_case_in_a_while(tf, x, n):
    def body(i, v):
        return i + 1, tf.switch_case(i, [lambda: v + x, lambda: v * 1.25, lambda: v - x])

    return tf.while_loop(lambda i, v: i < n, body, [tf.constant(0), x])[1]


# ---- loops ----


@program(*COUNTS)
def while_counter(tf, x, n):
    return tf.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, v * 1.5 + 0.25), [tf.constant(0), x])


@program(*COUNTS)
def while_with_invariant(tf, x, n):
    w = tf.constant(np.eye(3, dtype="f4")[::-1] * 0.9)
    return tf.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, v @ w + x), [tf.constant(0), x])[1]


@program({"x": X}, {"x": X * 3})
def while_by_values(tf, x):
    return tf.while_loop(lambda v: tf.reduce_max(tf.abs(v)) < 20.0, lambda v: v * 1.7, [x])


@program(*COUNTS)
def while_that_swaps(tf, x, n):
    return tf.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b, a), [tf.constant(0), x, -x * 2])[1:]


@program(*COUNTS)
def while_in_a_while(tf, x, n):
    def inner(i, v):
        return i + 1, tf.while_loop(lambda j, u: j < i, lambda j, u: (j + 1, u + x), [tf.constant(0), v])[1]

    return tf.while_loop(lambda i, v: i < n, inner, [tf.constant(0), x])[1]


@program(*COUNTS)
def cond_in_a_while(tf, x, n):
    def body(i, v):
        return i + 1, tf.cond(i % 2 > 0, lambda: v + x, lambda: v * 1.25)

    return tf.while_loop(lambda i, v: i < n, body, [tf.constant(0), x])[1]


@program(*[{"x": X, "n": np.int32(n), "flag": np.array(f)} for n in (0, 3) for f in (True, False)])
def while_in_a_cond(tf, x, n, flag):
    def loop():
        return tf.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, v + x), [tf.constant(0), x])[1]

    return tf.cond(flag, loop, lambda: -x)


@program(*COUNTS)
def while_that_grows(tf, x, n):
    shapes = [tf.TensorShape([]), tf.TensorShape([None, 3])]
    body = lambda i, v: (i + 1, tf.concat([v, x], 0))  # noqa: E731
    return tf.while_loop(lambda i, v: i < n, body, [tf.constant(0), x], shape_invariants=shapes)[1]


@program(*COUNTS)
def while_with_two_conditions(tf, x, n):
    more = lambda i, v: tf.logical_and(i < n, tf.reduce_sum(v) < 4.0)  # noqa: E731
    return tf.while_loop(more, lambda i, v: (i + 1, v + 0.5), [tf.constant(0), x])


@program({"x": X})
def two_loops(tf, x):
    a = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v + x), [tf.constant(0), x])[1]
    return tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v * a), [tf.constant(0), a])[1]


# ---- arrays and lists ----


@program({"x": X}, {"x": X[:1]})
def array_write_and_stack(tf, x):
    array = tf.TensorArray(tf.float32, 4)
    body = lambda i, v, a: (i + 1, v * 2, a.write(i, v))  # noqa: E731
    return tf.while_loop(lambda i, v, a: i < 4, body, [tf.constant(0), x, array])[2].stack()


@program({"x": np.arange(12, dtype="f4").reshape(4, 3)}, {"x": np.arange(21, dtype="f4").reshape(7, 3)})
def array_unstack_and_read(tf, x):
    n = tf.shape(x)[0]
    array = tf.TensorArray(tf.float32, n, element_shape=[3]).unstack(x)
    return tf.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, v * 0.5 + array.read(i)), [tf.constant(0), x[0] * 0])


@program({"x": np.arange(12, dtype="f4").reshape(4, 3)}, {"x": np.arange(21, dtype="f4").reshape(7, 3)})
def array_of_results(tf, x):
    """A recurrent cell's loop: states go round, results are stacked."""
    n = tf.shape(x)[0]
    source = tf.TensorArray(tf.float32, n, element_shape=[3]).unstack(x)
    results = tf.TensorArray(tf.float32, n, element_shape=[3])

    def body(i, state, results):
        state = tf.tanh(state * 0.5 + source.read(i))
        return i + 1, state, results.write(i, state)

    out = tf.while_loop(lambda i, s, r: i < n, body, [tf.constant(0), x[0] * 0, results])
    return out[1], out[2].stack()


@program(*COUNTS[1:])
def array_that_grows(tf, x, n):
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[2, 3])
    body = lambda i, v, a: (i + 1, v + 1, a.write(i, v))  # noqa: E731
    return tf.while_loop(lambda i, v, a: i < n, body, [tf.constant(0), x, array])[2].stack()


@program({"x": np.arange(12, dtype="f4").reshape(4, 3)})
def array_gather(tf, x):
    array = tf.TensorArray(tf.float32, 4, element_shape=[3], clear_after_read=False).unstack(x)
    return array.gather([3, 1, 1]), array.read(2), array.size()


@program({"x": np.arange(12, dtype="f4").reshape(4, 3)})
def array_scatter(tf, x):
    return tf.TensorArray(tf.float32, 4, element_shape=[3]).scatter([2, 0, 3, 1], x).stack()


@program({"x": np.arange(12, dtype="f4").reshape(4, 3)})
def array_concat(tf, x):
    array = tf.TensorArray(tf.float32, 2, element_shape=[2, 3])
    return array.write(0, x[:2]).write(1, x[2:] * 2).concat()


@program({"x": np.arange(12, dtype="f4").reshape(4, 3), "order": np.array([2, 0, 3, 1], "i4")})
def array_scatter_in_an_order_that_is_an_input(tf, x, order):
    return tf.TensorArray(tf.float32, 4, element_shape=[3]).scatter(order, x).stack()


@program({"x": np.arange(12, dtype="f4").reshape(4, 3)})
def array_concat_of_a_tensor(tf, x):
    array = tf.TensorArray(tf.float32, 2, element_shape=[2, 3]).unstack(tf.reshape(x, [2, 2, 3]))
    return array.concat() * 2


@program({"x": X})
def map_over_rows(tf, x):
    return tf.map_fn(lambda row: row * tf.reduce_sum(row), x)


@program({"x": np.arange(12, dtype="f4").reshape(4, 3)})
def scan_over_rows(tf, x):
    return tf.scan(lambda state, row: state * 0.5 + row, x)


@program({"x": np.arange(12, dtype="f4").reshape(4, 3)})
def fold_over_rows(tf, x):
    return tf.foldl(lambda state, row: state * 0.5 + row, x)


@program({"x": X})
def list_push_back(tf, x):
    ops = tf.raw_ops
    items = ops.EmptyTensorList(element_shape=[2, 3], max_num_elements=-1, element_dtype=tf.float32)
    for k in range(3):
        items = ops.TensorListPushBack(input_handle=items, tensor=x * float(k))
    stacked = ops.TensorListStack(input_handle=items, element_shape=[2, 3], element_dtype=tf.float32, num_elements=3)
    return stacked, ops.TensorListLength(input_handle=items)


@program({"x": X})
def list_set_and_get(tf, x):
    ops = tf.raw_ops
    items = ops.TensorListReserve(element_shape=[3], num_elements=3, element_dtype=tf.float32)
    for k, row in ((1, x[0]), (0, x[1]), (2, x[0] + 1), (1, x[1] * 3)):
        items = ops.TensorListSetItem(input_handle=items, index=k, item=row)
    got = ops.TensorListGetItem(input_handle=items, index=1, element_shape=[3], element_dtype=tf.float32)
    return got, ops.TensorListStack(input_handle=items, element_shape=[3], element_dtype=tf.float32)


@program({"x": np.arange(12, dtype="f4").reshape(4, 3)})
def list_from_tensor(tf, x):
    ops = tf.raw_ops
    items = ops.TensorListFromTensor(tensor=x, element_shape=[3])
    got = ops.TensorListGetItem(input_handle=items, index=2, element_shape=[3], element_dtype=tf.float32)
    return got, ops.TensorListLength(input_handle=items)


@program(*[{"x": np.arange(12, dtype="f4").reshape(4, 3), "n": np.int32(n)} for n in (0, 1, 4, 6)])
def list_resize_dense(tf, x, n):
    ops = tf.raw_ops
    items = ops.TensorListResize(input_handle=ops.TensorListFromTensor(tensor=x, element_shape=[3]), size=n)
    stacked = ops.TensorListStack(input_handle=items, element_shape=[3], element_dtype=tf.float32)
    return stacked, ops.TensorListLength(input_handle=items)


@program(*[{"x": X, "n": np.int32(n)} for n in (1, 2, 3)])
def list_resize_shrinks(tf, x, n):
    ops = tf.raw_ops
    items = ops.EmptyTensorList(element_shape=[2, 3], max_num_elements=-1, element_dtype=tf.float32)
    for k in range(3):
        items = ops.TensorListPushBack(input_handle=items, tensor=x * float(k))
    items = ops.TensorListResize(input_handle=items, size=n)
    stacked = ops.TensorListStack(input_handle=items, element_shape=[2, 3], element_dtype=tf.float32)
    return stacked, ops.TensorListLength(input_handle=items)


@program({"x": X, "n": np.int32(1)}, {"x": X, "n": np.int32(5)})
def list_resize_in_a_loop(tf, x, n):
    ops = tf.raw_ops
    items = ops.EmptyTensorList(element_shape=[2, 3], max_num_elements=-1, element_dtype=tf.float32)

    def body(k, items):
        full = k >= ops.TensorListLength(input_handle=items)
        items = tf.cond(full, lambda: ops.TensorListResize(input_handle=items, size=k + 1), lambda: items)
        return k + 1, ops.TensorListSetItem(input_handle=items, index=k, item=x * tf.cast(k, tf.float32))

    _, items = tf.while_loop(lambda k, _: k < n, body, (0, items))
    return ops.TensorListStack(input_handle=items, element_shape=[2, 3], element_dtype=tf.float32)


# ---- calls ----


@program({"x": X})
def function_called_twice(tf, x):
    step = tf.function(lambda v: tf.tanh(v) + 0.5)
    return step(step(x))


@program({"x": X})
def functions_in_functions(tf, x):
    inner = tf.function(lambda v: v * 2)
    outer = tf.function(lambda v: (inner(v) + 1, inner(-v)))
    a, b = outer(x)
    return a, b


# ---- complex numbers ----


@program({"x": np.linspace(-1, 1, 16, dtype="f4").reshape(2, 8) ** 3})
def parts_of_rfft(tf, x):
    y = tf.signal.rfft(x)
    return tf.math.real(y), tf.math.imag(y), tf.abs(y)


@program({"x": np.linspace(-1, 1, 16, dtype="f4").reshape(2, 8) ** 3})
def rfft_of_other_lengths(tf, x):
    return tf.abs(tf.signal.rfft(x, [6])), tf.abs(tf.signal.rfft(x, [11]))


@program({"x": np.linspace(-1, 1, 16, dtype="f4").reshape(2, 8) ** 3})
def product_in_frequency(tf, x):
    y = tf.signal.rfft(x) * tf.signal.rfft(tf.reverse(x, [-1]))
    return tf.signal.irfft(y), tf.signal.irfft(y, [6])


@program({"x": np.linspace(-1, 1, 48, dtype="f4").reshape(2, 4, 6) ** 3, "y": np.ones((2, 4, 6), "f4")})
def fft_and_back(tf, x, y):
    z = tf.signal.fft(tf.complex(x, y))
    back = tf.signal.ifft(tf.signal.ifft2d(tf.signal.fft2d(z)))
    return tf.math.real(z), tf.math.imag(z), tf.math.real(back), tf.abs(tf.signal.rfft2d(x))


COMPLEX = {
    "x": np.linspace(-1, 1, 24, dtype="f4").reshape(2, 3, 4) ** 3,
    "y": np.cos(np.arange(24, dtype="f4")).reshape(2, 3, 4),
}


def parts(tf, z):
    return tf.math.real(z), tf.math.imag(z)


@program(COMPLEX)
def complex_arithmetic(tf, x, y):
    z, w = tf.complex(x, y), tf.complex(y[0], x[1])
    c = tf.constant(np.array([1 + 2j, -1j, 3, 0.5 - 1j], "c8"))
    e = tf.complex(x[:, :1], y[:, :1])
    return [parts(tf, v) for v in (z + w, z - c, z * w, z / c, -z, tf.square(z), tf.exp(e), tf.math.reciprocal(z + c))]


@program(COMPLEX)
def complex_products(tf, x, y):
    z, w = tf.complex(x, y), tf.complex(y, x)
    plain, adjoint = tf.matmul(z, tf.transpose(w, [0, 2, 1])), tf.matmul(z, w, adjoint_b=True)
    return [parts(tf, v) for v in (plain, adjoint, tf.matmul(z, w, adjoint_a=True), tf.transpose(z, conjugate=True))]


@program(COMPLEX)
def complex_movement(tf, x, y):
    z = tf.complex(x, y)
    halves = tf.split(z, 2, -1)
    moved = (tf.reshape(z, [6, -1]), z[:, ::2, 1:], tf.concat([z, z[:1] * 2], 0), tf.stack([z, -z]), halves[1])
    more = (
        tf.gather(z, [2, 0], axis=1),
        tf.reduce_sum(z, 1),
        tf.expand_dims(z, 1),
        tf.pad(z, [[0, 0], [1, 0], [0, 2]]),
    )
    sizes = tf.shape(z), tf.rank(z), tf.size(z)
    return [parts(tf, v) for v in moved + more], sizes


@program(COMPLEX)
def complex_parts(tf, x, y):
    z = tf.complex(x, y)
    return (
        tf.math.angle(z),
        tf.abs(z),
        parts(tf, tf.math.conj(z)),
        parts(tf, tf.cast(x, tf.complex64) * z),
        tf.abs(z * 0),
    )


@program(*[{**COMPLEX, "flag": np.array(flag)} for flag in (True, False)])
def complex_in_a_cond(tf, x, y, flag):
    z = tf.complex(x, y)
    return tf.cond(flag, lambda: tf.abs(z * z), lambda: tf.math.imag(z))


@program(COMPLEX)
def transforms_in_three_dimensions(tf, x, y):
    z = tf.complex(x, y)
    back = tf.signal.irfft3d(tf.signal.rfft3d(x, [2, 4, 6]), [2, 4, 6])
    return parts(tf, tf.signal.fft3d(z)), parts(tf, tf.signal.ifft3d(z)), back, tf.signal.irfft2d(tf.signal.rfft2d(y))


@program({"x": np.sin(np.arange(64, dtype="f4") ** 1.3).reshape(2, 32)})
def short_time_transform(tf, x):
    return tf.abs(tf.signal.stft(x, frame_length=8, frame_step=4)) ** 2
