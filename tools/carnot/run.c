// carnot run MODEL_OR_ENGINE --input NAME=FILE …: one run on files.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "session.h"
#include "values.h"

const cli_flag cli_run_flags[] = {
    {"input", CLI_VALUE, CLI_WORKS,
     "NAME=FILE: .npy, a picture, .pb (TensorProto) or raw bytes; repeat for each input and for "
     "each item of a sequence; NAME= leaves an optional input empty, as giving none does"},
    {"shapes", CLI_VALUE, CLI_WORKS, "NAME:1x3x…: for raw bytes and for pictures"},
    {"mean", CLI_VALUE, CLI_WORKS, "A,B,C: pictures become x = (pixel - mean) * scale"},
    {"scale", CLI_VALUE, CLI_WORKS, "A,B,C: see --mean"},
    {"layout", CLI_VALUE, CLI_WORKS, "nchw or nhwc, of pictures; guessed from the shape"},
    {"top", CLI_VALUE, CLI_WORKS, "print the N largest elements of each output"},
    {"labels", CLI_VALUE, CLI_WORKS, "a file with a line of text for each element"},
    {"output-dir", CLI_VALUE, CLI_WORKS, "write one .npy for each output into this folder"},
    {"png", CLI_NO_VALUE, CLI_WORKS, "write pictures instead of .npy"},
    {"json", CLI_NO_VALUE, CLI_WORKS, "print the outputs as one JSON object"},
    {"dumpProfile", CLI_NO_VALUE, CLI_WORKS, "print the time of each layer"},
    {NULL, CLI_NO_VALUE, CLI_WORKS, NULL},
};

typedef struct run_options {
  cli_shapes shapes;
  cli_image_options image;
  cli_input_files inputs;
  const char* output_dir;
  long long top;
  const char* labels;
  bool png, json, profile;
} run_options;

// ---- outputs ----

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

static void print_top(const char* name, const cli_tensor* t, long long top, const char* labels) {
  int64_t count = cli_tensor_count(t);
  bool* taken = calloc((size_t)count + 1, 1);
  printf("%s:\n", name);
  for (long long k = 0; taken && k < top && k < count; k++) {
    int64_t best = -1;
    for (int64_t i = 0; i < count; i++)
      if (!taken[i] && (best < 0 || carnot_element_f64(t->dtype, t->data, (size_t)i) >
                                        carnot_element_f64(t->dtype, t->data, (size_t)best)))
        best = i;
    taken[best] = true;
    char* label = labels ? label_of(labels, best) : NULL;
    printf("  %2lld. %-6lld %.6g%s%s\n", k + 1, (long long)best,
           carnot_element_f64(t->dtype, t->data, (size_t)best), label ? "  " : "",
           label ? label : "");
    free(label);
  }
  free(taken);
}

// The path is printed unless |quiet|.
static carnot_status* write_output(const char* folder, const char* name, const cli_tensor* t,
                                   bool png, bool quiet) {
  char path[4096], safe[1024];
  cli_safe_name(name, safe, sizeof(safe));
  snprintf(path, sizeof(path), "%s/%s.%s", folder, safe, png ? "png" : "npy");
  CLI_TRY(png ? cli_image_write(path, t) : cli_tensor_write_npy(path, t));
  if (!quiet) printf("%s: %s\n", name, path);
  return NULL;
}

// A sequence or optional becomes one file for each item.
static carnot_status* write_data(const run_options* options, const char* name,
                                 const carnot_data* data) {
  if (carnot_data_kind_of(data) == CARNOT_DATA_TENSOR) {
    cli_tensor tensor = cli_tensor_of(data);
    return write_output(options->output_dir, name, &tensor, options->png, options->json);
  }
  for (size_t i = 0; i < carnot_data_item_count(data); i++) {
    char item[1024];
    snprintf(item, sizeof(item), "%s_%zu", name, i);
    CLI_TRY(write_data(options, item, carnot_data_item(data, i)));
  }
  return NULL;
}

static carnot_status* deliver_output(const char* name, const carnot_data* data,
                                     const run_options* options, json_t* outputs) {
  bool is_tensor = carnot_data_kind_of(data) == CARNOT_DATA_TENSOR;
  if (options->json) json_array_append_new(outputs, cli_values_json(name, data));
  if (options->top && is_tensor && !options->json) {
    cli_tensor tensor = cli_tensor_of(data);
    print_top(name, &tensor, options->top, options->labels);
  }
  if (options->output_dir) CLI_TRY_AT(write_data(options, name, data), "output %s", name);
  if (!options->top && !options->output_dir && !options->json) cli_values_print(name, data);
  return NULL;
}

static carnot_status* deliver_each(const cli_session* session, const run_options* options,
                                   json_t* outputs) {
  const carnot_engine* engine = session->loaded.engine;
  for (uint32_t i = 0; i < carnot_engine_tensor_count(engine); i++) {
    carnot_tensor_info info;
    const carnot_data* data;
    CLI_TRY(carnot_engine_tensor_info(engine, i, &info));
    if (info.is_input) continue;
    CLI_TRY(carnot_context_output_value(session->context, info.name, &data));
    CLI_TRY(deliver_output(info.name, data, options, outputs));
  }
  return NULL;
}

static carnot_status* deliver(const cli_session* session, const run_options* options) {
  if (options->output_dir) CLI_TRY(cli_make_folder(options->output_dir));
  json_t* root = json_pack("{s:[]}", "outputs");
  carnot_status* status = deliver_each(session, options, json_object_get(root, "outputs"));
  if (!status && options->json) {
    json_dumpf(root, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
  }
  json_decref(root);
  return status;
}

static carnot_status* read_flags(cli_flags* flags, run_options* out) {
  CLI_TRY(cli_shapes_parse(cli_flag_text(flags, "shapes"), &out->shapes));
  CLI_TRY(cli_flag_int(flags, "top", 0, 1 << 20, &out->top));
  CLI_TRY(cli_image_flags(flags, &out->image));
  CLI_TRY(cli_input_flags(flags, &out->inputs));
  out->output_dir = cli_flag_text(flags, "output-dir");
  out->labels = cli_flag_text(flags, "labels");
  CLI_CHECK(!out->labels || access(out->labels, R_OK) == 0, IO, "--labels: cannot read %s",
            out->labels);
  out->png = cli_flag_set(flags, "png");
  out->json = cli_flag_set(flags, "json");
  out->profile = cli_flag_set(flags, "dumpProfile");
  return NULL;
}

static carnot_status* run(cli_flags* flags, run_options* options, cli_session* session) {
  CLI_TRY(read_flags(flags, options));
  cli_build_options build;
  cli_build_options_init(&build);
  build.opt = &options->shapes;
  build.level = 1;
  CLI_TRY(cli_build_flags(flags, &build));
  const char* path = cli_word(flags, 0);
  CLI_CHECK(path, INVALID_ARGUMENT,
            "usage: carnot run MODEL_OR_ENGINE --input NAME=FILE [--output-dir DIR] [--top N "
            "--labels FILE]");
  CLI_TRY(cli_session_open(path, &build, session));
  CLI_TRY(cli_session_read(session, &options->inputs, &options->shapes, &options->image,
                           /*random=*/false));
  if (options->profile) CLI_TRY(carnot_context_set_layer_timing(session->context, true));
  CLI_TRY(carnot_context_run(session->context));
  if (options->profile) cli_profile_print(session);
  return deliver(session, options);
}

carnot_status* cli_run(cli_flags* flags) {
  run_options options = {.top = 0};
  cli_session session = {.context = NULL};
  carnot_status* status = run(flags, &options, &session);
  cli_session_close(&session);
  cli_shapes_free(&options.shapes);
  return status;
}
