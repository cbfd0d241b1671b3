// The graphs that several integration tests use.
#include "net.h"

enum { C = CONV_NET_CHANNELS, F = CONV_NET_FILTERS };

static const double kEpsilon = 1e-5;

void conv_net_weights_make(carnot_arena* arena, uint32_t seed, conv_net_weights* out) {
  out->conv = net_numbers(arena, seed, F * C * 9);
  out->bias = net_numbers(arena, seed + 1, F);
  out->gamma = net_numbers(arena, seed + 2, F);
  out->beta = net_numbers(arena, seed + 3, F);
  out->mean = net_numbers(arena, seed + 4, F);
  out->variance = net_numbers(arena, seed + 5, F);
  for (int i = 0; i < F; i++) out->variance[i] = 0.5f + out->variance[i] * out->variance[i];
  out->second = net_numbers(arena, seed + 6, F * C);
}

carnot_graph* conv_net(const conv_net_weights* w, int64_t n, int64_t h, int64_t width) {
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value* x = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(n, C, h, width));
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, &g->arena, "pads", (const int64_t[]){1, 1, 1, 1}, 4);
  carnot_value* conv =
      net_node(g, CARNOT_OP_CONV, &attrs,
               NET_VALUES(x, net_weight(g, "conv.weight", 0, w->conv, NET_LIST(F, C, 3, 3)),
                          net_weight(g, "conv.bias", 0, w->bias, NET_LIST(F))));
  carnot_value* norm =
      net_node(g, CARNOT_OP_BATCH_NORM, NULL,
               NET_VALUES(conv, net_weight(g, "bn.gamma", 0, w->gamma, NET_LIST(F)),
                          net_weight(g, "bn.beta", 0, w->beta, NET_LIST(F)),
                          net_weight(g, "bn.mean", 0, w->mean, NET_LIST(F)),
                          net_weight(g, "bn.variance", 0, w->variance, NET_LIST(F))));
  carnot_value* second =
      net_node(g, CARNOT_OP_CONV, NULL,
               NET_VALUES(x, net_weight(g, "second.weight", 0, w->second, NET_LIST(F, C, 1, 1))));
  carnot_value* sum = net_fn(g, CARNOT_OP_BINARY, "add", NET_VALUES(norm, second));
  net_output(g, net_fn(g, CARNOT_OP_UNARY, "relu", NET_VALUES(sum)), "y");
  return g;
}

static double conv_at(const conv_net_weights* w, const float* x, int64_t h, int64_t width, int f,
                      int64_t p, int64_t q) {
  double sum = w->bias[f];
  for (int c = 0; c < C; c++)
    for (int r = 0; r < 3; r++)
      for (int s = 0; s < 3; s++) {
        int64_t i = p + r - 1, j = q + s - 1;
        if (i < 0 || j < 0 || i >= h || j >= width) continue;
        sum += (double)x[(c * h + i) * width + j] * w->conv[((f * C + c) * 3 + r) * 3 + s];
      }
  return sum;
}

void conv_net_wanted(const conv_net_weights* w, const float* x, int64_t n, int64_t h, int64_t width,
                     double* out) {
  for (int64_t b = 0; b < n; b++)
    for (int f = 0; f < F; f++)
      for (int64_t p = 0; p < h; p++)
        for (int64_t q = 0; q < width; q++) {
          const float* image = x + b * C * h * width;
          double value = conv_at(w, image, h, width, f, p, q);
          value = (value - w->mean[f]) / sqrt(w->variance[f] + kEpsilon) * w->gamma[f] + w->beta[f];
          for (int c = 0; c < C; c++)
            value += (double)image[(c * h + p) * width + q] * w->second[f * C + c];
          out[((b * F + f) * h + p) * width + q] = value > 0 ? value : 0;
        }
}

// [tokens, 32] as 4 heads: [4, tokens, 8], or [4, 8, tokens] for keys.
static carnot_value* heads_of(carnot_graph* g, carnot_value* x, const char* name, uint32_t seed,
                              bool is_key) {
  carnot_value* y = net_node(g, CARNOT_OP_MATMUL, NULL,
                             NET_VALUES(x, net_weight(g, name, seed, NULL, NET_LIST(32, 32))));
  carnot_value* split =
      net_node(g, CARNOT_OP_RESHAPE, NULL,
               NET_VALUES(y, carnot_graph_ints(g->main, (const int64_t[]){-1, 4, 8}, 3)));
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, &g->arena, "perm",
                        is_key ? (const int64_t[]){1, 2, 0} : (const int64_t[]){1, 0, 2}, 3);
  return net_node(g, CARNOT_OP_TRANSPOSE, &attrs, NET_VALUES(split));
}

carnot_graph* attention_net(int64_t tokens) {
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value* x = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(tokens, 32));
  carnot_value* q = heads_of(g, x, "q.weight", 11, false);
  carnot_value* k = heads_of(g, x, "k.weight", 12, true);
  carnot_value* v = heads_of(g, x, "v.weight", 13, false);
  carnot_value* scores = net_node(g, CARNOT_OP_MATMUL, NULL, NET_VALUES(q, k));
  carnot_value* scaled =
      net_fn(g, CARNOT_OP_BINARY, "mul",
             NET_VALUES(scores, carnot_graph_float(g->main, CARNOT_DTYPE_F32, 0.35355339)));
  carnot_attrs axis = {0};
  carnot_attrs_set_int(&axis, &g->arena, "axis", -1);
  carnot_value* p = net_node(g, CARNOT_OP_SOFTMAX, &axis, NET_VALUES(scaled));
  carnot_value* mixed = net_node(g, CARNOT_OP_MATMUL, NULL, NET_VALUES(p, v));
  carnot_attrs perm = {0};
  carnot_attrs_set_ints(&perm, &g->arena, "perm", (const int64_t[]){1, 0, 2}, 3);
  carnot_value* back = net_node(g, CARNOT_OP_TRANSPOSE, &perm, NET_VALUES(mixed));
  carnot_value* flat =
      net_node(g, CARNOT_OP_RESHAPE, NULL,
               NET_VALUES(back, carnot_graph_ints(g->main, (const int64_t[]){-1, 32}, 2)));
  carnot_value* sum = net_fn(g, CARNOT_OP_BINARY, "add", NET_VALUES(flat, x));
  carnot_value* y = net_node(g, CARNOT_OP_LAYER_NORM, &axis,
                             NET_VALUES(sum, net_weight(g, "norm.scale", 14, NULL, NET_LIST(32)),
                                        net_weight(g, "norm.bias", 15, NULL, NET_LIST(32))));
  net_output(g, y, "y");
  return g;
}

carnot_graph* squeeze_net(int64_t n, int64_t side) {
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value* x = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(n, C, side, side));
  carnot_value* y =
      net_node(g, CARNOT_OP_CONV, NULL,
               NET_VALUES(x, net_weight(g, "conv.weight", 21, NULL, NET_LIST(C, C, 1, 1))));
  carnot_attrs mean = {0};
  carnot_attrs_set_text(&mean, &g->arena, "fn", "mean");
  carnot_value* z = net_node(g, CARNOT_OP_REDUCE, &mean,
                             NET_VALUES(y, carnot_graph_ints(g->main, (const int64_t[]){2, 3}, 2)));
  z = net_node(g, CARNOT_OP_CONV, NULL,
               NET_VALUES(z, net_weight(g, "inner.weight", 22, NULL, NET_LIST(4, C, 1, 1)),
                          net_weight(g, "inner.bias", 23, NULL, NET_LIST(4))));
  z = net_fn(g, CARNOT_OP_UNARY, "relu", NET_VALUES(z));
  z = net_node(g, CARNOT_OP_CONV, NULL,
               NET_VALUES(z, net_weight(g, "outer.weight", 24, NULL, NET_LIST(C, 4, 1, 1))));
  z = net_fn(g, CARNOT_OP_UNARY, "sigmoid", NET_VALUES(z));
  y = net_fn(g, CARNOT_OP_BINARY, "mul", NET_VALUES(y, z));
  carnot_attrs groups = {0};
  carnot_attrs_set_int(&groups, &g->arena, "num_groups", 2);
  y = net_node(g, CARNOT_OP_GROUP_NORM, &groups,
               NET_VALUES(y, net_weight(g, "norm.scale", 25, NULL, NET_LIST(C)),
                          net_weight(g, "norm.bias", 26, NULL, NET_LIST(C))));
  net_output(g, y, "y");
  return g;
}

carnot_graph* nonzero_net(int64_t n) {
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value* x = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(n));
  carnot_value* at = net_node(g, CARNOT_OP_NON_ZERO, NULL, NET_VALUES(x));
  carnot_value* flat =
      net_node(g, CARNOT_OP_RESHAPE, NULL,
               NET_VALUES(at, carnot_graph_ints(g->main, (const int64_t[]){-1}, 1)));
  net_output(g, net_node(g, CARNOT_OP_GATHER, NULL, NET_VALUES(x, flat)), "y");
  return g;
}

carnot_graph* loop_net(void) {
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value* count = net_input(g, "count", CARNOT_DTYPE_I64, NULL, 0);
  carnot_value* x = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(3));
  carnot_block* body = carnot_block_create(g);
  carnot_type scalar = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_I64};
  carnot_type flag = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_BOOL};
  carnot_value* i = carnot_block_add_param(body, "i", &scalar);
  carnot_value* go = carnot_block_add_param(body, "go", &flag);
  carnot_value* sum = carnot_block_add_param(body, "sum_in", &x->type);
  carnot_attrs to = {0};
  carnot_attrs_set_int(&to, &g->arena, "to", CARNOT_DTYPE_F32);
  carnot_attrs add = {0}, mul = {0};
  carnot_attrs_set_int(&add, &g->arena, "fn", CARNOT_FN_ADD);
  carnot_attrs_set_int(&mul, &g->arena, "fn", CARNOT_FN_MUL);
  // The body is closed: values that it reads from outside are parameters after the carried ones.
  carnot_value* each = carnot_block_add_param(body, "x_in", &x->type);
  carnot_node *cast, *product, *total, *loop;
  net_ok(carnot_block_add_node(body, CARNOT_OP_CAST, NULL, &to, NET_VALUES(i), NULL, 1, &cast));
  net_ok(carnot_block_add_node(body, CARNOT_OP_BINARY, NULL, &mul,
                               NET_VALUES(each, cast->outputs[0]), NULL, 1, &product));
  net_ok(carnot_block_add_node(body, CARNOT_OP_BINARY, NULL, &add,
                               NET_VALUES(sum, product->outputs[0]), NULL, 1, &total));
  carnot_block_add_output(body, go);
  carnot_block_add_output(body, total->outputs[0]);
  carnot_block_add_output(body, product->outputs[0]);
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &g->arena, "carried", 1);
  carnot_attrs_set(&attrs, &g->arena,
                   (carnot_attr){.name = "body", .type = CARNOT_ATTR_BLOCK, .block = body});
  net_ok(carnot_block_add_node(g->main, CARNOT_OP_LOOP, "loop", &attrs,
                               NET_VALUES(count, NULL, x, x), NULL, 2, &loop));
  net_output(g, loop->outputs[0], "sum");
  net_output(g, loop->outputs[1], "stack");
  return g;
}

carnot_graph* plugin_net(int64_t n) {
  static const int32_t kSize = 3, kMost = 4;
  const carnot_plugin_field crop[] = {{"crop_height", &kSize, CARNOT_FIELD_INT32, 1},
                                      {"crop_width", &kSize, CARNOT_FIELD_INT32, 1}},
                            nms[] = {{"max_output_boxes", &kMost, CARNOT_FIELD_INT32, 1}};
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value* x[] = {net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(n, 2, 6, 6)),
                       net_input(g, "boxes", CARNOT_DTYPE_F32, NET_LIST(n, 3, 4)),
                       net_input(g, "scores", CARNOT_DTYPE_F32, NET_LIST(n, 3, 2))};
  carnot_value *crops, *found[4];
  net_ok(carnot_plugin_add(g->main, net_plugin("CropAndResizeDynamic", "1"), "crop", crop, 2, x, 2,
                           &crops, 1));
  net_ok(carnot_plugin_add(g->main, net_plugin("EfficientNMS_TRT", "1"), "nms", nms, 1, x + 1, 2,
                           found, 4));
  net_output(g, crops, "crops");
  net_output(g, found[0], "count");
  net_output(g, found[1], "found");
  return g;
}
