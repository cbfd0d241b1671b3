// Layers that change the size of pictures. Source: interp_layer of DeepLab and PSPNet,
// upsample_layer of SegNet and of YOLO's ports.
#include "import/caffe/handlers.h"

static carnot_value* resize(caffe_import* n, carnot_value* x, int64_t h, int64_t w,
                            const char* mode, const char* coordinates) {
  const int64_t sizes[4] = {caffe_dim(n, 0, 0), caffe_dim(n, 0, 1), h, w};
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->node.arena, "mode", mode);
  carnot_attrs_set_text(&attrs, n->node.arena, "nearest_mode", "floor");
  carnot_attrs_set_text(&attrs, n->node.arena, "coordinate_transformation_mode", coordinates);
  return import_op(&n->node, CARNOT_OP_RESIZE, &attrs, 4, x, NULL, NULL,
                   import_ints(&n->node, sizes, 4));
}

// The size of a side: given, or by zoom and shrink factors.
static int64_t interp_size(caffe_import* n, const char* name, int64_t size) {
  int64_t zoom = caffe_int(n->fields, "zoom_factor", 1),
          shrink = caffe_int(n->fields, "shrink_factor", 1);
  if (zoom < 1 || zoom > CAFFE_MOST_SIZE || shrink < 1) {
    CAFFE_FAIL(n, INVALID_MODEL, "zoom_factor %lld and shrink_factor %lld; 1 or more required",
               (long long)zoom, (long long)shrink);
    return 1;
  }
  if (caffe_has(n->fields, "shrink_factor")) size = (size - 1) / shrink + 1;
  if (caffe_has(n->fields, "zoom_factor")) return size + (size - 1) * (zoom - 1);
  if (caffe_has(n->fields, "shrink_factor")) return size;
  return caffe_positive(n, name, CAFFE_MOST_SIZE);
}

// Bilinear with aligned corners, after taking pad_beg and pad_end (0 or less) off the sides.
static void handle_interp(caffe_import* n) {
  caffe_rank(n, 0, 4, 4);
  const int64_t first = -caffe_int(n->fields, "pad_beg", 0),
                last = -caffe_int(n->fields, "pad_end", 0);
  int64_t sizes[2];
  carnot_value* x = n->inputs[0];
  for (int d = 0; d < 2 && !n->node.status; d++) {
    const int64_t size = caffe_dim(n, 0, 2 + d);
    if (first < 0 || last < 0 || first + last >= size) {
      CAFFE_FAIL(n, INVALID_MODEL, "pad_beg %lld and pad_end %lld of %lld pixels",
                 (long long)-first, (long long)-last, (long long)size);
      return;
    }
    if (first + last) x = import_slice(&n->node, x, 2 + d, first, size - last);
    sizes[d] = n->input_count > 1 ? caffe_dim(n, 1, 2 + d)
                                  : interp_size(n, d ? "width" : "height", size - first - last);
  }
  if (!n->node.status) n->outputs[0] = resize(n, x, sizes[0], sizes[1], "linear", "align_corners");
}

// Puts each element where the mask of the pooling layer says that it came from.
static carnot_value* unpool(caffe_import* n, int64_t h, int64_t w) {
  const int64_t planes = caffe_dim(n, 0, 0) * caffe_dim(n, 0, 1), flat[2] = {planes, -1},
                plane = h * w, dims[4] = {caffe_dim(n, 0, 0), caffe_dim(n, 0, 1), h, w};
  carnot_value* zeros = import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2,
                                  import_number_of(&n->node, CARNOT_DTYPE_F32, 0),
                                  import_ints(&n->node, (int64_t[]){planes, plane}, 2));
  carnot_value* mask = import_cast(&n->node, n->inputs[1], CARNOT_DTYPE_I64);
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", 1);
  carnot_value* y = import_op(&n->node, CARNOT_OP_SCATTER_ELEMENTS, &attrs, 3, zeros,
                              import_reshape_to(&n->node, mask, flat, 2),
                              import_reshape_to(&n->node, n->inputs[0], flat, 2));
  return import_reshape_to(&n->node, y, dims, 4);
}

// With a mask the reverse of max pooling, else nearest pixels.
static void handle_upsample(caffe_import* n) {
  caffe_rank(n, 0, 4, 4);
  const caffe_float_list list = caffe_floats(n->fields, "scale");
  const float both = list.count ? list.items[0] : 2;
  if (!(both >= 1 && both <= 1024) || both != (float)(int64_t)both) {
    CAFFE_FAIL(n, INVALID_MODEL, "scale is %g; a whole number from 1 to 1024 is required",
               (double)both);
    return;
  }
  // SegNet leaves out a pixel of the last window where the picture had an odd side.
  const int64_t scale_h = caffe_int(n->fields, "scale_h", (int64_t)both),
                scale_w = caffe_int(n->fields, "scale_w", (int64_t)both),
                cut_h = caffe_int(n->fields, "pad_out_h", 0) != 0,
                cut_w = caffe_int(n->fields, "pad_out_w", 0) != 0;
  if (scale_h < 1 || scale_w < 1 || scale_h > 1024 || scale_w > 1024) {
    CAFFE_FAIL(n, INVALID_MODEL, "scale_h %lld and scale_w %lld; 1 to 1024 are required",
               (long long)scale_h, (long long)scale_w);
    return;
  }
  const int64_t h = caffe_int(n->fields, "upsample_h", caffe_dim(n, 0, 2) * scale_h - cut_h),
                w = caffe_int(n->fields, "upsample_w", caffe_dim(n, 0, 3) * scale_w - cut_w);
  if (h < 1 || w < 1 || h > CAFFE_MOST_SIZE || w > CAFFE_MOST_SIZE)
    CAFFE_FAIL(n, INVALID_MODEL, "%lld x %lld pixels", (long long)h, (long long)w);
  if (n->node.status) return;
  n->outputs[0] =
      n->input_count > 1 ? unpool(n, h, w) : resize(n, n->inputs[0], h, w, "nearest", "asymmetric");
}

static const caffe_row kRows[] = {
    {"Interp", handle_interp, "interp_param", 1, 2, 0, NULL},
    {"Upsample", handle_upsample, "upsample_param", 1, 2, 0, NULL},
};
const caffe_row_table caffe_rows_resample = CAFFE_ROW_TABLE(kRows);
