// Tensors in memory.
#include "tensor.h"

#include <string.h>

bool cli_dtype_is_float(carnot_dtype dtype) {
#define CLASS_OF(NAME, name, bits, class) #class[0],
  static const char kClasses[] = {CARNOT_DTYPES(CLASS_OF)};
#undef CLASS_OF
  return (size_t)dtype < sizeof(kClasses) && kClasses[dtype] == 'F';
}

int64_t cli_dims_count(const carnot_dims* dims) {
  int64_t count = 1;
  bool overflows = false;
  for (int d = 0; d < dims->rank; d++) {
    if (dims->d[d] == 0) return 0;
    overflows |= __builtin_mul_overflow(count, dims->d[d], &count);
  }
  return overflows ? INT64_MAX : count;
}

int64_t cli_tensor_count(const cli_tensor* tensor) { return cli_dims_count(&tensor->dims); }

carnot_status* cli_dims_bytes(carnot_dtype dtype, const carnot_dims* dims, size_t* out_bytes) {
  char text[128];
  cli_dims_text(dims, text, sizeof(text));
  *out_bytes = 0;
  for (int d = 0; d < dims->rank; d++)
    CLI_CHECK(dims->d[d] >= 0, OUT_OF_RANGE, "dimension %d of %s is negative", d, text);
  int64_t count = cli_dims_count(dims);
  CLI_CHECK(count < INT64_MAX / 32, OUT_OF_RANGE, "a tensor %s is too large", text);
  *out_bytes = carnot_dtype_bytes(dtype, (size_t)count);
  return NULL;
}

carnot_status* cli_tensor_create(carnot_dtype dtype, const carnot_dims* dims, cli_arena* arena,
                                 cli_tensor* out) {
  *out = (cli_tensor){.dtype = dtype, .dims = *dims};
  size_t bytes;
  CLI_TRY(cli_dims_bytes(dtype, dims, &bytes));
  return cli_arena_try(arena, bytes, "a tensor", &out->data);
}

cli_tensor cli_tensor_of(const carnot_data* data) {
  return (cli_tensor){.dtype = carnot_data_dtype(data),
                      .dims = carnot_data_dims(data),
                      .data = (void*)(uintptr_t)carnot_data_numbers(data)};
}

carnot_status* cli_tensor_as_data(const cli_tensor* tensor, cli_arena* arena,
                                  const carnot_data** out_data) {
  carnot_data* data;
  *out_data = NULL;
  CLI_TRY(carnot_data_create_tensor(tensor->dtype, &tensor->dims, tensor->data, &data));
  CLI_TRY(cli_arena_own(arena, data));
  *out_data = data;
  return NULL;
}

carnot_status* cli_tensor_random(const carnot_tensor_info* input, const carnot_dims* dims,
                                 cli_arena* arena, cli_tensor* out) {
  carnot_dtype dtype = input->dtype;
  CLI_CHECK(carnot_dtype_bits(dtype) > 0, UNSUPPORTED,
            "input %s cannot be made up: it is no tensor of numbers", input->name);
  CLI_TRY(cli_tensor_create(dtype, dims, arena, out));
  bool is_mask = strstr(input->name, "mask") != NULL, is_float = cli_dtype_is_float(dtype);
  int limit = dtype == CARNOT_DTYPE_BOOL ? 2 : carnot_dtype_bits(dtype) >= 16 ? 1000 : 100;
  uint64_t state = 0x9e3779b97f4a7c15u;
  for (int64_t i = 0; i < cli_tensor_count(out); i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    double unit = (double)(state >> 11) * 0x1p-53;
    double value = is_mask ? 1 : is_float ? 2 * unit - 1 : (double)(int64_t)(unit * limit);
    carnot_element_set_f64(dtype, out->data, (size_t)i, value);
  }
  return NULL;
}
