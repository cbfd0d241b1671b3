// Flags of the command line. Every subcommand has a table of its flags, which the parser, the help
// and the completion read.
//
// A flag is --name, --name=value or --name value (also with one dash), -o is --output of a file;
// any other argument is a word.
#ifndef CARNOT_TOOLS_FLAGS_H_
#define CARNOT_TOOLS_FLAGS_H_

#include "support.h"

typedef enum cli_flag_value {
  CLI_NO_VALUE,
  CLI_VALUE,      // behind '=' or in the next argument
  CLI_MAY_VALUE,  // behind '=' only
} cli_flag_value;

typedef enum cli_flag_class {
  CLI_WORKS,
  CLI_NO_EFFECT,  // accepted with a warning
  CLI_REFUSED,    // what it asks for is not implemented
} cli_flag_class;

// One row of a table; tables end with a NULL name.
typedef struct cli_flag {
  const char* name;
  cli_flag_value value;
  cli_flag_class class;
  const char* note;  // help of a working flag; why another has no effect, or what is missing
} cli_flag;

// A flag as given; |value| is NULL where it has none.
typedef struct cli_given {
  const cli_flag* flag;
  const char* value;
} cli_given;

// A parsed command line. Values and words stay in argv.
typedef struct cli_flags {
  cli_given* given;  // in the order of the command line
  const char** words;
  int given_count, word_count;
  cli_arena arena;  // for what flags are parsed into
} cli_flags;

// Parses argv[0, argc) by |tables| (ends with NULL). INVALID_ARGUMENT names an unknown flag with
// the nearest one, a missing value, or a value where none is taken. deinit frees in any case.
carnot_status* cli_flags_parse(const cli_flag* const* tables, int argc, char** argv,
                               cli_flags* out_flags) CARNOT_MUST_USE;
void cli_flags_deinit(cli_flags* flags);
// Prints a line for each flag of |class|.
void cli_flags_help(const cli_flag* const* tables, cli_flag_class class);

// The value of the last --name, "" where it has none; NULL when the flag was not given.
const char* cli_flag_text(const cli_flags* flags, const char* name);
// The value number |index| of a flag that may be repeated, in order; NULL after the last.
const char* cli_flag_each(const cli_flags* flags, const char* name, int index);
// True when the flag was given.
bool cli_flag_set(const cli_flags* flags, const char* name);
// The last --name as an integer or a number; |value| stays as it is when the flag was not given.
carnot_status* cli_flag_int(const cli_flags* flags, const char* name, long long min, long long max,
                            long long* value) CARNOT_MUST_USE;
carnot_status* cli_flag_number(const cli_flags* flags, const char* name, double min, double max,
                               double* value) CARNOT_MUST_USE;
// The index in |words| (ends with NULL) of the last --name's value; |value| stays as it is when the
// flag was not given.
carnot_status* cli_flag_choice(const cli_flags* flags, const char* name, const char* const* words,
                               int* value) CARNOT_MUST_USE;
// The word number |index|; NULL after the last.
const char* cli_word(const cli_flags* flags, int index);

#endif  // CARNOT_TOOLS_FLAGS_H_
