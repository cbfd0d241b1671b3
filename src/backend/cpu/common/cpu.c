// Checks of operands and partition of work, shared by the CPU tactics.
#include "backend/cpu/common/cpu.h"

#include <stdarg.h>

#include "kernel/cpu/gemm/pack_split.h"

const carnot_cpu_kernels* carnot_cpu_kernels_of(carnot_isa isa) {
  const carnot_cpu_kernels* kernels = carnot_cpu_kernels_for(isa);
  return kernels ? kernels : carnot_cpu_kernels_for(CARNOT_ISA_SCALAR);
}

carnot_isa carnot_cpu_step_isa(const carnot_step_view* step) {
  const bool is_widest = step->tactic->isa == CARNOT_ISA_AVX512;
  return is_widest ? step->machine_isa : step->tactic->isa;
}

const char* carnot_because(char* reason, size_t size, const char* format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(reason, size, format, args);
  va_end(args);
  return reason;
}

const char* carnot_not_f32(const carnot_operand_desc* type, const char* what, int low, int high,
                           char* reason, size_t size) {
  if (type->kind != CARNOT_VALUE_TENSOR || type->rank < 0)
    return carnot_because(reason, size, "%s has no known rank", what);
  if (type->format.dtype != CARNOT_DTYPE_F32)
    return carnot_because(reason, size, "%s is %s, takes float32", what,
                          carnot_dtype_name(type->format.dtype));
  if (type->rank < low || type->rank > high)
    return carnot_because(reason, size, "%s has rank %d, takes %d to %d", what, type->rank, low,
                          high);
  return NULL;
}

const char* carnot_not_f32_value(const carnot_problem* problem, const carnot_operand_desc* type,
                                 const char* what, int low, int high, char* reason, size_t size) {
  carnot_operand_desc as_f32 = *type;
  if (carnot_is_f32_value(problem, type)) as_f32.format.dtype = CARNOT_DTYPE_F32;
  return carnot_not_f32(&as_f32, what, low, high, reason, size);
}

bool carnot_cpu_is_f32_value(const carnot_step_view* step, const carnot_operand* t) {
  return t->format.dtype == CARNOT_DTYPE_F32 ||
         (step->tactic->takes_bf16 && t->format.dtype == CARNOT_DTYPE_BF16);
}

const char* carnot_cpu_single(const carnot_problem* problem, carnot_op op) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (problem->region->node_count != 1 || node->op != op) return "";
  for (uint32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != i) return "an operand is absent, or two are one value";
  return NULL;
}

carnot_status* carnot_cpu_check_single(const carnot_step_view* step) {
  const carnot_op op = step->tactic->anchor;
  const uint32_t input_count = (uint32_t)carnot_op_get(op)->min_inputs;
  const carnot_plan_node* node = &step->region->nodes[0];
  CARNOT_CHECK(step->region->node_count == 1 && node->op == op && step->output_count == 1 &&
                   step->input_count == input_count && node->input_count == input_count,
               INVALID_MODEL, "the step is not one %s of %u operands", carnot_op_get(op)->name,
               input_count);
  for (uint32_t i = 0; i < input_count; i++)
    CARNOT_CHECK(node->inputs[i] == i, INVALID_MODEL, "operand %u is input %u of the step", i,
                 node->inputs[i]);
  return NULL;
}

carnot_status* carnot_cpu_prepare_params(const carnot_problem* problem,
                                         carnot_cpu_read_params* read, size_t bytes,
                                         carnot_prepared* out) {
  void* params;
  char reason[256];
  CARNOT_TRY(carnot_arena_try(out->arena, 1, bytes, "parameters", &params));
  const char* why = read(problem, params, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  out->params = params;
  out->param_bytes = (uint32_t)bytes;
  return NULL;
}

bool carnot_cpu_reads_once(const carnot_step_view* step, uint32_t input) {
  uint32_t reads = 0;
  for (uint32_t n = 0; n < step->region->node_count; n++) {
    const carnot_plan_node* node = &step->region->nodes[n];
    for (uint32_t i = 0; i < node->input_count; i++) reads += node->inputs[i] == input;
  }
  return reads == 1;
}

bool carnot_cpu_is_dense(const carnot_operand* t) {
  int64_t strides[CARNOT_MAX_RANK];
  carnot_layout_strides(CARNOT_LAYOUT_ROW_MAJOR, t->rank, t->dims, strides);
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i] > 1 && t->strides[i] != strides[i]) return false;
  return true;
}

carnot_status* carnot_cpu_check_alike(const carnot_operand* x, const carnot_operand* y) {
  CARNOT_CHECK(x->format.dtype == y->format.dtype && x->rank == y->rank && carnot_cpu_is_dense(x) &&
                   carnot_cpu_is_dense(y),
               INVALID_ARGUMENT, "operands of %s and %s, ranks %d and %d",
               carnot_dtype_name(x->format.dtype), carnot_dtype_name(y->format.dtype), x->rank,
               y->rank);
  for (int d = 0; d < x->rank; d++)
    CARNOT_CHECK(x->dims[d] == y->dims[d], INVALID_ARGUMENT,
                 "dimension %d of the result is %lld, must be %lld", d, (long long)y->dims[d],
                 (long long)x->dims[d]);
  return NULL;
}

// Rows of the largest tile, of tiles of all levels, of AMX; columns of a panel of weights, a tile,
// and one for few rows.
enum {
  kTileRows = 14,
  kRowUnit = 42,
  kAmxRowUnit = 32,
  kPanelColumns = 16,
  kTileColumns = 32,
  kColumnUnit = 64,
  kFewRows = 6,
  kManyRows = 64 * kRowUnit,
  kLeastParts = 4,
  kNearBytes = 1 << 20,  // weights that stay in L2 from one part to the next
};

static int64_t units_of(int64_t size, int64_t unit) {
  return carnot_max_i64(1, carnot_ceildiv(size, unit));
}

// Few rows take as long as reading the weights. Above a number of parts that few threads share
// evenly a part must be worth its start: it reads rows or weights again.
static int64_t wanted_parts(int threads, int64_t m, int64_t n, int64_t k) {
  enum { kLeastWork = 1 << 16, kMuchWork = 1 << 20, kMostWork = 1 << 22 };
  const double work = (double)carnot_max_i64(m, kFewRows) * (double)n * (double)k;
  if (work < 2 * kLeastWork) return 1;
  const int64_t few = carnot_min_i64(CARNOT_FEW_PARTS, (int64_t)(work / kLeastWork)),
                many = carnot_min_i64(carnot_parts(threads), (int64_t)(work / kMuchWork)),
                most = carnot_min_i64(carnot_most_parts(threads), (int64_t)(work / kMostWork));
  return carnot_max_i64(few, carnot_max_i64(many, most));
}

// Parts below which the smaller operand is cut too.
static int64_t least_parts(int threads) {
  return threads > CARNOT_FEW_THREADS ? threads : kLeastParts;
}

// An odd number of parts becomes even.
static void make_even(carnot_work_partition* p) {
  const int64_t count = carnot_work_partition_count(p);
  if (count == 1 || count % 2 == 0) return;
  if (p->n_count < units_of(p->n, p->n_unit))
    p->n_count++;
  else if (p->m_count < units_of(p->m, p->m_unit))
    p->m_count++;
}

carnot_work_partition carnot_work_partition_make_window(carnot_isa isa, int threads, int64_t m,
                                                        int64_t n, int64_t depth, int64_t taps) {
  const bool amx = isa == CARNOT_ISA_AMX_BF16;
  const int64_t k = depth * taps, wanted = wanted_parts(threads, m, n, k);
  carnot_work_partition p = {.m = m,
                             .n = n,
                             .m_unit = amx             ? kAmxRowUnit
                                       : m < kManyRows ? kTileRows
                                                       : kRowUnit,
                             .n_unit = m > kFewRows               ? kTileColumns
                                       : n < kColumnUnit * wanted ? kPanelColumns
                                                                  : kColumnUnit,
                             .m_count = 1,
                             .n_count = 1};
  // The larger operand is cut, so that it is read once; the other one once a part. AMX is so fast
  // that every part which rounds the same rows again shows.
  const bool near = (double)k * (double)n * sizeof(float) <= kNearBytes;
  const bool rows_first = m >= (near ? n : n * taps) || (amx && m >= 2 * kAmxRowUnit);
  const int64_t rows = units_of(m, p.m_unit), columns = units_of(n, p.n_unit);
  const int64_t have = carnot_min_i64(wanted, rows_first ? rows : columns);
  *(rows_first ? &p.m_count : &p.n_count) = have;
  const int64_t more = carnot_ceildiv(wanted, have);
  if (more > 1 && (amx || have < least_parts(threads)))
    *(rows_first ? &p.n_count : &p.m_count) = carnot_min_i64(more, rows_first ? columns : rows);
  make_even(&p);
  return p;
}

carnot_work_partition carnot_work_partition_make(carnot_isa isa, int threads, int64_t m, int64_t n,
                                                 int64_t k) {
  return carnot_work_partition_make_window(isa, threads, m, n, k, 1);
}

enum { kTallRows = 192, kWideColumns = 192 };

carnot_work_partition carnot_work_partition_make_tall(int threads, int64_t m, int64_t n, int64_t k,
                                                      int64_t row_unit) {
  const int64_t wanted = wanted_parts(threads, m, n, k);
  const int64_t rows = carnot_max_i64(1, carnot_min_i64(wanted, m / kTallRows));
  const int64_t few = threads > CARNOT_FEW_THREADS ? carnot_ceildiv(threads, rows)
                      : rows < kLeastParts         ? kLeastParts
                                                   : 1;
  const int64_t columns =
      carnot_min_i64(carnot_ceildiv(wanted, rows), carnot_max_i64(few, n / kWideColumns));
  carnot_work_partition p = {.m = m, .n = n, .m_unit = row_unit, .n_unit = kTileColumns};
  p.m_count = carnot_min_i64(rows, units_of(m, row_unit));
  p.n_count = carnot_min_i64(columns, units_of(n, kTileColumns));
  if (wanted > 1 && carnot_work_partition_count(&p) == 1)
    p.m_count = carnot_min_i64(2, units_of(m, row_unit));
  make_even(&p);
  return p;
}

// Cycles of the largest part: products by tiles, weights from L2 or L3 for each block of pixels
// that fits in L2, and the conversion of its pixels, for each block of columns where sums take
// several chunks of channels. With more than |CARNOT_FEW_THREADS| threads other cores wrote the
// pixels, and most weights are prefetched during multiplications.
static double split_cycles(int threads, const carnot_split_work* w,
                           const carnot_work_partition* p) {
  enum { kTile = 16, kSlice = 32, kTileCycles = 96, kStartCycles = 2000 };
  const bool many = threads > CARNOT_FEW_THREADS;
  const double slice_cycles = many ? 28 : 14, weight_bytes_a_cycle = many ? 28 : 14;
  const int64_t units = carnot_ceildiv(units_of(w->m, w->row_unit), p->m_count),
                rows = carnot_min_i64(w->m, units * w->row_unit),
                columns = carnot_min_i64(
                    w->n, carnot_ceildiv(units_of(w->n, p->n_unit), p->n_count) * p->n_unit),
                slices = carnot_ceildiv(w->depth, kSlice),
                pixels = units * w->unit_pixels + w->shared,
                chunks = carnot_ceildiv(w->depth, CARNOT_SPLIT_MOST_CHANNELS),
                blocks = carnot_ceildiv(pixels * carnot_ceildiv(slices, chunks) * kSlice * 6,
                                        CARNOT_SPLIT_BLOCK_BYTES),
                turns = chunks > 1 ? carnot_ceildiv(columns, CARNOT_SPLIT_MOST_COLUMNS) : 1;
  const double steps = (double)(slices * w->taps),
               products = (double)(units_of(rows, kTile) * units_of(columns, kTile)) * steps,
               weights = (double)(columns * blocks) * steps * kSlice * 6;
  return products * kTileCycles + weights / weight_bytes_a_cycle +
         (double)(pixels * slices * turns) * slice_cycles + kStartCycles;
}

carnot_work_partition carnot_work_partition_make_split(int threads, const carnot_split_work* w) {
  const int64_t wanted = wanted_parts(threads, w->m, w->n, w->depth * w->taps),
                rows = units_of(w->m, w->row_unit), columns = units_of(w->n, kTileColumns);
  const int most = threads == 1 ? 1 : CARNOT_FEW_PARTS;
  carnot_work_partition least = {w->m, w->n, w->row_unit, kTileColumns, 1, 1};
  double least_cycles = 0;
  for (int64_t i = 1; i <= carnot_min_i64(wanted, rows); i++)
    for (int64_t j = 1; i * j <= wanted && j <= columns; j++) {
      carnot_work_partition p = {w->m, w->n, w->row_unit, kTileColumns, i, j};
      double parts = 0;
      if (threads > CARNOT_FEW_THREADS)
        parts = carnot_parts_time(threads, i * j);
      else
        for (int t = 1; t <= most; t *= 2) parts += (double)carnot_ceildiv(i * j, t);
      const double cycles = split_cycles(threads, w, &p) * parts;
      if (least_cycles > 0 && cycles >= least_cycles) continue;
      least = p;
      least_cycles = cycles;
    }
  return least;
}

// Of AMX with BF16: operations that a core does while it reads a byte from L3.
enum { kFlopsPerByte = 100 };

// What |p| costs in bytes read from L3: A of every column of parts, weights that do not stay in L2
// again for every row of parts, those that the first row does not multiply fast enough to hide
// their reading, and the products, in whole tiles.
static double cost_of(const carnot_work_partition* p, int64_t k, double a_bytes, double b_bytes) {
  double rows = 0;
  for (int64_t i = 0, m0 = 0, m1; i < p->m_count; i++, m0 = m1) {
    m1 = carnot_work_cut(p->m, p->m_unit, p->m_count, i + 1);
    rows += (double)(units_of(m1 - m0, kAmxRowUnit) * kAmxRowUnit);
  }
  const double products = 2 * rows * (double)p->n * (double)k / kFlopsPerByte;
  const double hidden = products / (double)p->m_count;
  const bool again = b_bytes > kNearBytes * (double)p->n_count;
  return (double)p->n_count * a_bytes + (again ? (double)(p->m_count - 1) * b_bytes : 0) +
         (b_bytes > hidden ? b_bytes - hidden : 0) + products;
}

// What the threads take of a cost that |count| parts share; of few threads a cut into fewer than
// half of |wanted| parts counts twice.
static double share_of(int threads, int64_t count, int64_t wanted) {
  if (threads > CARNOT_FEW_THREADS) return carnot_parts_time(threads, count) / (double)count;
  return 2 * count >= wanted ? 1 : 2;
}

carnot_work_partition carnot_work_partition_make_least(int threads, int64_t m, int64_t n, int64_t k,
                                                       int64_t row_unit, double a_bytes,
                                                       double b_bytes) {
  const int64_t wanted = threads == 1 ? 1 : wanted_parts(threads, m, n, k),
                first = threads > CARNOT_FEW_THREADS ? carnot_min_i64(wanted, threads) : wanted;
  carnot_work_partition least = {.m = m, .n = n};
  double least_cost = -1;
  for (int64_t parts = first; parts <= wanted; parts *= 2)
    for (int64_t rows = 1; rows <= parts; rows *= 2) {
      carnot_work_partition p = {.m = m, .n = n, .m_unit = row_unit, .n_unit = kColumnUnit};
      p.m_count = carnot_min_i64(rows, units_of(m, row_unit));
      p.n_count = carnot_min_i64(carnot_ceildiv(parts, p.m_count), units_of(n, kColumnUnit));
      const double cost = cost_of(&p, k, a_bytes, b_bytes) *
                          share_of(threads, carnot_work_partition_count(&p), wanted);
      if (least_cost >= 0 && cost >= least_cost) continue;
      least = p;
      least_cost = cost;
    }
  return least;
}

int64_t carnot_rows_per_part(int64_t rows, int64_t row_elements) {
  int64_t least = carnot_max_i64(1, (1 << 14) / carnot_max_i64(1, row_elements));
  return carnot_max_i64(least, carnot_ceildiv(rows, 64));
}

carnot_element_type carnot_cpu_element_type(carnot_dtype dtype) {
  switch (dtype) {
    case CARNOT_DTYPE_BOOL: return CARNOT_ELEMENT_BOOL;
    case CARNOT_DTYPE_U8: return CARNOT_ELEMENT_U8;
    case CARNOT_DTYPE_I32: return CARNOT_ELEMENT_I32;
    case CARNOT_DTYPE_I64: return CARNOT_ELEMENT_I64;
    case CARNOT_DTYPE_F64: return CARNOT_ELEMENT_F64;
    default: return CARNOT_ELEMENT_TYPE_COUNT;
  }
}

void carnot_cpu_prepare_parallel(carnot_executor* executor, int64_t part_count,
                                 void (*fn)(void* argument, int64_t part), void* argument) {
  const bool begun = part_count > 1 && executor && carnot_executor_begin(executor);
  carnot_executor_parallel(begun ? executor : NULL, part_count, fn, argument);
  if (begun) carnot_executor_end(executor);
}
