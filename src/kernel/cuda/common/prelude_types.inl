// Storage types of device code, without CUDA's headers, so that NVRTC needs no path. FP16 and BF16 are read to
// float and written rounded to nearest even. Tests compile some kernels for the processor too.
typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;
typedef float f32;
typedef double f64;
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct b8 { u8 bits; };  // bool

#define DEVICE_ONLY __device__ __forceinline__
#define DEVICE static DEVICE_ONLY

DEVICE f32 load(f32 x) { return x; }
DEVICE f64 load(f64 x) { return x; }
DEVICE f32 load(f16 x) {
#ifdef __CUDACC__
  f32 y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#else
  return host_half(x.bits);
#endif
}
DEVICE f32 load(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
DEVICE bool load(b8 x) { return x.bits != 0; }
DEVICE i8 load(i8 x) { return x; }
DEVICE u8 load(u8 x) { return x; }
DEVICE i16 load(i16 x) { return x; }
DEVICE u16 load(u16 x) { return x; }
DEVICE i32 load(i32 x) { return x; }
DEVICE u32 load(u32 x) { return x; }
DEVICE i64 load(i64 x) { return x; }
DEVICE u64 load(u64 x) { return x; }

template <class T> struct store_as { template <class V> static DEVICE_ONLY T of(V v) { return (T)v; } };
template <> struct store_as<f16> {
  static DEVICE_ONLY f16 of(f32 v) {
    f16 r;
#ifdef __CUDACC__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(v));
#else
    r.bits = host_half_of(v);
#endif
    return r;
  }
};
template <> struct store_as<bf16> {
  static DEVICE_ONLY bf16 of(f32 v) {
    bf16 r;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(v));
#else
    u32 x = __float_as_uint(v);
    r.bits = (x & 0x7fffffff) > 0x7f800000 ? (u16)((x >> 16) | 64)
                                           : (u16)((x + 0x7fff + ((x >> 16) & 1)) >> 16);
#endif
    return r;
  }
};
template <> struct store_as<b8> {
  static DEVICE_ONLY b8 of(bool v) {
    b8 r;
    r.bits = v;
    return r;
  }
};

// Kernels are launched while the one before runs: nothing of it may be read or overwritten before this.
// The next one may begin as soon as all blocks are here.
DEVICE void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\ngriddepcontrol.wait;" ::: "memory");
#endif
}
