// Plugin libraries, carried by engines or not, and the built-in plugins under TensorRT's names.
#include "carnot/plugin.h"

#include "engine/engine.h"
#include "net.h"

static carnot_graph* library_net(void) {
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value *x = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(-1, 3)), *y;
  net_ok(carnot_plugin_add(g->main, net_plugin("ExampleHardSwish", "1"), "swish", NULL, 0, &x, 1,
                           &y, 1));
  net_output(g, y, "y");
  return g;
}

static void check_library_run(carnot_engine* engine) {
  carnot_context* context = net_context(engine, -1);
  const float x[] = {-4, -1, 0, 1, 2, 5};
  double wanted[6];
  for (int i = 0; i < 6; i++) wanted[i] = (double)x[i] * fmin(fmax((double)x[i] / 6 + 0.5, 0), 1);
  net_set(context, "x", CARNOT_DTYPE_F32, x, NET_LIST(2, 3));
  net_ok(carnot_context_run_now(context));
  net_near(net_get(context, "y")->data, wanted, 6, 1e-6, 1e-7);
  carnot_context_free(context);
}

static void test_library(void** state) {
  (void)state;
  carnot_plugin_library *library = NULL, *again = NULL;
  net_ok(carnot_plugin_library_load(TEST_PLUGIN_LIBRARY, NULL, &library));
  net_ok(carnot_plugin_library_load(TEST_PLUGIN_LIBRARY, NULL, &again));
  assert_ptr_equal(library, again);
  net_ok(carnot_plugin_library_unload(again));
  carnot_graph* g = library_net();
  const char* carried = TEST_PLUGIN_LIBRARY;
  carnot_build_config config;
  carnot_build_config_init(&config);
  void *data, *with;
  size_t size, with_size;
  net_bytes(g, &config, &data, &size);
  config.plugin_libraries = &carried;
  config.plugin_library_count = 1;
  net_bytes(g, &config, &with, &with_size);
  assert_true(with_size > size + 1000);
  carnot_engine* engine = NULL;
  net_ok(carnot_engine_load_memory(data, size, NULL, NULL, &engine));
  check_library_run(engine);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  net_ok(carnot_plugin_library_unload(library));
  carnot_status* status = carnot_engine_load_memory(data, size, NULL, NULL, &engine);
  assert_int_equal(carnot_status_code(status), CARNOT_NOT_FOUND);
  assert_non_null(strstr(carnot_status_message(status), "plugin_hard_swish"));
  carnot_status_free(status);
  // Code inside an engine is used only where the host allows it.
  status = carnot_engine_load_memory(with, with_size, NULL, NULL, &engine);
  assert_int_equal(carnot_status_code(status), CARNOT_FAILED_PRECONDITION);
  carnot_status_free(status);
  carnot_plugin_allow_engine_code(true);
  net_ok(carnot_engine_load_memory(with, with_size, NULL, NULL, &engine));
  carnot_plugin_allow_engine_code(false);
  check_library_run(engine);
  carnot_engine_release(engine);
  free(data);
  free(with);
}

static void test_refused_libraries(void** state) {
  (void)state;
  carnot_plugin_library* library;
  carnot_status* status = carnot_plugin_library_load(TEST_NVINFER_LIBRARY, NULL, &library);
  assert_int_equal(carnot_status_code(status), CARNOT_UNSUPPORTED);
  assert_non_null(strstr(carnot_status_message(status), "libnvinfer"));
  assert_non_null(strstr(carnot_status_message(status), "how-to-port"));
  carnot_status_free(status);
  status = carnot_plugin_library_load(__FILE__, NULL, &library);
  assert_int_equal(carnot_status_code(status), CARNOT_INVALID_MODEL);
  carnot_status_free(status);
  status = carnot_plugin_library_load("/nowhere/libplugin.so", NULL, &library);
  assert_int_equal(carnot_status_code(status), CARNOT_IO);
  carnot_status_free(status);
}

// Names, versions and fields are those of TensorRT's creators.
static void test_builtins_are_listed(void** state) {
  static const struct {
    const char *name, *versions, *fields;
  } kWanted[] = {
      {"GroupNormalizationPlugin", "1", "eps num_groups"},
      {"InstanceNormalization_TRT", "123", "epsilon scales bias relu alpha"},
      {"Normalize_TRT", "1", "weights acrossSpatial channelShared nbWeights eps"},
      {"CustomSkipLayerNormPluginDynamic", "1256", "type_id ld beta gamma bias"},
      {"CustomSkipLayerNormPluginDynamic", "3478", "beta gamma"},
      {"CustomQKVToContextPluginDynamic", "1245",
       "type_id hidden_size num_heads has_mask dq_probs var_seqlen use_int8_scale_max"},
      {"CustomQKVToContextPluginDynamic", "36",
       "hidden_size num_heads dq_probs use_int8_scale_max use_explicit_int8 input_qkv_scale "
       "output_ctx_scale"},
      {"CustomEmbLayerNormPluginDynamic", "123456", "output_fp16 full_mask mha_type_id"},
      {"CustomFCPluginDynamic", "1", "out_dims type_id W"},
      {"CustomGeluPluginDynamic", "1", "type_id bias"},
      {"DisentangledAttention_TRT", "12", "span factor"},
      {"EfficientNMS_TRT", "1",
       "score_threshold iou_threshold max_output_boxes background_class score_activation "
       "class_agnostic box_coding"},
      {"EfficientNMS_ONNX_TRT", "1", "max_output_boxes_per_class center_point_box"},
      {"EfficientNMS_Explicit_TF_TRT", "1", "max_output_size_per_class pad_per_class clip_boxes"},
      {"EfficientNMS_Implicit_TF_TRT", "1", "max_total_size"},
      {"BatchedNMS_TRT", "1",
       "shareLocation backgroundLabelId numClasses topK keepTopK scoreThreshold iouThreshold "
       "isNormalized clipBoxes scoreBits caffeSemantics"},
      {"BatchedNMSDynamic_TRT", "1", "caffeSemantics"},
      {"NMS_TRT", "1", "inputOrder confSigmoid codeType isBatchAgnostic varianceEncodedInTarget"},
      {"NMSDynamic_TRT", "1", "nmsThreshold confidenceThreshold"},
      {"PriorBox_TRT", "1",
       "minSize maxSize aspectRatios flip clip variance imgH imgW stepH stepW offset"},
      {"GridAnchor_TRT", "1", "minSize maxSize aspectRatios featureMapShapes variance numLayers"},
      {"GridAnchorRect_TRT", "1", "numLayers"},
      {"ROIAlign_TRT", "12",
       "coordinate_transformation_mode mode output_height output_width sampling_ratio "
       "spatial_scale"},
      {"ScatterND", "1", ""},
      {"ScatterElements", "12", "axis reduction"},
      {"ModulatedDeformConv2d", "12", "stride padding dilation group deformable_group"},
      {"MultiscaleDeformableAttnPlugin_TRT", "12", ""},
      {"Region_TRT", "1", "num coords classes smTree"},
      {"Reorg_TRT", "12", "stride"},
      {"CropAndResize", "1", "crop_width crop_height"},
      {"CropAndResizeDynamic", "12", "crop_width crop_height"},
      {"ResizeNearest_TRT", "1", "scale"},
      {"FlattenConcat_TRT", "1", "axis ignoreBatch"},
      {"TopkLastDim", "1", "type_id k is_largest axis"},
      {"BatchTilePlugin_TRT", "1", ""},
      {"Clip_TRT", "1", "clipMin clipMax"},
      {"CoordConvAC", "1", ""},
      {"LReLU_TRT", "1", "negSlope"},
      {"Split", "1", "axis output_lengths"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof(kWanted) / sizeof(kWanted[0]); i++)
    for (const char* v = kWanted[i].versions; *v; v++) {
      const carnot_plugin_entry* entry = net_plugin(kWanted[i].name, (const char[]){*v, 0});
      char words[256], *rest = words;
      snprintf(words, sizeof(words), "%s", kWanted[i].fields);
      for (char* field; (field = strtok_r(rest, " ", &rest));)
        assert_non_null(
            carnot_field_find(entry->creator.fields, entry->creator.field_count, field));
    }
  const carnot_plugin_creator* creator = NULL;
  net_ok(carnot_plugin_find("GroupNormalizationPlugin", "1", NULL, &creator));
  assert_int_equal(creator->field_count, 2);
  assert_string_equal(creator->fields[0].name, "eps");
  assert_int_equal(creator->fields[1].type, CARNOT_FIELD_INT32);
  carnot_status* status = carnot_plugin_find("GroupNormalisationPlugin", "1", NULL, &creator);
  assert_int_equal(carnot_status_code(status), CARNOT_NOT_FOUND);
  assert_non_null(strstr(carnot_status_message(status), "GroupNormalizationPlugin version 1"));
  carnot_status_free(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_library),
                                     cmocka_unit_test(test_refused_libraries),
                                     cmocka_unit_test(test_builtins_are_listed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
