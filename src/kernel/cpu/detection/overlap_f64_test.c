// The search for overlapping boxes: finds what a division finds, and hardly more.
#include "kernel/cpu/detection/overlap_f64.h"

#include "kernel/cpu/common/kernel_test.h"

enum { BLOCKS = 40, LAST = 7 };  // boxes of the last block

// Corners are whole numbers, so that many overlaps are exactly at a limit.
static double corner(uint64_t* state, int64_t most) {
  *state = *state * UINT64_C(6364136223846793005) + 1;
  return (double)(*state >> 33 & 0x7fffffff) / 0x7fffffff > 0.99
             ? 1e30
             : (double)((int64_t)(*state >> 33) % most);
}

static void fill(carnot_box_block* b, int64_t from, int64_t to, uint64_t* state) {
  for (int64_t k = 0; k < CARNOT_BOX_BLOCK; ++k) {
    const bool present = k >= from && k < to;
    b->y0[k] = present ? corner(state, 60) : INFINITY;
    b->x0[k] = present ? corner(state, 60) : INFINITY;
    b->y1[k] = present ? b->y0[k] + corner(state, 30) : -INFINITY;
    b->x1[k] = present ? b->x0[k] + corner(state, 30) : -INFINITY;
    b->area[k] = present ? (b->y1[k] - b->y0[k]) * (b->x1[k] - b->x0[k]) : 0;
  }
}

static double overlap(const carnot_box_block* b, int k, const double* box) {
  const double height = fmin(box[2], b->y1[k]) - fmax(box[0], b->y0[k]);
  const double width = fmin(box[3], b->x1[k]) - fmax(box[1], b->x0[k]);
  if (!(height > 0 && width > 0)) return 0;
  const double both = height * width;
  const double either = (box[2] - box[0]) * (box[3] - box[1]) + b->area[k] - both;
  return either > 0 ? both / either : 0;
}

static double most_overlap(const carnot_box_block* b, const double* box) {
  double most = 0;
  for (int k = 0; k < CARNOT_BOX_BLOCK; ++k) most = fmax(most, overlap(b, k, box));
  return most;
}

static void check_search(const carnot_cpu_kernels* kernels) {
  static const double kLimits[] = {0, 0.1, 0.25, 0.5, 1};
  carnot_box_block* blocks = aligned_alloc(64, BLOCKS * sizeof *blocks);
  assert_non_null(blocks);
  uint64_t state = 11;
  for (int64_t i = 0; i < BLOCKS; ++i) {
    fill(&blocks[i], 0, i + 1 < BLOCKS ? CARNOT_BOX_BLOCK : LAST, &state);
    blocks[i].next = i + 2 < BLOCKS ? i + 2 : -1;  // two lists
  }
  for (int n = 0; n < 500; ++n) {
    double box[4] = {corner(&state, 60), corner(&state, 60)};
    box[2] = box[0] + corner(&state, 30), box[3] = box[1] + corner(&state, 30);
    const double limit = kLimits[n % 5];
    int64_t at = n % 2;
    for (int64_t want = at; want >= 0; want = blocks[want].next) {
      const double most = most_overlap(&blocks[want], box);
      if (at == want) at = kernels->find_overlap_f64(blocks, at, box, limit);
      if (most > limit) assert_int_equal(at, want);
      if (at == want) {
        assert_true(most >= limit * (1 - 1e-9));
        at = blocks[at].next;
      }
    }
    assert_int_equal(at, -1);
  }
  assert_int_equal(kernels->find_overlap_f64(blocks, -1, (const double[4]){0, 0, 1, 1}, 0.5), -1);
  free(blocks);
}

static void test_search(void** state) { (void)state, for_each_isa(check_search); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_search)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
