// The flags of every subcommand that builds.
#include "build_options.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "log.h"

const cli_flag cli_build_flag_table[] = {
    {"backend", CLI_VALUE, CLI_WORKS,
     "cpu, cuda, cuda:N, or cuda:sm_NN to build without the device"},
    {"builderOptimizationLevel", CLI_VALUE, CLI_WORKS, "0 times nothing … 5 times everything"},
    {"timeBudget", CLI_VALUE, CLI_WORKS, "seconds for timing; what is left is chosen by order"},
    {"timingCacheFile", CLI_VALUE, CLI_WORKS, "read before the build, written after"},
    {"tacticSources", CLI_VALUE, CLI_WORKS,
     "libraries that tactics may call: -CUDNN,+CUBLAS_LT,-ONEDNN; all"},
    {"threads", CLI_MAY_VALUE, CLI_WORKS, "threads of a run; 0: one for each processor"},
    {"noPasses", CLI_NO_VALUE, CLI_WORKS, "only the rewriting that running needs"},
    {"disablePasses", CLI_VALUE, CLI_WORKS, "leave these passes out: cse,fuse_norms,…"},
    {"dumpGraph", CLI_MAY_VALUE, CLI_WORKS, "print the graph after this pass; all"},
    {"fp32", CLI_VALUE, CLI_WORKS, "exact or fast"},
    {"fp16", CLI_NO_VALUE, CLI_WORKS, "float16 may be chosen where it is faster"},
    {"bf16", CLI_NO_VALUE, CLI_WORKS, "bfloat16 may be chosen where it is faster"},
    {"int8", CLI_NO_VALUE, CLI_WORKS,
     "int8 where --calib or --calibData gives ranges; what the model quantizes needs no flag"},
    {"fp8", CLI_NO_VALUE, CLI_WORKS, "fp8 for what the model quantizes"},
    {"int4", CLI_NO_VALUE, CLI_WORKS, "int4 for what the model quantizes"},
    {"best", CLI_NO_VALUE, CLI_WORKS,
     "every precision there is: --fp16 --bf16, and --int8 where ranges are given"},
    {"calib", CLI_VALUE, CLI_WORKS,
     "calibration cache: read, or written where --calibData is given"},
    {"calibData", CLI_VALUE, CLI_WORKS,
     "folder with data to calibrate on: pictures, or INPUT.npy with samples along axis 0"},
    {"calibrator", CLI_VALUE, CLI_WORKS,
     "how ranges are found: mse (default), entropy2, entropy, minmax or percentile"},
    {"calibQuantile", CLI_VALUE, CLI_WORKS, "of --calibrator=percentile; 0.9999"},
    {"calibMean", CLI_VALUE, CLI_WORKS, "A,B,C: pictures become x = (pixel - mean) * scale"},
    {"calibScale", CLI_VALUE, CLI_WORKS, "A,B,C: see --calibMean"},
    {"calibLayout", CLI_VALUE, CLI_WORKS, "nchw or nhwc, of pictures; guessed from the shape"},
    {"optShapesCalib", CLI_VALUE, CLI_WORKS,
     "INPUT:1x3x224x224,…: what pictures are scaled to where the model leaves it open"},
    {"noTF32", CLI_NO_VALUE, CLI_WORKS, "always so: float32 is computed as float32"},
    {"stronglyTyped", CLI_NO_VALUE, CLI_WORKS, "types are the model's, none is chosen"},
    {"precisionConstraints", CLI_VALUE, CLI_WORKS,
     "what the next two flags are: none, prefer or obey"},
    {"layerPrecisions", CLI_VALUE, CLI_WORKS,
     "LAYER:TYPE,…: what layers compute in; * in a name matches any text, later ones override"},
    {"layerOutputTypes", CLI_VALUE, CLI_WORKS, "LAYER:TYPE+TYPE,…: types of layers' outputs"},
    {"inputIOFormats", CLI_VALUE, CLI_WORKS,
     "TYPE:LAYOUT,… of the inputs: chw, hwc, chw4, hwc8, …"},
    {"outputIOFormats", CLI_VALUE, CLI_WORKS, "TYPE:LAYOUT,… of the outputs"},
    {"plugins", CLI_VALUE, CLI_WORKS, "load this plugin library; may be given several times"},
    {"staticPlugins", CLI_VALUE, CLI_WORKS, "load this plugin library"},
    {"dynamicPlugins", CLI_VALUE, CLI_WORKS, "load this plugin library"},
    {"setPluginsToSerialize", CLI_VALUE, CLI_WORKS,
     "load this plugin library and put it into the engine"},
    {"allowEngineCode", CLI_NO_VALUE, CLI_WORKS,
     "use plugin libraries that the engine carries, if it is trusted"},
    {"pluginInstanceNorm", CLI_NO_VALUE, CLI_WORKS,
     "InstanceNormalization as plugin InstanceNormalization_TRT"},
    {"pi", CLI_NO_VALUE, CLI_WORKS, "--pluginInstanceNorm"},
    {"model", CLI_VALUE, CLI_WORKS, "the weights (.caffemodel) of a Caffe network; else random"},
    {"outputs", CLI_VALUE, CLI_WORKS,
     "A,B:1,…: nodes or blobs of a TensorFlow or Caffe network that are its outputs; else those "
     "that nothing reads"},
    {"inputs", CLI_VALUE, CLI_WORKS,
     "A,B,…: nodes of a TensorFlow graph that become inputs: what is before them is left out"},
    {"signature", CLI_VALUE, CLI_WORKS,
     "the signature of a SavedModel whose inputs and outputs are the network's; serving_default"},
    {"verifyWeights", CLI_NO_VALUE, CLI_WORKS,
     "compute the checksums of a SavedModel's variables; a difference is an error"},
    {"tags", CLI_VALUE, CLI_WORKS, "A,B,…: the tags of the SavedModel's graph; serve"},
    {"followLinks", CLI_NO_VALUE, CLI_WORKS,
     "external data may be symbolic links out of the model's folder"},
    {"enablePluginOverride", CLI_NO_VALUE, CLI_WORKS, "a plugin replaces the operator of its name"},
    {NULL, CLI_NO_VALUE, CLI_WORKS, NULL},
};

void cli_build_options_init(cli_build_options* options) {
  *options = (cli_build_options){.level = 3,
                                 .tactic_sources = (1u << CARNOT_SOURCE_COUNT) - 1,
                                 .onnx_flags = CARNOT_ONNX_NATIVE_INSTANCENORM,
                                 .log = cli_say_build,
                                 .progress = cli_say_progress};
}

// "cse,fuse_norms": names of passes; NOT_FOUND lists those that exist.
static carnot_status* disable_passes(const char* text, cli_arena* arena, cli_build_options* out) {
  size_t most = 1;
  for (const char* at = text; *at; at++) most += *at == ',';
  const char** names = CLI_NEW_ARRAY(arena, const char*, most);
  out->disabled_passes = names;
  out->disabled_pass_count = 0;
  for (const char* at = text; *at;) {
    size_t length = strcspn(at, ",");
    const char *name = cli_arena_text(arena, at, length), *pass;
    char list[1024] = "";
    bool found = false;
    for (size_t i = 0; (pass = carnot_pass_name(i, NULL)) != NULL; i++) {
      found |= strcmp(pass, name) == 0;
      snprintf(list + strlen(list), sizeof(list) - strlen(list), i ? ", %s" : "%s", pass);
    }
    CLI_CHECK(found, NOT_FOUND, "there is no pass %s; the passes are %s", name, list);
    names[out->disabled_pass_count++] = name;
    at += length + (at[length] == ',');
  }
  return NULL;
}

void cli_build_warn(const cli_build_options* options, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  options->log(options->log_user, /*severity=*/1, text);
}

// The source called |name| in any case, with or without underscores; -1: there is none.
static int find_source(const char* name, size_t length) {
  static const char* const kNames[] = {
      "cublas", "cublaslt", "cudnn", "edgemaskconvolutions", "jitconvolutions", "onednn"};
  char plain[32];
  size_t size = 0;
  for (size_t i = 0; i < length && size + 1 < sizeof(plain); i++)
    if (name[i] != '_') plain[size++] = (char)tolower((unsigned char)name[i]);
  plain[size] = 0;
  for (int i = 0; i < CARNOT_SOURCE_COUNT; i++)
    if (strcmp(plain, kNames[i]) == 0) return i;
  return -1;
}

// "-CUDNN,+CUBLAS_LT": removed from |out_sources| and added to it.
static carnot_status* tactic_sources(const char* text, uint32_t* out_sources) {
  for (const char* at = text; *at;) {
    size_t length = strcspn(at, ",");
    int found = length ? find_source(at + 1, length - 1) : -1;
    CLI_CHECK(found >= 0 && (*at == '+' || *at == '-'), INVALID_ARGUMENT,
              "tactic source '%.*s' must be + or - and CUBLAS, CUBLAS_LT, CUDNN, "
              "EDGE_MASK_CONVOLUTIONS, JIT_CONVOLUTIONS or ONEDNN",
              (int)length, at);
    uint32_t bit = 1u << found;
    *out_sources = *at == '+' ? *out_sources | bit : *out_sources & ~bit;
    at += length + (at[length] == ',');
  }
  return NULL;
}

carnot_status* cli_build_flags(cli_flags* flags, cli_build_options* options) {
  long long level = options->level, threads = 0;
  int fp32 = 0;
  CLI_TRY(cli_flag_int(flags, "builderOptimizationLevel", 0, 5, &level));
  const char* count = cli_flag_text(flags, "threads");
  if (count && count[0]) CLI_TRY(cli_flag_int(flags, "threads", 0, 1024, &threads));
  CLI_TRY(cli_flag_number(flags, "timeBudget", 0, 1e6, &options->time_budget_s));
  CLI_TRY(cli_flag_choice(flags, "fp32", (const char* const[]){"exact", "fast", NULL}, &fp32));
  options->level = (int)level;
  options->threads = (int)threads;
  options->fast_fp32 = fp32 == 1;
  options->timing_cache_path = cli_flag_text(flags, "timingCacheFile");
  options->device = cli_flag_text(flags, "backend");
  if (cli_flag_set(flags, "followLinks")) options->onnx_flags |= CARNOT_ONNX_FOLLOW_LINKS;
  options->no_passes = cli_flag_set(flags, "noPasses");
  const char* dump = cli_flag_text(flags, "dumpGraph");
  options->dump_pass = dump && !dump[0] ? "all" : dump;
  const char* disabled = cli_flag_text(flags, "disablePasses");
  if (disabled) CLI_TRY(disable_passes(disabled, &flags->arena, options));
  const char* sources = cli_flag_text(flags, "tacticSources");
  if (sources) CLI_TRY(tactic_sources(sources, &options->tactic_sources));
  options->quantized |=
      cli_flag_set(flags, "int8") || cli_flag_set(flags, "fp8") || cli_flag_set(flags, "int4");
  CLI_TRY(cli_calibration_flags(flags, &options->calibration));
  bool has_ranges = options->calibration.cache || options->calibration.data;
  options->quantized |= has_ranges && cli_flag_set(flags, "best");
  CLI_CHECK(!has_ranges || options->quantized, INVALID_ARGUMENT,
            CLI_USAGE "--calib and --calibData have no effect without --int8 or --best");
  CLI_TRY(cli_import_flags(flags, options));
  CLI_TRY(cli_typing_flags(flags, options));
  return cli_plugin_flags(flags, options);
}
