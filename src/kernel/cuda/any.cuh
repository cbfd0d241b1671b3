// Elements whose type is found out while running: for kernels of rare layers, one image for all types.
#define TYPES(X) X(F32, f32) X(F64, f64) X(F16, f16) X(BF16, bf16) X(I8, i8) X(U8, u8) X(I16, i16) \
  X(U16, u16) X(I32, i32) X(U32, u32) X(I64, i64) X(U64, u64) X(B8, b8)

DEVICE bool is_real(int type) { return type <= CARNOT_CUDA_BF16; }

template <class A> DEVICE A any_load(int type, const void* x, i64 i) {
  switch (type) {
#define LOAD(NAME, T) case CARNOT_CUDA_##NAME: return (A)load(((const T*)x)[i]);
    TYPES(LOAD)
#undef LOAD
  }
  return 0;
}
DEVICE f64 real_of(int type, const void* x, i64 i) { return any_load<f64>(type, x, i); }
DEVICE i64 whole_of(int type, const void* x, i64 i) { return any_load<i64>(type, x, i); }

template <class T> struct any_caster : caster<T> {};
template <> struct any_caster<f16> {
  template <class V> static DEVICE_ONLY f16 of(V v) { return store_as<f16>::of((f32)v); }
};
template <> struct any_caster<bf16> {
  template <class V> static DEVICE_ONLY bf16 of(V v) { return store_as<bf16>::of((f32)v); }
};
template <> struct any_caster<b8> {
  template <class V> static DEVICE_ONLY b8 of(V v) { return store_as<b8>::of(v != 0); }
};
template <class V> DEVICE void any_store(int type, void* y, i64 i, V v) {
  switch (type) {
#define STORE(NAME, T) case CARNOT_CUDA_##NAME: ((T*)y)[i] = any_caster<T>::of(v); break;
    TYPES(STORE)
#undef STORE
  }
}

DEVICE void move(int bytes, void* y, i64 to, const void* x, i64 from) {
  if (bytes == 1) ((u8*)y)[to] = ((const u8*)x)[from];
  if (bytes == 2) ((u16*)y)[to] = ((const u16*)x)[from];
  if (bytes == 4) ((u32*)y)[to] = ((const u32*)x)[from];
  if (bytes == 8) ((u64*)y)[to] = ((const u64*)x)[from];
}
DEVICE void clear(int bytes, void* y, i64 to) {
  const u64 zero = 0;
  move(bytes, y, to, &zero, 0);
}

// One thread an item of io.count.
#define ANY(name, params)                                               \
  extern "C" __global__ void any_##name(params p) {                     \
    wait_for_previous();                                                \
    i64 i = THREAD;                                                     \
    if (i < p.io.count) name(p, i);                                     \
  }
// One block an item.
#define ANY_BLOCK(name, params)                                         \
  extern "C" __global__ void any_##name(params p) {                     \
    wait_for_previous();                                                \
    name(p, blockIdx.x);                                                \
  }
