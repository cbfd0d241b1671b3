// The search for factors by channel.
#include "calibration/equalize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum { kTrials = 20 };

typedef struct search {
  const carnot_channel_count* channels;
  size_t count;
  const double* norms;
  const carnot_equalize_reader* readers;
  size_t reader_count;
  double *power, *factors, *best;  // [count] mean square; tried; found
  double *x, *w;                   // [count] the largest values and weights
} search;

// The expected squared error that rounding |reader|'s weights makes.
static double weight_error(const search* s, const carnot_equalize_reader* reader) {
  const size_t each = reader->outputs / reader->groups;
  double sum = 0;
  for (size_t g = 0; g < reader->groups; g++) {
    const double* f = s->factors + g * reader->inputs;
    const double* power = s->power + g * reader->inputs;
    double read = 0, steps = 0;
    for (size_t c = 0; c < reader->inputs; c++) read += power[c] / (f[c] * f[c]);
    for (size_t o = g * each; o < (g + 1) * each; o++) {
      double largest = 0;
      for (size_t c = 0; c < reader->inputs; c++)
        largest = fmax(largest, (double)reader->largest[o * reader->inputs + c] * f[c]);
      steps += largest * largest / (127.0 * 127);
    }
    sum += steps / 12 * read * (double)reader->kernel;
  }
  return sum;
}

static double error_of(const search* s) {
  double min = 0, max = 0, norm = 0, sum = 0;
  for (size_t c = 0; c < s->count; c++) {
    min = fmin(min, s->channels[c].min / s->factors[c]);
    max = fmax(max, s->channels[c].max / s->factors[c]);
    norm += s->norms[c] * s->factors[c] * s->factors[c];
  }
  const double step = (max - min) / 255;
  for (size_t r = 0; r < s->reader_count; r++) sum += weight_error(s, &s->readers[r]);
  return step * step / 12 * norm + sum;
}

// Sets the tried factors, of geometric mean 1.
static void set_factors(search* s, double a, bool by_weights) {
  double mean = 0;
  for (size_t c = 0; c < s->count; c++) {
    s->factors[c] = a * log(s->x[c]) - (by_weights ? (1 - a) * log(s->w[c]) : 0);
    mean += s->factors[c] / (double)s->count;
  }
  for (size_t c = 0; c < s->count; c++) s->factors[c] = (double)(float)exp(s->factors[c] - mean);
}

// Channels of (almost) zeros count as small ones.
static void raise_smallest(double* numbers, size_t count) {
  const double kSmallest = 1e-4;
  double most = 0;
  for (size_t i = 0; i < count; i++) most = fmax(most, numbers[i]);
  for (size_t i = 0; i < count; i++) numbers[i] = most > 0 ? fmax(numbers[i], most * kSmallest) : 1;
}

static void measure(search* s) {
  for (size_t c = 0; c < s->count; c++) {
    uint64_t count;
    s->x[c] = carnot_channel_largest(&s->channels[c]);
    const double sum = carnot_channel_power(&s->channels[c], &count);
    s->power[c] = count ? sum / (double)count : 0;
    s->w[c] = 0;
    s->factors[c] = s->best[c] = 1;
  }
  for (size_t r = 0; r < s->reader_count; r++) {
    const carnot_equalize_reader* reader = &s->readers[r];
    const size_t each = reader->outputs / reader->groups;
    for (size_t i = 0; i < reader->outputs * reader->inputs; i++) {
      const size_t c = i / reader->inputs / each * reader->inputs + i % reader->inputs;
      s->w[c] = fmax(s->w[c], (double)reader->largest[i]);
    }
  }
  raise_smallest(s->x, s->count);
  raise_smallest(s->w, s->count);
}

carnot_status* carnot_equalize(const carnot_channel_count* channels, size_t channel_count,
                               const double* norms, const carnot_equalize_reader* readers,
                               size_t reader_count, float* out_factors, double* out_gain) {
  void* memory;
  CARNOT_TRY(carnot_calloc(5 * channel_count + 1, sizeof(double), "factors", &memory));
  double* lists = memory;
  search s = {.channels = channels,
              .count = channel_count,
              .norms = norms,
              .readers = readers,
              .reader_count = reader_count,
              .power = lists};
  s.factors = lists + channel_count;
  s.best = lists + 2 * channel_count;
  s.x = lists + 3 * channel_count;
  s.w = lists + 4 * channel_count;
  measure(&s);
  const double plain = error_of(&s);
  double least = plain;
  for (int trial = 0; trial <= kTrials; trial++) {
    for (int by_weights = 0; by_weights < 2; by_weights++) {
      set_factors(&s, (double)trial / kTrials, by_weights);
      const double error = error_of(&s);
      if (!(error < least)) continue;
      least = error;
      memcpy(s.best, s.factors, channel_count * sizeof(double));
    }
  }
  for (size_t c = 0; c < channel_count; c++) out_factors[c] = (float)s.best[c];
  *out_gain = plain > 0 ? sqrt(least / plain) : 1;
  free(memory);
  return NULL;
}
