// GEMM blocks for REAL, with N(name) the name made for the type. Included once a type by
// gemm.c.

typedef REAL N(vec) __attribute__((vector_size(32)));
enum { N(LANES) = 32 / sizeof(REAL), N(ROWS) = 4 };

// ROWS x LANES of c in registers; |b| walks down a panel.
static inline void N(tile)(int64_t k, const REAL* a, int64_t a_row, int64_t a_col, const REAL* b,
                           REAL out[N(ROWS)][N(LANES)]) {
  N(vec) sum0 = {0}, sum1 = {0}, sum2 = {0}, sum3 = {0};
  for (int64_t i = 0; i < k; i++) {
    N(vec) row;
    memcpy(&row, b + i * CARNOT_GEMM_N, sizeof(row));
    const REAL* column = a + i * a_col;
    sum0 += column[0] * row;
    sum1 += column[a_row] * row;
    sum2 += column[2 * a_row] * row;
    sum3 += column[3 * a_row] * row;
  }
  memcpy(out[0], &sum0, sizeof(sum0));
  memcpy(out[1], &sum1, sizeof(sum1));
  memcpy(out[2], &sum2, sizeof(sum2));
  memcpy(out[3], &sum3, sizeof(sum3));
}

static inline void N(row)(int64_t k, const REAL* a, int64_t a_col, const REAL* b,
                          REAL out[N(LANES)]) {
  N(vec) sum = {0};
  for (int64_t i = 0; i < k; i++) {
    N(vec) row;
    memcpy(&row, b + i * CARNOT_GEMM_N, sizeof(row));
    sum += a[i * a_col] * row;
  }
  memcpy(out, &sum, sizeof(sum));
}

static void N(store)(int64_t rows, int64_t n, REAL from[N(ROWS)][N(LANES)], REAL* c, int64_t c_row,
                     bool add) {
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < n; j++) {
      c[i * c_row + j] = add ? c[i * c_row + j] + from[i][j] : from[i][j];
    }
  }
}

void N(carnot_gemm_panel)(int64_t m, int64_t n, int64_t k, const REAL* a, int64_t a_row,
                          int64_t a_col, const REAL* panel, REAL* c, int64_t c_row, bool add) {
  REAL out[N(ROWS)][N(LANES)];
  for (int64_t j = 0; j < n; j += N(LANES)) {
    int64_t width = n - j < N(LANES) ? n - j : N(LANES), i = 0;
    for (; i + N(ROWS) <= m; i += N(ROWS)) {
      N(tile)(k, a + i * a_row, a_row, a_col, panel + j, out);
      N(store)(N(ROWS), width, out, c + i * c_row + j, c_row, add);
    }
    for (; i < m; i++) {
      N(row)(k, a + i * a_row, a_col, panel + j, out[0]);
      N(store)(1, width, out, c + i * c_row + j, c_row, add);
    }
  }
}

void N(carnot_gemm_part)(const carnot_gemm* g, int64_t part) {
  _Alignas(64) REAL panel[CARNOT_GEMM_K * CARNOT_GEMM_N];
  block at = block_of(g, part);
  const REAL *a = (const REAL*)g->a + at.row * g->a_row, *b = g->b;
  REAL* c = (REAL*)g->c + at.row * g->c_row;
  for (int64_t j = at.column; j < at.column_end; j += CARNOT_GEMM_N) {
    int64_t n = at.column_end - j < CARNOT_GEMM_N ? at.column_end - j : CARNOT_GEMM_N, k0 = 0;
    do {
      int64_t k = g->k - k0 < CARNOT_GEMM_K ? g->k - k0 : CARNOT_GEMM_K;
      for (int64_t i = 0; i < k; i++) {
        const REAL* row = b + (k0 + i) * g->b_row + j * g->b_col;
        REAL* to = panel + i * CARNOT_GEMM_N;
        for (int64_t l = 0; l < n; l++) to[l] = row[l * g->b_col];
        for (int64_t l = n; l < CARNOT_GEMM_N; l++) to[l] = 0;
      }
      N(carnot_gemm_panel)
      (at.rows, n, k, a + k0 * g->a_col, g->a_row, g->a_col, panel, c + j, g->c_row,
       /*add=*/k0 > 0);
      k0 += k;
    } while (k0 < g->k);
  }
}
