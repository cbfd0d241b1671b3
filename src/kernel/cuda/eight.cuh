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
DEVICE u32 pack_two(f32 a, f32 b, f16*) {
#if __CUDA_ARCH__ >= 800
  u32 two;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(b), "f"(a));
  return two;
#else
  return (u32)store_as<f16>::of(a).bits | (u32)store_as<f16>::of(b).bits << 16;
#endif
}
DEVICE u32 pack_two(f32 a, f32 b, bf16*) {
#if __CUDA_ARCH__ >= 800
  u32 two;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(b), "f"(a));
  return two;
#else
  return (u32)store_as<bf16>::of(a).bits | (u32)store_as<bf16>::of(b).bits << 16;
#endif
}
template <class T> DEVICE void pack(void* to, i64 at, const f32* from) {
  eight e;
  for (int i = 0; i < 4; i++) e.two[i] = pack_two(from[2 * i], from[2 * i + 1], (T*)0);
  ((eight*)to)[at] = e;
}
// 1 / (1 + exp(-x)). Results are rounded to halves: the units' own exponential and reciprocal are exact
// enough, and no care is taken of the smallest numbers.
DEVICE f32 unit_sigmoid(f32 x) {
#ifdef __CUDACC__
  f32 e, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -1.44269504f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1 + e));
  return r;
#else
  return 1 / (1 + expf(-x));
#endif
}
DEVICE f32 activate(int activation, f32 low, f32 high, f32 x) {
  switch (activation) {
    case CARNOT_CUDA_CLAMP: return lo(hi(x, low), high);
    case CARNOT_CUDA_SILU: return x * unit_sigmoid(x);
    case CARNOT_CUDA_HARD_SWISH: return x * lo(hi(x * (1 / 6.f) + .5f, 0.f), 1.f);
    case CARNOT_CUDA_SIGMOID: return unit_sigmoid(x);
    case CARNOT_CUDA_GELU_TANH: return fast_GELU_TANH(0, 0, x);
    case CARNOT_CUDA_GELU: return fast_GELU_ERF(0, 0, x);
    case CARNOT_CUDA_HARD_SIGMOID: return lo(hi(fmaf(low, x, high), 0.f), 1.f);
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
    CASE(CARNOT_CUDA_HARD_SIGMOID)
  }
#undef CASE
}
template <class T> DEVICE f32 half_at(const eight& x, int i) {
  T t;
  t.bits = (u16)(x.two[i / 2] >> i % 2 * 16);
  return load(t);
}
