// Requests of every kind through the backend: batches, errors that are one request's own, profiles,
// text, optional inputs, cancelled requests.
#include "host.h"
#include "plans.h"

static TRITONBACKEND_Backend* backend;
static const char kPlain[] = "{\"name\":\"model\",\"max_batch_size\":0}";

// A loaded model with one instance.
typedef struct served {
  char folder[256];
  TRITONBACKEND_Model* model;
  TRITONBACKEND_ModelInstance* instance;
} served;

static void serve(served* s, void (*write)(const char* folder, int version), const char* config) {
  char message[512] = "";
  plans_folder(s->folder);
  write(s->folder, 1);
  s->model = host_load(backend, s->folder, 1, config, true, message);
  assert_string_equal(message, "");
  s->instance = host_start(s->model, plans_kind(), 0, message);
  assert_string_equal(message, "");
}

static void end(served* s) {
  assert_false(s->instance->has_wrong_times);
  host_stop(s->instance);
  host_unload(s->model);
  plans_remove(s->folder);
}

static void write_rows(const char* folder, int version) { plans_write_rows(folder, version, 7); }

// Requests with numbers of their own: request |q| has |rows| rows.
static void add_rows(TRITONBACKEND_Request* request, float* x, uint32_t seed, int64_t rows,
                     uint32_t parts) {
  for (int64_t i = 0; i < rows * ROWS_IN; i++) x[i] = net_number(seed, (size_t)i);
  host_request_add(request, "x", TRITONSERVER_TYPE_FP32, (const int64_t[]){rows, ROWS_IN}, 2, x,
                   (uint64_t)(rows * ROWS_IN) * sizeof(float), parts);
}

static void check_rows(const TRITONBACKEND_Request* request, const float* x, int64_t rows) {
  assert_string_equal(request->error.message, "");
  const TRITONBACKEND_Output* y = host_output(request, "y");
  assert_non_null(y);
  assert_int_equal(y->rank, 2);
  assert_int_equal(y->shape[0], rows);
  assert_int_equal(y->shape[1], ROWS_OUT);
  for (int64_t r = 0; r < rows; r++) {
    double wanted[ROWS_OUT];
    plans_rows_wanted(7, x + r * ROWS_IN, wanted);
    net_near((const float*)y->data + r * ROWS_OUT, wanted, ROWS_OUT, 1e-5, 1e-6);
  }
}

static void refused(const TRITONBACKEND_Request* request, TRITONSERVER_Error_Code code,
                    const char* part) {
  assert_int_equal(request->error.code, code);
  if (!strstr(request->error.message, part))
    fail_msg("\"%s\" in \"%s\"", part, request->error.message);
}

// Requests of 1, 3 and 2 rows, the second in two parts, the third misaligned: one run.
static void test_batch(void** state) {
  (void)state;
  served s;
  serve(&s, write_rows, kPlain);
  float x[3][ROWS_MOST * ROWS_IN];
  char shifted[sizeof x[2] + 1];
  const int64_t rows[3] = {1, 3, 2};
  TRITONBACKEND_Request requests[3] = {0};
  TRITONBACKEND_Request* list[3];
  for (uint32_t q = 0; q < 3; q++) {
    list[q] = &requests[q];
    host_request_clear(list[q]);
    add_rows(list[q], x[q], q, rows[q], q == 1 ? 2 : 1);
  }
  memcpy(shifted + 1, x[2], sizeof x[2]);
  requests[2].inputs[0].data[0] = shifted + 1;
  host_execute(s.instance, list, 3);
  for (uint32_t q = 0; q < 3; q++) check_rows(list[q], x[q], rows[q]);
  assert_int_equal(s.instance->batches, 1);
  assert_int_equal(s.instance->batch_rows, 6);
  assert_int_equal(s.instance->succeeded, 3);
  // Alone and misaligned; then more rows than a run takes: two runs.
  host_request_clear(list[2]);
  add_rows(list[2], x[2], 2, 2, 1);
  requests[2].inputs[0].data[0] = shifted + 1;
  host_execute(s.instance, &list[2], 1);
  check_rows(list[2], x[2], 2);
  for (uint32_t q = 0; q < 3; q++) {
    host_request_clear(list[q]);
    add_rows(list[q], x[q], q, 4, 1);
  }
  host_execute(s.instance, list, 3);
  for (uint32_t q = 0; q < 3; q++) check_rows(list[q], x[q], 4);
  assert_int_equal(s.instance->batches, 4);
  for (uint32_t q = 0; q < 3; q++) host_request_clear(list[q]);
  end(&s);
}

enum { WRONG_COUNT = 11 };

// Makes request |kind| of those that must be refused; x holds its data.
static void make_wrong(TRITONBACKEND_Request* request, int kind, float* x) {
  add_rows(request, x, 9, 1, 1);
  TRITONBACKEND_Input* input = &request->inputs[0];
  switch (kind) {
    case 0: input->type = TRITONSERVER_TYPE_INT32; break;
    case 1: input->shape[1] = 5; break;
    case 2: input->name = "nothing"; break;
    case 3: input->bytes -= 4; break;
    case 4: input->sizes[0] -= 4; break;
    case 5: input->rank = 1; break;
    case 6: input->shape[0] = (int64_t)1 << 62; break;
    case 7: input->shape[0] = -1; break;
    case 8: request->input_count = 0; break;
    case 9:
      request->wanted_count = 1;
      request->wanted[0] = "nothing";
      break;
    case 10: input->memory = TRITONSERVER_MEMORY_GPU; break;
  }
}

// Each kind of wrong request in a batch with two right ones, which are answered as if alone.
static void test_own_errors(void** state) {
  (void)state;
  static const char* const kParts[WRONG_COUNT] = {
      "input x is INT32, must be FP32",
      "input x has 16 bytes, must have 20",
      "the model has no input nothing",
      "input x has 12 bytes, must have 16",
      "input x has less than its 16 bytes",
      "input x has 16 bytes, must have 4",
      "is too large",
      "dimension 0 is -1",
      "input x is missing",
      "the model has no output nothing",
      "input x is in the memory of a GPU",
  };
  served s;
  serve(&s, write_rows, kPlain);
  for (int kind = 0; kind < WRONG_COUNT; kind++) {
    float x[3][ROWS_MOST * ROWS_IN];
    TRITONBACKEND_Request requests[3] = {0};
    TRITONBACKEND_Request* list[3] = {&requests[0], &requests[1], &requests[2]};
    for (uint32_t q = 0; q < 3; q++) host_request_clear(list[q]);
    add_rows(list[0], x[0], 1, 2, 1);
    make_wrong(list[1], kind, x[1]);
    add_rows(list[2], x[2], 3, 1, 1);
    host_execute(s.instance, list, 3);
    check_rows(list[0], x[0], 2);
    check_rows(list[2], x[2], 1);
    refused(list[1], kind == 10 ? TRITONSERVER_ERROR_UNSUPPORTED : TRITONSERVER_ERROR_INVALID_ARG,
            kParts[kind]);
    for (uint32_t q = 0; q < 3; q++) host_request_clear(list[q]);
  }
  assert_int_equal(s.instance->failed, WRONG_COUNT);
  assert_int_equal(s.instance->succeeded, 2 * WRONG_COUNT);
  end(&s);
}

// An index that only the run finds wrong, and an output whose memory cannot be had: the others of
// the batch are answered.
static void test_failing_run(void** state) {
  (void)state;
  served s;
  serve(&s, plans_write_lookup, kPlain);
  const int64_t index[4] = {3, 99, 7, 5};
  TRITONBACKEND_Request requests[4] = {0};
  TRITONBACKEND_Request* list[4];
  for (int q = 0; q < 4; q++) {
    list[q] = &requests[q];
    host_request_clear(list[q]);
    host_request_add(list[q], "index", TRITONSERVER_TYPE_INT64, (const int64_t[]){1}, 1, &index[q],
                     8, 1);
  }
  requests[3].refuse_outputs = 1;
  host_execute(s.instance, list, 4);
  refused(list[1], TRITONSERVER_ERROR_INVALID_ARG, "99");
  refused(list[3], TRITONSERVER_ERROR_UNAVAILABLE, "no memory for an output");
  for (int q = 0; q < 4; q += 2) {
    assert_string_equal(requests[q].error.message, "");
    assert_float_equal(*(float*)host_output(list[q], "y")->data, (float)index[q], 0);
  }
  for (int q = 0; q < 4; q++) host_request_clear(list[q]);
  end(&s);
}

// Shapes of two profiles in one call: three runs, since the second profile takes two rows.
static void test_profiles(void** state) {
  (void)state;
  served s;
  serve(&s, plans_write_lengths, kPlain);
  assert_non_null(strstr(s.model->config, "\"max_batch_size\":8"));
  static const int64_t kLengths[6] = {16, 64, 16, 64, 64, 65};
  float x[65];
  for (int i = 0; i < 65; i++) x[i] = net_number(1, (size_t)i);
  TRITONBACKEND_Request requests[6] = {0};
  TRITONBACKEND_Request* list[6];
  for (int q = 0; q < 6; q++) {
    list[q] = &requests[q];
    host_request_clear(list[q]);
    host_request_add(list[q], "x", TRITONSERVER_TYPE_FP32, (const int64_t[]){1, kLengths[q]}, 2, x,
                     (uint64_t)kLengths[q] * 4, 1);
  }
  host_execute(s.instance, list, 6);
  for (int q = 0; q < 5; q++) {
    const TRITONBACKEND_Output* y = host_output(list[q], "y");
    assert_non_null(y);
    assert_int_equal(y->bytes, kLengths[q] * 4);
    for (int64_t i = 0; i < kLengths[q]; i++)
      assert_float_equal(((const float*)y->data)[i], 2 * x[i], 0);
  }
  refused(list[5], TRITONSERVER_ERROR_INVALID_ARG,
          "input x has shape [1,65], must be [1,4] to [8,16]");
  assert_int_equal(s.instance->batches, 3);
  for (int q = 0; q < 6; q++) host_request_clear(list[q]);
  end(&s);
}

// Text of several lengths, gathered; broken text is its request's own error.
static void test_text(void** state) {
  (void)state;
  served s;
  serve(&s, plans_write_text, kPlain);
  static const char kX[2][12] = {"\2\0\0\0ab\0\0\0\0", "\3\0\0\0xyz\1\0\0\0-"};
  static const uint64_t kXBytes[2] = {10, 12};
  static const char kZ[] = "\1\0\0\0c\2\0\0\0de";
  TRITONBACKEND_Request requests[3] = {0};
  TRITONBACKEND_Request* list[3];
  for (int q = 0; q < 3; q++) {
    list[q] = &requests[q];
    host_request_clear(list[q]);
    host_request_add(list[q], "x", TRITONSERVER_TYPE_BYTES, (const int64_t[]){2}, 1, kX[q % 2],
                     q == 2 ? 8 : kXBytes[q % 2], 1);
    host_request_add(list[q], "z", TRITONSERVER_TYPE_BYTES, (const int64_t[]){2}, 1, kZ, 11,
                     q == 1 ? 3 : 1);
  }
  host_execute(s.instance, list, 3);
  static const char kY0[] = "\3\0\0\0abc\2\0\0\0de", kY1[] = "\4\0\0\0xyzc\3\0\0\0-de";
  const TRITONBACKEND_Output* y = host_output(list[0], "y");
  assert_non_null(y);
  assert_int_equal(y->bytes, sizeof kY0 - 1);
  assert_memory_equal(y->data, kY0, y->bytes);
  y = host_output(list[1], "y");
  assert_int_equal(y->bytes, sizeof kY1 - 1);
  assert_memory_equal(y->data, kY1, y->bytes);
  refused(list[2], TRITONSERVER_ERROR_INVALID_ARG, "input x: ");
  for (int q = 0; q < 3; q++) host_request_clear(list[q]);
  end(&s);
}

// An optional input given and not; outputs asked for; an output without dimensions.
static void test_optional(void** state) {
  (void)state;
  served s;
  serve(&s, plans_write_optional,
        "{\"max_batch_size\":0,\"input\":[{\"name\":\"maybe\",\"data_type\":\"TYPE_FP32\","
        "\"dims\":[\"3\"],\"optional\":true}]}");
  assert_non_null(strstr(s.model->config, "\"reshape\":{\"shape\":[]}"));
  const float x[3] = {1, -2, 3};
  for (int given = 0; given < 2; given++) {
    TRITONBACKEND_Request request = {0}, *list[1] = {&request};
    host_request_clear(&request);
    host_request_add(&request, "x", TRITONSERVER_TYPE_FP32, (const int64_t[]){3}, 1, x, 12, 1);
    if (given)
      host_request_add(&request, "maybe", TRITONSERVER_TYPE_FP32, (const int64_t[]){3}, 1, x, 12,
                       1);
    request.wanted_count = given ? 1 : 0;
    request.wanted[0] = "has";
    host_execute(s.instance, list, 1);
    assert_string_equal(request.error.message, "");
    assert_int_equal(host_output(&request, "has")->rank, 0);
    assert_int_equal(*(const uint8_t*)host_output(&request, "has")->data, given);
    assert_int_equal(request.output_count, given ? 1 : 2);
    host_request_clear(&request);
  }
  end(&s);
}

// A shape that is known after the run; the request is never gathered with others.
static void test_unknown_shape(void** state) {
  (void)state;
  served s;
  serve(&s, plans_write_nonzero, kPlain);
  const float x[2][3] = {{0, 5, 6}, {0, 0, 0}};
  TRITONBACKEND_Request requests[2] = {0};
  TRITONBACKEND_Request* list[2] = {&requests[0], &requests[1]};
  for (int q = 0; q < 2; q++) {
    host_request_clear(list[q]);
    host_request_add(list[q], "x", TRITONSERVER_TYPE_FP32, (const int64_t[]){3}, 1, x[q], 12, 1);
  }
  host_execute(s.instance, list, 2);
  assert_int_equal(host_output(list[0], "y")->shape[0], 2);
  assert_float_equal(((const float*)host_output(list[0], "y")->data)[1], 6, 0);
  assert_int_equal(host_output(list[1], "y")->shape[0], 0);
  for (int q = 0; q < 2; q++) host_request_clear(list[q]);
  end(&s);
}

// Cancelled before: skipped. While running: the run ends when all of its clients have given up.
static void test_cancel(void** state) {
  (void)state;
  served s;
  serve(&s, write_rows, kPlain);
  float x[2][ROWS_MOST * ROWS_IN];
  for (int alone = 0; alone < 2; alone++) {
    TRITONBACKEND_Request requests[2] = {0};
    TRITONBACKEND_Request* list[2] = {&requests[0], &requests[1]};
    for (uint32_t q = 0; q < 2; q++) {
      host_request_clear(list[q]);
      add_rows(list[q], x[q], q, 1, 1);
    }
    requests[0].is_cancelled = !alone;
    if (alone) requests[0].cancel_after = 1;  // the first question is that before the run
    host_execute(s.instance, list, alone ? 1 : 2);
    refused(list[0], TRITONSERVER_ERROR_CANCELLED, "cancelled");
    if (!alone) check_rows(list[1], x[1], 1);
    for (uint32_t q = 0; q < 2; q++) host_request_clear(list[q]);
  }
  end(&s);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  backend = host_open(argv[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_batch),         cmocka_unit_test(test_own_errors),
      cmocka_unit_test(test_failing_run),   cmocka_unit_test(test_profiles),
      cmocka_unit_test(test_text),          cmocka_unit_test(test_optional),
      cmocka_unit_test(test_unknown_shape), cmocka_unit_test(test_cancel)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  host_close(backend);
  return failed;
}
