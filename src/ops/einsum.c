// Sums of products over named dimensions.
//   "ij,jk->ik": y[i,k] = sum_j a[i,j] * b[j,k]
// A letter names a dimension wherever it occurs; twice in one operand takes the diagonal. "..."
// denotes dimensions that broadcast. Without "->" the result has the ellipsis and then, in
// alphabetical order, the letters that occur once. Floats are summed in double, integers in 64 bits
// and wrapped on store.
#include "ops/einsum.h"

enum { kOperands = CARNOT_EINSUM_OPERANDS, kEllipsis = 52, kLabels = CARNOT_EINSUM_LABELS };

static int letter_label(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  return c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

// Names of one term into |labels|; "..." denotes |ellipsis| dimensions. *out_rank is their count.
static carnot_status* read_term(carnot_strview term, int ellipsis, int* labels, int* out_rank) {
  int rank = 0;
  for (size_t i = 0; i < term.size; i++) {
    if (term.data[i] == ' ') continue;
    int count = 1, label = letter_label(term.data[i]);
    if (term.data[i] == '.') {
      CARNOT_CHECK(i + 2 < term.size && term.data[i + 1] == '.' && term.data[i + 2] == '.',
                   INVALID_MODEL, "equation has a stray \".\"");
      i += 2;
      count = ellipsis;
    } else {
      CARNOT_CHECK(label >= 0, INVALID_MODEL, "equation has a \"%c\"", term.data[i]);
    }
    CARNOT_CHECK(rank + count <= CARNOT_MAX_RANK, INVALID_MODEL,
                 "a term of the equation has more than %d dimensions", CARNOT_MAX_RANK);
    for (int k = 0; k < count; k++) {
      labels[rank++] = label >= 0 ? label : kEllipsis + ellipsis - 1 - k;
    }
  }
  *out_rank = rank;
  return NULL;
}

static int letters_in(carnot_strview term) {
  int count = 0;
  for (size_t i = 0; i < term.size; i++) count += letter_label(term.data[i]) >= 0;
  return count;
}

static carnot_status* implicit_output(carnot_equation* e, int ellipsis) {
  int seen[kLabels] = {0};
  e->out_rank = 0;
  for (int i = 0; i < e->operands; i++) {
    for (int k = 0; k < e->ranks[i]; k++) seen[e->labels[i][k]]++;
  }
  for (int k = ellipsis - 1; k >= 0; k--) e->out_labels[e->out_rank++] = kEllipsis + k;
  for (int k = 0; k < kEllipsis; k++) {
    if (seen[k] != 1) continue;
    CARNOT_CHECK(e->out_rank < CARNOT_MAX_RANK, INVALID_MODEL,
                 "the result has more than %d dimensions", CARNOT_MAX_RANK);
    e->out_labels[e->out_rank++] = k;
  }
  return NULL;
}

carnot_status* carnot_equation_read(carnot_strview text, int operands, const int* ranks,
                                    carnot_equation* e) {
  memset(e, 0, sizeof(*e));
  size_t end = 0, start = 0;
  while (end < text.size && text.data[end] != '-') end++;
  bool has_output = end < text.size;
  CARNOT_CHECK(!has_output || (end + 1 < text.size && text.data[end + 1] == '>'), INVALID_MODEL,
               "equation has a \"-\" without \">\"");
  int most = 0;
  for (size_t i = 0; i <= end; i++) {
    if (i < end && text.data[i] != ',') continue;
    carnot_strview term = {text.data + start, i - start};
    CARNOT_CHECK(e->operands < operands, INVALID_MODEL, "equation has more terms than operands");
    int rank = ranks[e->operands], ellipsis = rank - letters_in(term);
    CARNOT_CHECK(ellipsis >= 0, INVALID_MODEL,
                 "term %d names %d dimensions of an operand of rank %d", e->operands,
                 letters_in(term), rank);
    CARNOT_TRY(read_term(term, ellipsis, e->labels[e->operands], &e->ranks[e->operands]));
    CARNOT_CHECK(e->ranks[e->operands] == rank, INVALID_MODEL,
                 "term %d names %d dimensions of an operand of rank %d", e->operands,
                 e->ranks[e->operands], rank);
    if (ellipsis > most) most = ellipsis;
    e->operands++;
    start = i + 1;
  }
  CARNOT_CHECK(e->operands == operands, INVALID_MODEL, "equation has %d terms for %d operands",
               e->operands, operands);
  if (!has_output) return implicit_output(e, most);
  return read_term((carnot_strview){text.data + end + 2, text.size - end - 2}, most, e->out_labels,
                   &e->out_rank);
}

static carnot_status* infer_einsum(carnot_infer* infer) {
  CARNOT_CHECK(infer->input_count <= kOperands, UNSUPPORTED, "%d operands; at most %d are possible",
               infer->input_count, kOperands);
  int ranks[kOperands];
  const carnot_type *first, *x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &first));
  for (int i = 0; i < infer->input_count; i++) {
    CARNOT_TRY(carnot_infer_tensor(infer, i, &x));
    CARNOT_TRY(carnot_infer_same_dtype(infer, 0, i));
    ranks[i] = x->rank;
    if (x->rank < 0) {
      carnot_infer_set(infer, 0, first->dtype, -1, NULL);
      return NULL;
    }
  }
  carnot_equation e;
  CARNOT_TRY(carnot_equation_read(carnot_attr_text(infer->row, infer->attrs, "equation"),
                                  infer->input_count, ranks, &e));
  carnot_sym sizes[kLabels], dims[CARNOT_MAX_RANK];
  for (int k = 0; k < kLabels; k++) sizes[k] = carnot_sym_of(-1);
  for (int i = 0; i < e.operands; i++) {
    for (int k = 0; k < e.ranks[i]; k++) {
      carnot_sym *size = &sizes[e.labels[i][k]], dim = infer->inputs[i].type->dims[k];
      if (carnot_sym_is(*size, -1) || carnot_sym_is(*size, 1)) {
        *size = dim;
      } else if (!carnot_sym_is(dim, 1)) {
        CARNOT_TRY(carnot_infer_merge(infer, *size, dim, "dimensions of one name", size));
      }
    }
  }
  for (int k = 0; k < e.out_rank; k++) {
    dims[k] = sizes[e.out_labels[k]];
    CARNOT_CHECK(!carnot_sym_is(dims[k], -1), INVALID_MODEL,
                 "dimension %d of the result is in no operand", k);
  }
  carnot_infer_set(infer, 0, first->dtype, e.out_rank, dims);
  return NULL;
}

// ---- reference ----

typedef struct einsum_run {
  carnot_einsum plan;
  const double* floats[kOperands];
  const int64_t* integers[kOperands];
  double* y;
  int64_t* y_integers;
} einsum_run;

enum { kResults = 64 };

static void one_result(const einsum_run* r, int64_t out) {
  const carnot_einsum* p = &r->plan;
  int64_t base[kOperands], at[kOperands];
  for (int i = 0; i < p->operands; i++) {
    base[i] = carnot_offset(out, p->out_dims, p->out_strides[i], p->out_rank);
  }
  int last = p->sum_rank - 1;
  int64_t width = last >= 0 ? p->sum_dims[last] : 1;
  double sum = 0;
  uint64_t whole = 0;
  for (int64_t s = 0; s < p->sum_count; s += width) {
    for (int i = 0; i < p->operands; i++) {
      at[i] = base[i] + carnot_offset(s, p->sum_dims, p->sum_strides[i], p->sum_rank);
    }
    for (int64_t j = 0; j < width; j++) {
      double product = 1;
      uint64_t whole_product = 1;
      for (int i = 0; i < p->operands; i++) {
        int64_t from = at[i] + (last >= 0 ? j * p->sum_strides[i][last] : 0);
        if (r->y)
          product *= r->floats[i][from];
        else
          whole_product *= (uint64_t)r->integers[i][from];
      }
      sum += product;
      whole += whole_product;
    }
  }
  if (r->y)
    r->y[out] = sum;
  else
    r->y_integers[out] = (int64_t)whole;
}

static void einsum_part(void* arg, int64_t part) {
  const einsum_run* r = arg;
  int64_t end = carnot_min_i64((part + 1) * kResults, r->plan.out_count);
  for (int64_t i = part * kResults; i < end; i++) one_result(r, i);
}

carnot_status* carnot_einsum_plan(carnot_strview text, int operands, const int* ranks,
                                  const int64_t* const* dims, carnot_einsum* out) {
  carnot_equation e;
  CARNOT_CHECK(operands <= kOperands, UNSUPPORTED, "%d operands; at most %d are possible", operands,
               kOperands);
  CARNOT_TRY(carnot_equation_read(text, operands, ranks, &e));
  int64_t sizes[kLabels], strides[kOperands][kLabels] = {{0}};
  bool in_output[kLabels] = {false};
  for (int k = 0; k < kLabels; k++) sizes[k] = -1;
  for (int i = 0; i < operands; i++) {
    int64_t stride = 1;
    for (int k = ranks[i] - 1; k >= 0; k--) {
      int label = e.labels[i][k];
      int64_t dim = dims[i][k];
      CARNOT_CHECK(dim == 1 || sizes[label] <= 1 || sizes[label] == dim, INVALID_MODEL,
                   "dimensions of one name are %lld and %lld", (long long)sizes[label],
                   (long long)dim);
      if (sizes[label] < 0 || (sizes[label] == 1 && dim != 1)) sizes[label] = dim;
      if (dim != 1) strides[i][label] += stride;
      stride *= dim;
    }
  }
  *out = (carnot_einsum){.operands = operands, .out_rank = e.out_rank};
  for (int k = 0; k < e.out_rank; k++) {
    in_output[e.out_labels[k]] = true;
    out->out_dims[k] = sizes[e.out_labels[k]];
    for (int i = 0; i < operands; i++) out->out_strides[i][k] = strides[i][e.out_labels[k]];
  }
  for (int label = 0; label < kLabels; label++) {
    if (sizes[label] < 0 || in_output[label]) continue;
    out->sum_dims[out->sum_rank] = sizes[label];
    for (int i = 0; i < operands; i++) out->sum_strides[i][out->sum_rank] = strides[i][label];
    out->sum_rank++;
  }
  out->sum_count = carnot_dims_count(out->sum_dims, out->sum_rank);
  out->out_count = carnot_dims_count(out->out_dims, out->out_rank);
  return NULL;
}

static carnot_status* run_einsum(carnot_call* call) {
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(y) == 0) return NULL;
  int ranks[kOperands];
  const int64_t* dims[kOperands];
  for (int i = 0; i < call->input_count && i < kOperands; i++) {
    ranks[i] = carnot_call_in(call, i)->rank;
    dims[i] = carnot_call_in(call, i)->dims;
  }
  einsum_run r = {.y = NULL};
  CARNOT_TRY(carnot_einsum_plan(carnot_attr_text(call->row, call->attrs, "equation"),
                                call->input_count, ranks, dims, &r.plan));
  bool floats = carnot_dtype_is_float(y->dtype);
  for (int i = 0; i < call->input_count; i++) {
    const carnot_tensor* x = carnot_call_in(call, i);
    if (floats) {
      CARNOT_TRY(carnot_call_f64(call, x, &r.floats[i]));
    } else {
      CARNOT_TRY(carnot_call_i64(call, x, &r.integers[i]));
    }
  }
  if (floats) {
    CARNOT_TRY(carnot_call_f64_out(call, y, &r.y));
  } else {
    CARNOT_TRY(carnot_call_i64_out(call, y, &r.y_integers));
  }
  carnot_call_parallel(call, carnot_ceildiv(r.plan.out_count, kResults), einsum_part, &r);
  if (floats) {
    carnot_write_f64(y, r.y);
  } else {
    carnot_write_i64(y, r.y_integers);
  }
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_REQUIRED("equation", STRING),
                                          CARNOT_SPEC_END};

const carnot_op_row carnot_op_einsum = {
    .name = "einsum",
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .infer = infer_einsum,
    .reference = run_einsum,
    .source = "ONNX Einsum-28",
    .layer_type = "EINSUM",
};
