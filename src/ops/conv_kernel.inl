// Convolution of one part for REAL, with N(name) the name made for the type: panels of the input,
// gathered tap by tap, times the weights. Included once a type by conv.c.

static void N(gather)(const conv_run* r, const taps* t, const REAL* x, int64_t k0, int64_t k,
                      REAL* panel) {
  for (int64_t i = 0; i < k; i++) {
    int64_t channel = (k0 + i) / r->tap_count, tap = (k0 + i) % r->tap_count;
    const REAL* plane = x + channel * r->in_size;
    int64_t own[CARNOT_GEMM_N];
    const int64_t* at = own;
    if (r->tap_count <= kTaps) {
      at = t->offsets[tap];
    } else {
      tap_offsets(r, t, tap, own);
    }
    REAL* to = panel + i * CARNOT_GEMM_N;
    for (int j = 0; j < CARNOT_GEMM_N; j++) to[j] = at[j] >= 0 ? plane[at[j]] : 0;
  }
}

static void N(conv_part)(void* arg, int64_t part) {
  const conv_run* r = arg;
  _Alignas(64) REAL panel[CARNOT_GEMM_K * CARNOT_GEMM_N];
  taps t;
  int64_t block = part % r->blocks, group = part / r->blocks % r->groups,
          image = part / r->blocks / r->groups;
  int64_t depth = r->group_channels * r->tap_count, m0 = group * r->group_filters;
  const REAL* x = (const REAL*)r->x + (image * r->groups + group) * r->group_channels * r->in_size;
  const REAL* w = (const REAL*)r->w + m0 * depth;
  const REAL* bias = (const REAL*)r->bias;
  REAL* y = (REAL*)r->y + (image * r->groups * r->group_filters + m0) * r->out_size;
  int64_t end = carnot_min_i64((block + 1) * kPixels, r->out_size);
  for (int64_t p = block * kPixels; p < end; p += CARNOT_GEMM_N) {
    int64_t n = carnot_min_i64(CARNOT_GEMM_N, end - p);
    for (int64_t m = 0; m < r->group_filters; m++) {
      for (int64_t j = 0; j < n; j++) y[m * r->out_size + p + j] = bias ? bias[m0 + m] : 0;
    }
    taps_begin(r, p, n, &t);
    for (int64_t k0 = 0; k0 < depth; k0 += CARNOT_GEMM_K) {
      int64_t k = carnot_min_i64(CARNOT_GEMM_K, depth - k0);
      N(gather)(r, &t, x, k0, k, panel);
      N(carnot_gemm_panel)
      (r->group_filters, n, k, w + k0, depth, 1, panel, y + p, r->out_size,
       /*add=*/true);
    }
  }
}
