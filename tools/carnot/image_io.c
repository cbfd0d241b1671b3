// Pictures as tensors.
#include <stdlib.h>
#include <string.h>

#include "carnot/image.h"
#include "tensor.h"

static int64_t clamp(int64_t at, int64_t last) { return at < 0 ? 0 : at > last ? last : at; }

// The mean over the part of the picture that a target pixel covers (area), or between the nearest
// four where it grows.
static double sample(const carnot_image* p, int channel, double y0, double y1, double x0,
                     double x1) {
  if (y1 - y0 < 1) y0 = (y0 + y1) / 2 - 0.5, y1 = y0 + 1;
  if (x1 - x0 < 1) x0 = (x0 + x1) / 2 - 0.5, x1 = x0 + 1;
  double sum = 0, weight = 0;
  for (int64_t y = (int64_t)(y0 < 0 ? y0 - 1 : y0); y < y1; y++) {
    double wy = (y + 1 < y1 ? y + 1 : y1) - (y > y0 ? (double)y : y0);
    for (int64_t x = (int64_t)(x0 < 0 ? x0 - 1 : x0); x < x1; x++) {
      double wx = (x + 1 < x1 ? x + 1 : x1) - (x > x0 ? (double)x : x0);
      int64_t cy = clamp(y, p->height - 1), cx = clamp(x, p->width - 1);
      sum += wy * wx * p->rgb[(cy * p->width + cx) * 3 + channel];
      weight += wy * wx;
    }
  }
  return weight > 0 ? sum / weight : 0;
}

typedef struct picture_axes {
  int channel, row, column;
} picture_axes;

static bool is_channels(int64_t dim) { return dim == 1 || dim == 3 || dim == 4; }

static carnot_status* find_axes(const carnot_tensor_info* b, const int64_t* dims,
                                const cli_image_options* options, picture_axes* out) {
  int rank = b->dims.rank;
  CLI_CHECK(rank >= 2 && rank <= 4, INVALID_ARGUMENT,
            "input %s has %d dimensions, a picture fills 2 to 4", b->name, rank);
  if (rank == 2) {
    *out = (picture_axes){-1, 0, 1};
    return NULL;
  }
  bool last = options->layout && strcmp(options->layout, "nhwc") == 0;
  // Guessed from the model's own dimensions: an open one (-1) is no channel.
  if (!options->layout)
    last = is_channels(b->dims.d[rank - 1]) && !is_channels(b->dims.d[rank - 3]);
  *out = last ? (picture_axes){rank - 1, rank - 3, rank - 2}
              : (picture_axes){rank - 3, rank - 2, rank - 1};
  int64_t channels = dims[out->channel];
  CLI_CHECK(channels == 1 || channels == 3, INVALID_ARGUMENT,
            "input %s has %lld channels, a picture has 1 or 3 (is --layout right?)", b->name,
            (long long)channels);
  return NULL;
}

static carnot_status* fill_picture(const carnot_image* p, const carnot_tensor_info* b,
                                   const carnot_dims* dims, const cli_image_options* options,
                                   cli_arena* arena, cli_tensor* out) {
  picture_axes axes = {0};
  carnot_dims resolved = {.rank = b->dims.rank};
  int64_t* size = resolved.d;
  memcpy(size, dims->d, sizeof(resolved.d));
  CLI_TRY(find_axes(b, size, options, &axes));
  // Dimensions that the model leaves open take the picture's size.
  if (b->dims.d[axes.row] < 0 && dims->d[axes.row] <= 1) size[axes.row] = p->height;
  if (b->dims.d[axes.column] < 0 && dims->d[axes.column] <= 1) size[axes.column] = p->width;
  CLI_TRY(cli_tensor_create(b->dtype, &resolved, arena, out));
  int64_t strides[CARNOT_MAX_RANK], channels = axes.channel < 0 ? 1 : size[axes.channel];
  for (int64_t d = resolved.rank - 1, stride = 1; d >= 0; stride *= size[d--]) strides[d] = stride;
  double sy = (double)p->height / (double)size[axes.row],
         sx = (double)p->width / (double)size[axes.column];
  for (int64_t c = 0; c < channels; c++)
    for (int64_t y = 0; y < size[axes.row]; y++)
      for (int64_t x = 0; x < size[axes.column]; x++) {
        double v = 0;
        static const double kGrey[3] = {0.299, 0.587, 0.114};
        for (int k = 0; k < (channels == 1 ? 3 : 1); k++)
          v += (channels == 1 ? kGrey[k] : 1) * sample(p, channels == 1 ? k : (int)c,
                                                       (double)y * sy, (double)(y + 1) * sy,
                                                       (double)x * sx, (double)(x + 1) * sx);
        if (options->mean_count) v -= (double)options->mean[c % options->mean_count];
        if (options->scale_count) v *= (double)options->scale[c % options->scale_count];
        int64_t at = y * strides[axes.row] + x * strides[axes.column] +
                     (axes.channel < 0 ? 0 : c * strides[axes.channel]);
        carnot_element_set_f64(b->dtype, out->data, (size_t)at, v);
      }
  return NULL;
}

carnot_status* cli_image_read(const char* path, const cli_mapping* map, const carnot_tensor_info* b,
                              const carnot_dims* dims, const cli_image_options* options,
                              cli_arena* arena, cli_tensor* out) {
  enum { kWhite = 255 };
  carnot_image image;
  CLI_TRY_AT(carnot_image_decode(map->data, map->size, kWhite, &image), "%s", path);
  carnot_status* status = fill_picture(&image, b, dims, options, arena, out);
  carnot_image_free(&image);
  return status;
}

carnot_status* cli_image_write(const char* path, const cli_tensor* t) {
  int rank = t->dims.rank;
  CLI_CHECK(rank >= 2 && rank <= 4 && (rank < 4 || t->dims.d[0] == 1), UNSUPPORTED,
            "only one picture of 2 to 4 dimensions can be written to %s", path);
  bool last =
      rank > 2 && (t->dims.d[rank - 1] == 1 || t->dims.d[rank - 1] == 3) && t->dims.d[rank - 3] > 3;
  int64_t channels = rank == 2 ? 1 : last ? t->dims.d[rank - 1] : t->dims.d[rank - 3];
  int64_t height = t->dims.d[last ? rank - 3 : rank - 2],
          width = t->dims.d[last ? rank - 2 : rank - 1];
  CLI_CHECK(channels == 1 || channels == 3, UNSUPPORTED,
            "a picture has 1 or 3 channels, %s would have %lld", path, (long long)channels);
  unsigned char* pixels = malloc((size_t)(channels * height * width) + 1);
  if (!pixels) return CLI_NO_MEMORY(channels * height * width, "a picture");
  for (int64_t i = 0; i < height * width; i++)
    for (int64_t c = 0; c < channels; c++) {
      double v = carnot_element_f64(t->dtype, t->data,
                                    (size_t)(last ? i * channels + c : c * height * width + i));
      pixels[i * channels + c] = (unsigned char)(v < 0 || v != v ? 0 : v > 255 ? 255 : v + 0.5);
    }
  carnot_status* status = carnot_image_write_png(path, pixels, height, width, (int)channels);
  free(pixels);
  return status;
}
