// Arguments of the own kernels: one plain struct each, read by C and device code alike. Dimensions
// and strides are in elements, pointers are device addresses.
#ifndef CARNOT_KERNEL_CUDA_PARAMS_H_
#define CARNOT_KERNEL_CUDA_PARAMS_H_

enum { CARNOT_CUDA_RANK = 8, CARNOT_CUDA_THREADS = 256 };
// Most threads of a reduction by columns. Group normalization: threads, pieces of 16 bytes that
// each keeps, most channels of a slice.
enum {
  CARNOT_CUDA_COLUMN_THREADS = 512,
  CARNOT_CUDA_GROUP_THREADS = 512,
  CARNOT_CUDA_GROUP_KEEP = 8,
  CARNOT_CUDA_GROUP_SLICE = 1024
};

// y[i·dst] = x[i·src] for every position i of |dims|; kernels copy_<bytes of an element>.
typedef struct carnot_cuda_copy {
  const void* x;
  void* y;
  long long count;
  int rank;
  long long dims[CARNOT_CUDA_RANK], src[CARNOT_CUDA_RANK], dst[CARNOT_CUDA_RANK];
} carnot_cuda_copy;

// As a copy along |rank| dimensions of y, but positions outside x (shifted by |begin|) give |value|
// (mode 0), the nearest (1), the mirrored (2) or the wrapped (3) element.
typedef struct carnot_cuda_pad {
  const void* x;
  void* y;
  const void* value;  // NULL: zero bits
  long long count;
  int rank, mode;
  long long dims[CARNOT_CUDA_RANK], begin[CARNOT_CUDA_RANK], size[CARNOT_CUDA_RANK],
      src[CARNOT_CUDA_RANK];
} carnot_cuda_pad;

// y[o,i,n] = x[o, index[i], n], negative indices from the end, those outside give 0.
typedef struct carnot_cuda_gather {
  const void *x, *index;
  void* y;
  long long outer, count, inner, size;
  int index_bytes;  // 4 or 8
} carnot_cuda_gather;

// y[b, q, n] = x[b, index[b, q, ..], n], |depth| indices a query, negative ones from the end; those
// outside give 0.
typedef struct carnot_cuda_gather_nd {
  const void* x;
  const long long* index;
  void* y;
  long long count, queries, inner,
      batch;  // of all results, a batch, a slice; elements of x a batch
  int depth;
  long long dims[CARNOT_CUDA_RANK];
} carnot_cuda_gather_nd;

// y[k] = fn over all r of x[k·kept + r·reduced].
typedef struct carnot_cuda_reduce {
  const void* x;
  void* y;
  int fn;  // carnot_cuda_reduction
  int kept_rank, reduced_rank;
  long long kept_count, reduced_count;
  long long kept_dims[CARNOT_CUDA_RANK], kept[CARNOT_CUDA_RANK];
  long long reduced_dims[CARNOT_CUDA_RANK], reduced[CARNOT_CUDA_RANK];
  int slice, parts;  // by columns: pieces a block, blocks a cluster that share what is reduced
} carnot_cuda_reduce;

typedef enum carnot_cuda_reduction {
  CARNOT_CUDA_SUM,
  CARNOT_CUDA_MEAN,
  CARNOT_CUDA_MAX,
  CARNOT_CUDA_MIN,
  CARNOT_CUDA_PROD,
  CARNOT_CUDA_L1,
  CARNOT_CUDA_L2,
  CARNOT_CUDA_LOG_SUM,
  CARNOT_CUDA_LOG_SUM_EXP,
  CARNOT_CUDA_SUM_SQUARE,
} carnot_cuda_reduction;

// Rows of |size| elements |stride| apart; row r begins at (r / inner) * size * stride + r % inner.
// y = exp(scale x + mask - max) / sum, or its logarithm.
typedef struct carnot_cuda_softmax {
  const void* x;
  void* y;
  const void* mask;  // of scores [.., size]: row r reads mask at mask_row(r); NULL: none
  long long rows, size, inner, stride;
  float scale;
  int log;
  // Of masks: row r = ((b * heads + h) * queries + q); strides may be 0.
  long long heads, queries, mask_b, mask_h, mask_q, mask_k;
  int mask_type;  // 0 the type of x, 1 bool
  int causal;     // keys behind q + past are left out
  long long past;
} carnot_cuda_softmax;

// Groups of |size| elements, dense; y = (x - mean) / sqrt(var + eps) * scale + bias.
// Element i of group g has channel: per_element ? i : (g % groups) * (size / spatial) + i /
// spatial.
typedef struct carnot_cuda_norm {
  const void *x, *scale, *bias;  // scale and bias may be NULL
  void* y;
  void *mean_out, *inv_out;  // NULL or results of type float
  long long count, size, spatial, groups;
  float eps;
  int rms, per_element;
} carnot_cuda_norm;

// y = (x - mean[c]) / sqrt(var[c] + eps) * scale[c] + bias[c], x as [n, channels, spatial].
typedef struct carnot_cuda_batch_norm {
  const void *x, *scale, *bias, *mean, *var;
  void* y;
  long long count, channels, spatial;
  float eps;
} carnot_cuda_batch_norm;

// Windows over up to three spatial dimensions, any strides.
typedef struct carnot_cuda_window {
  const void *x, *w, *bias;
  void* y;
  long long n, channels, filters, groups;  // pooling: filters = channels
  long long in[3], out[3], kernel[3], step[3], dilation[3], begin[3], end[3];
  long long x_n, x_c, x_s[3], y_n, y_c, y_s[3];
  int average, count_padding;
} carnot_cuda_window;

// c[b,m,n] = alpha sum_k a[b,m,k] b[b,k,n] + beta c[b,m,n], then max(c, 0) with |relu|; any
// strides.
typedef struct carnot_cuda_gemm {
  const void *a, *b;
  void* c;
  long long m, n, k, batch;
  long long a_b, a_m, a_k, b_b, b_k, b_n, c_b, c_m, c_n;
  float alpha, beta;
  int relu;
} carnot_cuda_gemm;

// Group normalization of halves channels last, x and y [n, pixels, channels] dense, by slices of
// whole groups: the |parts| blocks of a cluster read a slice of an image once; or |parts| blocks
// note count, mean and sum of squared distances of each group, and as many of a second kernel apply
// them.
typedef struct carnot_cuda_group_norm {
  const void *x, *scale, *bias;  // scale and bias may be NULL
  void* y;
  float* partial;  // of the two: [n, groups, parts, 3]
  long long pixels;
  int channels, groups, slice, parts, per_part;  // channels of a slice, pixels of a part
  float eps;
  int activation;  // carnot_cuda_activation
} carnot_cuda_group_norm;

typedef enum carnot_cuda_activation {
  CARNOT_CUDA_NO_ACTIVATION,
  CARNOT_CUDA_CLAMP,  // to [low, high]
  CARNOT_CUDA_SILU,
  CARNOT_CUDA_HARD_SWISH,
  CARNOT_CUDA_SIGMOID,
  CARNOT_CUDA_GELU,  // x Phi(x)
} carnot_cuda_activation;

// Depthwise convolution of halves channels last, weights [taps, channels]; eight channels a thread.
typedef struct carnot_cuda_depthwise {
  const void *x, *w, *bias;  // bias may be NULL
  void* y;
  long long count;  // n * rows * columns * channels / 8
  unsigned images;
  int channels, rows, columns, in_rows, in_columns;
  int kernel[2], step[2], dilation[2], begin[2];
  int activation;
  float low, high;
} carnot_cuda_depthwise;

// y = softmax(scale q kT + mask) v for |batch| = outer * inner heads; strides in elements, [0] of
// the outer, [1] of the inner batch, [2] of rows; the elements of a head stand next to one another.
typedef struct carnot_cuda_attention {
  const void *q, *k, *v, *mask;  // mask may be NULL
  void* y;
  int queries, keys, size, value_size;  // sizes of a head, multiples of 8
  int inner;
  long long q_s[3], k_s[3], v_s[3], y_s[3], mask_s[3];
  float scale;
  int mask_is_float, zero_empty;  // a query without any key gives zeros
  int mask_in_pairs;              // two numbers of the mask from an even key on are aligned
  // What the tiles of the mask need (attention_kinds), bytes [masks, tiles of queries, of keys];
  // NULL: unknown.
  unsigned char* kinds;
  int kinds_s[2];  // masks of the outer and of the inner batch apart
  int tile_rows, tile_keys;
} carnot_cuda_attention;

// y[m,n] = activation(sum_k a[m,k] w[n,k] + bias[n] + residual[m,n]) of halves. Row m is a place of
// the result (image, row, column), k a tap and a channel of x, channels last; a plain product has
// one image, one row and one tap. |channels|, |pixel|, |filters| are multiples of 8.
typedef struct carnot_cuda_product {
  const void *x, *w, *bias, *residual;  // bias and residual may be NULL
  void* y;
  long long rows;       // m
  int filters, depth;   // n; k = taps * channels
  int channels, pixel;  // of a tap; elements from one pixel of x to the next
  int in_rows, in_columns, out_rows, out_columns;
  int kernel_columns;
  int step[2], dilation[2], begin[2];
  int prefetch;    // the block's weights into the L2 cache, ahead of the previous kernel's end
  int activation;  // carnot_cuda_activation
  float low, high;
} carnot_cuda_product;

// clang-format off
// X(rows, columns, stages) of each tile.
#define CARNOT_CUDA_TILES(X) \
  X(16, 64, 8) X(32, 64, 6) X(64, 32, 6) X(64, 64, 6) X(64, 128, 5) X(128, 32, 6) X(128, 64, 5) X(128, 128, 5)
#define CARNOT_CUDA_TILE_THREADS(rows) ((rows) / 16 * ((rows) >= 64 ? 1 : 4) * 32)
// Bytes of a stage of rows and weights; and of the sums, which take its place at the end.
#define CARNOT_CUDA_TILE_STAGE(rows, columns) (((rows) + (columns)) * 128)
#define CARNOT_CUDA_TILE_SUMS(rows, columns) ((rows) * ((columns) + 4) * 4)
// clang-format on

// |rounds| of multiply-adds in registers; |out| is never written.
typedef struct carnot_cuda_peak {
  float* out;
  int rounds;
} carnot_cuda_peak;

#endif  // CARNOT_KERNEL_CUDA_PARAMS_H_
