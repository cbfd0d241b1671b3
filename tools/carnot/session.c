// One engine with threads, a context and inputs.
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

carnot_status* cli_session_start(const cli_loaded* loaded, int threads, cli_session* out) {
  *out = (cli_session){.loaded = *loaded, .base_mb = cli_peak_rss_mb()};
  carnot_status* status = carnot_executor_create(threads, &out->executor);
  carnot_context_config config = {.executor = out->executor, .host_tensors = true};
  if (!status) status = carnot_context_create(out->loaded.engine, &config, &out->context);
  if (!status) status = carnot_context_set_run_timing(out->context, true);
  if (status) {
    cli_session_close(out);
    return status;
  }
  out->inputs = CLI_NEW_ARRAY(&out->arena, const carnot_data*,
                              carnot_engine_tensor_count(out->loaded.engine) + 1);
  out->is_made_up =
      CLI_NEW_ARRAY(&out->arena, bool, carnot_engine_tensor_count(out->loaded.engine) + 1);
  return NULL;
}

carnot_status* cli_session_open(const char* path, const cli_build_options* options,
                                cli_session* out) {
  *out = (cli_session){0};
  cli_loaded loaded;
  CLI_TRY(cli_load(path, options, &loaded));
  return cli_session_start(&loaded, options->threads, out);
}

void cli_session_close(cli_session* session) {
  carnot_context_destroy(session->context);
  carnot_executor_destroy(session->executor);
  carnot_engine_release(session->loaded.engine);
  cli_arena_deinit(&session->arena);
  *session = (cli_session){0};
}

// ---- inputs ----

carnot_status* cli_input_files_add(const char* text, size_t length, char separator,
                                   cli_arena* arena, cli_input_files* files) {
  CLI_CHECK(files->count < (int)CLI_COUNT(files->items), OUT_OF_RANGE, "more than %zu input files",
            CLI_COUNT(files->items));
  cli_input_file* out = &files->items[files->count++];
  const char* split = memrchr(text, separator, length);
  const char* file = split ? split + 1 : text;
  *out = (cli_input_file){.file = cli_arena_text(arena, file, (size_t)(text + length - file))};
  if (split) out->name = cli_arena_text(arena, text, (size_t)(split - text));
  return NULL;
}

carnot_status* cli_input_flags(cli_flags* flags, cli_input_files* out) {
  const char* value;
  *out = (cli_input_files){.count = 0};
  for (int i = 0; (value = cli_flag_each(flags, "input", i)) != NULL; i++)
    CLI_TRY(cli_input_files_add(value, strlen(value), '=', &flags->arena, out));
  return NULL;
}

static carnot_status* parse_numbers(const cli_flags* flags, const char* name, float* out,
                                    int* out_count) {
  const char* text = cli_flag_text(flags, name);
  *out_count = 0;
  while (text && *text) {
    char* end;
    CLI_CHECK(*out_count < 4, INVALID_ARGUMENT, "--%s has more than 4 numbers", name);
    out[*out_count] = strtof(text, &end);
    CLI_CHECK(end != text && (*end == 0 || *end == ','), INVALID_ARGUMENT,
              "--%s: '%s' is no list of numbers", name, text);
    ++*out_count;
    text = end + (*end == ',');
  }
  return NULL;
}

carnot_status* cli_image_flags_named(const cli_flags* flags, const char* mean, const char* scale,
                                     const char* layout, cli_image_options* out) {
  CLI_TRY(parse_numbers(flags, mean, out->mean, &out->mean_count));
  CLI_TRY(parse_numbers(flags, scale, out->scale, &out->scale_count));
  out->layout = cli_flag_text(flags, layout);
  CLI_CHECK(!out->layout || strcmp(out->layout, "nchw") == 0 || strcmp(out->layout, "nhwc") == 0,
            INVALID_ARGUMENT, "--%s is '%s', must be nchw or nhwc", layout, out->layout);
  return NULL;
}

carnot_status* cli_image_flags(const cli_flags* flags, cli_image_options* out) {
  return cli_image_flags_named(flags, "mean", "scale", "layout", out);
}

carnot_status* cli_input_dims(const cli_session* session, const carnot_tensor_info* input,
                              const cli_shapes* shapes, carnot_dims* out) {
  *out = input->dims;
  CLI_CHECK(out->rank >= 0, UNSUPPORTED, "input %s has no fixed rank", input->name);
  const carnot_dims* given = cli_shapes_find(shapes, input->name);
  // Of a shape input the numbers may be its elements (cli_session_make_up).
  if (input->is_shape && given && given->rank == cli_dims_count(out)) return NULL;
  CLI_CHECK(!given || given->rank == out->rank, INVALID_ARGUMENT,
            "input %s has %d dimensions, the shape given has %d", input->name, out->rank,
            given ? given->rank : 0);
  carnot_dims best;
  CLI_TRY(carnot_engine_profile_shapes(session->loaded.engine, session->profile, input->name, NULL,
                                       &best, NULL));
  for (int d = 0; d < out->rank; d++)
    if (out->d[d] < 0) out->d[d] = given && given->d[d] >= 0 ? given->d[d] : best.d[d];
  return NULL;
}

carnot_status* cli_session_set_input(cli_session* session, uint32_t index,
                                     const carnot_data* data) {
  carnot_tensor_info input;
  CLI_TRY(carnot_engine_tensor_info(session->loaded.engine, index, &input));
  CLI_TRY(carnot_context_set_input_value(session->context, input.name, data));
  session->inputs[index] = data;
  return NULL;
}

const carnot_data* cli_session_input(const cli_session* session, const char* name) {
  uint32_t index;
  carnot_status* status = carnot_engine_find_tensor(session->loaded.engine, name, &index);
  carnot_status_free(status);
  return status ? NULL : session->inputs[index];
}

// File number |index| of those for input |name|, NULL after the last; one without a name serves the
// only input.
static const char* file_for(const cli_input_files* files, const char* name, uint32_t input_count,
                            int index) {
  for (int i = 0; i < files->count; i++) {
    const cli_input_file* f = &files->items[i];
    bool fits = f->name ? strcmp(f->name, name) == 0 : input_count == 1;
    if (fits && index-- == 0) return f->file;
  }
  return NULL;
}

static carnot_status* check_names(const cli_session* session, const cli_input_files* files,
                                  uint32_t input_count) {
  for (int i = 0; i < files->count; i++) {
    const cli_input_file* f = &files->items[i];
    CLI_CHECK(f->name || input_count == 1, INVALID_ARGUMENT,
              "--input %s: NAME=FILE is wanted, the model has %u inputs", f->file, input_count);
    if (!f->name) continue;
    uint32_t index;
    carnot_tensor_info tensor;
    CLI_TRY(carnot_engine_find_tensor(session->loaded.engine, f->name, &index));
    CLI_TRY(carnot_engine_tensor_info(session->loaded.engine, index, &tensor));
    CLI_CHECK(tensor.is_input, INVALID_ARGUMENT, "--input %s=%s: %s is an output", f->name, f->file,
              f->name);
  }
  return NULL;
}

static carnot_status* read_tensor(cli_session* session, uint32_t index,
                                  const carnot_tensor_info* input, const char* file,
                                  const cli_shapes* shapes, const cli_image_options* image,
                                  const carnot_data** out) {
  carnot_dims dims = {.rank = input->dims.rank};
  if (!file || dims.rank >= 0) CLI_TRY(cli_input_dims(session, input, shapes, &dims));
  if (file) return cli_tensor_read(file, input, &dims, image, &session->arena, out);
  return cli_session_make_up(session, index, input, &dims, shapes, out);
}

// A sequence of the tensors in the files for |input|.
static carnot_status* read_sequence(cli_session* session, const carnot_tensor_info* input,
                                    const cli_input_files* files, uint32_t input_count,
                                    const carnot_data** out) {
  const carnot_data* items[CLI_COUNT(files->items)];
  size_t count = 0;
  const char* file;
  carnot_data* sequence;
  for (; (file = file_for(files, input->name, input_count, (int)count)) != NULL && *file; count++)
    CLI_TRY(cli_tensor_read(file, NULL, NULL, NULL, &session->arena, &items[count]));
  CLI_TRY(carnot_data_create_sequence(items, count, &sequence));
  *out = sequence;
  return cli_arena_own(&session->arena, sequence);
}

// Without a file, or with an empty name, there is no item; several files are a sequence.
static carnot_status* read_optional(cli_session* session, const carnot_tensor_info* input,
                                    const cli_input_files* files, uint32_t input_count,
                                    const carnot_data** out) {
  const char* file = file_for(files, input->name, input_count, 0);
  const carnot_data* item = NULL;
  if (file_for(files, input->name, input_count, 1))
    CLI_TRY(read_sequence(session, input, files, input_count, &item));
  else if (file && *file)
    CLI_TRY(cli_tensor_read(file, NULL, NULL, NULL, &session->arena, &item));
  carnot_data* optional;
  CLI_TRY(carnot_data_create_optional(item, &optional));
  *out = optional;
  return cli_arena_own(&session->arena, optional);
}

static carnot_status* read_input(cli_session* session, uint32_t index,
                                 const carnot_tensor_info* input, const cli_input_files* files,
                                 uint32_t input_count, const cli_shapes* shapes,
                                 const cli_image_options* image) {
  const carnot_data* data;
  const char* file = file_for(files, input->name, input_count, 0);
  if (input->kind == CARNOT_DATA_SEQUENCE) {
    CLI_TRY(read_sequence(session, input, files, input_count, &data));
  } else if (input->kind == CARNOT_DATA_OPTIONAL) {
    CLI_TRY(read_optional(session, input, files, input_count, &data));
  } else {
    CLI_CHECK(!file || !file_for(files, input->name, input_count, 1), INVALID_ARGUMENT,
              "input %s is given twice", input->name);
    CLI_TRY(read_tensor(session, index, input, file, shapes, image, &data));
  }
  return carnot_status_annotate(cli_session_set_input(session, index, data), "%s",
                                file && *file ? file : input->name);
}

carnot_status* cli_session_read(cli_session* session, const cli_input_files* files,
                                const cli_shapes* shapes, const cli_image_options* image,
                                bool random) {
  const carnot_engine* engine = session->loaded.engine;
  carnot_tensor_info tensor;
  uint32_t input_count = 0, tensor_count = carnot_engine_tensor_count(engine);
  for (uint32_t i = 0; i < tensor_count; i++) {
    CLI_TRY(carnot_engine_tensor_info(engine, i, &tensor));
    input_count += tensor.is_input;
  }
  CLI_TRY(check_names(session, files, input_count));
  for (uint32_t i = 0; i < tensor_count; i++) {
    CLI_TRY(carnot_engine_tensor_info(engine, i, &tensor));
    if (!tensor.is_input) continue;
    CLI_CHECK(random || tensor.kind == CARNOT_DATA_OPTIONAL ||
                  file_for(files, tensor.name, input_count, 0),
              INVALID_ARGUMENT, "input %s has no file: give --input %s=FILE", tensor.name,
              tensor.name);
    CLI_TRY(read_input(session, i, &tensor, files, input_count, shapes, image));
  }
  return NULL;
}

carnot_status* cli_session_random(cli_session* session, const cli_shapes* shapes) {
  return cli_session_read(session, &(cli_input_files){.count = 0}, shapes, NULL, /*random=*/true);
}

// ---- layer times ----

static uint32_t layer_count(const cli_session* session) {
  carnot_engine_stats stats;
  carnot_engine_get_stats(session->loaded.engine, &stats);
  return stats.layer_count;
}

carnot_status* cli_session_profile(cli_session* session, int runs, carnot_layer_time** out_times) {
  uint32_t count = layer_count(session);
  carnot_layer_time* times = calloc((size_t)count + 1, sizeof(*times));
  *out_times = times;
  if (!times) return CLI_NO_MEMORY(count * sizeof(*times), "a profile");
  carnot_status* status = NULL;
  for (int i = 0; !status && i < 3; i++)
    status = i ? carnot_context_run(session->context) : cli_session_run_first(session, NULL);
  if (!status) status = carnot_context_set_layer_timing(session->context, true);
  for (int i = 0; !status && i < runs; i++) status = carnot_context_run(session->context);
  for (uint32_t i = 0; !status && i < count; i++)
    status = carnot_context_get_layer_time(session->context, i, &times[i]);
  if (!status) return carnot_context_set_layer_timing(session->context, false);
  free(times);
  *out_times = NULL;
  return status;
}

carnot_status* cli_timeline_write(const cli_session* session, const char* path) {
  char* text;
  CLI_TRY(carnot_context_record_timeline(session->context, /*runs=*/4, &text));
  carnot_status* status = carnot_write_file(path, &(carnot_piece){text, strlen(text)}, 1);
  carnot_memory_free(text);
  return status;
}

void cli_profile_print(const cli_session* session) {
  uint32_t count = layer_count(session);
  carnot_layer_time t;
  double total = 0;
  carnot_status* status = NULL;
  for (uint32_t i = 0; !status && i < count; i++) {
    status = carnot_context_get_layer_time(session->context, i, &t);
    total += (double)t.total_ns;
  }
  fprintf(stderr, "%10s %6s %6s  %-28s %s\n", "us", "%", "calls", "tactic", "layer");
  for (uint32_t i = 0; !status && i < count; i++) {
    status = carnot_context_get_layer_time(session->context, i, &t);
    if (status || !t.count) continue;
    fprintf(stderr, "%10.2f %6.2f %6llu  %-28s %s\n", (double)t.total_ns / (double)t.count * 1e-3,
            100 * (double)t.total_ns / total, (unsigned long long)t.count, t.tactic, t.layer);
  }
  carnot_status_free(status);
}
