// What the tile kernels do behind their sums: the exchange between the blocks of a cluster, and bias, residual
// and activation.

#if __CUDA_ARCH__ >= 800

DEVICE void cluster_sync() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// The place of shared address |at| in block |rank| of the cluster.
DEVICE u32 shared_of(u32 at, u32 rank) {
  u32 there = at;
#if __CUDA_ARCH__ >= 900
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
#endif
  return there;
}
#define READ_SUMS(name, space)                                                                                 \
  DEVICE void name(f32* v, u32 at) {                                                                           \
    asm volatile("ld." space ".v4.f32 {%0,%1,%2,%3}, [%4];"                                                    \
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(at));                                  \
    asm volatile("ld." space ".v4.f32 {%0,%1,%2,%3}, [%4];"                                                    \
                 : "=f"(v[4]), "=f"(v[5]), "=f"(v[6]), "=f"(v[7]) : "r"(at + 16));                             \
  }
READ_SUMS(read_own_sums, "shared")
#if __CUDA_ARCH__ >= 900
READ_SUMS(read_sums, "shared::cluster")
#else
READ_SUMS(read_sums, "shared")
#endif

// Results, eight at a time. Copies of parameters: their constant memory is cold by the time of the end.
template <class T> struct results {
  eight bias;  // of the thread's columns
  eight *to, *residuals;
  int filters, activation;  // filters / 8
  i64 rows;
  f32 low, high;

  DEVICE_ONLY void keep(const carnot_cuda_product& p) {
    to = (eight*)p.y, residuals = (eight*)p.residual;
    filters = p.filters / 8, activation = p.activation, rows = p.rows, low = p.low, high = p.high;
    asm volatile("" : "+l"(to), "+l"(residuals), "+r"(filters), "+r"(activation), "+l"(rows), "+f"(low), "+f"(high));
  }
  DEVICE_ONLY void read_bias(const carnot_cuda_product& p, int n) {
    bias = {};
    if (p.bias && n < filters) bias = ((const eight*)p.bias)[n];
  }
  DEVICE_ONLY bool has(i64 row, int n) { return row < rows && n < filters; }
  DEVICE_ONLY eight residual_at(i64 row, int n) {
    eight none = {};
    return residuals && has(row, n) ? residuals[row * filters + n] : none;
  }
  // |v|: sums of all parts.
  DEVICE_ONLY void put(f32* v, const eight& residual, i64 row, int n) {
    if (!has(row, n)) return;
    for (int e = 0; e < 8; e++) v[e] += half_at<T>(bias, e) + half_at<T>(residual, e);
    if (activation) activate_eight(activation, low, high, v);
    pack<T>(to, row * filters + n, v);
  }
};

#endif
