// What the CPU tactics share: checks of operands, partition of work, strided copies.
#ifndef CARNOT_BACKEND_CPU_COMMON_CPU_H_
#define CARNOT_BACKEND_CPU_COMMON_CPU_H_

#include <stdio.h>

#include "kernel/cpu/common/kernels.h"
#include "kernel/cpu/gemm/pack_f32.h"
#include "kernel/cpu/pointwise/pointwise.h"
#include "tactic/tactic.h"

// For functions that are called with constant arguments at a few call sites.
#define CARNOT_CPU_INLINE static inline __attribute__((always_inline))

// The kernels for |isa|, never NULL: every level holds those below.
const carnot_cpu_kernels* carnot_cpu_kernels_of(carnot_isa isa);
// The level whose kernels a step runs that has tactics up to avx512: that of the machine where the
// tactic is for avx512. The levels above change no sum; their BF16 has no subnormal numbers.
carnot_isa carnot_cpu_step_isa(const carnot_step_view* step);

// reject: writes the reason and returns it.
const char* carnot_because(char* reason, size_t size, const char* format, ...) CARNOT_PRINTF(3, 4);

// The operand is a float32 tensor of known rank in [low, high]; else the reason.
const char* carnot_not_f32(const carnot_operand_desc* type, const char* what, int low, int high,
                           char* reason, size_t size);

// The same of an operand that may be BF16 in its place where the tactic takes it so.
const char* carnot_not_f32_value(const carnot_problem* problem, const carnot_operand_desc* type,
                                 const char* what, int low, int high, char* reason, size_t size);
// BF16 or float32, of an operand at run time; BF16 only where the tactic takes it so.
bool carnot_cpu_is_f32_value(const carnot_step_view* step, const carnot_operand* t);

// reject: the region is one node of |op| whose operands are the step's inputs in order. NULL, or
// why not.
const char* carnot_cpu_single(const carnot_problem* problem, carnot_op op);
// The validate function of a tactic of one operator without optional inputs: the same for the
// tactic's anchor, with all inputs and one output.
carnot_status* carnot_cpu_check_single(const carnot_step_view* step) CARNOT_MUST_USE;
// Reads |problem| into |params|, which are zeroed: NULL, or why the tactic does not take it.
typedef const char* carnot_cpu_read_params(const carnot_problem* problem, void* params,
                                           char* reason, size_t size);
// The prepare function of a tactic whose parameters, |bytes| of plain data, are what |read| makes
// of the problem, and which packs nothing. INTERNAL where |read| refuses: reject took the problem.
carnot_status* carnot_cpu_prepare_params(const carnot_problem* problem,
                                         carnot_cpu_read_params* read, size_t bytes,
                                         carnot_prepared* out) CARNOT_MUST_USE;
// Whether the nodes of the step read this input exactly once.
bool carnot_cpu_reads_once(const carnot_step_view* step, uint32_t input);
// Row-major and contiguous.
bool carnot_cpu_is_dense(const carnot_operand* t);

// Both operands are contiguous and have the same type and shape; else an error.
carnot_status* carnot_cpu_check_alike(const carnot_operand* x,
                                      const carnot_operand* y) CARNOT_MUST_USE;

// The type as kernels over integers, float64 and truth values call it; COUNT: they take others
// only.
carnot_element_type carnot_cpu_element_type(carnot_dtype dtype);

// Index tensors of 32 or 64 bits.
static inline bool carnot_cpu_is_index(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_I64 || dtype == CARNOT_DTYPE_I32;
}
static inline int64_t carnot_cpu_index_at(const carnot_operand* index, int64_t i) {
  return index->format.dtype == CARNOT_DTYPE_I64 ? ((const int64_t*)index->data)[i]
                                                 : ((const int32_t*)index->data)[i];
}

// Work is cut in eight parts for up to four threads, which share them evenly. More threads get two
// parts each, and four of large work: a core that is slower, because others use it, takes fewer.
enum { CARNOT_FEW_THREADS = 4, CARNOT_FEW_PARTS = 8 };
static inline int64_t carnot_parts(int threads) {
  return threads > CARNOT_FEW_THREADS ? 2 * threads : CARNOT_FEW_PARTS;
}
static inline int64_t carnot_most_parts(int threads) {
  return threads > CARNOT_FEW_THREADS ? 4 * threads : CARNOT_FEW_PARTS;
}
// What |count| equal parts take on more than four threads, in times of a part, where threads are
// not equally fast and draw parts as they are free: the bound of Graham, 1969, "Bounds on
// multiprocessing timing anomalies", an even share and one part more.
static inline double carnot_parts_time(int threads, int64_t count) {
  return (double)count / threads + 1;
}

// The partition of an output [m, n] into parts: as many as above where none is too small, an even
// number of even size where that can be. Rows and columns are cut at multiples of a unit, so that
// an element is computed in the same way in any part: the number of threads changes no bits.
typedef struct carnot_work_partition {
  int64_t m, n, m_unit, n_unit, m_count, n_count;
} carnot_work_partition;
carnot_work_partition carnot_work_partition_make(carnot_isa isa, int threads, int64_t m, int64_t n,
                                                 int64_t k);
// The same of a convolution of K = depth * taps, whose pixels are read once for all taps.
carnot_work_partition carnot_work_partition_make_window(carnot_isa isa, int threads, int64_t m,
                                                        int64_t n, int64_t depth, int64_t taps);
// For kernels that convert rows: parts are tall, of |row_unit| rows and multiples of it, so that
// weights serve many rows, and wide, so that few parts convert the same rows.
carnot_work_partition carnot_work_partition_make_tall(int threads, int64_t m, int64_t n, int64_t k,
                                                      int64_t row_unit);
enum { CARNOT_SPLIT_ROWS = 32 };  // of A in a tile of a GEMM of BF16 parts
// For kernels that multiply BF16 parts: of the cuts into up to eight parts the one whose times with
// one, two, four and eight threads are least in sum, for one thread the one whose time with it is
// least; of more than four threads the one whose time with them, by carnot_parts_time, is least.
typedef struct carnot_split_work {
  int64_t m, n, depth, taps;
  int64_t row_unit;             // rows are cut at multiples of it
  int64_t unit_pixels, shared;  // pixels that a part converts: of each unit, and beside them
} carnot_split_work;
carnot_work_partition carnot_work_partition_make_split(int threads, const carnot_split_work* work);
// For kernels by AMX tiles of BF16: of the cuts into rows, in multiples of |row_unit|, and columns
// the one that costs least where A costs as much as reading |a_bytes| from L3 and B has |b_bytes|;
// of more than four threads, also of several numbers of parts. One thread gets one part, which
// prefetches weights across all columns.
carnot_work_partition carnot_work_partition_make_least(int threads, int64_t m, int64_t n, int64_t k,
                                                       int64_t row_unit, double a_bytes,
                                                       double b_bytes);
static inline int64_t carnot_work_partition_count(const carnot_work_partition* partition) {
  return partition->m_count * partition->n_count;
}
// Where part |i| of |count| begins.
static inline int64_t carnot_work_cut(int64_t size, int64_t unit, int64_t count, int64_t i) {
  return carnot_min_i64(size, carnot_ceildiv(size, unit) * i / count * unit);
}
static inline void carnot_work_partition_part(const carnot_work_partition* partition, int64_t part,
                                              int64_t* m0, int64_t* m1, int64_t* n0, int64_t* n1) {
  const carnot_work_partition* p = partition;
  const int64_t i = part % p->m_count, j = part / p->m_count;
  *m0 = carnot_work_cut(p->m, p->m_unit, p->m_count, i);
  *n0 = carnot_work_cut(p->n, p->n_unit, p->n_count, j);
  *m1 = carnot_work_cut(p->m, p->m_unit, p->m_count, i + 1);
  *n1 = carnot_work_cut(p->n, p->n_unit, p->n_count, j + 1);
}

// The rows of a part, so that a part has at least about 16K elements.
int64_t carnot_rows_per_part(int64_t rows, int64_t row_elements);

// carnot_executor_parallel outside of a run, on the threads that prepare may use
// (carnot_prepared); NULL: on the caller.
void carnot_cpu_prepare_parallel(carnot_executor* executor, int64_t part_count,
                                 void (*fn)(void* argument, int64_t part), void* argument);

// Copies |dims| elements from |src| to |dst| with these strides, in elements (strided_copy.c);
// those of |src| may be 0 or negative.
void carnot_cpu_copy(const carnot_step_view* step, carnot_executor* executor, int rank,
                     const int64_t* dims, int element_bytes, const void* src,
                     const int64_t* src_strides, void* dst, const int64_t* dst_strides);

// Elements of one, two, four or eight bytes, which are copied without conversion.
static inline bool carnot_cpu_is_whole(carnot_dtype dtype) {
  int bits = dtype == CARNOT_DTYPE_STRING ? 0 : carnot_dtype_bits(dtype);
  return bits == 8 || bits == 16 || bits == 32 || bits == 64;
}
// Why elements of |type| are not copied as whole bytes, or that its rank is not known; NULL: they
// are.
const char* carnot_cpu_whole_bytes(const carnot_operand_desc* type, char* reason, size_t size);
// reject: the same of the first operand, whose elements become the result's, stored alike.
const char* carnot_cpu_moves_bytes(const carnot_problem* problem, char* reason, size_t size);
// reject: one node of the tactic's operator on whole bytes, by indices that are input 1; all
// operands become row-major.
const char* carnot_cpu_moves_by_index(carnot_problem* problem, char* reason, size_t size);

#endif  // CARNOT_BACKEND_CPU_COMMON_CPU_H_
