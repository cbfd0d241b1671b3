// Placeholders whose dimensions and layout the caller sets, as TensorRT 8's UFF parser registers
// inputs: without the batch, and as [C,H,W] for graphs of channels-last layout too.
#include "import/tensorflow/scope.h"

typedef carnot_tensorflow_registered_input registered_input;

static const registered_input* find_registered(tf_import* n) {
  const carnot_tensorflow_options* options = &n->importer->options;
  for (size_t i = 0; i < options->registered_count; i++)
    if (carnot_view_is(n->proto->name, options->registered[i].name)) return &options->registered[i];
  return NULL;
}

// |dims| in the order |perm| (NULL: their own) are those of |type| behind its batch, as far as it
// has them.
static bool fits(const carnot_type* type, const carnot_dims* dims, const int* perm) {
  for (int i = 0; i < dims->rank; i++) {
    const carnot_sym of_graph = type->dims[1 + i];
    if (carnot_sym_is_const(of_graph) && !carnot_sym_is(of_graph, dims->d[perm ? perm[i] : i]))
      return false;
  }
  return true;
}

// A node of the graph computes with channels first.
static bool graph_is_channels_first(const tf_graph* graph) {
  for (size_t i = 0; i < graph->node.count; i++) {
    const tf_attr_value* format = tf_attr_find(&graph->node.items[i], "data_format");
    if (format && carnot_view_is(format->s, "NCHW")) return true;
  }
  return false;
}

// The placeholder's type; its rank is that of the registered dimensions and the batch.
static bool read_type(tf_import* n, const registered_input* input, carnot_type* type) {
  const tf_attr_value* shape = tf_attr_find(n->proto, "shape");
  tf_dim sizes[CARNOT_MAX_RANK + 1];
  const tf_shape open = {.dim = {sizes, (size_t)input->dims.rank + 1}};
  const bool is_known = shape && shape->shape && !shape->shape->unknown_rank;
  for (int i = 0; i <= CARNOT_MAX_RANK; i++) sizes[i] = (tf_dim){.size = -1};
  tf_read_shape(n, is_known ? shape->shape : &open, type);
  if (!n->node.status && type->rank != input->dims.rank + 1)
    TF_FAIL(n, INVALID_ARGUMENT,
            "the input is registered with %d dimensions, and the placeholder has %d; all but the "
            "batch are required",
            input->dims.rank, type->rank);
  return !n->node.status;
}

bool tf_registered_import(tf_import* n) {
  static const int kChannelsLast[3] = {1, 2, 0};
  static const int64_t kToLast[4] = {0, 2, 3, 1};
  const registered_input* input = find_registered(n);
  if (!input) return false;
  const int64_t batch = n->importer->options.batch;
  const carnot_dims* dims = &input->dims;
  carnot_type type = {.kind = CARNOT_VALUE_TENSOR, .dtype = tf_type(n, "dtype", CARNOT_DTYPE_F32)};
  for (int i = 0; i < dims->rank; i++)
    if (dims->d[i] < 1 || dims->d[i] >= CARNOT_DIM_UNBOUNDED)
      TF_FAIL(n, INVALID_ARGUMENT, "registered dimension %d is %lld; it must be positive", i,
              (long long)dims->d[i]);
  if (n->node.status || !read_type(n, input, &type)) return true;
  const bool as_given = fits(&type, dims, NULL);
  const bool turned = input->is_channels_first && dims->rank == 3 &&
                      fits(&type, dims, kChannelsLast) &&
                      !(as_given && graph_is_channels_first(n->importer->graph));
  if (!as_given && !turned) {
    char text[2][256];
    carnot_dims_print(dims->d, dims->rank, text[0], sizeof(text[0]));
    carnot_type_print(&n->node.state->graph->syms, &type, text[1], sizeof(text[1]));
    TF_FAIL(n, INVALID_ARGUMENT, "the input is registered as %s, and the placeholder is %s",
            text[0], text[1]);
    return true;
  }
  if (batch > 0) type.dims[0] = carnot_sym_of(batch);
  for (int i = 0; i < dims->rank; i++) type.dims[1 + i] = carnot_sym_of(dims->d[i]);
  const char* name = import_unique_name(n->node.state, "", carnot_view(n->node.name));
  carnot_value* x = carnot_block_add_param(n->node.block, name, &type);
  n->outputs[0] = turned ? import_transpose(&n->node, x, kToLast, 4) : x;
  return true;
}
