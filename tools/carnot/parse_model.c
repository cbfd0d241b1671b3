// Models of every framework as networks.
#include <string.h>
#include <sys/stat.h>

#include "build_options.h"
#include "carnot/caffe.h"
#include "carnot/tensorflow.h"

enum { kMostNames = 256 };

// "a,b:1": the names that a flag lists.
static carnot_status* read_names(cli_flags* flags, const char* flag, const char*** out_names,
                                 size_t* out_count) {
  const char* names = cli_flag_text(flags, flag);
  if (!names) return NULL;
  *out_names = CLI_NEW_ARRAY(&flags->arena, const char*, kMostNames);
  for (const char* at = names; *at;) {
    const size_t length = strcspn(at, ",");
    CLI_CHECK(length && *out_count < kMostNames, INVALID_ARGUMENT,
              "--%s=%s: 1 to %d names required, with commas between them", flag, names, kMostNames);
    (*out_names)[(*out_count)++] = cli_arena_text(&flags->arena, at, length);
    at += length + (at[length] == ',');
  }
  return NULL;
}

carnot_status* cli_import_flags(cli_flags* flags, cli_build_options* options) {
  options->caffe_model = cli_flag_text(flags, "model");
  CLI_TRY(read_names(flags, "outputs", &options->outputs, &options->output_count));
  options->verify_weights = cli_flag_set(flags, "verifyWeights");
  options->signature = cli_flag_text(flags, "signature");
  CLI_TRY(read_names(flags, "tags", &options->tags, &options->tag_count));
  return read_names(flags, "inputs", &options->inputs, &options->input_count);
}

typedef enum model_kind { MODEL_ONNX, MODEL_CAFFE, MODEL_TENSORFLOW } model_kind;

static carnot_status* recognise(const char* path, model_kind* out) {
  cli_mapping map;
  struct stat facts;
  *out = MODEL_TENSORFLOW;
  if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) return NULL;
  CLI_TRY(cli_map_file(path, &map));
  *out = carnot_caffe_is_network(map.data, map.size)      ? MODEL_CAFFE
         : carnot_tensorflow_is_graph(map.data, map.size) ? MODEL_TENSORFLOW
                                                          : MODEL_ONNX;
  cli_unmap(&map);
  return NULL;
}

static carnot_status* parse_caffe(const char* path, const cli_build_options* o,
                                  carnot_network** out_network) {
  const carnot_caffe_options options = {
      .outputs = o->outputs, .output_count = o->output_count, .batch = o->batch, .seed = 1};
  if (!o->caffe_model)
    cli_build_warn(o, "%s: no weights were given (--model=FILE.caffemodel): they are random", path);
  return carnot_caffe_parse_files(path, o->caffe_model, &options, out_network);
}

static carnot_status* parse_tensorflow(const char* path, const cli_build_options* o,
                                       carnot_network** out_network) {
  const carnot_tensorflow_options options = {.outputs = o->outputs,
                                             .output_count = o->output_count,
                                             .inputs = o->inputs,
                                             .input_count = o->input_count,
                                             .signature = o->signature,
                                             .tags = o->tags,
                                             .tag_count = o->tag_count,
                                             .verify_weights = o->verify_weights,
                                             .registered = o->registered,
                                             .registered_count = o->registered_count,
                                             .batch = o->batch};
  return carnot_tensorflow_parse_path(path, &options, out_network);
}

// Flags of one framework are refused with a model of another.
static carnot_status* check_flags(const char* path, model_kind kind, const cli_build_options* o) {
  const bool is_tensorflow = kind == MODEL_TENSORFLOW;
  CLI_CHECK(is_tensorflow || !o->input_count, INVALID_ARGUMENT,
            "--inputs cuts TensorFlow graphs, but %s is none", path);
  CLI_CHECK(is_tensorflow || (!o->signature && !o->tag_count), INVALID_ARGUMENT,
            "--signature and --tags are of SavedModels, but %s is none", path);
  CLI_CHECK(is_tensorflow || !o->registered_count, INVALID_ARGUMENT,
            "--uffInput is of TensorFlow graphs, but %s is none", path);
  CLI_CHECK(kind == MODEL_CAFFE || !o->caffe_model, INVALID_ARGUMENT,
            "--model gives the weights of a Caffe network, but %s is none", path);
  CLI_CHECK(kind != MODEL_ONNX || !o->output_count, INVALID_ARGUMENT,
            "--outputs chooses outputs of TensorFlow and Caffe networks, but %s is none", path);
  return NULL;
}

carnot_status* cli_parse_model(const char* path, const cli_build_options* options,
                               carnot_network** out_network) {
  model_kind kind;
  CLI_TRY(recognise(path, &kind));
  if (kind != MODEL_ONNX) CLI_TRY(check_flags(path, kind, options));
  if (kind == MODEL_CAFFE) return parse_caffe(path, options, out_network);
  if (kind == MODEL_TENSORFLOW) return parse_tensorflow(path, options, out_network);
  // The parser names what a file that is no model at all is; that comes before its flags.
  CLI_TRY(
      carnot_onnx_parse_file_with(path, options->onnx_flags | CARNOT_ONNX_KEEP_NODES, out_network));
  carnot_status* status = check_flags(path, kind, options);
  if (status) carnot_network_destroy(*out_network);
  return status;
}
