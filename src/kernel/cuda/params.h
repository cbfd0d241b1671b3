// Arguments of the own kernels: one plain struct each, read by C and device code alike. Dimensions
// and strides are in elements, pointers are device addresses.
#ifndef CARNOT_KERNEL_CUDA_PARAMS_H_
#define CARNOT_KERNEL_CUDA_PARAMS_H_

enum { CARNOT_CUDA_RANK = 8, CARNOT_CUDA_THREADS = 256 };
// Most threads of a reduction by columns. Group normalization: threads, pieces of 16 bytes that
// each keeps in the first of two readings, most channels of a slice.
enum {
  CARNOT_CUDA_COLUMN_THREADS = 512,
  CARNOT_CUDA_GROUP_THREADS = 512,
  CARNOT_CUDA_GROUP_KEEP = 8,
  CARNOT_CUDA_GROUP_SLICE = 1024,
  CARNOT_CUDA_SQUEEZE_THREADS = 512
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
  long long period;  // per_element: elements after which scale and bias begin again
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
  int power;          // pooling: of the norm over a window; 0: none
  long long* places;  // of the maxima, flat over [n, channels, in..]; NULL: not wanted
  int column_major;   // the places count spatial dimensions column first
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
// whole groups: the |parts| blocks of a cluster read a slice of an image once and keep it; or
// |parts| blocks note count, mean and sum of squared distances of each group, and as many of a
// second kernel apply them.
typedef struct carnot_cuda_group_norm {
  const void *x, *scale, *bias;  // scale and bias may be NULL
  void* y;
  float* partial;  // of the two: [n, groups, parts, 3]
  long long pixels;
  int channels, groups, slice, parts, per_part;  // channels of a slice, pixels of a part
  int images, kept;                              // kept: of the one: pieces that a thread keeps
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
  CARNOT_CUDA_GELU_TANH,
  CARNOT_CUDA_HARD_SIGMOID,  // low x + high to [0, 1]
} carnot_cuda_activation;

// y = x outer(w2 inner(w1 mean(x) + b1) + b2) of halves channels last, x and y [n, pixels,
// channels] dense, mean over pixels. |weights|: w1 [hidden, channels], w2 [channels, hidden], b1,
// b2; |hidden| is filled up to a multiple of eight. A cluster an image: block r has slice r %
// slices of the channels and part r / slices of the pixels.
typedef struct carnot_cuda_squeeze {
  const void *x, *weights;
  void* y;
  int images, pixels, channels, hidden;
  int slice, slices, parts, per_part;  // channels of a slice, pixels of a part
  int kept, staged;  // pieces that a thread keeps; whether weights go to shared memory first
  int inner, outer;  // carnot_cuda_activation
  float inner_low, inner_high, outer_low, outer_high;
} carnot_cuda_squeeze;

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

// A tensor map as the driver makes it.
typedef struct carnot_cuda_map {
  unsigned long long bits[16];
} __attribute__((aligned(64))) carnot_cuda_map;

// The same product by the copy engine: a cluster has |across| tiles side by side; K is cut over its
// third dimension.
typedef struct carnot_cuda_bulk {
  carnot_cuda_map x, w;         // boxes of 64 by rows / across, and by columns
  carnot_cuda_product product;  // x and w unused
  int taps, chunks;             // steps of K: |chunks| of 64 channels for each tap
  int is_window;                // the map of x is one of windows (im2col)
  int across, stages;
  int parts;  // where in shared memory the other blocks' sums stand
} carnot_cuda_bulk;

// clang-format off
// X(rows, columns) of each tile.
#define CARNOT_CUDA_BULKS(X) X(64, 32) X(64, 64) X(128, 64) X(128, 128) X(128, 160) X(128, 256)
#define CARNOT_CUDA_BULK_THREADS(rows) ((rows) * 2 + 32)
enum { CARNOT_CUDA_BULK_STAGES = 16 };
// clang-format on

// The same by blocks that stay: each walks over tiles of 128 rows by some columns, two groups of
// threads take them in turns, so that one ends its tile while the other multiplies. With |gate| the
// activation is v / (1 + 2^(v (c[0] + t (c[1] + t c[2])))), t = min(v v, 36); else it is to [low,
// high]. |filters| is a multiple of 32.
typedef struct carnot_cuda_relay {
  carnot_cuda_map x, w;         // boxes of 64 by 128, and of filters in relay.cuh's order
  carnot_cuda_product product;  // x and w unused
  int taps, chunks, is_window;  // as above
  int stages;
  int down, across;  // tiles
  int gate;
  float c[3];
} carnot_cuda_relay;

// clang-format off
// X(columns) of each tile.
#define CARNOT_CUDA_RELAYS(X) X(128) X(160) X(192)
enum { CARNOT_CUDA_RELAY_ROWS = 128, CARNOT_CUDA_RELAY_THREADS = 384 };
// clang-format on

// y[n,p,q,f] = activation(sum over taps and channels of x w + bias[f]) with up to four channels, x
// of any strides, y of halves channels last; weights packed as stream.cuh says. A block computes
// tiles of results, each from a patch of x.
enum {
  CARNOT_CUDA_FIRST_THREADS = 128,
  CARNOT_CUDA_FIRST_TILE = 128,  // most results of a tile
  CARNOT_CUDA_FIRST_PATCH = 896  // most pixels of a patch
};
// Blocks on a multiprocessor, by the chunks of 32 filters that each computes.
#define CARNOT_CUDA_FIRST_BLOCKS(chunks) ((chunks) == 1 ? 4 : 3)
typedef struct carnot_cuda_first {
  const void *x, *w, *bias;  // bias may be NULL
  void* y;
  long long x_n;
  int x_c, x_row, x_column, channels, filters;
  int in_rows, in_columns, out_rows, out_columns;
  int kernel[2], step[2], begin[2];
  int tile_rows, tile_columns, patch_rows, patch_columns;
  int tiles_down, tiles_across, tiles;  // of an image; of all
  int activation;                       // carnot_cuda_activation
  float low, high;
} carnot_cuda_first;

// y[m,n] = activation(sum_k x[m,k] w[n,k] + bias[n] + residual[m,n]) of halves with few k, all
// dense; weights packed as stream.cuh says.
typedef struct carnot_cuda_thin {
  const void *x, *w, *bias, *residual;  // bias and residual may be NULL
  void* y;
  int rows, channels, filters;
  int activation;
  float low, high;
} carnot_cuda_thin;

// clang-format off
enum { CARNOT_CUDA_THIN_THREADS = 256 };
// X(channels / 32, blocks on a multiprocessor) of each kernel.
#define CARNOT_CUDA_THINS(X) X(1, 3) X(2, 3) X(3, 2) X(4, 2)
// Bytes of packed weights: chunks of 32 filters, steps of 16 along K.
#define CARNOT_CUDA_STREAM_BYTES(chunks, steps) ((chunks) * (steps) * 1024)
// clang-format on

// y[n,p,q,c] = x[n,c,p,q] as a half; x of any strides. |count| pixels.
typedef struct carnot_cuda_narrow {
  const void* x;
  void* y;
  long long count, channels, x_c;
  long long dims[CARNOT_CUDA_RANK], src[CARNOT_CUDA_RANK];  // n and spatial axes
  int rank;
} carnot_cuda_narrow;

// |rounds| of multiply-adds in registers, which never write |out|, or of copies from its second
// half to its first.
typedef struct carnot_cuda_peak {
  float* out;
  int rounds;
} carnot_cuda_peak;

// clang-format off
// Element types of kernels that find out while running: real ones first, those of a byte or less at
// the ends of their kind.
#define CARNOT_CUDA_NUMBERS(X) \
  X(F32) X(F64) X(F16) X(BF16) X(F8E4M3FN) X(F8E4M3FNUZ) X(F8E5M2) X(F8E5M2FNUZ) X(F8E8M0) X(F6E2M3) X(F6E3M2) X(F4E2M1) \
  X(I8) X(U8) X(I16) X(U16) X(I32) X(U32) X(I64) X(U64) X(BOOL) X(I4) X(U4) X(I2) X(U2)
// clang-format on
typedef enum carnot_cuda_number {
#define CARNOT_CUDA_NUMBER(NAME) CARNOT_CUDA_##NAME,
  CARNOT_CUDA_NUMBERS(CARNOT_CUDA_NUMBER)
#undef CARNOT_CUDA_NUMBER
} carnot_cuda_number;

enum { CARNOT_CUDA_IO_INPUTS = 9, CARNOT_CUDA_IO_OUTPUTS = 4 };

// What the structs below begin with: dense operands, and how many items (threads or blocks).
typedef struct carnot_cuda_io {
  const void* in[CARNOT_CUDA_IO_INPUTS];  // NULL: absent
  void* out[CARNOT_CUDA_IO_OUTPUTS];
  int in_type[CARNOT_CUDA_IO_INPUTS], out_type[CARNOT_CUDA_IO_OUTPUTS];
  long long count;
  int bytes;      // of an element of what is moved
  int together;   // elements of a thread: those of packed types that share bytes
  void* scratch;  // the step's workspace
} carnot_cuda_io;

// Lanes of |length| elements |inner| apart.
typedef struct carnot_cuda_lanes {
  carnot_cuda_io io;
  long long length, inner;
  long long k;                      // top_k: how many
  int largest, last;                // arg_reduce, top_k: the largest; of equal ones the last
  int product, exclusive, reverse;  // cumulative
  int power;                        // lp_norm: 1 or 2
  long long size;                   // lrn: neighbours
  double alpha, beta, bias;
  int rank;  // cumulative along the axis that input 1 names: of x
  long long dims[CARNOT_CUDA_RANK];
} carnot_cuda_lanes;

// in [x, index, updates] or [x, index]; |dims| of the index, |stride| of x.
typedef struct carnot_cuda_elements {
  carnot_cuda_io io;
  int rank, axis, reduction;  // carnot_cuda_scatter
  long long size, dims[CARNOT_CUDA_RANK], stride[CARNOT_CUDA_RANK];
} carnot_cuda_elements;

typedef enum carnot_cuda_scatter {
  CARNOT_CUDA_KEEP,
  CARNOT_CUDA_ADD,
  CARNOT_CUDA_MUL,
  CARNOT_CUDA_HIGH,
  CARNOT_CUDA_LOW,
} carnot_cuda_scatter;

// Rows of |inner| updates go where |depth| indices each say.
typedef struct carnot_cuda_scatter_nd {
  carnot_cuda_io io;
  int depth, reduction;
  long long rows, inner, dims[CARNOT_CUDA_RANK];
} carnot_cuda_scatter_nd;

// A cache [.., size, inner] takes |steps| of updates at the place of each sample of |per_sample|.
typedef struct carnot_cuda_tensor_scatter {
  carnot_cuda_io io;
  long long size, steps, inner, per_sample;
  int circular;
} carnot_cuda_tensor_scatter;

// Elements by their place alone: one value, triangles, one-hot rows, ranges, diagonals, reversed
// sequences.
typedef struct carnot_cuda_place {
  carnot_cuda_io io;
  long long rows, columns, inner, k;
  int flag;  // trilu: upper; reverse_sequence: time is the second axis
  double start, delta;
  long long start_int, delta_int;
  unsigned long long bits;  // fill: of the value
} carnot_cuda_place;

typedef struct carnot_cuda_cast {
  carnot_cuda_io io;
  int saturate;    // of floating types of a byte
  int round_mode;  // of F8E8M0: 0 up, 1 down, 2 nearest
} carnot_cuda_cast;

// y = round(x / scale) + zero, or (x - zero) * scale; one scale, one along the axis, or by blocks.
typedef struct carnot_cuda_quantize {
  carnot_cuda_io io;
  long long inner, length, blocks, block_size;
  int per_tensor, precision, saturate;
} carnot_cuda_quantize;

// Which inputs hold what, -1: none; and how many numbers the lists have.
typedef struct carnot_cuda_scales {
  int w, x_scale, x_zero, w_scale, w_zero, y_scale, y_zero, bias;
  long long x_scales, x_zeros, w_scales, w_zeros;
} carnot_cuda_scales;

// y = sum over k of (x - x_zero) (w - w_zero), rescaled where y has a scale; input 0 is x. Batches
// of |dims| with the distances of both operands in matrices.
typedef struct carnot_cuda_quantized_matmul {
  carnot_cuda_io io;
  carnot_cuda_scales scales;
  long long m, n, k, dims[CARNOT_CUDA_RANK], a_s[CARNOT_CUDA_RANK], b_s[CARNOT_CUDA_RANK];
  int rank;
} carnot_cuda_quantized_matmul;

// The same over windows; w [filters, channels / groups, kernel..].
typedef struct carnot_cuda_quantized_conv {
  carnot_cuda_io io;
  carnot_cuda_scales scales;
  long long channels, filters, groups, in[3], out[3], kernel[3], step[3], dilation[3], begin[3];
} carnot_cuda_quantized_conv;

typedef struct carnot_cuda_resize {
  carnot_cuda_io io;
  int rank, place, nearest, radius, cubic, exclude_outside, antialias;
  double coefficient, extrapolation;
  long long in[CARNOT_CUDA_RANK], out[CARNOT_CUDA_RANK];
  double scale[CARNOT_CUDA_RANK], roi_start[CARNOT_CUDA_RANK], roi_end[CARNOT_CUDA_RANK];
} carnot_cuda_resize;

// y[.., o] = sum over taps and channels of the group; x [n, channels, in..], w [channels, filters /
// groups, kernel..].
typedef struct carnot_cuda_conv_transpose {
  carnot_cuda_io io;
  long long channels, filters, groups, in[3], out[3], kernel[3], step[3], dilation[3], begin[3];
} carnot_cuda_conv_transpose;

// y[kept] = sum over |summed| of the product of all operands; strides may be 0.
typedef struct carnot_cuda_einsum {
  carnot_cuda_io io;
  int operands, kept_rank, summed_rank;
  long long kept[CARNOT_CUDA_RANK], summed[CARNOT_CUDA_RANK], summed_count;
  long long kept_s[3][CARNOT_CUDA_RANK], summed_s[3][CARNOT_CUDA_RANK];
} carnot_cuda_einsum;

// in [x, grid]; |rank| spatial dimensions, |taps| along each, |before| of them before the place.
typedef struct carnot_cuda_grid_sample {
  carnot_cuda_io io;
  int rank, taps, before, padding, align_corners;  // padding: 0 zeros, 1 border, 2 reflection
  long long channels, in[3], in_size, out_size;
} carnot_cuda_grid_sample;

// in [x, w, r, bias, lengths, initial h, initial c, peepholes], one block a sequence of a
// direction; scratch: (3 + 2 gates) * hidden float64 numbers for each.
typedef struct carnot_cuda_recurrent {
  carnot_cuda_io io;
  long long time, batch, input, hidden;
  int directions, gates, batch_first, reverse, flag;  // flag: input_forget, linear_before_reset
  double clip;
} carnot_cuda_recurrent;

// Heads [batch, heads, rows, size], or [batch, rows, heads * size] with heads_last. attention:
// |rows| queries of all heads, keys of the past first; |mode|: what output 3 shows. rotary: |rows|
// of the caches. linear_attention: |queries| steps.
typedef struct carnot_cuda_heads {
  carnot_cuda_io io;
  long long rows, q_heads, kv_heads, queries, keys, past, size, value_size;
  long long mask_s[3], mask_length;   // of batch, head and query; keys behind are not seen
  long long left, right;              // widths of the window; -1: none
  long long turned;                   // rotary: elements of a head
  long long decay_width, beta_width;  // linear_attention
  int heads_last, causal, mode, interleaved;
  double scale, softcap;
} carnot_cuda_heads;

// y[lane, t] = sum_j w[c, j] s[lane, t + j], s the |taps| - 1 elements of the state before x.
typedef struct carnot_cuda_causal {
  carnot_cuda_io io;
  long long length, taps, channels;
  int silu;
} carnot_cuda_causal;

// Regions [R, 4] with their images in input 2, or [R, 5]; results [R, channels, rows, columns] of
// images [images, channels, height, width].
typedef struct carnot_cuda_roi {
  carnot_cuda_io io;
  long long images, channels, height, width, rows, columns, sampling;
  int mean;
  double scale, shift;
} carnot_cuda_roi;

// Windows whose spatial axes fill the end of the arrays. deform_conv: in [x, w, offset, bias,
// mask].
typedef struct carnot_cuda_deform {
  carnot_cuda_io io;
  long long channels, filters, groups, offset_groups;
  long long in[3], out[3], kernel[3], step[3], dilation[3], begin[3];
  int rank, align_corners;
} carnot_cuda_deform;

// Planes of |size|; indices count over |inner|, the result has |dims|.
typedef struct carnot_cuda_unpool {
  carnot_cuda_io io;
  int rank;
  long long size, inner[CARNOT_CUDA_RANK], dims[CARNOT_CUDA_RANK];
} carnot_cuda_unpool;

// |bins| of a transform of |n| elements, |inner| apart, from lanes of |length| numbers of |parts|;
// |frames| of a lane begin |frame_step| apart and are multiplied by input 2.
typedef struct carnot_cuda_dft {
  carnot_cuda_io io;
  long long n, bins, inner, length, frames, frame_step;
  int parts, inverse, to_real;
} carnot_cuda_dft;

// Scores [.., classes, size], a target for each of |places|.
typedef struct carnot_cuda_loss {
  carnot_cuda_io io;
  long long places, classes, size, ignored;
  int softmax, ignores, none, mean;
} carnot_cuda_loss;

// Layer, RMS, group and instance normalization of any types: groups of |size| elements. Scale and
// bias by the distances of a broadcast over |dims|, or by channel.
typedef struct carnot_cuda_any_norm {
  carnot_cuda_io io;
  long long size, spatial, channels;
  int rms, per_element, rank;
  long long dims[CARNOT_CUDA_RANK], scale_s[CARNOT_CUDA_RANK], bias_s[CARNOT_CUDA_RANK];
  double epsilon;
} carnot_cuda_any_norm;

// Batch normalization by the batch, or by given numbers: x [images, channels, size].
typedef struct carnot_cuda_statistics {
  carnot_cuda_io io;
  long long images, channels, size;
  int given;
  double epsilon, momentum;
} carnot_cuda_statistics;

// What values choose. A list is what one block finds: among a chunk of elements, or the boxes of a
// class. The scratch begins with |lists| + 1 int64 numbers: how many each list holds, then how many
// stand before it. Behind them lie a bit for each element of the chunks; or the corners of all
// boxes, four float64 numbers each, and uint32 places of boxes: |room| candidates of each list,
// then |most| that are kept.
enum { CARNOT_CUDA_CHUNK = 4096, CARNOT_CUDA_CHUNK_BYTES = CARNOT_CUDA_CHUNK / 8 };
typedef struct carnot_cuda_chosen {
  carnot_cuda_io io;
  long long lists, found;  // found: in all lists, known when they are written
  // Chosen are those of |size| elements of input |tested| that have a bit of |mask|.
  int tested, tested_bytes;
  unsigned long long mask;
  long long size;
  int rank;  // non_zero: of x
  long long dims[CARNOT_CUDA_RANK];
  long long outer, axis, inner;  // compress: x [outer, axis, inner]
  long long parts;               // compress: blocks that share what one list chose
  long long boxes, classes, room, most;
  int centre;             // boxes by centre and size, x first
  double overlap, score;  // limits where inputs 3 and 4 are absent
} carnot_cuda_chosen;

#endif  // CARNOT_KERNEL_CUDA_PARAMS_H_
