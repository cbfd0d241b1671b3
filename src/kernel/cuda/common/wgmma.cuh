// Tensor core instructions of a warpgroup (sm_90a): wgmma m64nNk16 of 16-bit floats and m64nNk32 of
// 8-bit integers and FP8, B and mostly A in shared memory with a 128-byte swizzle. Without sm_90a
// the functions are empty, so that kernels with both paths compile.
#pragma once

#include "kernel/cuda/common/tensor_core.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WGMMA 1
// A kernel's body that needs sm_90a.
#define WGMMA(...) __VA_ARGS__
#else
#define HAS_WGMMA  0
#define WGMMA(...) (void)p
#endif

#if __CUDA_ARCH__ >= 800

struct e4m3 {
  u8 bits;
};  // FP8 E4M3FN

template <class T, int N>
struct wgmma_of;
#if HAS_WGMMA
// Shared memory descriptor: rows of 128 bytes, 128-byte swizzle, groups of eight rows 1,024
// bytes apart.
DEVICE u64 wgmma_descriptor(u32 at) {
  return (u64)1 << 62 | (u64)64 << 32 | (u64)1 << 16 | (at & 0x3ffff) >> 4;
}
// The same of rows of |pitch| bytes: 128 or 64, which is the swizzle too.
DEVICE u64 wgmma_descriptor(u32 at, int pitch) {
  u64 swizzle = pitch == 128 ? 1 : 2;
  return swizzle << 62 | (u64)(pitch / 2) << 32 | (u64)1 << 16 | (at & 0x3ffff) >> 4;
}
// Makes data written by cp.async or st.shared visible to wgmma after the next barrier.
DEVICE void wgmma_fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
// Registers of each thread of the warpgroup from now on: more than before, or fewer.
template <int N>
DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

// Accumulators with their constraint, "+f" or "+r".
#define SUMS8(as, c) \
  as((c)[0]), as((c)[1]), as((c)[2]), as((c)[3]), as((c)[4]), as((c)[5]), as((c)[6]), as((c)[7])
#define SUMS16(as, c)  SUMS8(as, c), SUMS8(as, (c) + 8)
#define SUMS32(as, c)  SUMS16(as, c), SUMS16(as, (c) + 16)
#define SUMS48(as, c)  SUMS32(as, c), SUMS16(as, (c) + 32)
#define SUMS64(as, c)  SUMS32(as, c), SUMS32(as, (c) + 32)
#define SUMS80(as, c)  SUMS64(as, c), SUMS16(as, (c) + 64)
#define SUMS96(as, c)  SUMS64(as, c), SUMS32(as, (c) + 64)
#define SUMS128(as, c) SUMS64(as, c), SUMS64(as, (c) + 64)
#define NAMES16        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define NAMES32        NAMES16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NAMES48 \
  NAMES32       \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define NAMES64                                                                                \
  NAMES32                                                                                      \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%" \
  "54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define NAMES80 NAMES64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define NAMES96 NAMES80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define NAMES128                                                                          \
  NAMES96                                                                                 \
  ",%96,%97,%98,%99,%100,"                                                                \
  "%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117," \
  "%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define GROUP(n, type, names) \
  "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" names "}, "
#define MULTIPLY_SHARED(type, n, count, a, b, more)                                      \
  static DEVICE_ONLY void multiply(f32* c, u64 x, u64 y, int add = 1) {                  \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " more                            \
                 ", 0;\n" GROUP(#n, type, NAMES##count) a ", " b ", add, 1, 1, 0, 0;\n}" \
                 : SUMS##count("+f", c)                                                  \
                 : "l"(x), "l"(y), "r"(add));                                            \
  }
#define GROUP_SHARED(T, type, n, count, a, b, more) \
  template <>                                       \
  struct wgmma_of<T, n> {                           \
    MULTIPLY_SHARED(type, n, count, a, b, more)     \
  };
// c += a b, or a b where |add| is 0: a in shared memory and the rows of b along k; or, 64 wide, a
// in registers and the rows of b along n.
#define GROUPS(T, type)                                                             \
  GROUP_SHARED(T, type, 32, 16, "%16", "%17", "%18")                                \
  template <>                                                                       \
  struct wgmma_of<T, 64> {                                                          \
    MULTIPLY_SHARED(type, 64, 32, "%32", "%33", "%34")                              \
    static DEVICE_ONLY void multiply(f32* c, const u32* a, u64 b) {                 \
      asm volatile(GROUP("64", type, NAMES32) "{%32,%33,%34,%35}, %36, 1, 1, 1, 1;" \
                   : SUMS32("+f", c)                                                \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));           \
    }                                                                               \
  };                                                                                \
  GROUP_SHARED(T, type, 128, 64, "%64", "%65", "%66")                               \
  GROUP_SHARED(T, type, 160, 80, "%80", "%81", "%82")                               \
  GROUP_SHARED(T, type, 192, 96, "%96", "%97", "%98")                               \
  GROUP_SHARED(T, type, 256, 128, "%128", "%129", "%130")
GROUPS(f16, "f16")
GROUPS(bf16, "bf16")
#define INTEGER_GROUP(T, type, n, count, a, b, more)                            \
  template <>                                                                   \
  struct wgmma_of<T, n> {                                                       \
    static DEVICE_ONLY void multiply(i32* c, u64 x, u64 y, int add = 1) {       \
      asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " more                 \
                   ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n "k32.s32." type \
                   ".s8 {" NAMES##count "}, " a ", " b ", add;\n}"              \
                   : SUMS##count("+r", c)                                       \
                   : "l"(x), "l"(y), "r"(add));                                 \
    }                                                                           \
  };
#define INTEGER_GROUPS(T, type)                        \
  INTEGER_GROUP(T, type, 32, 16, "%16", "%17", "%18")  \
  INTEGER_GROUP(T, type, 64, 32, "%32", "%33", "%34")  \
  INTEGER_GROUP(T, type, 96, 48, "%48", "%49", "%50")  \
  INTEGER_GROUP(T, type, 128, 64, "%64", "%65", "%66") \
  INTEGER_GROUP(T, type, 192, 96, "%96", "%97", "%98") \
  INTEGER_GROUP(T, type, 256, 128, "%128", "%129", "%130")
INTEGER_GROUPS(u8, "u8")
INTEGER_GROUPS(i8, "s8")
#define FP8_GROUP(n, count, a, b, more)                                                            \
  template <>                                                                                      \
  struct wgmma_of<e4m3, n> {                                                                       \
    static DEVICE_ONLY void multiply(f32* c, u64 x, u64 y, int add = 1) {                          \
      asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " more                                    \
                   ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n "k32.f32.e4m3.e4m3 {" NAMES##count \
                   "}, " a ", " b ", add, 1, 1;\n}"                                                \
                   : SUMS##count("+f", c)                                                          \
                   : "l"(x), "l"(y), "r"(add));                                                    \
    }                                                                                              \
  };
FP8_GROUP(32, 16, "%16", "%17", "%18")
FP8_GROUP(64, 32, "%32", "%33", "%34")
FP8_GROUP(128, 64, "%64", "%65", "%66")
FP8_GROUP(160, 80, "%80", "%81", "%82")
FP8_GROUP(192, 96, "%96", "%97", "%98")
FP8_GROUP(256, 128, "%128", "%129", "%130")
#else
DEVICE u64 wgmma_descriptor(u32, int = 0) { return 0; }
DEVICE void wgmma_fence_async() {}
DEVICE void wgmma_begin() {}
DEVICE void wgmma_commit() {}
template <int N>
DEVICE void wgmma_wait() {}
template <class T, int N>
struct wgmma_of {
  template <class C, class A>
  static DEVICE_ONLY void multiply(C*, A, u64, int = 1) {}
};
#endif

#endif
