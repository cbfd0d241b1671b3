// Tensor cores and what feeds them: 16-byte fetches into shared memory, products of a warp (sm_80) and of a
// warpgroup (sm_90a).

#define MINUS_INFINITY (-__int_as_float(0x7f800000))
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WGMMA 1
#else
#define HAS_WGMMA 0
#endif

#if __CUDA_ARCH__ >= 800

DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
// 16 bytes, of which |bytes| are read, the rest zero.
DEVICE void fetch(u32 to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}
DEVICE void fetch_commit() { asm volatile("cp.async.commit_group;"); }
template <int N> DEVICE void fetch_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
DEVICE void read4(u32* r, u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
DEVICE void read4_transposed(u32* r, u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
// pair: two floats as halves, |a| in the low bits; clamp: of two halves, NaN stays.
template <class T> struct matrix;
#define MATRIX(T, name)                                                                          \
  template <> struct matrix<T> {                                                                 \
    static DEVICE_ONLY void multiply(f32* c, const u32* a, u32 b0, u32 b1) {                     \
      asm("mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 {%0,%1,%2,%3}, "          \
          "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                               \
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                       \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                       \
    }                                                                                            \
    static DEVICE_ONLY u32 pair(f32 a, f32 b) {                                                  \
      u32 y;                                                                                     \
      asm("cvt.rn." name "x2.f32 %0, %1, %2;" : "=r"(y) : "f"(b), "f"(a));                       \
      return y;                                                                                  \
    }                                                                                            \
    static DEVICE_ONLY u32 clamp(u32 x, u32 low, u32 high) {                                     \
      asm("max.NaN." name "x2 %0, %0, %1;\nmin.NaN." name "x2 %0, %0, %2;" : "+r"(x) : "r"(low), "r"(high)); \
      return x;                                                                                  \
    }                                                                                            \
  };
MATRIX(f16, "f16")
MATRIX(bf16, "bf16")

// ---- products of a warpgroup, 64 x N x 16, the second factor in shared memory ----

template <class T, int N> struct group;
#if HAS_WGMMA
// Rows of 128 bytes, pieces of 16 swizzled, eight rows 1,024 bytes apart.
DEVICE u64 descriptor(u32 at) { return (u64)1 << 62 | (u64)64 << 32 | (u64)1 << 16 | (at & 0x3ffff) >> 4; }
// What cp.async brought is seen by the products behind the next barrier.
DEVICE void group_sees() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void group_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void group_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEVICE void group_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }

#define SUMS8(c) "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3]), "+f"((c)[4]), "+f"((c)[5]), "+f"((c)[6]), "+f"((c)[7])
#define SUMS16(c) SUMS8(c), SUMS8((c) + 8)
#define SUMS32(c) SUMS16(c), SUMS16((c) + 16)
#define SUMS64(c) SUMS32(c), SUMS32((c) + 32)
#define SUMS80(c) SUMS64(c), SUMS16((c) + 64)
#define SUMS96(c) SUMS64(c), SUMS32((c) + 64)
#define SUMS128(c) SUMS64(c), SUMS64((c) + 64)
#define NAMES16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define NAMES32 NAMES16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NAMES64                                                                                    \
  NAMES32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define NAMES80 NAMES64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define NAMES96 NAMES80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define NAMES128                                                                                   \
  NAMES96 ",%96,%97,%98,%99,%100,"                                                                 \
          "%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,"  \
          "%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define GROUP(n, type, names) "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" names "}, "
#define MULTIPLY_SHARED(type, n, count, a, b, more)                                                \
  static DEVICE_ONLY void multiply(f32* c, u64 x, u64 y, int add = 1) {                            \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " more ", 0;\n"                             \
                 GROUP(#n, type, NAMES##count) a ", " b ", add, 1, 1, 0, 0;\n}"                     \
                 : SUMS##count(c) : "l"(x), "l"(y), "r"(add));                                     \
  }
#define GROUP_SHARED(T, type, n, count, a, b, more)                                                \
  template <> struct group<T, n> { MULTIPLY_SHARED(type, n, count, a, b, more) };
// c += a b, or a b where |add| is 0: a in shared memory and the rows of b along k; or, 64 wide, a in registers and the rows of b along n.
#define GROUPS(T, type)                                                                            \
  GROUP_SHARED(T, type, 32, 16, "%16", "%17", "%18")                                                        \
  template <> struct group<T, 64> {                                                                \
    MULTIPLY_SHARED(type, 64, 32, "%32", "%33", "%34")                                              \
    static DEVICE_ONLY void multiply(f32* c, const u32* a, u64 b) {                                \
      asm volatile(GROUP("64", type, NAMES32) "{%32,%33,%34,%35}, %36, 1, 1, 1, 1;"                \
                   : SUMS32(c) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));              \
    }                                                                                              \
  };                                                                                               \
  GROUP_SHARED(T, type, 128, 64, "%64", "%65", "%66")                                                       \
  GROUP_SHARED(T, type, 160, 80, "%80", "%81", "%82")                                                       \
  GROUP_SHARED(T, type, 192, 96, "%96", "%97", "%98")                                                       \
  GROUP_SHARED(T, type, 256, 128, "%128", "%129", "%130")
GROUPS(f16, "f16")
GROUPS(bf16, "bf16")
#else
DEVICE u64 descriptor(u32) { return 0; }
DEVICE void group_sees() {}
DEVICE void group_begin() {}
DEVICE void group_commit() {}
template <int N> DEVICE void group_wait() {}
template <class T, int N> struct group {
  template <class A> static DEVICE_ONLY void multiply(f32*, A, u64, int = 1) {}
};
#endif

#endif
