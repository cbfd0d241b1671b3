#include "backend/cpu/cpu.h"

#include <stdarg.h>

const carnot_cpu_kernels* carnot_cpu_kernels_of(carnot_isa isa) {
  carnot_kernel_isa level = isa >= CARNOT_ISA_AVX512 ? CARNOT_KERNEL_ISA_AVX512
                            : isa >= CARNOT_ISA_AVX2 ? CARNOT_KERNEL_ISA_AVX2
                                                     : CARNOT_KERNEL_ISA_SCALAR;
  const carnot_cpu_kernels* kernels = carnot_cpu_kernels_for(level);
  return kernels ? kernels : carnot_cpu_kernels_for(CARNOT_KERNEL_ISA_SCALAR);
}

const char* carnot_because(char* reason, size_t size, const char* format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(reason, size, format, args);
  va_end(args);
  return reason;
}

const char* carnot_not_f32(const carnot_operand_type* type, const char* what, int low, int high, char* reason,
                           size_t size) {
  if (type->kind != CARNOT_VALUE_TENSOR || type->rank < 0) return carnot_because(reason, size, "%s has no known rank", what);
  if (type->dtype != CARNOT_DTYPE_F32)
    return carnot_because(reason, size, "%s is %s, takes float32", what, carnot_dtype_name(type->dtype));
  if (type->rank < low || type->rank > high)
    return carnot_because(reason, size, "%s has rank %d, takes %d to %d", what, type->rank, low, high);
  return NULL;
}

bool carnot_is_f32_constant(const carnot_operand_type* type) {
  return type->is_constant && type->dtype == CARNOT_DTYPE_F32 && type->tensor && type->tensor->data;
}

enum { kRowUnit = 42, kColumnUnit = 64, kWantedParts = 16 };

carnot_grid carnot_grid_cut(int64_t m, int64_t n, int64_t k) {
  carnot_grid grid = {.m = m, .n = n, .m_part = m, .n_part = n};
  double work = (double)m * (double)n * (double)k;
  int64_t wanted = work < 1 << 17 ? 1 : carnot_min_i64(kWantedParts, (int64_t)(work / (1 << 16)));
  // Rows first: parts then share the packed weights that are in the cache.
  int64_t row_units = carnot_ceildiv(m, kRowUnit);
  int64_t m_parts = carnot_min_i64(wanted, row_units);
  grid.m_part = carnot_ceildiv(row_units, m_parts > 0 ? m_parts : 1) * kRowUnit;
  grid.m_count = carnot_max_i64(1, carnot_ceildiv(m, grid.m_part));
  int64_t column_units = carnot_ceildiv(n, kColumnUnit);
  int64_t n_parts = carnot_min_i64(column_units, carnot_ceildiv(wanted, grid.m_count));
  grid.n_part = carnot_ceildiv(column_units, n_parts > 0 ? n_parts : 1) * kColumnUnit;
  grid.n_count = carnot_max_i64(1, carnot_ceildiv(n, grid.n_part));
  return grid;
}

int64_t carnot_rows_per_part(int64_t rows, int64_t row_elements) {
  int64_t least = carnot_max_i64(1, (1 << 14) / carnot_max_i64(1, row_elements));
  return carnot_max_i64(least, carnot_ceildiv(rows, 64));
}
