// The flags of carnot exec, read into options.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "exec.h"

// Reports the flags that are refused or have no effect, in the order given.
static carnot_status* check_classes(const cli_flags* flags) {
  for (int i = 0; i < flags->given_count; i++) {
    const cli_given* given = &flags->given[i];
    const cli_flag* flag = given->flag;
    bool no_dla = strcmp(flag->name, "useDLACore") == 0 && strcmp(given->value, "-1") == 0;
    CLI_CHECK(flag->class != CLI_REFUSED || no_dla, UNSUPPORTED, "--%s: %s is not there yet",
              flag->name, flag->note);
    if (flag->class == CLI_NO_EFFECT)
      exec_log('W', "--%s has no effect: %s", flag->name, flag->note);
    else if (strcmp(flag->name, "threads") == 0 && !given->value)
      exec_log('W', "--threads has no effect without a number: one thread drives the engine");
  }
  return NULL;
}

static carnot_status* percentiles(const char* text, exec_options* o) {
  o->percentile_count = 0;
  for (const char* at = text; *at;) {
    char* end;
    double p = strtod(at, &end);
    CLI_CHECK(end != at && (*end == 0 || *end == ',') && p >= 0 && p <= 100, INVALID_ARGUMENT,
              "--percentile is '%s', must be numbers in [0, 100] with commas between them", text);
    CLI_CHECK(o->percentile_count < EXEC_MAX_PERCENTILES, INVALID_ARGUMENT,
              "--percentile has more than %d numbers", EXEC_MAX_PERCENTILES);
    o->percentiles[o->percentile_count++] = p;
    at = end + (*end == ',');
  }
  return NULL;
}

// The unit behind a number: B, K, M, G, KB, KiB, MB, MiB, GB, GiB in any case, or none.
static const char* skip_unit(const char* at) {
  size_t length = strcspn(at, ",");
  char prefix = (char)toupper((unsigned char)at[0]);
  if (length == 1 && strchr("BKMG", prefix)) return at + 1;
  if (length == 2 && strchr("KMG", prefix) && toupper((unsigned char)at[1]) == 'B') return at + 2;
  if (length == 3 && strchr("KMG", prefix) && strncasecmp(at + 1, "ib", 2) == 0) return at + 3;
  return at;
}

// workspace:512M,dlaSRAM:1.5GiB: a decimal number and a unit; MiB without one.
static carnot_status* check_pools(const char* text) {
  static const char* const kPools[] = {"workspace", "dlaSRAM", "dlaLocalDRAM", "dlaGlobalDRAM",
                                       "tacticSharedMem"};
  const char* at = text;
  while (*at) {
    size_t length = strcspn(at, ":,");
    bool known = false;
    for (size_t i = 0; i < sizeof(kPools) / sizeof(kPools[0]); i++)
      known |= strlen(kPools[i]) == length && strncmp(at, kPools[i], length) == 0;
    CLI_CHECK(known, INVALID_ARGUMENT,
              "--memPoolSize: there is no pool '%.*s', it must be workspace, dlaSRAM, "
              "dlaLocalDRAM, dlaGlobalDRAM or tacticSharedMem",
              (int)length, at);
    char* end = NULL;
    double size = at[length] == ':' ? strtod(at + length + 1, &end) : -1;
    if (end) end = (char*)(uintptr_t)skip_unit(end);
    CLI_CHECK(end && end != at + length + 1 && size >= 0 && (*end == 0 || *end == ','),
              INVALID_ARGUMENT,
              "--memPoolSize is '%s', must be POOL:NUMBER with B, K, M, G, KiB, MiB or GiB "
              "behind it, as in workspace:512M",
              text);
    at = end + (*end == ',');
  }
  exec_log('W', "--memPoolSize has no effect: the memory plan has no pools to limit");
  return NULL;
}

// --minShapes, --optShapes and --maxShapes belong to the --profile before them.
static carnot_status* read_shapes(const cli_flags* flags, exec_options* o) {
  int at = 0;
  o->profile_count = 1;
  for (int i = 0; i < flags->given_count; i++) {
    const char *name = flags->given[i].flag->name, *value = flags->given[i].value;
    cli_profile_shapes* p = &o->profiles[at];
    cli_shapes* to = strcmp(name, "shapes") == 0      ? &o->shapes
                     : strcmp(name, "minShapes") == 0 ? &p->min
                     : strcmp(name, "optShapes") == 0 ? &p->opt
                     : strcmp(name, "maxShapes") == 0 ? &p->max
                                                      : NULL;
    if (to) {
      cli_shapes_free(to);
      CLI_TRY_AT(cli_shapes_parse(value, to), "--%s", name);
    }
    if (strcmp(name, "profile") != 0) continue;
    cli_given one = {flags->given[i].flag, value};
    long long number = 0;
    CLI_TRY(cli_flag_int(&(cli_flags){.given = &one, .given_count = 1}, name, 0,
                         EXEC_MAX_PROFILES - 1, &number));
    at = (int)number;
    if (o->profile_count <= at) o->profile_count = at + 1;
  }
  return NULL;
}

// --loadInputs NAME:FILE,...; a quoted name may hold commas.
static carnot_status* read_inputs(cli_flags* flags, exec_options* o) {
  const char* at = cli_flag_text(flags, "loadInputs");
  while (at && *at) {
    size_t length = 0;
    bool quoted = false;
    while (at[length] && (quoted || at[length] != ',')) quoted ^= at[length++] == '\'';
    const char* colon = memrchr(at, ':', length);
    CLI_CHECK(colon && colon > at && colon + 1 < at + length, INVALID_ARGUMENT,
              "--loadInputs: '%.*s' must be NAME:FILE", (int)length, at);
    CLI_TRY(cli_input_files_add(at, length, ':', &flags->arena, &o->inputs));
    cli_input_file* input = &o->inputs.items[o->inputs.count - 1];
    size_t name_length = strlen(input->name);
    if (name_length >= 2 && input->name[0] == '\'' && input->name[name_length - 1] == '\'')
      input->name = cli_arena_text(&flags->arena, input->name + 1, name_length - 2);
    at += length + (at[length] == ',');
  }
  return NULL;
}

static void read_switches(const cli_flags* flags, exec_options* o) {
  const struct {
    const char* name;
    bool* field;
  } kFields[] = {{"dumpOutput", &o->dump_output},
                 {"dumpProfile", &o->dump_profile},
                 {"dumpLayerInfo", &o->dump_layers},
                 {"dumpOptimizationProfile", &o->dump_profiles},
                 {"dumpRefit", &o->dump_refit},
                 {"skipInference", &o->skip_inference},
                 {"buildOnly", &o->skip_inference},
                 {"verbose", &o->verbose},
                 {"refit", &o->build.refit},
                 {"stripWeights", &o->build.strip},
                 {"weightless", &o->build.strip},
                 {"stripAllWeights", &o->build.strip},
                 {"help", &o->help},
                 {"h", &o->help},
                 {"getPlanVersionOnly", &o->version_only},
                 {"timeDeserialize", &o->time_load},
                 {"timeRefit", &o->time_refit},
                 {"useCudaGraph", &o->use_graph},
                 {"noCudaGraph", &o->no_graph},
                 {"noDataTransfers", &o->no_transfers},
                 {"includeDataTransfers", &o->transfers}};
  for (size_t i = 0; i < CLI_COUNT(kFields); i++)
    *kFields[i].field |= cli_flag_set(flags, kFields[i].name);
  if (cli_flag_set(flags, "noBuilderCache")) o->build.timing_cache_path = NULL;
}

static carnot_status* read_numbers(const cli_flags* flags, exec_options* o) {
  const struct {
    const char* name;
    long long* field;
    long long min, max;
  } kFields[] = {{"iterations", &o->iterations, 0, 1 << 30},
                 {"warmUp", &o->warm_up_ms, 0, 1 << 30},
                 {"avgRuns", &o->average_runs, 1, 1 << 30},
                 {"useProfile", &o->use_profile, 0, EXEC_MAX_PROFILES - 1},
                 {"idleTime", &o->idle_ms, 0, 1 << 30},
                 {"streams", &o->streams, 1, 256},
                 {"infStreams", &o->streams, 1, 256}};
  for (size_t i = 0; i < CLI_COUNT(kFields); i++)
    CLI_TRY(cli_flag_int(flags, kFields[i].name, kFields[i].min, kFields[i].max, kFields[i].field));
  return cli_flag_number(flags, "duration", 0, 1e6, &o->duration_s);
}

static carnot_status* read_choices(cli_flags* flags, exec_options* o) {
  int verbosity = EXEC_NAMES, sparsity = 0;
  CLI_TRY(cli_flag_choice(
      flags, "profilingVerbosity",
      (const char* const[]){"layer_names_only", "detailed", "none", "default", "verbose", NULL},
      &verbosity));
  o->verbosity = verbosity == 4   ? EXEC_DETAILED
                 : verbosity == 3 ? EXEC_NAMES
                                  : (exec_verbosity)verbosity;
  CLI_TRY(cli_flag_choice(flags, "sparsity",
                          (const char* const[]){"disable", "enable", "force", NULL}, &sparsity));
  if (sparsity)
    exec_log('W', "--sparsity has no effect: weights are used as they are, sparse or not");
  long long device = -1;
  CLI_TRY(cli_flag_int(flags, "device", 0, 127, &device));
  if (device < 0) return NULL;
  char spec[32];
  int length = snprintf(spec, sizeof(spec), "cuda:%lld", device);
  o->device = cli_arena_text(&flags->arena, spec, (size_t)length);
  return NULL;
}

static void read_paths(const cli_flags* flags, exec_options* o) {
  o->onnx = cli_flag_text(flags, "onnx");
  o->deploy = cli_flag_text(flags, "deploy");
  o->uff = cli_flag_text(flags, "uff");
  o->save = cli_flag_text(flags, "saveEngine");
  o->load = cli_flag_text(flags, "loadEngine");
  o->times = cli_flag_text(flags, "exportTimes");
  o->output = cli_flag_text(flags, "exportOutput");
  o->profile = cli_flag_text(flags, "exportProfile");
  o->timeline = cli_flag_text(flags, "exportTimeline");
  o->layers = cli_flag_text(flags, "exportLayerInfo");
  o->refit_model = cli_flag_text(flags, "refitFromOnnx");
}

// Flags about building have no effect on an engine that is built already.
static void warn_of_build_flags(const cli_flags* flags) {
  static const char* const kOwn[] = {"minShapes",       "optShapes",  "maxShapes",
                                     "profile",         "refit",      "stripWeights",
                                     "stripAllWeights", "weightless", "noBuilderCache"};
  static const char* const kForRuns[] = {"backend",
                                         "threads",
                                         "plugins",
                                         "staticPlugins",
                                         "dynamicPlugins",
                                         "allowEngineCode",
                                         "setPluginsToSerialize"};
  for (int i = 0; i < flags->given_count; i++) {
    const char* name = flags->given[i].flag->name;
    bool build = false;
    for (const cli_flag* f = cli_build_flag_table; f->name; f++)
      build |= strcmp(f->name, name) == 0;
    for (size_t k = 0; k < CLI_COUNT(kForRuns); k++) build &= strcmp(kForRuns[k], name) != 0;
    for (size_t k = 0; k < CLI_COUNT(kOwn); k++) build |= strcmp(kOwn[k], name) == 0;
    if (build) exec_log('W', "--%s has no effect with --loadEngine: the engine is built", name);
  }
}

// "NAME,C,H,W" into |out|, whose name is in the flags' arena.
static carnot_status* read_uff_input(cli_flags* flags, const char* text, bool channels_first,
                                     carnot_tensorflow_registered_input* out) {
  const size_t length = strcspn(text, ",");
  *out = (carnot_tensorflow_registered_input){.is_channels_first = channels_first};
  for (const char* at = text + length; *at == ',' && out->dims.rank < CARNOT_MAX_RANK;) {
    char* end;
    const long long size = strtoll(++at, &end, 10);
    CLI_CHECK(end > at && (!*end || *end == ',') && size > 0 && size < 1LL << 31, INVALID_ARGUMENT,
              "--uffInput=%s: NAME,C,H,W with sizes from 1 on required", text);
    out->dims.d[out->dims.rank++] = size;
    at = end;
  }
  CLI_CHECK(length && out->dims.rank, INVALID_ARGUMENT,
            "--uffInput=%s: NAME,C,H,W with sizes from 1 on required", text);
  out->name = cli_arena_text(&flags->arena, text, length);
  return NULL;
}

// --uffInput, once for each input, and --uffNHWC.
static carnot_status* read_uff(cli_flags* flags, exec_options* o) {
  int count = 0;
  while (cli_flag_each(flags, "uffInput", count)) count++;
  CLI_CHECK(o->uff || (!count && !cli_flag_set(flags, "uffNHWC")), INVALID_ARGUMENT,
            "--uffInput and --uffNHWC are of the model that --uff gives");
  if (!count) return NULL;
  carnot_tensorflow_registered_input* inputs =
      CLI_NEW_ARRAY(&flags->arena, carnot_tensorflow_registered_input, (size_t)count);
  for (int i = 0; i < count; i++)
    CLI_TRY(read_uff_input(flags, cli_flag_each(flags, "uffInput", i),
                           !cli_flag_set(flags, "uffNHWC"), &inputs[i]));
  o->build.registered = inputs;
  o->build.registered_count = (size_t)count;
  return NULL;
}

// --output, once for each, and --batch: of a Caffe network or a TensorFlow graph.
static carnot_status* read_outputs(cli_flags* flags, exec_options* o) {
  long long batch = 0;
  int count = 0;
  while (cli_flag_each(flags, "output", count)) count++;
  CLI_CHECK(!count || !o->build.output_count, INVALID_ARGUMENT,
            "--output and --outputs were both given");
  CLI_TRY(cli_flag_int(flags, "batch", 1, 1 << 20, &batch));
  o->build.batch = batch;
  if (o->onnx && batch) exec_log('W', "--batch has no effect with --onnx: use --shapes");
  if (!count) return NULL;
  o->build.outputs = CLI_NEW_ARRAY(&flags->arena, const char*, (size_t)count);
  for (int i = 0; i < count; i++)
    o->build.outputs[o->build.output_count++] = cli_flag_each(flags, "output", i);
  return NULL;
}

static carnot_status* read_all(cli_flags* flags, exec_options* o) {
  CLI_TRY(check_classes(flags));
  if (cli_flag_set(flags, "loadEngine")) warn_of_build_flags(flags);
  const char *pools = cli_flag_text(flags, "memPoolSize"),
             *percents = cli_flag_text(flags, "percentile");
  if (pools) CLI_TRY(check_pools(pools));
  if (percents) CLI_TRY(percentiles(percents, o));
  read_paths(flags, o);
  CLI_TRY(read_numbers(flags, o));
  CLI_TRY(read_choices(flags, o));
  CLI_TRY(read_shapes(flags, o));
  CLI_TRY(read_inputs(flags, o));
  CLI_TRY(cli_build_flags(flags, &o->build));
  CLI_TRY(read_outputs(flags, o));
  CLI_TRY(read_uff(flags, o));
  read_switches(flags, o);
  return NULL;
}

// The part of the options about building that flags give in their own way.
static void complete_build(exec_options* o) {
  const cli_profile_shapes* first = &o->profiles[0];
  bool own = first->min.count || first->opt.count || first->max.count;
  o->build.min = &first->min;
  o->build.opt = own ? &first->opt : &o->shapes;
  o->build.max = &first->max;
  o->build.more = o->profiles + 1;
  o->build.more_count = (size_t)o->profile_count - 1;
  o->build.override_dynamic = true;
  o->build.refit |= o->build.strip;
}

carnot_status* exec_read_flags(cli_flags* flags, exec_options* o) {
  *o = (exec_options){.streams = 1,
                      .iterations = 10,
                      .warm_up_ms = 200,
                      .average_runs = 10,
                      .duration_s = 3,
                      .percentiles = {90, 95, 99},
                      .percentile_count = 3};
  cli_build_options_init(&o->build);
  o->build.log = exec_log_message;
  o->build.log_user = o;
  CLI_CHECK(!flags->word_count, INVALID_ARGUMENT, "'%s' is no flag: every argument begins with --",
            flags->words[0]);
  CLI_TRY(read_all(flags, o));
  complete_build(o);
  if (o->help) return NULL;
  CLI_CHECK(o->onnx || o->deploy || o->uff || o->load, INVALID_ARGUMENT,
            "there is nothing to build or run: give --onnx=MODEL, --deploy=NETWORK, --uff=GRAPH or "
            "--loadEngine=ENGINE");
  CLI_CHECK(!!o->onnx + !!o->deploy + !!o->uff <= 1, INVALID_ARGUMENT,
            "--%s and --%s were both given: one model is built", o->onnx ? "onnx" : "deploy",
            o->deploy && o->onnx ? "deploy" : "uff");
  CLI_CHECK(!(o->save && o->load), INVALID_ARGUMENT,
            "--saveEngine and --loadEngine were both given: an engine that is loaded is not built");
  CLI_CHECK(!o->time_refit || o->onnx || o->refit_model, INVALID_ARGUMENT,
            "--timeRefit needs a model with the weights: --onnx or --refitFromOnnx");
  o->build.refit |= o->time_refit;
  return NULL;
}

void exec_options_free(exec_options* o) {
  cli_shapes_free(&o->shapes);
  for (int i = 0; i < EXEC_MAX_PROFILES; i++) {
    cli_shapes_free(&o->profiles[i].min);
    cli_shapes_free(&o->profiles[i].opt);
    cli_shapes_free(&o->profiles[i].max);
  }
}
