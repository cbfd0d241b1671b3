// Models of every framework as networks.
#include <string.h>

#include "build_options.h"
#include "carnot/caffe.h"

enum { kMostOutputs = 256 };

carnot_status* cli_import_flags(cli_flags* flags, cli_build_options* options) {
  const char* names = cli_flag_text(flags, "outputs");
  options->caffe_model = cli_flag_text(flags, "model");
  if (!names) return NULL;
  options->outputs = CLI_NEW_ARRAY(&flags->arena, const char*, kMostOutputs);
  for (const char* at = names; *at;) {
    const size_t length = strcspn(at, ",");
    CLI_CHECK(length && options->output_count < kMostOutputs, INVALID_ARGUMENT,
              "--outputs=%s: 1 to %d names required, with commas between them", names,
              kMostOutputs);
    options->outputs[options->output_count++] = cli_arena_text(&flags->arena, at, length);
    at += length + (at[length] == ',');
  }
  return NULL;
}

static carnot_status* is_caffe(const char* path, bool* out) {
  cli_mapping map;
  CLI_TRY(cli_map_file(path, &map));
  *out = carnot_caffe_is_network(map.data, map.size);
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

carnot_status* cli_parse_model(const char* path, const cli_build_options* options,
                               carnot_network** out_network) {
  bool caffe;
  CLI_TRY(is_caffe(path, &caffe));
  if (caffe) return parse_caffe(path, options, out_network);
  CLI_CHECK(!options->caffe_model, INVALID_ARGUMENT,
            "--model gives the weights of a Caffe network, but %s is none", path);
  CLI_CHECK(!options->output_count, INVALID_ARGUMENT,
            "--outputs chooses outputs of Caffe networks, but %s is none", path);
  return carnot_onnx_parse_file_with(path, options->onnx_flags | CARNOT_ONNX_KEEP_NODES,
                                     out_network);
}
