// Finds ranges of a model's tensors from a cache or from a folder of data.
//
// The folder holds <input>.npy for each input, samples along axis 0, or pictures of a model with
// one input. Arrays of the input's rank are cut into batches: as many samples as the model fixes,
// one where axis 0 is dynamic; arrays of one dimension more hold a whole input each.
#include "calibrate.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "session.h"

carnot_status* cli_calibration_flags(const cli_flags* flags, cli_calibration* out) {
  static const carnot_calibration_method kMethods[] = {
      CARNOT_CALIBRATION_MSE, CARNOT_CALIBRATION_ENTROPY_2, CARNOT_CALIBRATION_ENTROPY,
      CARNOT_CALIBRATION_MINMAX, CARNOT_CALIBRATION_PERCENTILE};
  static const char* const kOfData[] = {"calibrator", "calibQuantile", "calibMean", "calibScale",
                                        "calibLayout"};
  int method = 0;
  out->cache = cli_flag_text(flags, "calib");
  out->data = cli_flag_text(flags, "calibData");
  out->options = (carnot_calibration_options){.quantile = 0.9999, .cutoff = 1};
  CLI_TRY(cli_flag_choice(
      flags, "calibrator",
      (const char* const[]){"mse", "entropy2", "entropy", "minmax", "percentile", NULL}, &method));
  CLI_TRY(cli_flag_number(flags, "calibQuantile", 0, 1, &out->options.quantile));
  out->options.method = kMethods[method];
  for (size_t i = 0; i < CLI_COUNT(kOfData) && !out->data; i++)
    CLI_CHECK(!cli_flag_set(flags, kOfData[i]), INVALID_ARGUMENT,
              CLI_USAGE "--%s has no effect without --calibData", kOfData[i]);
  out->shapes = cli_flag_text(flags, "optShapesCalib");
  return cli_image_flags_named(flags, "calibMean", "calibScale", "calibLayout", &out->image);
}

// ---- samples ----

// Where one input's samples come from.
typedef struct source {
  carnot_tensor_info info;
  const carnot_data* stacked;  // of an .npy file
  carnot_dims dims;            // of one sample
  size_t item_bytes, count;    // of a sample; samples
} source;

typedef struct sources {
  source* inputs;
  size_t input_count, sample_count;
  char** pictures;  // paths in order; NULL: arrays
  size_t picture_count;
  cli_arena arena;  // of all but samples
} sources;

static carnot_status* describe(const carnot_network* network, size_t index, source* out) {
  const carnot_value* value = carnot_network_input(network, index);
  out->info = (carnot_tensor_info){.name = carnot_value_name(value),
                                   .kind = CARNOT_DATA_TENSOR,
                                   .is_input = true,
                                   .dtype = carnot_value_dtype(value),
                                   .dims = carnot_value_dims(value)};
  CLI_CHECK(out->info.dims.rank >= 0, UNSUPPORTED,
            "input %s is no tensor of a fixed rank: calibrate by the API", out->info.name);
  return NULL;
}

// The samples of |s|, whose array has the input's rank or one more.
static carnot_status* cut_samples(const char* path, source* s) {
  const carnot_dims* want = &s->info.dims;
  carnot_dims dims = carnot_data_dims(s->stacked);
  char text[128], wanted[128];
  cli_dims_text(&dims, text, sizeof(text));
  cli_dims_text(want, wanted, sizeof(wanted));
  CLI_CHECK(carnot_data_dtype(s->stacked) == s->info.dtype, INVALID_ARGUMENT,
            "%s is %s, input %s is %s", path, carnot_dtype_name(carnot_data_dtype(s->stacked)),
            s->info.name, carnot_dtype_name(s->info.dtype));
  bool whole = dims.rank == want->rank + 1;
  bool fits = whole || (dims.rank == want->rank && dims.rank > 0);
  for (int d = whole ? 0 : 1; fits && d < want->rank; d++)
    fits = want->d[d] < 0 || want->d[d] == dims.d[d + whole];
  CLI_CHECK(fits, INVALID_ARGUMENT,
            "%s has shape %s, must be %s with samples along axis 0 for input %s", path, text,
            wanted, s->info.name);
  int64_t each = whole || want->d[0] < 0 ? 1 : want->d[0];
  CLI_CHECK(dims.d[0] >= each && each > 0, INVALID_ARGUMENT,
            "%s holds %lld samples, input %s takes %lld at a time", path, (long long)dims.d[0],
            s->info.name, (long long)each);
  if (dims.d[0] % each)
    cli_say(CLI_SAY_WARNING, "%s: the last %lld samples are no batch of %lld and are not used",
            path, (long long)(dims.d[0] % each), (long long)each);
  s->count = (size_t)(dims.d[0] / each);
  s->dims = dims;
  s->dims.d[0] = each;
  if (whole) {
    s->dims.rank--;
    memmove(s->dims.d, dims.d + 1, (size_t)s->dims.rank * sizeof(s->dims.d[0]));
  }
  return cli_dims_bytes(s->info.dtype, &s->dims, &s->item_bytes);
}

static carnot_status* read_array(const cli_calibration* c, source* s, cli_arena* arena) {
  char path[4096], safe[1024];
  cli_safe_name(s->info.name, safe, sizeof(safe));
  snprintf(path, sizeof(path), "%s/%s.npy", c->data, safe);
  CLI_TRY(cli_tensor_read(path, NULL, NULL, NULL, arena, &s->stacked));
  return cut_samples(path, s);
}

static int by_name(const void* a, const void* b) {
  return strcmp(*(char* const*)a, *(char* const*)b);
}

// The pictures of the folder by name.
static carnot_status* list_pictures(const cli_calibration* c, sources* all) {
  DIR* folder = opendir(c->data);
  CLI_CHECK(folder, IO, "--calibData: cannot open the folder %s", c->data);
  carnot_status* status = NULL;
  size_t capacity = 0;
  for (const struct dirent* entry; !status && (entry = readdir(folder)) != NULL;) {
    char path[4096];
    if (!cli_is_image(entry->d_name)) continue;
    snprintf(path, sizeof(path), "%s/%s", c->data, entry->d_name);
    void* items = all->pictures;
    status = cli_grow(&items, &capacity, all->picture_count + 1, sizeof(char*), "the pictures");
    all->pictures = items;
    if (!status)
      all->pictures[all->picture_count++] = cli_arena_text(&all->arena, path, strlen(path));
  }
  closedir(folder);
  if (all->picture_count) qsort(all->pictures, all->picture_count, sizeof(char*), by_name);
  return status;
}

static carnot_status* open_pictures(const cli_calibration* c, sources* all) {
  CLI_TRY(list_pictures(c, all));
  source* s = &all->inputs[0];
  CLI_CHECK(all->picture_count, INVALID_ARGUMENT,
            "--calibData: %s holds neither %s.npy nor a picture", c->data, s->info.name);
  CLI_CHECK(all->input_count == 1, INVALID_ARGUMENT,
            "--calibData: pictures are for models with one input, this one has %zu: give an .npy "
            "file for each",
            all->input_count);
  cli_shapes shapes;
  carnot_status* status = cli_shapes_parse(c->shapes, &shapes);
  const carnot_dims* given = status ? NULL : cli_shapes_find(&shapes, s->info.name);
  s->dims = s->info.dims;
  for (int d = 0; given && d < s->dims.rank && d < given->rank; d++)
    if (s->dims.d[d] < 0) s->dims.d[d] = given->d[d];
  cli_shapes_free(&shapes);
  CLI_TRY_AT(status, "--optShapesCalib");
  if (s->dims.rank > 3 && s->dims.d[0] < 0) s->dims.d[0] = 1;
  size_t each = s->dims.rank > 3 && s->dims.d[0] > 1 ? (size_t)s->dims.d[0] : 1;
  CLI_CHECK(all->picture_count >= each, INVALID_ARGUMENT,
            "--calibData: %zu pictures, input %s takes %zu at a time", all->picture_count,
            s->info.name, each);
  if (all->picture_count % each)
    cli_say(CLI_SAY_WARNING, "the last %zu pictures are no batch of %zu and are not used",
            all->picture_count % each, each);
  s->count = all->picture_count / each;
  return NULL;
}

static carnot_status* open_sources(const carnot_network* network, const cli_calibration* c,
                                   sources* all) {
  all->input_count = carnot_network_input_count(network);
  all->inputs = CLI_NEW_ARRAY(&all->arena, source, all->input_count + 1);
  bool arrays = false;
  for (size_t i = 0; i < all->input_count; i++) {
    char path[4096], safe[1024];
    CLI_TRY(describe(network, i, &all->inputs[i]));
    cli_safe_name(all->inputs[i].info.name, safe, sizeof(safe));
    snprintf(path, sizeof(path), "%s/%s.npy", c->data, safe);
    arrays |= access(path, R_OK) == 0;
  }
  CLI_CHECK(all->input_count, INVALID_ARGUMENT, "the model has no inputs to calibrate with");
  if (!arrays) CLI_TRY(open_pictures(c, all));
  for (size_t i = 0; arrays && i < all->input_count; i++)
    CLI_TRY(read_array(c, &all->inputs[i], &all->arena));
  all->sample_count = all->inputs[0].count;
  for (size_t i = 1; i < all->input_count; i++)
    CLI_CHECK(all->inputs[i].count == all->sample_count, INVALID_ARGUMENT,
              "there are %zu samples of input %s and %zu of %s; both must be equal",
              all->sample_count, all->inputs[0].info.name, all->inputs[i].count,
              all->inputs[i].info.name);
  return NULL;
}

// A batch of pictures, each read as a batch of one.
static carnot_status* read_pictures(const cli_calibration* c, const sources* all, size_t sample,
                                    cli_arena* arena, const carnot_data** out) {
  const source* s = &all->inputs[0];
  size_t each = all->picture_count / s->count ? s->dims.rank > 3 ? (size_t)s->dims.d[0] : 1 : 1;
  carnot_dims one = s->dims;
  if (one.rank > 3) one.d[0] = 1;
  cli_tensor batch = {0};
  for (size_t i = 0; i < each; i++) {
    const carnot_data* picture;
    CLI_TRY(cli_tensor_read(all->pictures[sample * each + i], &s->info, &one, &c->image, arena,
                            &picture));
    if (each == 1) {
      *out = picture;
      return NULL;
    }
    carnot_dims dims = carnot_data_dims(picture);
    size_t bytes;
    CLI_TRY(cli_dims_bytes(s->info.dtype, &dims, &bytes));
    dims.d[0] = (int64_t)each;
    if (!batch.data) CLI_TRY(cli_tensor_create(s->info.dtype, &dims, arena, &batch));
    memcpy((char*)batch.data + i * bytes, carnot_data_numbers(picture), bytes);
  }
  return cli_tensor_as_data(&batch, arena, out);
}

static carnot_status* read_sample(const cli_calibration* c, const sources* all, size_t sample,
                                  cli_arena* arena, const carnot_data** out) {
  if (all->pictures) return read_pictures(c, all, sample, arena, &out[0]);
  for (size_t i = 0; i < all->input_count; i++) {
    const source* s = &all->inputs[i];
    const char* numbers = carnot_data_numbers(s->stacked);
    cli_tensor tensor = {.dtype = s->info.dtype,
                         .dims = s->dims,
                         .data = (char*)(uintptr_t)numbers + sample * s->item_bytes};
    CLI_TRY(cli_tensor_as_data(&tensor, arena, &out[i]));
  }
  return NULL;
}

// ---- calibration ----

static carnot_status* add_samples(const cli_calibration* c, const sources* all,
                                  carnot_calibration* calibration) {
  for (size_t i = 0; i < all->sample_count; i++) {
    cli_arena arena = {0};
    const carnot_data** inputs = CLI_NEW_ARRAY(&arena, const carnot_data*, all->input_count + 1);
    cli_say_progress(NULL, "calibration", (int)i, (int)all->sample_count);
    carnot_status* status = read_sample(c, all, i, &arena, inputs);
    if (!status) status = carnot_calibration_add(calibration, inputs);
    cli_arena_deinit(&arena);
    CLI_TRY(status);
  }
  cli_end_progress();
  return NULL;
}

// What quantization costs: each tensor with --verbose, the worst and the number in any case.
static carnot_status* report(const carnot_calibration* calibration, size_t samples) {
  size_t count = carnot_calibration_tensor_count(calibration);
  carnot_calibration_tensor worst = {.name = "", .error = -1};
  for (size_t i = 0; i < count; i++) {
    carnot_calibration_tensor t;
    CLI_TRY(carnot_calibration_tensor_info(calibration, i, &t));
    cli_say(CLI_SAY_DETAIL,
            "tensor %s: range [%g, %g] of [%g, %g], %.4f %% of the values clipped, error %.2f %%",
            t.name, t.min, t.max, t.seen_min, t.seen_max, 100 * t.clipped, 100 * t.error);
    if (t.equalized < 1)
      cli_say(CLI_SAY_DETAIL, "tensor %s: with equal channels its layers have %.0f %% of the error",
              t.name, 100 * t.equalized);
    if (t.error > worst.error) worst = t;
  }
  cli_say(CLI_SAY_INFO,
          "calibrated %zu tensors on %zu samples; the largest error in 8 bits is %.2f %%, of "
          "tensor %s",
          count, samples, 100 * worst.error, worst.name);
  return NULL;
}

static carnot_status* calibrate(const carnot_network* network, const carnot_config* config,
                                const cli_calibration* c, carnot_ranges* ranges) {
  sources all = {0};
  carnot_calibration* calibration = NULL;
  carnot_status* status = open_sources(network, c, &all);
  if (!status) status = carnot_calibration_create(network, config, &calibration);
  if (!status) status = add_samples(c, &all, calibration);
  if (!status) status = carnot_calibration_finish(calibration, &c->options, ranges);
  if (!status) status = report(calibration, all.sample_count);
  if (!status && c->cache) status = carnot_ranges_save(ranges, c->options.method, c->cache);
  carnot_calibration_destroy(calibration);
  free(all.pictures);
  cli_arena_deinit(&all.arena);
  return status;
}

carnot_status* cli_calibrate(const carnot_network* network, const carnot_config* config,
                             const cli_calibration* c, carnot_ranges** out_ranges) {
  *out_ranges = NULL;
  if (!c->cache && !c->data) return NULL;
  carnot_ranges* ranges;
  CLI_TRY(carnot_ranges_create(&ranges));
  carnot_status* status =
      c->data ? calibrate(network, config, c, ranges) : carnot_ranges_load(ranges, c->cache);
  if (status)
    carnot_ranges_destroy(ranges);
  else
    *out_ranges = ranges;
  return status;
}
