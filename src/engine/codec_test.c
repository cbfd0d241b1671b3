// The codec: every field of a plan survives, truncated metadata are refused, flipped bits do no
// harm.
#include "engine/codec.h"

#include <sys/mman.h>
#include <unistd.h>

#include "plan/plan_test.h"

// The whole metadata: what carnot_plan_encode gives, and the inspector's data behind it.
static carnot_status* encode(const carnot_plan* plan, void** out_bytes, size_t* out_size) {
  size_t head, text = strlen(plan->inspector);
  CARNOT_TRY(carnot_plan_encode(plan, out_bytes, &head));
  *out_bytes = realloc(*out_bytes, head + text + 1);
  assert_non_null(*out_bytes);
  memcpy((char*)*out_bytes + head, plan->inspector, text);
  *out_size = head + text;
  return NULL;
}

// ---- a plan with every kind of field ----

// Texts live as long as the plan.
static void add_attrs(carnot_plan* p) {
  static const double kFloats[] = {0.5, -2};
  static const int64_t kInts[] = {3, -4, INT64_MAX};
  const carnot_strview texts[] = {{"one", 3}, {"", 0}};
  carnot_strview* strings = carnot_arena_copy(&p->arena, texts, sizeof(texts));
  carnot_strview* elements = carnot_arena_copy(&p->arena, texts, sizeof(texts));
  static int8_t data[] = {1, -2, 3};
  static const carnot_tensor kTensor = {
      .dtype = CARNOT_DTYPE_I8, .rank = 1, .dims = {3}, .data = data};
  const carnot_tensor text = {
      .dtype = CARNOT_DTYPE_STRING, .rank = 1, .dims = {2}, .data = elements};
  const carnot_attr attrs[] = {
      {.name = "int", .type = CARNOT_ATTR_INT, .i = -7},
      {.name = "float", .type = CARNOT_ATTR_FLOAT, .f = 0.125},
      {.name = "string", .type = CARNOT_ATTR_STRING, .s = {"text", 4}},
      {.name = "ints", .type = CARNOT_ATTR_INTS, .count = 3, .ints = kInts},
      {.name = "floats", .type = CARNOT_ATTR_FLOATS, .count = 2, .floats = kFloats},
      {.name = "strings", .type = CARNOT_ATTR_STRINGS, .count = 2, .strings = strings},
      {.name = "tensor", .type = CARNOT_ATTR_TENSOR, .tensor = &kTensor},
      {.name = "text",
       .type = CARNOT_ATTR_TENSOR,
       .tensor = carnot_arena_copy(&p->arena, &text, sizeof(text))},
      {.name = "block", .type = CARNOT_ATTR_BLOCK, .block_index = 1}};
  p->steps[0].region.nodes[0].attrs = (carnot_attrs){
      carnot_arena_copy(&p->arena, attrs, sizeof(attrs)), sizeof(attrs) / sizeof(attrs[0])};
}

static carnot_plan* full_plan(void) {
  static const carnot_dim_range kValues[] = {{1, 2, 3}, {4, 5, 6}};
  static const unsigned char kBytes[] = {0, 255, 7};
  carnot_plan* p = plan_test_make();
  add_attrs(p);
  p->stripped = true;
  p->device_arena_bytes = 1024;
  p->inspector = "{\"layers\":[]}";
  p->values[PLAN_HEAP].format = (carnot_format){.dtype = CARNOT_DTYPE_I8,
                                                .layout = CARNOT_LAYOUT_CHANNELS_LAST,
                                                .memory = CARNOT_MEMORY_DEVICE};
  p->values[PLAN_HEAP].kind = CARNOT_VALUE_SEQUENCE;
  p->values[PLAN_X].format.quant =
      (carnot_quantization){.scheme = CARNOT_QUANT_PER_TENSOR, .scale = 0.25f, .zero_point = -3};
  p->values[PLAN_Y].format.quant = (carnot_quantization){
      .scheme = CARNOT_QUANT_PER_AXIS, .axis = 1, .scales = PLAN_W, .zero_points = PLAN_T};
  p->values[PLAN_T].format.quant = (carnot_quantization){
      .scheme = CARNOT_QUANT_BLOCKED, .axis = 1, .block = 5, .scales = PLAN_W, .zero_points = 1};
  p->bindings[0].is_shape = true;
  p->bindings[0].value_count = 1;
  p->bindings[0].value_ranges = kValues;
  carnot_plan_step* step = &p->steps[0];
  step->is_shape = true;
  step->variant_count = 2;
  step->variants[1] = step->variants[0];
  step->variants[0] = (carnot_variant){.tactic = "cpu_pointwise_f32_avx2",
                                       .guard_count = 1,
                                       .guards = {{0, 1, -3, INT64_MAX, 16}},
                                       .constant_count = 1,
                                       .constants = plan_test_list(p, 1, 0),
                                       .param_bytes = 3,
                                       .params = kBytes};
  const carnot_operand_desc types[] = {
      {.kind = CARNOT_VALUE_TENSOR,
       .format = {.dtype = CARNOT_DTYPE_F32, .layout = CARNOT_LAYOUT_CHANNELS_LAST},
       .rank = 2,
       .dims = {2, 5},
       .min = {1, 5},
       .max = {8, 5},
       .is_constant = true},
      {.kind = CARNOT_VALUE_UNKNOWN, .rank = -1}};
  step->type_count = 2;
  step->types = carnot_arena_copy(&p->arena, types, sizeof(types));
  const carnot_plan_library library = {.name = "libplugin.so", .data = kBytes, .bytes = 3};
  p->library_count = 1;
  p->libraries = carnot_arena_copy(&p->arena, &library, sizeof(library));
  return p;
}

// ---- comparison ----

static void same_list(const uint32_t* a, uint32_t a_count, const uint32_t* b, uint32_t b_count) {
  assert_int_equal(a_count, b_count);
  for (uint32_t i = 0; i < a_count; i++) assert_int_equal(a[i], b[i]);
}

static void same_view(carnot_strview a, carnot_strview b) { assert_true(carnot_view_equal(a, b)); }

static void same_tensor(const carnot_tensor* a, const carnot_tensor* b) {
  assert_int_equal(a->dtype, b->dtype);
  assert_int_equal(a->rank, b->rank);
  assert_memory_equal(a->dims, b->dims, (size_t)a->rank * sizeof(a->dims[0]));
}

static void same_attr(const carnot_attr* a, const carnot_attr* b) {
  assert_string_equal(a->name, b->name);
  assert_int_equal(a->type, b->type);
  assert_int_equal(a->count, b->count);
  switch (a->type) {
    case CARNOT_ATTR_STRING: same_view(a->s, b->s); break;
    case CARNOT_ATTR_INTS:
    case CARNOT_ATTR_FLOATS: assert_memory_equal(a->ints, b->ints, a->count * 8); break;
    case CARNOT_ATTR_STRINGS:
      for (size_t i = 0; i < a->count; i++) same_view(a->strings[i], b->strings[i]);
      break;
    case CARNOT_ATTR_TENSOR:
      same_tensor(a->tensor, b->tensor);
      if (a->tensor->dtype == CARNOT_DTYPE_STRING)
        for (int64_t i = 0; i < carnot_tensor_count(a->tensor); i++)
          same_view(((carnot_strview*)a->tensor->data)[i], ((carnot_strview*)b->tensor->data)[i]);
      else
        assert_memory_equal(a->tensor->data, b->tensor->data, carnot_tensor_bytes(a->tensor));
      break;
    default: assert_int_equal(a->i, b->i); break;
  }
}

static void same_region(const carnot_region* a, const carnot_region* b) {
  assert_int_equal(a->node_count, b->node_count);
  assert_int_equal(a->value_count, b->value_count);
  same_list(a->outputs, a->output_count, b->outputs, b->output_count);
  for (uint32_t i = 0; i < a->node_count; i++) {
    const carnot_plan_node *x = &a->nodes[i], *y = &b->nodes[i];
    assert_int_equal(x->op, y->op);
    assert_string_equal(x->name, y->name);
    same_list(x->inputs, x->input_count, y->inputs, y->input_count);
    same_list(x->outputs, x->output_count, y->outputs, y->output_count);
    assert_int_equal(x->attrs.count, y->attrs.count);
    for (size_t k = 0; k < x->attrs.count; k++) same_attr(&x->attrs.items[k], &y->attrs.items[k]);
  }
}

static void same_variant(const carnot_variant* a, const carnot_variant* b) {
  assert_string_equal(a->tactic, b->tactic);
  assert_int_equal(a->guard_count, b->guard_count);
  for (uint32_t i = 0; i < a->guard_count; i++)
    assert_memory_equal(&a->guards[i], &b->guards[i], sizeof(a->guards[i]));
  same_list(a->constants, a->constant_count, b->constants, b->constant_count);
  assert_int_equal(a->param_bytes, b->param_bytes);
  if (a->param_bytes) assert_memory_equal(a->params, b->params, a->param_bytes);
}

static void same_operand_type(const carnot_operand_desc* a, const carnot_operand_desc* b) {
  assert_int_equal(a->kind, b->kind);
  assert_true(carnot_format_equal(&a->format, &b->format));
  assert_int_equal(a->is_constant, b->is_constant);
  assert_int_equal(a->rank, b->rank);
  for (int d = 0; d < a->rank; d++) {
    assert_int_equal(a->dims[d], b->dims[d]);
    assert_int_equal(a->min[d], b->min[d]);
    assert_int_equal(a->max[d], b->max[d]);
  }
}

static void same_steps(const carnot_plan* a, const carnot_plan* b) {
  assert_int_equal(a->step_count, b->step_count);
  for (uint32_t i = 0; i < a->step_count; i++) {
    const carnot_plan_step *x = &a->steps[i], *y = &b->steps[i];
    assert_string_equal(x->name, y->name);
    same_region(&x->region, &y->region);
    same_list(x->inputs, x->input_count, y->inputs, y->input_count);
    same_list(x->outputs, x->output_count, y->outputs, y->output_count);
    assert_int_equal(x->is_shape, y->is_shape);
    assert_int_equal(x->variant_count, y->variant_count);
    for (uint32_t v = 0; v < x->variant_count; v++) same_variant(&x->variants[v], &y->variants[v]);
    assert_int_equal(x->type_count, y->type_count);
    for (uint32_t t = 0; t < x->type_count; t++) same_operand_type(&x->types[t], &y->types[t]);
  }
}

static void same_values(const carnot_plan* a, const carnot_plan* b) {
  assert_int_equal(a->value_count, b->value_count);
  for (uint32_t i = 0; i < a->value_count; i++) {
    const carnot_plan_value *x = &a->values[i], *y = &b->values[i];
    assert_string_equal(x->name, y->name);
    assert_int_equal(x->kind, y->kind);
    assert_true(carnot_format_equal(&x->format, &y->format));
    assert_int_equal(x->storage, y->storage);
    assert_int_equal(x->index, y->index);
    assert_int_equal(x->axis, y->axis);
    same_list(x->before, x->before_count, y->before, y->before_count);
    assert_int_equal(x->max_bytes, y->max_bytes);
    assert_int_equal(x->first_step, y->first_step);
    assert_int_equal(x->last_step, y->last_step);
    if (x->storage == CARNOT_STORAGE_ARENA)
      assert_memory_equal(x->offsets, y->offsets, a->profile_count * sizeof(x->offsets[0]));
  }
}

static void same_blobs(const carnot_plan* a, const carnot_plan* b) {
  assert_int_equal(a->blob_count, b->blob_count);
  for (uint32_t i = 0; i < a->blob_count; i++) {
    const carnot_plan_blob *x = &a->blobs[i], *y = &b->blobs[i];
    assert_string_equal(x->name, y->name);
    assert_string_equal(x->packing, y->packing);
    same_tensor(&x->tensor, &y->tensor);
    assert_int_equal(x->offset, y->offset);
    assert_int_equal(x->bytes, y->bytes);
    assert_int_equal(x->hash, y->hash);
    assert_int_equal(x->refit_expr, y->refit_expr);
    assert_int_equal(x->dropped, y->dropped);
  }
}

static void same_bindings(const carnot_plan* a, const carnot_plan* b) {
  assert_int_equal(a->binding_count, b->binding_count);
  for (uint32_t i = 0; i < a->binding_count; i++) {
    const carnot_plan_binding *x = &a->bindings[i], *y = &b->bindings[i];
    assert_string_equal(x->name, y->name);
    assert_int_equal(x->is_input, y->is_input);
    assert_int_equal(x->is_shape, y->is_shape);
    assert_int_equal(x->value, y->value);
    assert_int_equal(x->format, y->format);
    assert_int_equal(x->dtype, y->dtype);
    assert_int_equal(x->rank, y->rank);
    for (int d = 0; d < x->rank; d++) {
      assert_int_equal(x->dims[d], y->dims[d]);
      assert_string_equal(x->dim_names[d], y->dim_names[d]);
    }
    size_t ranges = x->is_input ? a->profile_count * (size_t)x->rank : 0;
    if (ranges) assert_memory_equal(x->ranges, y->ranges, ranges * sizeof(x->ranges[0]));
    assert_int_equal(x->value_count, y->value_count);
    size_t values = (size_t)a->profile_count * x->value_count;
    if (values)
      assert_memory_equal(x->value_ranges, y->value_ranges, values * sizeof(x->value_ranges[0]));
  }
}

static void same_rest(const carnot_plan* a, const carnot_plan* b) {
  assert_string_equal(a->name, b->name);
  assert_string_equal(a->device, b->device);
  assert_string_equal(a->inspector, b->inspector);
  assert_int_equal(a->isa, b->isa);
  assert_int_equal(a->profile_count, b->profile_count);
  assert_int_equal(a->dynamic_count, b->dynamic_count);
  assert_int_equal(a->arena_bytes, b->arena_bytes);
  assert_int_equal(a->device_arena_bytes, b->device_arena_bytes);
  assert_int_equal(a->arena_bound, b->arena_bound);
  assert_int_equal(a->workspace_bytes, b->workspace_bytes);
  assert_int_equal(a->refittable, b->refittable);
  assert_int_equal(a->stripped, b->stripped);
  assert_int_equal(a->block_count, b->block_count);
  for (uint32_t i = 0; i < a->block_count; i++) {
    const carnot_plan_block *x = &a->blocks[i], *y = &b->blocks[i];
    same_list(x->params, x->param_count, y->params, y->param_count);
    same_list(x->outputs, x->output_count, y->outputs, y->output_count);
    assert_int_equal(x->first_step, y->first_step);
    assert_int_equal(x->step_count, y->step_count);
  }
  assert_int_equal(a->refit_expr_count, b->refit_expr_count);
  for (uint32_t i = 0; i < a->refit_expr_count; i++) {
    const carnot_refit_expr *x = &a->refit_exprs[i], *y = &b->refit_exprs[i];
    same_region(&x->region, &y->region);
    same_list(x->inputs, x->input_count, y->inputs, y->input_count);
  }
  assert_int_equal(a->library_count, b->library_count);
  for (uint32_t i = 0; i < a->library_count; i++) {
    assert_string_equal(a->libraries[i].name, b->libraries[i].name);
    assert_int_equal(a->libraries[i].bytes, b->libraries[i].bytes);
    assert_memory_equal(a->libraries[i].data, b->libraries[i].data, a->libraries[i].bytes);
  }
}

// ---- tests ----

static void test_round_trip(void** state) {
  (void)state;
  carnot_plan *plan = full_plan(), *read;
  void *bytes, *again;
  size_t size = 0, size_again = 0;
  assert_null(encode(plan, &bytes, &size));
  assert_null(carnot_plan_decode(bytes, size, &read));
  same_values(plan, read);
  same_steps(plan, read);
  same_blobs(plan, read);
  same_bindings(plan, read);
  same_rest(plan, read);
  assert_null(encode(read, &again, &size_again));
  assert_int_equal(size, size_again);
  assert_memory_equal(bytes, again, size);
  free(bytes);
  free(again);
  carnot_plan_destroy(plan);
  carnot_plan_destroy(read);
}

static void assert_refused(const void* bytes, size_t size) {
  carnot_plan* plan;
  carnot_status* status = carnot_plan_decode(bytes, size, &plan);
  assert_int_equal(carnot_status_code(status), CARNOT_INVALID_MODEL);
  assert_null(plan);
  carnot_status_free(status);
}

// Encoding writes nothing to the plan: its memory is read-only meanwhile. The arena's block is so
// large that the allocator maps pages for it alone, and the first object lies in the first page.
static void test_encoding_reads_only(void** state) {
  (void)state;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), before = carnot_arena_block_bytes;
  carnot_plan *plan = full_plan(), *read;
  void *bytes, *again;
  size_t size = 0, size_again = 0;
  assert_null(encode(plan, &bytes, &size));
  carnot_arena_block_bytes = (size_t)64 << 20;
  assert_null(carnot_plan_decode(bytes, size, &read));
  carnot_arena_block_bytes = before;
  carnot_plan* constant =
      mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(constant != MAP_FAILED && sizeof(*constant) <= page);
  *constant = *read;
  char* first = (char*)((uintptr_t)read->name & ~(uintptr_t)(page - 1));
  const size_t length = read->arena.used_bytes / page * page + 2 * page;
  assert_int_equal(mprotect(constant, page, PROT_READ), 0);
  assert_int_equal(mprotect(first, length, PROT_READ), 0);
  carnot_status* status = encode(constant, &again, &size_again);
  assert_int_equal(mprotect(first, length, PROT_READ | PROT_WRITE), 0);
  assert_null(status);
  assert_int_equal(size, size_again);
  assert_memory_equal(bytes, again, size);
  munmap(constant, page);
  free(bytes);
  free(again);
  carnot_plan_destroy(read);
  carnot_plan_destroy(plan);
}

// A copy of exactly the length lets a sanitizer see a read beyond it.
static void test_other_lengths(void** state) {
  (void)state;
  carnot_plan* plan = full_plan();
  void* bytes;
  size_t size = 0;
  assert_null(encode(plan, &bytes, &size));
  for (size_t length = 0; length < size; length++) {
    void* copy = malloc(length + 1);
    assert_non_null(copy);
    memcpy(copy, bytes, length);
    assert_refused(copy, length);
    free(copy);
  }
  char* longer = calloc(1, size + 1);
  assert_non_null(longer);
  memcpy(longer, bytes, size);
  assert_refused(longer, size + 1);
  free(longer);
  free(bytes);
  carnot_plan_destroy(plan);
}

// A flipped bit is refused, or gives a plan that the verifier can read. Names and numbers without a
// rule may change.
static void test_flipped_bits(void** state) {
  (void)state;
  carnot_plan *plan = full_plan(), *read;
  void* memory;
  size_t size = 0, refused = 0;
  assert_null(encode(plan, &memory, &size));
  unsigned char* bytes = memory;
  for (size_t bit = 0; bit < size * 8; bit++) {
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    carnot_status* status = carnot_plan_decode(bytes, size, &read);
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    if (!status) status = carnot_plan_verify(read);
    refused += status != NULL;
    carnot_status_free(status);
    carnot_plan_destroy(read);
  }
  assert_true(refused > size);
  free(memory);
  carnot_plan_destroy(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip), cmocka_unit_test(test_encoding_reads_only),
      cmocka_unit_test(test_other_lengths), cmocka_unit_test(test_flipped_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
