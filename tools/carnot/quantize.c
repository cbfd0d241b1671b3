// carnot quantize MODEL --output FILE: an ONNX model with quantize and dequantize nodes.
#include <stdio.h>

#include "build_options.h"
#include "cli.h"
#include "log.h"

const cli_flag cli_quantize_flags[] = {
    {"output", CLI_VALUE, CLI_WORKS, "the ONNX file to write"},
    {"types", CLI_VALUE, CLI_WORKS,
     "int8 (default), fp8: activations and weights; int4: weights of GEMMs, without calibration"},
    {"for", CLI_VALUE, CLI_WORKS,
     "any (default): int8 operands of layers, symmetric, which every runtime takes; openvino: "
     "uint8 "
     "activations; onnxruntime: uint8 activations, results of layers quantized too"},
    {"attention", CLI_NO_VALUE, CLI_WORKS,
     "with --types=fp8: queries, keys, values and softmax's result of attention too"},
    {"blockSize", CLI_VALUE, CLI_WORKS, "weights that share a scale with --types=int4; 32"},
    {"shapes", CLI_VALUE, CLI_WORKS, "NAME:1x3x224x224,…: shapes of inputs for the calibration"},
    {NULL, CLI_NO_VALUE, CLI_WORKS, NULL},
};

static carnot_status* read_flags(cli_flags* flags, carnot_onnx_quantize_options* out) {
  static const carnot_dtype kTypes[] = {CARNOT_DTYPE_I8, CARNOT_DTYPE_F8E4M3FN, CARNOT_DTYPE_I4};
  enum { FOR_ANY, FOR_OPENVINO, FOR_ONNXRUNTIME };
  int type = 0, reader = FOR_ANY;
  CLI_TRY(
      cli_flag_choice(flags, "types", (const char* const[]){"int8", "fp8", "int4", NULL}, &type));
  CLI_TRY(cli_flag_choice(flags, "for",
                          (const char* const[]){"any", "openvino", "onnxruntime", NULL}, &reader));
  long long block_size = 0;
  CLI_TRY(cli_flag_int(flags, "blockSize", 16, 4096, &block_size));
  out->block_size = (int)block_size;
  out->type = kTypes[type];
  CLI_CHECK(reader == FOR_ANY || out->type == CARNOT_DTYPE_I8, INVALID_ARGUMENT,
            CLI_USAGE "--for has no effect without --types=int8");
  CLI_CHECK(!out->block_size || out->type == CARNOT_DTYPE_I4, INVALID_ARGUMENT,
            CLI_USAGE "--blockSize has no effect without --types=int4");
  out->attention = cli_flag_set(flags, "attention");
  CLI_CHECK(!out->attention || out->type == CARNOT_DTYPE_F8E4M3FN, INVALID_ARGUMENT,
            CLI_USAGE "--attention has no effect without --types=fp8");
  if (reader != FOR_ANY) out->type = CARNOT_DTYPE_U8;
  out->around_results = reader == FOR_ONNXRUNTIME;
  return NULL;
}

static carnot_status* find_ranges(const carnot_network* network, const cli_build_options* options,
                                  const carnot_onnx_quantize_options* wanted, carnot_config* config,
                                  carnot_ranges** out_ranges) {
  const cli_calibration* c = &options->calibration;
  *out_ranges = NULL;
  CLI_TRY(cli_configure(network, options, config));
  const bool takes_ranges = wanted->type != CARNOT_DTYPE_I4;
  CLI_CHECK(takes_ranges || (!c->data && !c->cache), INVALID_ARGUMENT,
            CLI_USAGE "--types=int4 quantizes weights alone: it takes no calibration");
  CLI_CHECK(!takes_ranges || c->data || c->cache, INVALID_ARGUMENT,
            CLI_USAGE "ranges are needed: give --calibData=DIR or --calib=CACHE");
  return cli_calibrate(network, config, c, out_ranges);
}

static carnot_status* quantize(const char* path, const cli_build_options* options,
                               const carnot_onnx_quantize_options* wanted, const char* output) {
  carnot_network* network = NULL;
  carnot_config* config = NULL;
  carnot_ranges* ranges = NULL;
  size_t count = 0;
  carnot_status* status =
      carnot_onnx_parse_file_with(path, options->onnx_flags | CARNOT_ONNX_KEEP_NODES, &network);
  if (!status) status = carnot_config_create(&config);
  if (!status) status = find_ranges(network, options, wanted, config, &ranges);
  if (!status && ranges) carnot_config_set_ranges(config, ranges);
  if (!status) status = carnot_onnx_quantize_file(path, network, config, wanted, output, &count);
  carnot_ranges_destroy(ranges);
  carnot_config_destroy(config);
  carnot_network_destroy(network);
  CLI_TRY(status);
  printf("%s: %zu layers quantized\n", output, count);
  return NULL;
}

static carnot_status* run(cli_flags* flags, cli_shapes* shapes) {
  CLI_TRY(cli_shapes_parse(cli_flag_text(flags, "shapes"), shapes));
  cli_build_options options;
  cli_build_options_init(&options);
  options.opt = shapes;
  options.quantized = true;
  CLI_TRY(cli_build_flags(flags, &options));
  carnot_onnx_quantize_options wanted = {.block_size = 0};
  CLI_TRY(read_flags(flags, &wanted));
  const char *output = cli_flag_text(flags, "output"), *path = cli_word(flags, 0);
  CLI_CHECK(path && output, INVALID_ARGUMENT,
            "usage: carnot quantize MODEL.onnx --output=QUANTIZED.onnx --calibData=DIR");
  return quantize(path, &options, &wanted, output);
}

carnot_status* cli_quantize(cli_flags* flags) {
  cli_shapes shapes = {.count = 0};
  carnot_status* status = run(flags, &shapes);
  cli_shapes_free(&shapes);
  return status;
}
