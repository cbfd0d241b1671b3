// Checks of operands and partition of work, shared by the CPU tactics.
#include "backend/cpu/common/cpu.h"

#include <stdarg.h>

const carnot_cpu_kernels* carnot_cpu_kernels_of(carnot_isa isa) {
  const carnot_cpu_kernels* kernels = carnot_cpu_kernels_for(isa);
  return kernels ? kernels : carnot_cpu_kernels_for(CARNOT_ISA_SCALAR);
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

enum { kRowUnit = 42, kAmxRowUnit = 32, kColumnUnit = 64, kWantedParts = 8, kLeastParts = 4 };
enum { kNearBytes = 1 << 20 };  // weights that stay in L2 from one part to the next

// Cuts |size| in about |parts| pieces of whole units.
static int64_t piece(int64_t size, int64_t unit, int64_t parts) {
  int64_t units = carnot_ceildiv(size, unit);
  return carnot_ceildiv(units, carnot_max_i64(1, carnot_min_i64(parts, units))) * unit;
}

carnot_work_partition carnot_work_partition_make_window(carnot_isa isa, int64_t m, int64_t n,
                                                        int64_t depth, int64_t taps) {
  const bool amx = isa == CARNOT_ISA_AMX_BF16;
  const int64_t k = depth * taps;
  int64_t row_unit = amx ? kAmxRowUnit : kRowUnit;
  carnot_work_partition partition = {.m = m, .n = n, .m_part = m, .n_part = n};
  double work = (double)m * (double)n * (double)k;
  int64_t wanted = work < 1 << 17 ? 1 : carnot_min_i64(kWantedParts, (int64_t)(work / (1 << 16)));
  // The larger operand is cut, so that it is read once; the other one once a part. AMX is so fast
  // that every part which rounds the same rows again shows.
  const bool near = (double)k * (double)n * sizeof(float) <= kNearBytes;
  const bool rows_first = m >= (near ? n : n * taps) || (amx && m >= 2 * kAmxRowUnit);
  if (rows_first)
    partition.m_part = piece(m, row_unit, wanted);
  else
    partition.n_part = piece(n, kColumnUnit, wanted);
  int64_t have = rows_first ? carnot_ceildiv(m, carnot_max_i64(1, partition.m_part))
                            : carnot_ceildiv(n, carnot_max_i64(1, partition.n_part));
  int64_t more = carnot_ceildiv(wanted, carnot_max_i64(1, have));
  if (more > 1 && (amx || have < kLeastParts)) {
    if (rows_first)
      partition.n_part = piece(n, kColumnUnit, more);
    else
      partition.m_part = piece(m, row_unit, more);
  }
  partition.m_count = carnot_max_i64(1, carnot_ceildiv(m, carnot_max_i64(1, partition.m_part)));
  partition.n_count = carnot_max_i64(1, carnot_ceildiv(n, carnot_max_i64(1, partition.n_part)));
  return partition;
}

carnot_work_partition carnot_work_partition_make(carnot_isa isa, int64_t m, int64_t n, int64_t k) {
  return carnot_work_partition_make_window(isa, m, n, k, 1);
}

enum { kTallRows = 192, kWideColumns = 192 };

carnot_work_partition carnot_work_partition_make_tall(int64_t m, int64_t n, int64_t k,
                                                      int64_t row_unit) {
  const double work = (double)m * (double)n * (double)k;
  const int64_t wanted =
      work < 1 << 17 ? 1 : carnot_min_i64(kWantedParts, (int64_t)(work / (1 << 16)));
  const int64_t rows = carnot_max_i64(1, carnot_min_i64(wanted, m / kTallRows));
  const int64_t columns =
      carnot_min_i64(carnot_ceildiv(wanted, rows),
                     carnot_max_i64(rows < kLeastParts ? kLeastParts : 1, n / kWideColumns));
  carnot_work_partition partition = {.m = m, .n = n};
  partition.m_part = piece(m, row_unit, rows);
  partition.n_part = piece(n, kColumnUnit, columns);
  partition.m_count = carnot_max_i64(1, carnot_ceildiv(m, carnot_max_i64(1, partition.m_part)));
  partition.n_count = carnot_max_i64(1, carnot_ceildiv(n, carnot_max_i64(1, partition.n_part)));
  return partition;
}

// Of AMX with BF16: operations that a core does while it reads a byte from L3.
enum { kFlopsPerByte = 100 };

// What |p| costs in bytes read from L3: A of every column of parts, weights that do not stay in L2
// again for every row of parts, those that the first row does not multiply fast enough to hide
// their reading, and the products, in whole tiles.
static double cost_of(const carnot_work_partition* p, int64_t k, double a_bytes, double b_bytes) {
  const int64_t last = p->m - (p->m_count - 1) * p->m_part;
  const double rows =
      (double)((p->m_count - 1) * piece(p->m_part, kAmxRowUnit, 1) + piece(last, kAmxRowUnit, 1));
  const double products = 2 * rows * (double)p->n * (double)k / kFlopsPerByte;
  const double hidden = products / (double)p->m_count;
  const bool again = b_bytes > kNearBytes * (double)p->n_count;
  return (double)p->n_count * a_bytes + (again ? (double)(p->m_count - 1) * b_bytes : 0) +
         (b_bytes > hidden ? b_bytes - hidden : 0) + products;
}

carnot_work_partition carnot_work_partition_make_least(int64_t m, int64_t n, int64_t k,
                                                       int64_t row_unit, double a_bytes,
                                                       double b_bytes) {
  const double work = (double)m * (double)n * (double)k;
  const int64_t wanted =
      work < 1 << 17 ? 1 : carnot_min_i64(kWantedParts, (int64_t)(work / (1 << 16)));
  carnot_work_partition least = {.m = m, .n = n};
  double least_cost = -1;
  for (int64_t rows = 1; rows <= wanted; rows *= 2) {
    carnot_work_partition p = {.m = m, .n = n};
    p.m_part = piece(m, row_unit, rows);
    p.m_count = carnot_max_i64(1, carnot_ceildiv(m, carnot_max_i64(1, p.m_part)));
    p.n_part = piece(n, kColumnUnit, carnot_ceildiv(wanted, p.m_count));
    p.n_count = carnot_max_i64(1, carnot_ceildiv(n, carnot_max_i64(1, p.n_part)));
    const bool enough = 2 * carnot_work_partition_count(&p) >= wanted;
    const double cost = cost_of(&p, k, a_bytes, b_bytes) * (enough ? 1 : 2);
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
