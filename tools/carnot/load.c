// Loading engines, and building them from models on the way.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build_options.h"
#include "log.h"

// TensorRT's plans begin with "ftrt", some behind a JSON prefix with its length before it.
static bool is_tensorrt(const unsigned char* data, size_t size) {
  if (size >= 4 && memcmp(data, "ftrt", 4) == 0) return true;
  uint32_t prefix;
  if (size < 8) return false;
  memcpy(&prefix, data, 4);
  return data[4] == '{' && prefix < size - 8 && memcmp(data + 4 + prefix, "ftrt", 4) == 0;
}

// A folder is a model where it holds a SavedModel.
static carnot_status* check_folder(const char* path, bool* out_is_folder) {
  static const char* const kNames[] = {"saved_model.pb", "saved_model.pbtxt", "saved_model.cpb"};
  struct stat facts;
  char inside[4096];
  *out_is_folder = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
  if (!*out_is_folder) return NULL;
  for (size_t i = 0; i < sizeof(kNames) / sizeof(kNames[0]); i++) {
    snprintf(inside, sizeof(inside), "%s/%s", path, kNames[i]);
    if (access(inside, F_OK) == 0) return NULL;
  }
  return CLI_ERROR(IO, "%s is a folder without saved_model.pb; give the model file inside", path);
}

carnot_status* cli_file_recognise(const char* path, cli_file_kind* out) {
  cli_mapping map;
  bool is_folder;
  CLI_TRY(check_folder(path, &is_folder));
  *out = CLI_FILE_ONNX;
  if (is_folder) return NULL;
  CLI_TRY(cli_map_file(path, &map));
  carnot_status* status = NULL;
  *out = carnot_engine_is_file(map.data, map.size) ? CLI_FILE_ENGINE : CLI_FILE_ONNX;
  if (*out == CLI_FILE_ONNX && is_tensorrt(map.data, map.size))
    status = CLI_ERROR(UNSUPPORTED, "%s is a TensorRT engine; rebuild from ONNX", path);
  cli_unmap(&map);
  return status;
}

static bool send_text(int to, const char* text) {
  for (size_t left = strlen(text); left;) {
    const ssize_t sent = write(to, text, left);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    text += sent, left -= (size_t)sent;
  }
  return true;
}

// What comes from |from| until its end; the caller frees it. NULL: out of memory.
static char* receive_text(int from) {
  size_t length = 0, capacity = 1 << 12;
  char* text = malloc(capacity);
  while (text) {
    const ssize_t got = read(from, text + length, capacity - 1 - length);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    length += (size_t)got;
    if (length + 1 < capacity) continue;
    char* more = realloc(text, capacity *= 2);
    if (!more) free(text);
    text = more;
  }
  if (text) text[length] = 0;
  return text;
}

carnot_status* cli_build_apart(const char* path, const cli_build_options* options,
                               const char* engine_path, cli_loaded* out) {
  int channel[2];
  CLI_CHECK(pipe(channel) == 0, IO, "cannot make a pipe");
  fflush(NULL);
  double start = cli_now_ms();
  pid_t child = fork();
  CLI_CHECK(child >= 0, OUT_OF_MEMORY, "cannot start the process that builds");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // a build that nobody waits for ends
    close(channel[0]);
    carnot_status* status = cli_build_file(path, options, engine_path);
    bool sent = send_text(channel[1], status ? carnot_status_message(status) : "");
    cli_end_progress();
    fflush(NULL);
    _exit(status ? (int)carnot_status_code(status) : sent ? 0 : CARNOT_IO);
  }
  close(channel[1]);
  char* message = receive_text(channel[0]);
  close(channel[0]);
  int state;
  struct rusage usage;
  wait4(child, &state, 0, &usage);
  out->build_ms = cli_now_ms() - start;
  out->build_peak_mb = (double)usage.ru_maxrss / 1024;
  carnot_status* status = NULL;
  if (!WIFEXITED(state))
    status =
        CLI_ERROR(INTERNAL, "the process that builds %s ended by signal %d", path, WTERMSIG(state));
  else if (WEXITSTATUS(state))
    status = carnot_status_make((carnot_code)WEXITSTATUS(state), __FILE__, __LINE__, "%s",
                                message ? message : "out of memory");
  free(message);
  return status;
}

// Builds into a file without a name, which is gone when it is unmapped. The child process finds it
// under the same number.
static carnot_status* build_and_map(const char* path, const cli_build_options* options,
                                    cli_loaded* out) {
  int file = memfd_create("carnot engine", 0);
  CLI_CHECK(file >= 0, IO, "cannot make a file in memory: %s", strerror(errno));
  char engine_path[64];
  snprintf(engine_path, sizeof(engine_path), "/proc/self/fd/%d", file);
  carnot_status* status = cli_build_apart(path, options, engine_path, out);
  double start = cli_now_ms();
  if (!status) status = carnot_engine_map_file(engine_path, &out->engine);
  out->load_ms = cli_now_ms() - start;
  close(file);
  return status;
}

carnot_status* cli_load(const char* path, const cli_build_options* options, cli_loaded* out) {
  *out = (cli_loaded){0};
  cli_file_kind kind;
  CLI_TRY(cli_file_recognise(path, &kind));
  if (kind == CLI_FILE_ONNX) return build_and_map(path, options, out);
  double start = cli_now_ms();
  carnot_status* status = carnot_engine_load_file(path, &out->engine);
  out->load_ms = cli_now_ms() - start;
  return status;
}
