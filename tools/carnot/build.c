// carnot build MODEL --output ENGINE: an engine file.
#include <stdio.h>
#include <sys/stat.h>

#include "build_options.h"
#include "cli.h"

const cli_flag cli_build_flags_own[] = {
    {"output", CLI_VALUE, CLI_WORKS, "the engine file to write"},
    {"shapes", CLI_VALUE, CLI_WORKS, "NAME:1x3x224x224,…: the shapes to build for"},
    {"minShapes", CLI_VALUE, CLI_WORKS, "the least shapes of the profile"},
    {"optShapes", CLI_VALUE, CLI_WORKS, "the usual shapes of the profile"},
    {"maxShapes", CLI_VALUE, CLI_WORKS, "the largest shapes of the profile"},
    {"refit", CLI_NO_VALUE, CLI_WORKS, "the weights of the engine can be replaced"},
    {"stripWeights", CLI_NO_VALUE, CLI_WORKS,
     "leave out of the engine the weights that refit sets; implies --refit"},
    {"isa", CLI_VALUE, CLI_WORKS, "the highest CPU ISA level to use: scalar, avx2, avx512, …"},
    {NULL, CLI_NO_VALUE, CLI_WORKS, NULL},
};

static carnot_status* build(cli_flags* flags, cli_profile_shapes* profile) {
  const char* shapes = cli_flag_text(flags, "shapes");
  CLI_TRY(cli_shapes_parse(cli_flag_text(flags, "minShapes"), &profile->min));
  CLI_TRY(cli_shapes_parse(shapes ? shapes : cli_flag_text(flags, "optShapes"), &profile->opt));
  CLI_TRY(cli_shapes_parse(cli_flag_text(flags, "maxShapes"), &profile->max));
  cli_build_options options;
  cli_build_options_init(&options);
  options.min = &profile->min;
  options.opt = &profile->opt;
  options.max = &profile->max;
  CLI_TRY(cli_build_flags(flags, &options));
  options.refit = cli_flag_set(flags, "refit");
  options.strip = cli_flag_set(flags, "stripWeights");
  options.isa = cli_flag_text(flags, "isa");
  const char *output = cli_flag_text(flags, "output"), *path = cli_word(flags, 0);
  CLI_CHECK(
      path && output, INVALID_ARGUMENT,
      "usage: carnot build MODEL --output ENGINE [--shapes=…] [--builderOptimizationLevel=N]");
  double start = cli_now_ms();
  CLI_TRY(cli_build_file(path, &options, output));
  struct stat facts;
  bool is_file = stat(output, &facts) == 0 && S_ISREG(facts.st_mode);
  // The engine may go to the standard output.
  fprintf(is_file ? stdout : stderr, "%s: built in %.0f ms\n", output, cli_now_ms() - start);
  return NULL;
}

carnot_status* cli_build(cli_flags* flags) {
  cli_profile_shapes profile = {.min = {.count = 0}};
  carnot_status* status = build(flags, &profile);
  cli_shapes_free(&profile.min);
  cli_shapes_free(&profile.opt);
  cli_shapes_free(&profile.max);
  return status;
}
