// Messages and progress on the standard error: as text, with a progress line on terminals, or as
// JSON lines. carnot exec, which writes trtexec's log, uses only the progress line.
#ifndef CARNOT_TOOLS_LOG_H_
#define CARNOT_TOOLS_LOG_H_

#include <stdbool.h>
#include <stdio.h>

#include "flags.h"

// The severities of carnot_config_set_log.
typedef enum cli_severity {
  CLI_SAY_ERROR,
  CLI_SAY_WARNING,
  CLI_SAY_INFO,
  CLI_SAY_DETAIL
} cli_severity;

// --verbose, --quiet and --log, which every subcommand but exec has.
extern const cli_flag cli_log_flags[];
// Reads the flags above; before that warnings and errors are written as text.
carnot_status* cli_log_configure(const cli_flags* flags) CARNOT_MUST_USE;

// Writes a message to the standard error unless the flags leave its severity out. As JSON:
// {"severity": "warning", "message": "..."}.
void cli_say(cli_severity severity, const char* format, ...) __attribute__((format(printf, 2, 3)));
// For carnot_config_set_log; |user| is not used.
void cli_say_build(void* user, int severity, const char* message);

// For carnot_config_set_progress: "timing tactics 12 of 60" in one line of the terminal that is
// overwritten, from one second after the start of the program on. As JSON: {"phase": "tactics",
// "done": 12, "total": 60}, five a second at most. Always true; |user| is not used.
bool cli_say_progress(void* user, const char* phase, int done, int total);
// The same for what has no parts: "reading model.onnx".
void cli_say_phase(const char* phase);
// Removes the progress line.
void cli_end_progress(void);

// Begins and ends a colour on |file| if it is a terminal and NO_COLOR is not set; else "".
typedef enum cli_color { CLI_RED, CLI_GREEN, CLI_YELLOW, CLI_PLAIN } cli_color;
const char* cli_color_code(FILE* file, cli_color color);

#endif  // CARNOT_TOOLS_LOG_H_
