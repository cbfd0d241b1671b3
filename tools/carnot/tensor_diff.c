// How far two tensors are apart.
#include <math.h>
#include <string.h>

#include "tensor.h"

carnot_status* cli_tensor_compare(const char* name, const cli_tensor* a, const cli_tensor* b,
                                  double rtol, double atol, cli_tensor_diff* out) {
  char dims_a[128], dims_b[128];
  cli_dims_text(&a->dims, dims_a, sizeof(dims_a));
  cli_dims_text(&b->dims, dims_b, sizeof(dims_b));
  CLI_CHECK(strcmp(dims_a, dims_b) == 0, INVALID_ARGUMENT,
            "output %s is %s in the first and %s in the second", name, dims_a, dims_b);
  CLI_CHECK(a->dtype != CARNOT_DTYPE_STRING && b->dtype != CARNOT_DTYPE_STRING, UNSUPPORTED,
            "output %s is text, which is not compared", name);
  *out = (cli_tensor_diff){.count = cli_tensor_count(a), .worst = -1};
  double dot = 0, aa = 0, bb = 0, gaps = 0, worst = -1;
  for (int64_t i = 0; i < out->count; i++) {
    double x = carnot_element_f64(a->dtype, a->data, (size_t)i),
           y = carnot_element_f64(b->dtype, b->data, (size_t)i);
    out->not_finite += !isfinite(x) || !isfinite(y);
    if (x == y || (isnan(x) && isnan(y))) {
      if (isfinite(x)) dot += x * y, aa += x * x, bb += y * y;
      continue;
    }
    double gap = fabs(x - y), over = gap - (atol + rtol * fabs(y));
    if (isnan(gap)) gap = INFINITY, over = INFINITY;
    dot += x * y, aa += x * x, bb += y * y, gaps += gap * gap;
    if (over > 0) out->outside++;
    if (gap > out->max_abs) out->max_abs = gap;
    if (y != 0 && gap / fabs(y) > out->max_rel) out->max_rel = gap / fabs(y);
    if (gap > worst) worst = gap, out->worst = i, out->worst_a = x, out->worst_b = y;
  }
  out->cosine = aa > 0 && bb > 0 ? dot / (sqrt(aa) * sqrt(bb)) : aa == bb;
  out->error = gaps > 0 ? sqrt(gaps / bb) : 0;
  return NULL;
}

json_t* cli_tensor_diff_json(const char* name, const cli_tensor_diff* d) {
  return json_pack("{s:s,s:f,s:f,s:f,s:I,s:I,s:I}", "name", name, "max_abs",
                   isfinite(d->max_abs) ? d->max_abs : 1e308, "max_rel",
                   isfinite(d->max_rel) ? d->max_rel : 1e308, "cosine",
                   isnan(d->cosine) ? 0 : d->cosine, "outside", (json_int_t)d->outside, "count",
                   (json_int_t)d->count, "not_finite", (json_int_t)d->not_finite);
}
