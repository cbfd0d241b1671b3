// carnot run MODEL_OR_ENGINE --input NAME=FILE …: one run on files.
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static carnot_status* parse_numbers(const char* text, float* out, int* out_count,
                                    const char* flag) {
  *out_count = 0;
  while (text && *text) {
    char* end;
    CARNOT_CHECK(*out_count < 4, INVALID_ARGUMENT, "--%s has more than 4 numbers", flag);
    out[*out_count] = strtof(text, &end);
    CARNOT_CHECK(end != text && (*end == 0 || *end == ','), INVALID_ARGUMENT,
                 "--%s: '%s' is no list of numbers", flag, text);
    ++*out_count;
    text = end + (*end == ',');
  }
  return NULL;
}

typedef struct run_options {
  cli_shapes shapes;
  cli_image_options image;
  const char* output_dir;
  long long top;
  const char* labels;
  bool png, profile;
} run_options;

carnot_status* cli_image_flags(cli_flags* flags, cli_image_options* out) {
  CARNOT_TRY(parse_numbers(cli_flag_text(flags, "mean"), out->mean, &out->mean_count, "mean"));
  CARNOT_TRY(parse_numbers(cli_flag_text(flags, "scale"), out->scale, &out->scale_count, "scale"));
  out->layout = cli_flag_text(flags, "layout");
  CARNOT_CHECK(!out->layout || strcmp(out->layout, "nchw") == 0 || strcmp(out->layout, "nhwc") == 0,
               INVALID_ARGUMENT, "--layout is '%s', must be nchw or nhwc", out->layout);
  return NULL;
}

// ---- outputs ----

void cli_safe_name(const char* name, char* out, size_t size) {
  size_t at = 0;
  for (; *name && at + 1 < size; name++) {
    bool plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
                 (*name >= '0' && *name <= '9') || *name == '.' || *name == '-';
    out[at++] = plain ? *name : '_';
  }
  out[at] = 0;
}

// Line |index| of the file, to be freed; NULL when it has fewer.
static char* label_of(const char* path, int64_t index) {
  FILE* file = fopen(path, "r");
  char* line = NULL;
  size_t capacity = 0;
  bool found = file != NULL;
  for (int64_t i = 0; found && i <= index; i++) found = getline(&line, &capacity, file) > 0;
  if (file) fclose(file);
  if (found) {
    line[strcspn(line, "\r\n")] = 0;
    return line;
  }
  free(line);
  return NULL;
}

static void print_top(const char* name, const carnot_tensor* t, long long top, const char* labels) {
  int64_t count = carnot_tensor_count(t);
  bool* taken = calloc((size_t)count + 1, 1);
  printf("%s:\n", name);
  for (long long k = 0; taken && k < top && k < count; k++) {
    int64_t best = -1;
    for (int64_t i = 0; i < count; i++)
      if (!taken[i] && (best < 0 || carnot_load_f64(t->dtype, t->data, (size_t)i) >
                                        carnot_load_f64(t->dtype, t->data, (size_t)best)))
        best = i;
    taken[best] = true;
    char* label = labels ? label_of(labels, best) : NULL;
    printf("  %2lld. %-6lld %.6g%s%s\n", k + 1, (long long)best,
           carnot_load_f64(t->dtype, t->data, (size_t)best), label ? "  " : "", label ? label : "");
    free(label);
  }
  free(taken);
}

static carnot_status* write_output(const char* folder, const char* name, const carnot_tensor* t,
                                   bool png) {
  char path[4096], safe[1024];
  cli_safe_name(name, safe, sizeof(safe));
  snprintf(path, sizeof(path), "%s/%s.%s", folder, safe, png ? "png" : "npy");
  CARNOT_TRY(png ? cli_write_png(path, t) : cli_write_npy(path, t));
  printf("%s: %s\n", name, path);
  return NULL;
}

static carnot_status* write_cell(const char* folder, const char* name, const carnot_rt_value* cell,
                                 bool png) {
  if (cell->kind == CARNOT_VALUE_TENSOR) return write_output(folder, name, &cell->tensor, png);
  for (size_t i = 0; i < cell->item_count; i++) {
    char item[1024];
    snprintf(item, sizeof(item), "%s_%zu", name, i);
    CARNOT_TRY(write_cell(folder, item, cell->items[i], png));
  }
  return NULL;
}

carnot_status* cli_make_folder(const char* path) {
  char part[4096];
  for (size_t i = 1; path[i - 1] && i < sizeof(part); i++) {
    if (path[i] != '/' && path[i] != 0) continue;
    snprintf(part, sizeof(part), "%.*s", (int)i, path);
    if (mkdir(part, 0777) != 0) {
      struct stat facts;
      CARNOT_CHECK(stat(part, &facts) == 0 && S_ISDIR(facts.st_mode), IO,
                   "cannot make the folder %s", part);
    }
  }
  return NULL;
}

static carnot_status* deliver(const carnot_context* context, const run_options* options) {
  if (options->output_dir) CARNOT_TRY(cli_make_folder(options->output_dir));
  for (uint32_t i = 0; i < context->plan->binding_count; i++) {
    const carnot_plan_binding* b = &context->plan->bindings[i];
    if (b->is_input) continue;
    const carnot_rt_value* cell = carnot_context_output(context, i);
    if (options->top && cell->kind == CARNOT_VALUE_TENSOR)
      print_top(b->name, &cell->tensor, options->top, options->labels);
    if (options->output_dir)
      CARNOT_TRY_AT(write_cell(options->output_dir, b->name, cell, options->png), "output %s",
                    b->name);
    if (options->top || options->output_dir || cell->kind != CARNOT_VALUE_TENSOR) continue;
    char dims[128];
    carnot_dims_print(cell->tensor.dims, cell->tensor.rank, dims, sizeof(dims));
    printf("%s: %s %s\n", b->name, carnot_dtype_name(cell->tensor.dtype), dims);
  }
  return NULL;
}

carnot_status* cli_run(cli_flags* flags) {
  static const char* const kKnown[] = {"input",  "output-dir",  "shapes",        "top",
                                       "labels", "mean",        "scale",         "layout",
                                       "png",    "dumpProfile", CLI_BUILD_FLAGS, NULL};
  run_options options = {0};
  CARNOT_TRY(cli_shapes_parse(cli_flag_text(flags, "shapes"), &options.shapes));
  CARNOT_TRY(cli_flag_int(flags, "top", 0, 1 << 20, &options.top));
  CARNOT_TRY(cli_image_flags(flags, &options.image));
  options.output_dir = cli_flag_text(flags, "output-dir");
  options.labels = cli_flag_text(flags, "labels");
  CARNOT_CHECK(!options.labels || access(options.labels, R_OK) == 0, IO, "--labels: cannot read %s",
               options.labels);
  options.png = cli_flag_set(flags, "png");
  options.profile = cli_flag_set(flags, "dumpProfile");
  while (cli_flag_each(flags, "input", 1 << 20)) continue;
  cli_build_options build;
  cli_build_options_init(&build);
  build.opt = &options.shapes;
  build.config.level = 1;
  CARNOT_TRY(cli_build_flags(flags, &build));
  const char* path = cli_word(flags, 0);
  CARNOT_CHECK(path, INVALID_ARGUMENT,
               "usage: carnot run MODEL_OR_ENGINE --input NAME=FILE [--output-dir DIR] [--top N "
               "--labels FILE]");
  CARNOT_TRY(cli_flags_finish(flags, kKnown));
  cli_session session;
  carnot_status* status = cli_session_open(path, &build, &session);
  if (!status)
    status = cli_session_read(&session, flags, &options.shapes, &options.image, /*random=*/false);
  if (!status && options.profile) status = cli_profile_begin(&session);
  if (!status) status = carnot_context_run_now(session.context);
  if (!status && options.profile) cli_profile_print(&session);
  if (!status) status = deliver(session.context, &options);
  cli_session_close(&session);
  cli_shapes_free(&options.shapes);
  return status;
}
