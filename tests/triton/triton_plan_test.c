// Loading plans and configurations: what is completed, what is refused, and damaged plans beside a
// version that serves.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"
#include "plans.h"

static TRITONBACKEND_Backend* backend;

static void path_of(const char* folder, int version, char* path) {
  snprintf(path, 300, "%s/%d/model.plan", folder, version);
}

static bool has(const char* text, const char* part) { return strstr(text, part) != NULL; }

typedef struct config_case {
  void (*write)(const char* folder, int version);
  const char* given;
  bool complete;
  const char* part;  // of the completed configuration, or of the message
  bool fails;
} config_case;

static void write_rows(const char* folder, int version) { plans_write_rows(folder, version, 7); }

#define X_LISTED(type, dims) \
  "{\"input\":[{\"name\":\"x\",\"data_type\":\"" type "\",\"dims\":" dims ",\"label\":\"kept\"}]}"

static const config_case kConfigs[] = {
    {write_rows, "{}", true,
     "\"input\":[{\"name\":\"x\",\"data_type\":\"TYPE_FP32\",\"dims\":[4]}]", false},
    {write_rows, "{}", true,
     "\"output\":[{\"name\":\"y\",\"data_type\":\"TYPE_FP32\",\"dims\":[3]}]", false},
    {write_rows, "{}", true, "\"max_batch_size\":8,\"dynamic_batching\":{}", false},
    {write_rows, "{\"max_batch_size\":1}", true, "{\"max_batch_size\":1,\"input\"", false},
    {write_rows, "{\"max_batch_size\":5}", true, "\"max_batch_size\":5,\"dynamic_batching\"",
     false},
    {write_rows, "{\"dynamic_batching\":{\"max_queue_delay_microseconds\":\"500\"}}", true,
     "\"dynamic_batching\":{\"max_queue_delay_microseconds\":\"500\"}", false},
    {write_rows, X_LISTED("TYPE_FP32", "[\"4\"]"), true, "\"label\":\"kept\"", false},
    // With all dimensions listed, the first is no batch that the server adds.
    {write_rows, X_LISTED("TYPE_FP32", "[\"-1\",\"4\"]"), true, "\"max_batch_size\":0", false},
    {write_rows, "{\"max_batch_size\":4}", false, "{\"max_batch_size\":4}", false},
    {plans_write_lookup, "{}", true, "\"max_batch_size\":4", false},  // the server's default
    {plans_write_lookup, "{}", true, "\"reshape\":{\"shape\":[]},\"dims\":[1]", false},
    {plans_write_lookup, "{}", true, "TYPE_INT64", false},
    {plans_write_text, "{}", true, "TYPE_STRING", false},
    {plans_write_nonzero, "{}", true, "\"max_batch_size\":0", false},
    {plans_write_nonzero, "{}", true, "\"dims\":[-1]", false},
    {write_rows, "{\"max_batch_size\":9}", true, "max_batch_size is 9, must be at most 8", true},
    {plans_write_nonzero, "{\"max_batch_size\":2}", true,
     "the first dimension of this plan is no batch", true},
    {write_rows, X_LISTED("TYPE_INT32", "[4]"), true,
     "input x is TYPE_INT32 in the configuration, must be TYPE_FP32", true},
    {write_rows, X_LISTED("TYPE_FP32", "[5]"), true,
     "input x has dims [5] in the configuration, must be [4] after the batch dimension", true},
    {write_rows, "{\"output\":[{\"name\":\"z\"}]}", true,
     "output z of the configuration is none of the plan", true},
    {write_rows, "{\"parameters\":{\"threads\":{\"string_value\":\"many\"}}}", true,
     "parameter threads is \"many\", must be a number in [1, 4096]", true},
    {write_rows, "{\"default_model_filename\":\"other.plan\"}", true, "1/other.plan", true},
    {plans_write_optional, "{}", true, "list it in config.pbtxt", true},
    {write_rows, "[", true, "is no JSON", true},
};

static void test_configurations(void** state) {
  (void)state;
  for (size_t i = 0; i < sizeof kConfigs / sizeof kConfigs[0]; i++) {
    const config_case* c = &kConfigs[i];
    char folder[256], message[512] = "";
    plans_folder(folder);
    c->write(folder, 1);
    TRITONBACKEND_Model* model = host_load(backend, folder, 1, c->given, c->complete, message);
    const char* text = model ? model->config : message;
    if ((model == NULL) != c->fails || !has(text, c->part))
      fail_msg("case %zu: \"%s\" in \"%s\"", i, c->part, text);
    if (model) host_unload(model);
    plans_remove(folder);
  }
}

// The instance's kind must fit what the plan was built for.
static void test_kinds(void** state) {
  (void)state;
  static const TRITONSERVER_InstanceGroupKind kKinds[] = {TRITONSERVER_INSTANCEGROUPKIND_CPU,
                                                          TRITONSERVER_INSTANCEGROUPKIND_GPU,
                                                          TRITONSERVER_INSTANCEGROUPKIND_MODEL};
  char folder[256], message[512] = "";
  plans_folder(folder);
  write_rows(folder, 1);
  TRITONBACKEND_Model* model = host_load(backend, folder, 1, "{}", true, message);
  assert_non_null(model);
  for (int i = 0; i < 3; i++) {
    TRITONBACKEND_ModelInstance* instance = host_start(model, kKinds[i], 1, message);
    assert_string_equal(message, "");
    host_stop(instance);
  }
  host_unload(model);
  plans_remove(folder);
}

// ---- damaged plans ----

enum { DAMAGE_COUNT = 20 };

static void write_bytes(const char* path, const char* data, size_t size) {
  int file = open(path, O_WRONLY | O_TRUNC);
  assert_int_equal(write(file, data, size), size);
  close(file);
}

// Damage |kind| of a plan |data| [size], in place as an interrupted copy leaves it.
static void damage(const char* path, int kind, const char* data, size_t size) {
  char* copy = malloc(size);
  memcpy(copy, data, size);
  switch (kind) {
    case 0: write_bytes(path, copy, 0); break;
    case 1: write_bytes(path, "no plan", 7); break;
    case 2: unlink(path); break;
    case 3:
      unlink(path);
      mkdir(path, 0777);
      break;
    case 4:
      memset(copy, 0, size);
      write_bytes(path, copy, size);
      break;
    case 5: write_bytes(path, copy, size - 1); break;
    default:  // cut at, or a bit turned at, places through the whole file
      if (kind % 2) {
        write_bytes(path, copy, size * (size_t)(kind - 5) / 16);
      } else {
        size_t at = size * (size_t)(kind - 6) / 14;
        while (at + 1 < size && copy[at] == 0) at++;  // zeros may be padding, which says nothing
        copy[at] ^= 0x10;
        write_bytes(path, copy, size);
      }
  }
  free(copy);
}

static char* read_plan(const char* path, size_t* out_size) {
  FILE* file = fopen(path, "rb");
  fseek(file, 0, SEEK_END);
  *out_size = (size_t)ftell(file);
  rewind(file);
  char* data = malloc(*out_size);
  assert_int_equal(fread(data, 1, *out_size, file), *out_size);
  fclose(file);
  return data;
}

static void check_serves(TRITONBACKEND_ModelInstance* instance) {
  const float x[ROWS_IN] = {1, 2, -3, 4};
  double wanted[ROWS_OUT];
  plans_rows_wanted(7, x, wanted);
  TRITONBACKEND_Request request = {0}, *list[1] = {&request};
  host_request_clear(&request);
  host_request_add(&request, "x", TRITONSERVER_TYPE_FP32, (const int64_t[]){1, ROWS_IN}, 2, x,
                   sizeof x, 1);
  host_execute(instance, list, 1);
  assert_string_equal(request.error.message, "");
  net_near(host_output(&request, "y")->data, wanted, ROWS_OUT, 1e-5, 1e-6);
  host_request_clear(&request);
}

// The plan of a version that serves is damaged in place, in 20 ways: it serves on, and a load of
// the damaged file fails with a message that names it.
static void test_damage(void** state) {
  (void)state;
  char folder[256], path[300], message[512] = "";
  plans_folder(folder);
  write_rows(folder, 1);
  path_of(folder, 1, path);
  size_t size;
  char* good = read_plan(path, &size);
  TRITONBACKEND_Model* model = host_load(backend, folder, 1, "{}", true, message);
  assert_non_null(model);
  TRITONBACKEND_ModelInstance* instance =
      host_start(model, TRITONSERVER_INSTANCEGROUPKIND_CPU, 0, message);
  for (int kind = 0; kind < DAMAGE_COUNT; kind++) {
    damage(path, kind, good, size);
    message[0] = 0;
    if (host_load(backend, folder, 1, "{}", true, message)) fail_msg("damage %d loads", kind);
    if (!has(message, path)) fail_msg("damage %d: %s", kind, message);
    check_serves(instance);
    rmdir(path);
    close(open(path, O_CREAT | O_WRONLY, 0666));
    write_bytes(path, good, size);
  }
  host_stop(instance);
  host_unload(model);
  free(good);
  plans_remove(folder);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  backend = host_open(argv[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_configurations),
                                     cmocka_unit_test(test_kinds), cmocka_unit_test(test_damage)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  host_close(backend);
  return failed;
}
