// FP8 (E4M3FN) as bytes: to float32, and from it, rounded to nearest even and saturated.
DEVICE f32 load_e4m3(u8 x) {
  u32 e = x >> 3 & 15, m = x & 7, sign = (u32)(x & 128) << 24;
  if ((x & 127) == 127) return __uint_as_float(0x7fffffffu);
  f32 v = e ? __uint_as_float((e + 120) << 23 | m << 20) : m * 0.001953125f;
  return __uint_as_float(__float_as_uint(v) | sign);
}
DEVICE u8 store_e4m3(f32 v) {
#if __CUDA_ARCH__ >= 890
  u16 two;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %1;" : "=h"(two) : "f"(v));
  return (u8)two;
#else
  u32 sign = __float_as_uint(v) >> 24 & 128;
  f32 a = fminf(fabsf(v), 448.f);
  if (v != v) return (u8)(sign | 127);
  if (a < 0.015625f) return (u8)(sign | (u32)__float2int_rn(a * 512));
  u32 b = __float_as_uint(a);
  b += 0x7ffff + (b >> 20 & 1);
  return (u8)(sign | ((b >> 20) - (120 << 3)));
#endif
}
