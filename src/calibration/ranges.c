// Ranges of tensors by name, and the text of calibration caches.
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/hash.h"
#include "carnot/calibration.h"

// The methods as the first line of a cache names them.
static const struct {
  const char* name;
  bool symmetric;  // TensorRT's form
} kMethods[] = {[CARNOT_CALIBRATION_ENTROPY] = {"EntropyCalibration", true},
                [CARNOT_CALIBRATION_ENTROPY_2] = {"EntropyCalibration2", true},
                [CARNOT_CALIBRATION_MINMAX] = {"MinMaxCalibration", true},
                [CARNOT_CALIBRATION_PERCENTILE] = {"LegacyCalibration", true},
                [CARNOT_CALIBRATION_MSE] = {"MseCalibration", false}};
static const char kTensorRt[] = "TRT-", kOwn[] = "Carnot-1-";
enum { kWriteAsVersion = 8601, kMaxRanges = 1 << 24 };

typedef struct range {
  char* name;
  double min, max;
  carnot_channel_factors equalized;  // count 0: none
} range;

struct carnot_ranges {
  range* items;  // in the order in which they were set
  size_t count, capacity;
  size_t* slots;  // hash table of 1 + index; 0: free
  size_t slot_count;
};

carnot_status* carnot_ranges_create(carnot_ranges** out_ranges) {
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_ranges), "ranges", &memory));
  *out_ranges = memory;
  return NULL;
}

void carnot_ranges_destroy(carnot_ranges* ranges) {
  if (!ranges) return;
  for (size_t i = 0; i < ranges->count; i++) {
    free(ranges->items[i].name);
    free((float*)(uintptr_t)ranges->items[i].equalized.factors);
  }
  free(ranges->items);
  free(ranges->slots);
  free(ranges);
}

// ---- the table ----

// The slot of |name|, or the free one where it belongs. There is a free one.
static size_t slot_of(const carnot_ranges* ranges, const char* name, size_t size) {
  size_t mask = ranges->slot_count - 1;
  for (size_t at = (size_t)carnot_hash(name, size, 0) & mask;; at = (at + 1) & mask) {
    if (!ranges->slots[at]) return at;
    const char* there = ranges->items[ranges->slots[at] - 1].name;
    if (strncmp(there, name, size) == 0 && !there[size]) return at;
  }
}

static carnot_status* grow_slots(carnot_ranges* ranges) {
  size_t count = ranges->slot_count ? 2 * ranges->slot_count : 64;
  void* slots;
  CARNOT_TRY(carnot_calloc(count, sizeof(size_t), "ranges", &slots));
  free(ranges->slots);
  ranges->slots = slots;
  ranges->slot_count = count;
  for (size_t i = 0; i < ranges->count; i++)
    ranges->slots[slot_of(ranges, ranges->items[i].name, strlen(ranges->items[i].name))] = i + 1;
  return NULL;
}

static void drop_factors(range* item) {
  free((float*)(uintptr_t)item->equalized.factors);
  item->equalized = (carnot_channel_factors){.count = 0};
}

static carnot_status* check_range(const char* name, size_t size, double min, double max) {
  CARNOT_CHECK(isfinite(min) && isfinite(max) && min <= 0 && max >= 0, INVALID_ARGUMENT,
               "the range of %.*s is [%g, %g]; both must be finite and 0 between them", (int)size,
               name, min, max);
  CARNOT_CHECK(fmax(-min, max) / 127 >= (double)FLT_MIN && fmax(-min, max) <= (double)FLT_MAX,
               INVALID_ARGUMENT,
               "the range of %.*s is [%g, %g]; its scale must be a normal float32", (int)size, name,
               min, max);
  return NULL;
}

static carnot_status* set_range(carnot_ranges* ranges, const char* name, size_t size, double min,
                                double max) {
  CARNOT_CHECK(size && !memchr(name, '\n', size) && !memchr(name, 0, size), INVALID_ARGUMENT,
               "the name of a tensor must not be empty or hold a line break");
  CARNOT_TRY(check_range(name, size, min, max));
  if (2 * (ranges->count + 1) > ranges->slot_count) CARNOT_TRY(grow_slots(ranges));
  size_t slot = slot_of(ranges, name, size);
  if (!ranges->slots[slot]) {
    CARNOT_CHECK(ranges->count < kMaxRanges, OUT_OF_RANGE, "there are more than %d ranges",
                 kMaxRanges);
    void *items = ranges->items, *text;
    CARNOT_TRY(carnot_grow(&items, &ranges->capacity, ranges->count + 1, sizeof(range), "ranges"));
    ranges->items = items;
    CARNOT_TRY(carnot_calloc(size + 1, 1, "a name", &text));
    memcpy(text, name, size);
    ranges->items[ranges->count] = (range){.name = text};
    ranges->slots[slot] = ++ranges->count;
  }
  range* item = &ranges->items[ranges->slots[slot] - 1];
  item->min = min;
  item->max = max;
  drop_factors(item);
  return NULL;
}

carnot_status* carnot_ranges_set(carnot_ranges* ranges, const char* name, double min, double max) {
  return set_range(ranges, name, strlen(name), min, max);
}

static range* find(const carnot_ranges* ranges, const char* name, size_t size) {
  size_t found = ranges->count ? ranges->slots[slot_of(ranges, name, size)] : 0;
  return found ? &ranges->items[found - 1] : NULL;
}

static carnot_status* set_factors(carnot_ranges* ranges, const char* name, size_t size,
                                  const carnot_channel_factors* given) {
  range* item = find(ranges, name, size);
  CARNOT_CHECK(item, NOT_FOUND, "%.*s has no range to go with its factors", (int)size, name);
  CARNOT_TRY(check_range(name, size, given->min, given->max));
  CARNOT_CHECK(given->count && given->factors, INVALID_ARGUMENT, "%s is given no factors",
               item->name);
  for (size_t i = 0; i < given->count; i++)
    CARNOT_CHECK(isnormal(given->factors[i]) && given->factors[i] > 0, INVALID_ARGUMENT,
                 "factor %zu of %s is %g, must be a positive normal float32", i, item->name,
                 (double)given->factors[i]);
  void* copy;
  CARNOT_TRY(carnot_calloc(given->count, sizeof(float), "factors", &copy));
  memcpy(copy, given->factors, given->count * sizeof(float));
  drop_factors(item);
  item->equalized = *given;
  item->equalized.factors = copy;
  return NULL;
}

carnot_status* carnot_ranges_set_factors(carnot_ranges* ranges, const char* name,
                                         const carnot_channel_factors* factors) {
  return set_factors(ranges, name, strlen(name), factors);
}

bool carnot_ranges_get_factors(const carnot_ranges* ranges, const char* name,
                               carnot_channel_factors* out_factors) {
  const range* item = find(ranges, name, strlen(name));
  if (!item || !item->equalized.count) return false;
  *out_factors = item->equalized;
  return true;
}

bool carnot_ranges_get(const carnot_ranges* ranges, const char* name, double* out_min,
                       double* out_max) {
  const range* item = find(ranges, name, strlen(name));
  if (!item) return false;
  *out_min = item->min;
  *out_max = item->max;
  return true;
}

size_t carnot_ranges_count(const carnot_ranges* ranges) { return ranges->count; }

const char* carnot_ranges_name(const carnot_ranges* ranges, size_t index) {
  return index < ranges->count ? ranges->items[index].name : NULL;
}

// ---- text ----

// A float32 as eight hexadecimal digits, most significant first.
static bool parse_float(const char* text, size_t size, double* out) {
  uint32_t bits = 0;
  if (size != 8) return false;
  for (size_t i = 0; i < size; i++) {
    char c = text[i];
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return false;
    bits = bits << 4 | (uint32_t)digit;
  }
  float value;
  memcpy(&value, &bits, sizeof(value));
  *out = (double)value;
  return true;
}

static uint32_t bits_of(double value) {
  float narrow = (float)value;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof(bits));
  return bits;
}

// "TRT-8601-EntropyCalibration2" or "Carnot-1-MseCalibration".
static bool is_header(const char* line, size_t size, bool* out_own) {
  size_t prefix = strlen(kOwn);
  *out_own = size > prefix && memcmp(line, kOwn, prefix) == 0;
  return *out_own || (size > strlen(kTensorRt) && memcmp(line, kTensorRt, strlen(kTensorRt)) == 0);
}

// " MIN MAX F0 F1 …" behind the range of tensor |name|.
static carnot_status* read_factors(carnot_ranges* ranges, const char* name, size_t name_size,
                                   const char* text, size_t size, bool* out_good) {
  enum { kEach = 9 };
  carnot_channel_factors factors = {.count = size / kEach < 3 ? 0 : size / kEach - 2};
  *out_good = factors.count && size % kEach == 0;
  if (!*out_good) return NULL;
  void* numbers;
  CARNOT_TRY(carnot_calloc(factors.count, sizeof(float), "factors", &numbers));
  factors.factors = numbers;
  for (size_t i = 0; i < factors.count + 2 && *out_good; i++) {
    double number;
    *out_good = text[i * kEach] == ' ' && parse_float(text + i * kEach + 1, 8, &number);
    if (!*out_good) break;
    if (i < 2)
      *(i ? &factors.max : &factors.min) = number;
    else
      ((float*)numbers)[i - 2] = (float)number;
  }
  carnot_status* status = *out_good ? set_factors(ranges, name, name_size, &factors) : NULL;
  free(numbers);
  return status;
}

static carnot_status* read_line(carnot_ranges* ranges, const char* line, size_t size, bool own,
                                size_t number) {
  size_t name = size;
  while (name && line[name - 1] != ':') name--;
  double min = 0, max = 0;
  bool good = name > 1;
  enum { kRange = 18 };
  carnot_status* status = NULL;
  if (good) {
    const char* value = line + name;
    size_t rest = size - name;
    good = rest && value[0] == ' ';
    if (own)
      good = good && rest >= kRange && value[9] == ' ' && parse_float(value + 1, 8, &min) &&
             parse_float(value + 10, 8, &max);
    else
      good = good && parse_float(value + 1, rest - 1, &max);
    // The range is exact in double, so that the scale comes out of it to the bit.
    if (!own) max *= 127;
    if (!own) min = -max;
    if (good) status = set_range(ranges, line, name - 1, min, max);
    if (good && !status && own && rest > kRange)
      status = read_factors(ranges, line, name - 1, value + kRange, rest - kRange, &good);
  }
  CARNOT_CHECK(good, INVALID_MODEL, "line %zu of the calibration cache is '%.*s', must be '%s'",
               number, (int)(size < 80 ? size : 80), line,
               own ? "NAME: MIN MAX', or 'NAME: MIN MAX MIN MAX FACTOR …', with float32 in 8 "
                     "hexadecimal digits each"
                   : "NAME: SCALE' with a float32 in 8 hexadecimal digits");
  return carnot_status_annotate(status, "line %zu of the calibration cache", number);
}

carnot_status* carnot_ranges_read(carnot_ranges* ranges, const char* text, size_t size) {
  bool own = false;
  size_t number = 0;
  for (size_t at = 0; at < size || !number;) {
    const char* end = memchr(text + at, '\n', size - at);
    size_t length = end ? (size_t)(end - text) - at : size - at, next = at + length + 1;
    if (length && text[at + length - 1] == '\r') length--;
    if (!number++) {
      CARNOT_CHECK(is_header(text + at, length, &own), INVALID_MODEL,
                   "this is no calibration cache: its first line is '%.*s', must be like "
                   "'TRT-8601-EntropyCalibration2' or 'Carnot-1-MseCalibration'",
                   (int)(length < 80 ? length : 80), text + at);
    } else if (length) {
      CARNOT_TRY(read_line(ranges, text + at, length, own, number));
    }
    at = next;
  }
  return NULL;
}

carnot_status* carnot_ranges_load(carnot_ranges* ranges, const char* path) {
  carnot_mapping file;
  CARNOT_TRY(carnot_read_file(path, &file));
  carnot_status* status = carnot_ranges_read(ranges, file.data ? file.data : "", file.size);
  carnot_unmap(&file);
  return carnot_status_annotate(status, "%s", path);
}

static void print_both(FILE* out, const range* r) {
  const carnot_channel_factors* e = &r->equalized;
  fprintf(out, "%s: %08" PRIx32 " %08" PRIx32, r->name, bits_of(r->min), bits_of(r->max));
  if (e->count) fprintf(out, " %08" PRIx32 " %08" PRIx32, bits_of(e->min), bits_of(e->max));
  for (size_t i = 0; i < e->count; i++) fprintf(out, " %08" PRIx32, bits_of((double)e->factors[i]));
  fputc('\n', out);
}

static bool is_symmetric(const range* r) { return r->min == -r->max; }

carnot_status* carnot_ranges_print(const carnot_ranges* ranges, carnot_calibration_method method,
                                   char** out_text, size_t* out_size) {
  *out_text = NULL;
  CARNOT_CHECK((size_t)method < sizeof(kMethods) / sizeof(kMethods[0]), INVALID_ARGUMENT,
               "there is no calibration method %d", (int)method);
  bool symmetric = kMethods[method].symmetric;
  for (size_t i = 0; i < ranges->count && symmetric; i++)
    CARNOT_CHECK(is_symmetric(&ranges->items[i]), FAILED_PRECONDITION,
                 "the range of %s is [%g, %g]; TensorRT's calibration cache holds symmetric ones",
                 ranges->items[i].name, ranges->items[i].min, ranges->items[i].max);
  FILE* out = open_memstream(out_text, out_size);
  if (!out) return CARNOT_NO_MEMORY(ranges->count * sizeof(range), "the text of a cache");
  if (symmetric)
    fprintf(out, "%s%d-%s\n", kTensorRt, kWriteAsVersion, kMethods[method].name);
  else
    fprintf(out, "%s%s\n", kOwn, kMethods[method].name);
  for (size_t i = 0; i < ranges->count; i++) {
    const range* r = &ranges->items[i];
    if (symmetric)
      fprintf(out, "%s: %08" PRIx32 "\n", r->name, bits_of(r->max / 127));
    else
      print_both(out, r);
  }
  if (fclose(out) == 0) return NULL;
  free(*out_text);
  *out_text = NULL;
  return CARNOT_NO_MEMORY(ranges->count * sizeof(range), "the text of a cache");
}

carnot_status* carnot_ranges_save(const carnot_ranges* ranges, carnot_calibration_method method,
                                  const char* path) {
  char* text;
  size_t size;
  CARNOT_TRY(carnot_ranges_print(ranges, method, &text, &size));
  carnot_status* status = carnot_write_file(path, &(carnot_piece){text, size}, 1);
  free(text);
  return status;
}
