// Eight halves that stand next to one another, and activations on them.

struct __align__(16) eight { u32 two[4]; };
template <class T> DEVICE void unpack(const eight& e, f32* to) {
  for (int i = 0; i < 8; i++) {
    T t;
    t.bits = (u16)(e.two[i / 2] >> i % 2 * 16);
    to[i] = load(t);
  }
}
template <class T> DEVICE void unpack(const void* from, i64 at, f32* to) {
  unpack<T>(((const eight*)from)[at], to);
}
template <class T> DEVICE void pack(void* to, i64 at, const f32* from) {
  eight e;
  for (int i = 0; i < 4; i++)
    e.two[i] = (u32)store_as<T>::of(from[2 * i]).bits | (u32)store_as<T>::of(from[2 * i + 1]).bits << 16;
  ((eight*)to)[at] = e;
}
// Results are rounded to halves: the fast forms of exponential and division are exact enough.
DEVICE f32 activate(int activation, f32 low, f32 high, f32 x) {
  switch (activation) {
    case CARNOT_CUDA_CLAMP: return lo(hi(x, low), high);
    case CARNOT_CUDA_SILU: return __fdividef(x, 1 + __expf(-x));
    case CARNOT_CUDA_HARD_SWISH: return x * lo(hi(x * (1 / 6.f) + .5f, 0.f), 1.f);
    case CARNOT_CUDA_SIGMOID: return __fdividef(1, 1 + __expf(-x));
    case CARNOT_CUDA_GELU_TANH: return fast_GELU_TANH(0, 0, x);
    case CARNOT_CUDA_GELU: return fast_GELU_ERF(0, 0, x);
    default: return x;
  }
}
// The choice is made once for all eight.
DEVICE void activate_eight(int activation, f32 low, f32 high, f32* v) {
#define CASE(kind) \
  case kind:       \
    for (int e = 0; e < 8; e++) v[e] = activate(kind, low, high, v[e]); \
    break;
  switch (activation) {
    CASE(CARNOT_CUDA_CLAMP)
    CASE(CARNOT_CUDA_SILU)
    CASE(CARNOT_CUDA_HARD_SWISH)
    CASE(CARNOT_CUDA_SIGMOID)
    CASE(CARNOT_CUDA_GELU)
    CASE(CARNOT_CUDA_GELU_TANH)
  }
#undef CASE
}
template <class T> DEVICE f32 half_at(const eight& x, int i) {
  T t;
  t.bits = (u16)(x.two[i / 2] >> i % 2 * 16);
  return load(t);
}
