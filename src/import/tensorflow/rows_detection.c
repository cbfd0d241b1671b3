// Operators of detectors. Source: tensorflow/core/ops/image_ops.cc.
#include "import/tensorflow/rows.h"
#include "plugin/front.h"

static void handle_crop_and_resize(tf_import* n) {
  carnot_attrs attrs = {0};
  const bool nearest = tf_is(n, "method", "nearest", "bilinear");
  carnot_attrs_set_text(&attrs, n->node.arena, "mode", nearest ? "nearest" : "bilinear");
  carnot_attrs_set_float(&attrs, n->node.arena, "extrapolation_value",
                         tf_float(n, "extrapolation_value", 0));
  carnot_value* x = import_cast(&n->node, n->inputs[0], CARNOT_DTYPE_F32);
  carnot_value* y = import_op(&n->node, CARNOT_OP_CROP_AND_RESIZE, &attrs, 4,
                              import_move_channels(&n->node, x, false), n->inputs[1],
                              tf_int64(n, n->inputs[2]), tf_int64(n, n->inputs[3]));
  n->outputs[0] = import_move_channels(&n->node, y, true);
}

// A list filled with zeros up to max_output_size elements.
static carnot_value* filled_up(tf_import* n, carnot_value* list) {
  static const int64_t kOne[] = {1}, kZero[] = {0};
  carnot_value* most = import_reshape_to(&n->node, tf_int64(n, n->inputs[2]), kOne, 1);
  carnot_value* missing =
      import_binary(&n->node, CARNOT_FN_SUB, most, import_shape_of(&n->node, list));
  carnot_value* widths[2] = {import_ints(&n->node, kZero, 1), missing};
  return import_op(&n->node, CARNOT_OP_PAD, NULL, 3, list, import_concat(&n->node, 0, widths, 2),
                   import_number(&n->node, list, 0));
}

// What all versions share: [B, 4] boxes, [B] scores, the number wanted, the largest overlap. The
// indices of the boxes that stay, best first, int64.
static carnot_value* hard_nms(tf_import* n) {
  static const int64_t kFront[] = {0}, kTwo[] = {0, 1}, kFlat[] = {-1};
  const int version = n->row->code;
  carnot_value* overlap = version > 1 ? n->inputs[3] : NULL;
  if (version == 1)
    overlap = import_number_of(&n->node, CARNOT_DTYPE_F32, tf_float(n, "iou_threshold", 0.5));
  carnot_value *inputs[5] = {import_unsqueeze(&n->node, n->inputs[0], kFront, 1),
                             import_unsqueeze(&n->node, n->inputs[1], kTwo, 2),
                             import_reshape_to(&n->node, tf_int64(n, n->inputs[2]), kFlat, 1),
                             import_reshape_to(&n->node, overlap, kFlat, 1), NULL},
               *found = NULL;
  if (version > 2) inputs[4] = import_reshape_to(&n->node, n->inputs[4], kFlat, 1);
  import_emit(&n->node, CARNOT_OP_NON_MAX_SUPPRESSION, NULL, inputs, 5, &found, 1);
  return import_reshape_to(&n->node, import_slice(&n->node, found, 1, 2, 3), kFlat, 1);
}

// soft_nms_sigma is the constant 0: no score changes.
static bool is_hard(const tf_import* n) {
  const carnot_value* sigma = n->inputs[5];
  return sigma->constant && carnot_tensor_count(&sigma->constant->tensor) == 1 &&
         carnot_load_f64(sigma->type.dtype, sigma->constant->tensor.data, 0) == 0;
}

static void handle_nms(tf_import* n) {
  const int version = n->row->code;
  carnot_value *found[2] = {NULL, NULL}, **index = &found[0], **scores = &found[1];
  if (version == 5 && !is_hard(n)) {
    import_emit(&n->node, CARNOT_OP_SOFT_NMS, NULL, n->inputs, 6, found, 2);
  } else {
    *index = hard_nms(n);
    if (version == 5) *scores = import_gather(&n->node, n->inputs[1], *index, 0);
  }
  n->outputs[0] = import_cast(&n->node, *index, CARNOT_DTYPE_I32);
  if (version < 4) return;
  carnot_value* count =
      import_cast(&n->node, import_op(&n->node, CARNOT_OP_SIZE, NULL, 1, *index), CARNOT_DTYPE_I32);
  n->output_count = version == 4 ? 2 : 3;
  n->outputs[1] = version == 4 ? count : *scores;
  if (version == 5) n->outputs[2] = count;
  if (!tf_bool(n, "pad_to_max_output_size", false)) return;
  n->outputs[0] = filled_up(n, n->outputs[0]);
  if (version == 5) n->outputs[1] = filled_up(n, n->outputs[1]);
}

static double constant_number(tf_import* n, int input, const char* what) {
  const carnot_value* x = n->inputs[input];
  if (x->constant && carnot_tensor_count(&x->constant->tensor) == 1)
    return carnot_load_f64(x->type.dtype, x->constant->tensor.data, 0);
  TF_FAIL(n, UNSUPPORTED, "%s must be constant", what);
  return 0;
}

// boxes [N, B, 1 or classes, 4], scores [N, B, classes].
static void handle_combined_nms(tf_import* n) {
  const int32_t each = (int32_t)constant_number(n, 2, "max_output_size_per_class"),
                all = (int32_t)constant_number(n, 3, "max_total_size"),
                pads = tf_bool(n, "pad_per_class", false), clips = tf_bool(n, "clip_boxes", true);
  const float overlap = (float)constant_number(n, 4, "iou_threshold"),
              least = (float)constant_number(n, 5, "score_threshold");
  const carnot_plugin_field fields[] = {{"max_output_size_per_class", &each, CARNOT_FIELD_INT32, 1},
                                        {"max_total_size", &all, CARNOT_FIELD_INT32, 1},
                                        {"iou_threshold", &overlap, CARNOT_FIELD_FLOAT32, 1},
                                        {"score_threshold", &least, CARNOT_FIELD_FLOAT32, 1},
                                        {"pad_per_class", &pads, CARNOT_FIELD_INT32, 1},
                                        {"clip_boxes", &clips, CARNOT_FIELD_INT32, 1}};
  const carnot_plugin_entry* entry =
      carnot_registry_lookup("EfficientNMS_Implicit_TF_TRT", "1", "");
  carnot_value* found[4] = {NULL, NULL, NULL, NULL};
  static const int64_t kFlat[] = {-1};
  if (!entry) TF_FAIL(n, INTERNAL, "plugin EfficientNMS_Implicit_TF_TRT is not registered");
  if (!n->node.status)
    n->node.status =
        carnot_plugin_add(n->node.block, entry, n->node.name, fields, 6, n->inputs, 2, found, 4);
  if (n->node.status) return;
  n->outputs[0] = found[1];
  n->outputs[1] = found[2];
  n->outputs[2] = import_cast(&n->node, found[3], CARNOT_DTYPE_F32);
  n->outputs[3] = import_reshape_to(&n->node, found[0], kFlat, 1);
  n->output_count = 4;
}

static const tf_row kRows[] = {
    {"CombinedNonMaxSuppression", handle_combined_nms, 6, 6, 0, NULL,
     "nmsed_boxes nmsed_scores nmsed_classes valid_detections"},
    {"CropAndResize", handle_crop_and_resize, 4, 4, 0, NULL, NULL},
    {"NonMaxSuppression", handle_nms, 3, 3, 1, NULL, NULL},
    {"NonMaxSuppressionV2", handle_nms, 4, 4, 2, NULL, NULL},
    {"NonMaxSuppressionV3", handle_nms, 5, 5, 3, NULL, NULL},
    {"NonMaxSuppressionV4", handle_nms, 5, 5, 4, NULL, "selected_indices valid_outputs"},
    {"NonMaxSuppressionV5", handle_nms, 6, 6, 5, NULL,
     "selected_indices selected_scores valid_outputs"},
};
const tf_row_table tf_rows_detection = TF_ROW_TABLE(kRows);
