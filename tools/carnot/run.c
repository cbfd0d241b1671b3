// carnot run MODEL_OR_ENGINE --input NAME=FILE …: one run on files.
#include <stdlib.h>
#include <sys/stat.h>

#include "cli.h"

static carnot_status* parse_numbers(const char* text, float* out, int* out_count, const char* flag) {
  *out_count = 0;
  while (text && *text) {
    char* end;
    CARNOT_CHECK(*out_count < 4, INVALID_ARGUMENT, "--%s has more than 4 numbers", flag);
    out[*out_count] = strtof(text, &end);
    CARNOT_CHECK(end != text && (*end == 0 || *end == ','), INVALID_ARGUMENT, "--%s: '%s' is no list of numbers", flag, text);
    ++*out_count;
    text = end + (*end == ',');
  }
  return NULL;
}

typedef struct run_options {
  cli_shapes shapes;
  cli_image_options image;
  const char* output_dir;
  long long top, threads;
  const char* labels;
  bool png;
} run_options;

// The FILE that --input gives for |name|; "FILE" alone serves the only input.
static const char* file_for(cli_flags* flags, const char* name, uint32_t input_count) {
  const char* value;
  for (int i = 0; (value = cli_flag_each(flags, "input", i)) != NULL; i++) {
    const char* equals = strrchr(value, '=');
    if (!equals && input_count == 1) return value;
    if (equals && (size_t)(equals - value) == strlen(name) && strncmp(value, name, strlen(name)) == 0) return equals + 1;
  }
  return NULL;
}

static carnot_status* check_names(cli_flags* flags, const carnot_plan* plan, uint32_t input_count) {
  const char* value;
  for (int i = 0; (value = cli_flag_each(flags, "input", i)) != NULL; i++) {
    const char* equals = strrchr(value, '=');
    CARNOT_CHECK(equals || input_count == 1, INVALID_ARGUMENT, "--input %s: NAME=FILE is wanted, the model has %u inputs", value, input_count);
    if (!equals) continue;
    char name[512];
    snprintf(name, sizeof(name), "%.*s", (int)(equals - value), value);
    uint32_t index;
    CARNOT_TRY(carnot_plan_find_binding(plan, name, &index));
  }
  return NULL;
}

static carnot_status* read_inputs(cli_flags* flags, carnot_context* context, const run_options* options, carnot_arena* arena) {
  const carnot_plan* plan = context->plan;
  uint32_t input_count = 0;
  for (uint32_t i = 0; i < plan->binding_count; i++) input_count += plan->bindings[i].is_input;
  CARNOT_TRY(check_names(flags, plan, input_count));
  for (uint32_t i = 0; i < plan->binding_count; i++) {
    const carnot_plan_binding* b = &plan->bindings[i];
    if (!b->is_input) continue;
    const char* file = file_for(flags, b->name, input_count);
    CARNOT_CHECK(file, INVALID_ARGUMENT, "input %s has no file: give --input %s=FILE", b->name, b->name);
    carnot_dims dims = {.rank = b->rank};
    CARNOT_TRY(cli_input_dims(b, &options->shapes, dims.d));
    carnot_cell cell;
    CARNOT_TRY(cli_read_tensor(file, b, &dims, &options->image, arena, &cell));
    CARNOT_TRY_AT(carnot_context_set_input_cell(context, i, &cell), "%s", file);
  }
  return NULL;
}

// ---- outputs ----

static void safe_name(const char* name, char* out, size_t size) {
  size_t at = 0;
  for (; *name && at + 1 < size; name++) {
    bool plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') || (*name >= '0' && *name <= '9') || *name == '.' || *name == '-';
    out[at++] = plain ? *name : '_';
  }
  out[at] = 0;
}

static char* label_of(const char* path, int64_t index) {
  FILE* file = fopen(path, "r");
  if (!file) return NULL;
  char* line = NULL;
  size_t capacity = 0;
  while (index-- >= 0 && getline(&line, &capacity, file) > 0) continue;
  bool found = index < -1 + 1 && !feof(file);
  fclose(file);
  if (!found && !(line && line[0])) {
    free(line);
    return NULL;
  }
  line[strcspn(line, "\r\n")] = 0;
  return line;
}

static void print_top(const char* name, const carnot_tensor* t, long long top, const char* labels) {
  int64_t count = carnot_tensor_count(t);
  bool* taken = calloc((size_t)count + 1, 1);
  printf("%s:\n", name);
  for (long long k = 0; taken && k < top && k < count; k++) {
    int64_t best = -1;
    for (int64_t i = 0; i < count; i++)
      if (!taken[i] && (best < 0 || carnot_load_f64(t->dtype, t->data, (size_t)i) > carnot_load_f64(t->dtype, t->data, (size_t)best))) best = i;
    taken[best] = true;
    char* label = labels ? label_of(labels, best) : NULL;
    printf("  %2lld. %-6lld %.6g%s%s\n", k + 1, (long long)best, carnot_load_f64(t->dtype, t->data, (size_t)best), label ? "  " : "", label ? label : "");
    free(label);
  }
  free(taken);
}

static carnot_status* write_output(const char* folder, const char* name, const carnot_tensor* t, bool png) {
  char path[4096], safe[1024];
  safe_name(name, safe, sizeof(safe));
  snprintf(path, sizeof(path), "%s/%s.%s", folder, safe, png ? "png" : "npy");
  CARNOT_TRY(png ? cli_write_png(path, t) : cli_write_npy(path, t));
  printf("%s: %s\n", name, path);
  return NULL;
}

static carnot_status* write_cell(const char* folder, const char* name, const carnot_cell* cell, bool png) {
  if (cell->kind == CARNOT_VALUE_TENSOR) return write_output(folder, name, &cell->tensor, png);
  for (size_t i = 0; i < cell->item_count; i++) {
    char item[1024];
    snprintf(item, sizeof(item), "%s_%zu", name, i);
    CARNOT_TRY(write_cell(folder, item, cell->items[i], png));
  }
  return NULL;
}

static carnot_status* make_folder(const char* path) {
  char part[4096];
  for (size_t i = 1; path[i - 1] && i < sizeof(part); i++) {
    if (path[i] != '/' && path[i] != 0) continue;
    snprintf(part, sizeof(part), "%.*s", (int)i, path);
    if (mkdir(part, 0777) != 0) {
      struct stat facts;
      CARNOT_CHECK(stat(part, &facts) == 0 && S_ISDIR(facts.st_mode), IO, "cannot make the folder %s", part);
    }
  }
  return NULL;
}

static carnot_status* deliver(const carnot_context* context, const run_options* options) {
  if (options->output_dir) CARNOT_TRY(make_folder(options->output_dir));
  for (uint32_t i = 0; i < context->plan->binding_count; i++) {
    const carnot_plan_binding* b = &context->plan->bindings[i];
    if (b->is_input) continue;
    const carnot_cell* cell = carnot_context_output(context, i);
    if (options->top && cell->kind == CARNOT_VALUE_TENSOR) print_top(b->name, &cell->tensor, options->top, options->labels);
    if (options->output_dir) CARNOT_TRY_AT(write_cell(options->output_dir, b->name, cell, options->png), "output %s", b->name);
    if (options->top || options->output_dir || cell->kind != CARNOT_VALUE_TENSOR) continue;
    char dims[128];
    carnot_dims_print(cell->tensor.dims, cell->tensor.rank, dims, sizeof(dims));
    printf("%s: %s %s\n", b->name, carnot_dtype_name(cell->tensor.dtype), dims);
  }
  return NULL;
}

static carnot_status* run_once(cli_flags* flags, const run_options* options, carnot_engine* engine) {
  carnot_executor* executor;
  CARNOT_TRY(carnot_executor_create((int)options->threads, &executor));
  carnot_context_options context_options = {.executor = executor, .isa = -1};
  carnot_context* context = NULL;
  carnot_arena arena = {0};
  carnot_status* status = carnot_context_create_on(engine, &context_options, &context);
  if (!status) status = read_inputs(flags, context, options, &arena);
  if (!status) status = carnot_context_run_now(context);
  if (!status) status = deliver(context, options);
  carnot_context_free(context);
  carnot_arena_deinit(&arena);
  carnot_executor_destroy(executor);
  return status;
}

carnot_status* cli_run(cli_flags* flags) {
  static const char* const kKnown[] = {"input", "output-dir", "shapes", "top", "labels", "mean", "scale", "layout", "png", "threads", "builderOptimizationLevel", NULL};
  run_options options = {0};
  CARNOT_TRY(cli_shapes_parse(cli_flag_text(flags, "shapes"), &options.shapes));
  CARNOT_TRY(cli_flag_int(flags, "top", 0, 1 << 20, &options.top));
  CARNOT_TRY(cli_flag_int(flags, "threads", 0, 1024, &options.threads));
  CARNOT_TRY(parse_numbers(cli_flag_text(flags, "mean"), options.image.mean, &options.image.mean_count, "mean"));
  CARNOT_TRY(parse_numbers(cli_flag_text(flags, "scale"), options.image.scale, &options.image.scale_count, "scale"));
  options.image.layout = cli_flag_text(flags, "layout");
  options.output_dir = cli_flag_text(flags, "output-dir");
  options.labels = cli_flag_text(flags, "labels");
  options.png = cli_flag_set(flags, "png");
  while (cli_flag_each(flags, "input", 1 << 20)) continue;
  cli_build_options build;
  cli_build_options_init(&build);
  build.opt = &options.shapes;
  long long level = 1;
  CARNOT_TRY(cli_flag_int(flags, "builderOptimizationLevel", 0, 5, &level));
  build.config.level = (int)level;
  const char* path = cli_word(flags, 0);
  CARNOT_CHECK(path, INVALID_ARGUMENT, "usage: carnot run MODEL_OR_ENGINE --input NAME=FILE [--output-dir DIR] [--top N --labels FILE]");
  CARNOT_TRY(cli_flags_finish(flags, kKnown));
  cli_loaded loaded;
  CARNOT_TRY(cli_load(path, &build, &loaded));
  carnot_status* status = run_once(flags, &options, loaded.engine);
  carnot_engine_release(loaded.engine);
  cli_shapes_free(&options.shapes);
  return status;
}
