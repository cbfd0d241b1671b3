// carnot build MODEL --output ENGINE: an engine file.
#include "cli.h"

carnot_status* cli_build(cli_flags* flags) {
  static const char* const kKnown[] = {"output",        "shapes", "minShapes",    "optShapes",
                                       "maxShapes",     "refit",  "stripWeights", "isa",
                                       CLI_BUILD_FLAGS, NULL};
  cli_shapes min, opt, max;
  CARNOT_TRY(cli_shapes_parse(cli_flag_text(flags, "minShapes"), &min));
  const char* shapes = cli_flag_text(flags, "shapes");
  CARNOT_TRY(cli_shapes_parse(shapes ? shapes : cli_flag_text(flags, "optShapes"), &opt));
  CARNOT_TRY(cli_shapes_parse(cli_flag_text(flags, "maxShapes"), &max));
  cli_build_options options;
  cli_build_options_init(&options);
  options.min = &min;
  options.opt = &opt;
  options.max = &max;
  CARNOT_TRY(cli_build_flags(flags, &options));
  options.config.refit = cli_flag_set(flags, "refit");
  options.config.strip = cli_flag_set(flags, "stripWeights");
  const char* isa = cli_flag_text(flags, "isa");
  if (isa) options.config.isa = carnot_isa_find(isa);
  CARNOT_CHECK(options.config.isa < CARNOT_ISA_COUNT, INVALID_ARGUMENT,
               "--isa is '%s', which is not known", isa);
  const char* output = cli_flag_text(flags, "output");
  const char* path = cli_word(flags, 0);
  CARNOT_CHECK(
      path && output, INVALID_ARGUMENT,
      "usage: carnot build MODEL --output ENGINE [--shapes=…] [--builderOptimizationLevel=N]");
  CARNOT_TRY(cli_flags_finish(flags, kKnown));
  double start = cli_now_ms();
  CARNOT_TRY(cli_build_file(path, &options, output));
  printf("%s: built in %.0f ms\n", output, cli_now_ms() - start);
  cli_shapes_free(&min), cli_shapes_free(&opt), cli_shapes_free(&max);
  return NULL;
}
