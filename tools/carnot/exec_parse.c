// The command line of carnot exec, by the table of flags.
#include <errno.h>
#include <stdlib.h>

#include "exec.h"

void exec_options_init(exec_options* options) {
  *options = (exec_options){.streams = 1,
                            .iterations = 10,
                            .warm_up_ms = 200,
                            .average_runs = 10,
                            .level = 3,
                            .duration_s = 3,
                            .percentiles = {90, 95, 99},
                            .percentile_count = 3,
                            .profile_count = 1};
}

static carnot_status* integer(const char* name, const char* text, long long min, long long max,
                              long long* out) {
  char* end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  CARNOT_CHECK(end != text && *end == 0 && errno == 0 && value >= min && value <= max,
               INVALID_ARGUMENT, "--%s is '%s', must be an integer in [%lld, %lld]", name, text,
               min, max);
  *out = value;
  return NULL;
}

static carnot_status* real(const char* name, const char* text, double min, double max,
                           double* out) {
  char* end;
  double value = strtod(text, &end);
  CARNOT_CHECK(end != text && *end == 0 && value >= min && value <= max, INVALID_ARGUMENT,
               "--%s is '%s', must be a number in [%g, %g]", name, text, min, max);
  *out = value;
  return NULL;
}

static carnot_status* percentiles(const char* text, exec_options* o) {
  o->percentile_count = 0;
  for (const char* at = text; *at;) {
    char* end;
    double p = strtod(at, &end);
    CARNOT_CHECK(end != at && (*end == 0 || *end == ',') && p >= 0 && p <= 100, INVALID_ARGUMENT,
                 "--percentile is '%s', must be numbers in [0, 100] with commas between them",
                 text);
    CARNOT_CHECK(o->percentile_count < EXEC_MAX_PERCENTILES, INVALID_ARGUMENT,
                 "--percentile has more than %d numbers", EXEC_MAX_PERCENTILES);
    o->percentiles[o->percentile_count++] = p;
    at = end + (*end == ',');
  }
  return NULL;
}

// workspace:512M,dlaSRAM:1.5G: a decimal number and B, K, M, G; MiB without one.
static carnot_status* check_pools(const char* text) {
  static const char* const kPools[] = {"workspace", "dlaSRAM", "dlaLocalDRAM", "dlaGlobalDRAM",
                                       "tacticSharedMem"};
  const char* at = text;
  while (*at) {
    size_t length = strcspn(at, ":,");
    bool known = false;
    for (size_t i = 0; i < sizeof(kPools) / sizeof(kPools[0]); i++)
      known |= strlen(kPools[i]) == length && strncmp(at, kPools[i], length) == 0;
    CARNOT_CHECK(known, INVALID_ARGUMENT,
                 "--memPoolSize: there is no pool '%.*s', it must be workspace, dlaSRAM, "
                 "dlaLocalDRAM, dlaGlobalDRAM or tacticSharedMem",
                 (int)length, at);
    char* end = NULL;
    double size = at[length] == ':' ? strtod(at + length + 1, &end) : -1;
    if (end && *end && strchr("BKMGbkmg", *end)) end++;
    CARNOT_CHECK(end && end != at + length + 1 && size >= 0 && (*end == 0 || *end == ','),
                 INVALID_ARGUMENT,
                 "--memPoolSize is '%s', must be POOL:NUMBER with B, K, M or G behind it, as in "
                 "workspace:512M",
                 text);
    at = end + (*end == ',');
  }
  exec_log('W', "--memPoolSize has no effect: the memory plan has no pools to limit");
  return NULL;
}

// Text flags into fields, in one table.
static const char** text_field(exec_options* o, const char* name) {
  const struct {
    const char* name;
    const char** field;
  } kFields[] = {{"onnx", &o->onnx},
                 {"saveEngine", &o->save},
                 {"loadEngine", &o->load},
                 {"exportTimes", &o->times},
                 {"exportOutput", &o->output},
                 {"exportProfile", &o->profile},
                 {"exportLayerInfo", &o->layers},
                 {"loadInputs", &o->inputs},
                 {"timingCacheFile", &o->timing_cache},
                 {"dumpGraph", &o->dump_graph},
                 {"disablePasses", &o->disable_passes},
                 {"tacticSources", &o->tactic_sources}};
  for (size_t i = 0; i < sizeof(kFields) / sizeof(kFields[0]); i++)
    if (strcmp(name, kFields[i].name) == 0) return kFields[i].field;
  return NULL;
}

static bool* bool_field(exec_options* o, const char* name) {
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
                 {"refit", &o->refit},
                 {"stripWeights", &o->strip},
                 {"weightless", &o->strip},
                 {"noBuilderCache", &o->no_cache},
                 {"noPasses", &o->no_passes},
                 {"help", &o->help},
                 {"h", &o->help},
                 {"getPlanVersionOnly", &o->version_only},
                 {"timeDeserialize", &o->time_load},
                 {"useCudaGraph", &o->use_graph},
                 {"noCudaGraph", &o->no_graph},
                 {"noDataTransfers", &o->no_transfers},
                 {"includeDataTransfers", &o->transfers}};
  for (size_t i = 0; i < sizeof(kFields) / sizeof(kFields[0]); i++)
    if (strcmp(name, kFields[i].name) == 0) return kFields[i].field;
  return NULL;
}

static carnot_status* integer_field(exec_options* o, const char* name, const char* value,
                                    bool* out_found) {
  const struct {
    const char* name;
    long long* field;
    long long min, max;
  } kFields[] = {{"iterations", &o->iterations, 0, 1 << 30},
                 {"warmUp", &o->warm_up_ms, 0, 1 << 30},
                 {"avgRuns", &o->average_runs, 1, 1 << 30},
                 {"threads", &o->threads, 0, 1024},
                 {"builderOptimizationLevel", &o->level, 0, 5},
                 {"useProfile", &o->use_profile, 0, EXEC_MAX_PROFILES - 1},
                 {"idleTime", &o->idle_ms, 0, 1 << 30}};
  for (size_t i = 0; i < sizeof(kFields) / sizeof(kFields[0]); i++) {
    if (strcmp(name, kFields[i].name) != 0) continue;
    *out_found = true;
    return integer(name, value, kFields[i].min, kFields[i].max, kFields[i].field);
  }
  return NULL;
}

static carnot_status* shapes(const char* name, const char* value, exec_options* o) {
  cli_profile_shapes* p = &o->profiles[o->profile_at];
  cli_shapes* to = name[0] == 's'   ? &o->shapes
                   : name[1] == 'i' ? &p->min
                   : name[0] == 'o' ? &p->opt
                                    : &p->max;
  cli_shapes_free(to);
  return carnot_status_annotate(cli_shapes_parse(value, to), "--%s", name);
}

// One of the given words, else an error that lists them.
static carnot_status* word_of(const char* name, const char* value, const char* const* words,
                              int* out) {
  char list[256] = "";
  for (int i = 0; words[i]; i++) {
    if (strcmp(value, words[i]) == 0) {
      *out = i;
      return NULL;
    }
    snprintf(list + strlen(list), sizeof(list) - strlen(list), i ? ", %s" : "%s", words[i]);
  }
  return CARNOT_ERROR(INVALID_ARGUMENT, "--%s is '%s', must be one of %s", name, value, list);
}

static carnot_status* special(const char* name, const char* value, exec_options* o) {
  int chosen = 0;
  long long number = 0;
  if (strstr(name, "hapes")) return shapes(name, value, o);
  if (strcmp(name, "duration") == 0) return real(name, value, 0, 1e6, &o->duration_s);
  if (strcmp(name, "timeBudget") == 0) return real(name, value, 0, 1e6, &o->time_budget_s);
  if (strcmp(name, "percentile") == 0) return percentiles(value, o);
  if (strcmp(name, "memPoolSize") == 0) return check_pools(value);
  for (const char* const* flag = cli_typing_flags; *flag; flag++)
    if (strcmp(name, *flag) == 0) return cli_typing_flag(name, value, &o->arena, &o->typing);
  if (strcmp(name, "stripAllWeights") == 0) o->refit = o->strip = true;
  if (strcmp(name, "profile") == 0) {
    CARNOT_TRY(integer(name, value, 0, EXEC_MAX_PROFILES - 1, &number));
    o->profile_at = (int)number;
    if (o->profile_count <= o->profile_at) o->profile_count = o->profile_at + 1;
  } else if (strcmp(name, "profilingVerbosity") == 0) {
    CARNOT_TRY(word_of(
        name, value,
        (const char* const[]){"layer_names_only", "detailed", "none", "default", "verbose", NULL},
        &chosen));
    o->verbosity = chosen == 4 ? EXEC_DETAILED : chosen == 3 ? EXEC_NAMES : (exec_verbosity)chosen;
  } else if (strcmp(name, "backend") == 0) {
    o->backend = value;
  } else if (strcmp(name, "device") == 0) {
    char spec[32];
    CARNOT_TRY(integer(name, value, 0, 127, &number));
    int length = snprintf(spec, sizeof(spec), "cuda:%lld", (long long)number);
    o->device = carnot_arena_text(&o->arena, spec, (size_t)length);
  } else if (strcmp(name, "fp32") == 0) {
    CARNOT_TRY(word_of(name, value, (const char* const[]){"exact", "fast", NULL}, &chosen));
    o->fast_fp32 = chosen == 1;
  } else if (strcmp(name, "sparsity") == 0) {
    CARNOT_TRY(
        word_of(name, value, (const char* const[]){"disable", "enable", "force", NULL}, &chosen));
    CARNOT_CHECK(chosen < 2, UNSUPPORTED,
                 "--sparsity=force: making weights sparse is not there yet");
  } else if (strstr(name, "treams")) {
    CARNOT_TRY(integer(name, value, 1, 256, &o->streams));
  }
  return NULL;
}

static carnot_status* take(const exec_flag* flag, const char* value, exec_options* o) {
  CARNOT_CHECK(flag->class != EXEC_REFUSED, UNSUPPORTED, "--%s: %s is not there yet", flag->name,
               flag->note);
  if (flag->class == EXEC_NO_EFFECT) {
    exec_log('W', "--%s has no effect: %s", flag->name, flag->note);
    return NULL;
  }
  if (strcmp(flag->name, "threads") == 0 && !value) {
    exec_log('W', "--threads has no effect without a number: one thread drives the engine");
    return NULL;
  }
  bool plugins = false;
  CARNOT_TRY(cli_plugin_flag(flag->name, value ? value : "", &o->plugins, &plugins));
  if (plugins) return NULL;
  const char** text = text_field(o, flag->name);
  bool* truth = bool_field(o, flag->name);
  bool found = false;
  if (text)
    *text = value ? value : "all";
  else if (truth)
    *truth = true;
  else
    CARNOT_TRY(integer_field(o, flag->name, value ? value : "", &found));
  return text || truth || found ? NULL : special(flag->name, value ? value : "", o);
}

static carnot_status* unknown(const char* arg, const char* name) {
  const char* nearest = "help";
  int best = 999;
  for (const exec_flag* f = exec_flags; f->name; f++) {
    int d = cli_distance(name, f->name);
    if (d < best) best = d, nearest = f->name;
  }
  return CARNOT_ERROR(INVALID_ARGUMENT, "unknown flag %s; the nearest is --%s", arg, nearest);
}

carnot_status* exec_parse(int argc, char** argv, exec_options* o) {
  for (int i = 1; i < argc; i++) {
    const char* arg = argv[i];
    CARNOT_CHECK(arg[0] == '-', INVALID_ARGUMENT, "'%s' is no flag: every argument begins with --",
                 arg);
    const char* start = arg + 1 + (arg[1] == '-');
    char name[64];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(start, "="), start);
    const exec_flag* flag = exec_flag_find(name);
    if (!flag) return unknown(arg, name);
    const char* value = strchr(start, '=');
    if (value) value++;
    bool wants = flag->value == EXEC_VALUE && !value;
    if (wants && i + 1 < argc && argv[i + 1][0] != '-') value = argv[++i];
    CARNOT_CHECK(flag->value != EXEC_VALUE || value, INVALID_ARGUMENT, "--%s needs a value: --%s=…",
                 name, name);
    CARNOT_CHECK(flag->value != EXEC_NO_VALUE || !value, INVALID_ARGUMENT,
                 "--%s takes no value, '%s' was given", name, value);
    CARNOT_TRY(take(flag, value, o));
  }
  if (o->help) return NULL;
  cli_typing_finish(&o->typing);
  CARNOT_CHECK(o->onnx || o->load, INVALID_ARGUMENT,
               "there is nothing to build or run: give --onnx=MODEL or --loadEngine=ENGINE");
  CARNOT_CHECK(
      !(o->save && o->load), INVALID_ARGUMENT,
      "--saveEngine and --loadEngine were both given: an engine that is loaded is not built");
  return NULL;
}
