// GEMM regions as cuBLASLt describes them, and the choice of its algorithm.
#include "backend/cuda/gemm/gemm_cublaslt.h"

#include <math.h>
#include <string.h>

carnot_cuda_cublaslt_activation carnot_cuda_gemm_cublaslt_activation(
    const carnot_cuda_epilogue* e) {
  bool relu = e->kind == CARNOT_CUDA_CLAMP && e->low == 0 && e->high == INFINITY;
  bool gelu = e->kind == CARNOT_CUDA_GELU || e->kind == CARNOT_CUDA_GELU_TANH;
  return relu   ? CARNOT_CUDA_CUBLASLT_RELU
         : gelu ? CARNOT_CUDA_CUBLASLT_GELU
                : CARNOT_CUDA_CUBLASLT_NONE;
}

// Of the address and of distances in elements, up to 16 bytes.
static int alignment_of(const carnot_operand* t, const int64_t* distances, int count) {
  uintptr_t bits = (uintptr_t)t->data | 16;
  for (int i = 0; i < count; i++) bits |= (uintptr_t)(distances[i] * carnot_cuda_bytes(t));
  return (int)(bits & -bits);
}

carnot_status* carnot_cuda_gemm_cublaslt_key(const carnot_gemm_sizes* e,
                                             const carnot_cuda_gemm_region* p, bool fast,
                                             carnot_cuda_gemm_batches* t, const carnot_operand* a,
                                             const carnot_operand* b, const carnot_operand* y,
                                             const carnot_operand* added,
                                             carnot_cuda_cublaslt_gemm* key) {
  bool ta = p->gemm.trans_a && a->rank > 1, tb = p->gemm.trans_b && b->rank > 1;
  memset(key, 0, sizeof(*key));
  key->m = e->m, key->n = e->n, key->k = e->k, key->batch = 1;
  key->type = key->result = (int32_t)a->format.dtype;
  key->trans_a = ta, key->trans_b = tb;
  key->a_ld = ta ? e->m : e->k, key->b_ld = tb ? e->k : e->n;
  // Batches that share B are folded into the rows of A.
  int last = t->rank - 1;
  if (t->rank && !ta && t->b[last] == 0 && t->a[last] == e->m * e->k && t->c[last] == e->m * e->n) {
    key->m *= t->dims[last];
    t->rank--, last--;
  }
  if (t->rank) {
    key->batch = t->dims[last], key->a_batch = t->a[last], key->b_batch = t->b[last];
    key->c_batch = t->c[last];
    t->rank--;
  }
  CARNOT_CHECK(t->rank <= 4, UNSUPPORTED, "batches over %d axes that do not join", t->rank);
  key->bias = p->c_is_bias,
  key->activation = (int32_t)carnot_cuda_gemm_cublaslt_activation(&p->activation), key->fast = fast;
  key->beta = p->residual != CARNOT_PLAN_NONE || (p->c != CARNOT_PLAN_NONE && !p->c_is_bias);
  int64_t of_a[5] = {key->a_batch}, of_b[5] = {key->b_batch}, of_c[5] = {key->c_batch};
  for (int i = 0; i < t->rank; i++)
    of_a[i + 1] = t->a[i], of_b[i + 1] = t->b[i], of_c[i + 1] = t->c[i];
  const int all[] = {alignment_of(a, of_a, t->rank + 1), alignment_of(b, of_b, t->rank + 1),
                     alignment_of(y, of_c, t->rank + 1),
                     alignment_of(added ? added : y, of_c, t->rank + 1)};
  key->alignment = all[0];
  for (int i = 1; i < 4; i++) key->alignment = all[i] < key->alignment ? all[i] : key->alignment;
  return NULL;
}

static bool is_known(const carnot_operand_desc* t) {
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] < 1) return false;
  return true;
}

static carnot_status* time_algos(const carnot_problem* problem, const carnot_cuda_gemm_region* p,
                                 carnot_cuda_cublaslt_choice* out) {
  const uint32_t* inputs = problem->region->nodes[0].inputs;
  const carnot_operand_desc* types[] = {&problem->inputs[inputs[0]], &problem->inputs[inputs[1]],
                                        &problem->outputs[0]};
  for (int i = 0; i < 3; i++)
    if (!is_known(types[i])) return NULL;
  carnot_operand operands[3];
  for (int i = 0; i < 3; i++)
    operands[i] = carnot_cuda_operand_of(types[i], CARNOT_LAYOUT_ROW_MAJOR);
  const carnot_operand *a = &operands[0], *b = &operands[1], *y = &operands[2];
  carnot_gemm_sizes e;
  carnot_cuda_gemm_batches t;
  carnot_cuda_cublaslt_gemm key;
  CARNOT_TRY(carnot_cuda_gemm_sizes_of(&p->gemm, a, b, y, &e));
  CARNOT_TRY(carnot_cuda_gemm_batches_of(a, b, y, &e, &t));
  CARNOT_TRY(carnot_cuda_gemm_cublaslt_key(&e, p, problem->fast_fp32, &t, a, b, y, NULL, &key));
  carnot_cuda_cublaslt_choose(problem, &key, out);
  return NULL;
}

void carnot_cuda_gemm_cublaslt_choose(const carnot_problem* problem,
                                      const carnot_cuda_gemm_region* p,
                                      carnot_cuda_cublaslt_choice* out) {
  carnot_status* status = time_algos(problem, p, out);
  if (status) *out = (carnot_cuda_cublaslt_choice){0};
  carnot_status_free(status);
}
