// The one place that knows all tables of rows.
#include "import/onnx/importer_state.h"
#include "plugin/registry.h"

#define FAMILIES(X) \
  X(pointwise)      \
  X(cast)           \
  X(matmul)         \
  X(conv)           \
  X(pool)           \
  X(reduce)         \
  X(norm)           \
  X(recurrent)      \
  X(attention)      \
  X(loss)           \
  X(signal)         \
  X(random)         \
  X(resample)       \
  X(shape)          \
  X(movement)       \
  X(gather)         \
  X(sequence)       \
  X(text)           \
  X(control)        \
  X(detection)      \
  X(deprecated)     \
  X(com_microsoft)  \
  X(com_microsoft_nbits) X(com_microsoft_quantize) X(com_microsoft_attention) X(com_microsoft_gqa)

#define DECLARE(family) extern const onnx_row_table onnx_rows_##family;
FAMILIES(DECLARE)
#undef DECLARE

static const onnx_row_table* const kTables[] = {
#define ENTRY(family) &onnx_rows_##family,
    FAMILIES(ENTRY)
#undef ENTRY
};

const onnx_row* onnx_row_find(carnot_strview domain, carnot_strview op_type, int64_t version) {
  const onnx_row *best = NULL, *oldest = NULL;
  for (size_t t = 0; t < sizeof(kTables) / sizeof(kTables[0]); t++) {
    for (size_t i = 0; i < kTables[t]->count; i++) {
      const onnx_row* row = &kTables[t]->rows[i];
      if (!carnot_view_is(op_type, row->op_type) || !carnot_view_is(domain, row->domain)) continue;
      if (!oldest || row->since < oldest->since) oldest = row;
      if (row->since <= version && (!best || best->since < row->since)) best = row;
    }
  }
  // Exporters write operators that the opset they name does not have yet.
  return best || version <= 0 ? best : oldest;
}

bool carnot_onnx_supports(const char* domain, const char* op_type, int64_t version) {
  bool is_default = strcmp(domain, "ai.onnx") == 0;
  return onnx_row_find(carnot_view(is_default ? "" : domain), carnot_view(op_type), version) ||
         carnot_registry_lookup(op_type, "1", "");
}
