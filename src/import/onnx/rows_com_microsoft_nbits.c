// com.microsoft.MatMulNBits: a times the transpose of b, whose rows are blocks of packed unsigned
// numbers with a scale and a zero point each. Written as dequantize, transpose, matmul; with
// accuracy_level 4 the matmul may round its activations to 8 bits.
#include "import/onnx/importer.h"

enum { kMost = 1 << 28 };

typedef struct nbits {
  int64_t k, rows, block, blocks;
  carnot_dtype dtype;
  // By |g_idx|: the column of B that comes at each place; NULL: columns in order.
  int64_t* order;
  // By |g_idx|: the block of each column where blocks have other sizes than |block|; else NULL.
  int64_t* groups;
} nbits;

static carnot_dtype unsigned_of(int64_t bits) {
  return bits == 2   ? CARNOT_DTYPE_U2
         : bits == 4 ? CARNOT_DTYPE_U4
         : bits == 8 ? CARNOT_DTYPE_U8
                     : CARNOT_DTYPE_INVALID;
}

// Rows of |stored| packed numbers, each row beginning at a byte -> a dense tensor [rows, columns]
// of the numbers |order| (NULL: the first ones).
static carnot_value* packed_rows(onnx_import* n, const nbits* p, const carnot_tensor* bytes,
                                 int64_t stored, int64_t columns, const int64_t* order) {
  const size_t row_bytes = carnot_dtype_bytes(p->dtype, (size_t)stored);
  if (carnot_tensor_bytes(bytes) != (size_t)p->rows * row_bytes) {
    ONNX_FAIL(n, INVALID_MODEL, "%zu bytes of packed numbers where %zu belong",
              carnot_tensor_bytes(bytes), (size_t)p->rows * row_bytes);
    return NULL;
  }
  carnot_tensor tensor = {
      .dtype = p->dtype, .rank = 2, .dims = {p->rows, columns}, .data = bytes->data};
  if (!order && stored == columns && (size_t)columns * carnot_dtype_bits(p->dtype) % 8 == 0)
    return import_tensor_constant(&n->node, &tensor);
  tensor.data = carnot_arena_alloc(n->node.arena,
                                   carnot_dtype_bytes(p->dtype, (size_t)(p->rows * columns)), 1);
  if (!import_has_memory(&n->node)) return NULL;
  for (int64_t r = 0; r < p->rows; r++)
    for (int64_t c = 0; c < columns; c++)
      carnot_copy_element(p->dtype, tensor.data, (size_t)(r * columns + c),
                          (char*)bytes->data + (size_t)r * row_bytes,
                          (size_t)(order ? order[c] : c));
  return import_tensor_constant(&n->node, &tensor);
}

// ---- g_idx ----

// Fills |order|: columns sorted by their blocks, those of one block in order.
static void sort_columns(const nbits* p, const int64_t* groups, int64_t* counts, int64_t* order) {
  for (int64_t b = 0; b <= p->blocks; b++) counts[b] = 0;
  for (int64_t k = 0; k < p->k; k++) counts[groups[k] + 1]++;
  for (int64_t b = 0; b < p->blocks; b++) counts[b + 1] += counts[b];
  for (int64_t k = 0; k < p->k; k++) order[counts[groups[k]]++] = k;
}

// Blocks as g_idx says: as |order| where they are as large as those without it, else as |groups|.
static void read_groups(onnx_import* n, nbits* p) {
  const carnot_value* value = onnx_in(n, 4);
  if (!value) return;
  if (!value->constant) ONNX_FAIL(n, UNSUPPORTED, "g_idx must be constant");
  const int64_t count = value->constant ? carnot_tensor_count(&value->constant->tensor) : 0;
  if (!n->node.status &&
      (value->type.dtype != CARNOT_DTYPE_I32 || (count != p->k && count != p->blocks * p->block)))
    ONNX_FAIL(n, INVALID_MODEL, "g_idx holds %lld %s; %lld int32 are required", (long long)count,
              carnot_dtype_name(value->type.dtype), (long long)p->k);
  int64_t* groups = CARNOT_NEW_ARRAY(n->node.arena, int64_t, (size_t)p->k);
  int64_t* order = CARNOT_NEW_ARRAY(n->node.arena, int64_t, (size_t)p->k);
  int64_t* counts = CARNOT_NEW_ARRAY(n->node.arena, int64_t, (size_t)p->blocks + 1);
  if (n->node.status || !import_has_memory(&n->node)) return;
  for (int64_t k = 0; k < p->k; k++) {
    groups[k] = ((const int32_t*)value->constant->tensor.data)[k];
    if (groups[k] >= 0 && groups[k] < p->blocks) continue;
    ONNX_FAIL(n, INVALID_MODEL, "g_idx[%lld] is %lld; blocks are 0 to %lld", (long long)k,
              (long long)groups[k], (long long)p->blocks - 1);
    return;
  }
  sort_columns(p, groups, counts, order);
  bool moves = false, fits = true;
  for (int64_t k = 0; k < p->k; k++) {
    moves |= order[k] != k;
    fits &= groups[order[k]] == k / p->block;
  }
  if (!fits)
    p->groups = groups;
  else if (moves)
    p->order = order;
}

// ---- operands ----

static carnot_value* default_zeros(onnx_import* n, const nbits* p, int64_t columns) {
  carnot_tensor tensor = {.dtype = p->dtype, .rank = 2, .dims = {p->rows, columns}};
  tensor.data = carnot_arena_alloc(n->node.arena,
                                   carnot_dtype_bytes(p->dtype, (size_t)(p->rows * columns)), 1);
  if (!import_has_memory(&n->node)) return NULL;
  for (int64_t i = 0; i < p->rows * columns; i++)
    carnot_store_i64(p->dtype, tensor.data, (size_t)i,
                     (int64_t)1 << (carnot_dtype_bits(p->dtype) - 1));
  return import_tensor_constant(&n->node, &tensor);
}

static carnot_value* zero_points(onnx_import* n, const nbits* p) {
  const carnot_value* zero = onnx_in(n, 3);
  const int64_t columns = p->groups ? p->k : p->blocks;
  if (zero && !zero->constant) ONNX_FAIL(n, UNSUPPORTED, "zero points must be constant");
  if (zero && zero->type.dtype != CARNOT_DTYPE_U8)
    ONNX_FAIL(n, UNSUPPORTED, "zero points of type %s", carnot_dtype_name(zero->type.dtype));
  if (n->node.status) return NULL;
  if (!zero) return default_zeros(n, p, columns);
  return packed_rows(n, p, &zero->constant->tensor, p->blocks, columns, p->groups);
}

// [rows, blocks], or one a column of B.
static carnot_value* scales(onnx_import* n, const nbits* p) {
  const int64_t grid[2] = {p->rows, p->blocks};
  carnot_value* all = import_reshape_to(&n->node, onnx_need(n, 2), grid, 2);
  if (!p->groups || n->node.status) return all;
  return import_gather(&n->node, all, import_ints(&n->node, p->groups, (size_t)p->k), 1);
}

static void read_attributes(onnx_import* n, nbits* out) {
  *out = (nbits){.k = onnx_attr_int(n, "K", 0),
                 .rows = onnx_attr_int(n, "N", 0),
                 .block = onnx_attr_int(n, "block_size", 0),
                 .dtype = unsigned_of(onnx_attr_int(n, "bits", 4))};
  if (out->k <= 0 || out->rows <= 0 || out->block <= 0 || out->k > kMost || out->rows > kMost ||
      out->block > kMost || !out->dtype) {
    ONNX_FAIL(n, INVALID_MODEL, "K %lld, N %lld, block_size %lld, bits %lld", (long long)out->k,
              (long long)out->rows, (long long)out->block, (long long)onnx_attr_int(n, "bits", 4));
    return;
  }
  out->blocks = (out->k + out->block - 1) / out->block;
}

static void handle_matmul_nbits(onnx_import* n) {
  nbits p;
  read_attributes(n, &p);
  carnot_value *a = onnx_need(n, 0), *b = onnx_need(n, 1);
  if (b && !b->constant) ONNX_FAIL(n, UNSUPPORTED, "B must be constant");
  if (!n->node.status) read_groups(n, &p);
  if (n->node.status) return;
  const int64_t turn[2] = {1, 0};
  carnot_value* weights =
      packed_rows(n, &p, &b->constant->tensor, p.blocks * p.block, p.k, p.order);
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", 1);
  carnot_attrs_set_int(&attrs, n->node.arena, "block_size", p.groups ? 1 : p.block);
  carnot_value* wide = import_op(&n->node, CARNOT_OP_DEQUANTIZE_LINEAR, &attrs, 3, weights,
                                 scales(n, &p), zero_points(n, &p));
  if (n->node.status) return;
  if (p.order)
    a = import_gather(&n->node, a, import_ints(&n->node, p.order, (size_t)p.k),
                      import_rank(&n->node, a) - 1);
  carnot_attrs product = {0};
  if (onnx_attr_int(n, "accuracy_level", 0) == 4)
    carnot_attrs_set_int(&product, n->node.arena, "activation_bits", 8);
  carnot_value* y = import_op(&n->node, CARNOT_OP_MATMUL, &product, 2, a,
                              import_transpose(&n->node, wide, turn, 2));
  n->outputs[0] = onnx_in(n, 5) ? import_binary(&n->node, CARNOT_FN_ADD, y, onnx_in(n, 5)) : y;
}

static const onnx_row kRows[] = {
    {"com.microsoft", "MatMulNBits", 1, handle_matmul_nbits, CARNOT_OP_MATMUL, CARNOT_FN_IDENTITY,
     NULL},
};
const onnx_row_table onnx_rows_com_microsoft_nbits = ONNX_ROW_TABLE(kRows);
