// TypeProto to carnot_type; names of dimensions become symbols, one for each name in the model.
#include "import/onnx/importer_state.h"

enum { kMaxTypeNesting = 8 };

static carnot_sym read_dim(onnx_importer* importer, const onnx_dimension* dim) {
  carnot_syms* syms = &importer->state.graph->syms;
  if (dim->present & ONNX_DIMENSION_HAS_VALUE && dim->dim_value >= 0)
    return carnot_sym_of(dim->dim_value);
  if (!(dim->present & ONNX_DIMENSION_HAS_PARAM) || dim->dim_param.size == 0) {
    return carnot_sym_new(syms, NULL, 0, CARNOT_DIM_UNBOUNDED);
  }
  import_name_slot* slot = import_name_map_find(&importer->symbols, dim->dim_param);
  if (slot) return *(carnot_sym*)slot->item;
  char* name = carnot_arena_text(&importer->state.arena, dim->dim_param.data, dim->dim_param.size);
  carnot_sym* sym = CARNOT_NEW(&importer->state.arena, carnot_sym);
  *sym = carnot_sym_new(syms, name, 0, CARNOT_DIM_UNBOUNDED);
  import_name_map_set(&importer->symbols, dim->dim_param, sym);
  return *sym;
}

static carnot_status* read_tensor_type(onnx_importer* importer, const onnx_tensor_type* proto,
                                       carnot_type* type) {
  type->kind = CARNOT_VALUE_TENSOR;
  type->dtype = carnot_onnx_dtype(proto->elem_type);
  CARNOT_CHECK(type->dtype != CARNOT_DTYPE_INVALID, INVALID_MODEL,
               "element type %lld does not exist", (long long)proto->elem_type);
  type->rank = -1;
  if (!proto->shape) return NULL;
  CARNOT_CHECK(proto->shape->dim.count <= CARNOT_MAX_RANK, UNSUPPORTED,
               "%zu dimensions where at most %d are supported", proto->shape->dim.count,
               CARNOT_MAX_RANK);
  type->rank = (int)proto->shape->dim.count;
  for (int i = 0; i < type->rank; i++)
    type->dims[i] = read_dim(importer, &proto->shape->dim.items[i]);
  return NULL;
}

static carnot_status* read_type(onnx_importer* importer, const onnx_type* proto, int depth,
                                carnot_type* type) {
  *type = (carnot_type){.kind = CARNOT_VALUE_UNKNOWN, .rank = -1};
  if (!proto) return NULL;
  CARNOT_CHECK(depth < kMaxTypeNesting, OUT_OF_RANGE, "a type nested deeper than %d",
               kMaxTypeNesting);
  CARNOT_CHECK(!proto->map_type, UNSUPPORTED, "maps are not supported");
  CARNOT_CHECK(!proto->sparse_tensor_type, UNSUPPORTED,
               "sparse tensors are not supported as values");
  if (proto->tensor_type) return read_tensor_type(importer, proto->tensor_type, type);
  const onnx_element_type* element =
      proto->sequence_type ? proto->sequence_type : proto->optional_type;
  if (!element) return NULL;
  type->kind = proto->sequence_type ? CARNOT_VALUE_SEQUENCE : CARNOT_VALUE_OPTIONAL;
  if (!element->elem_type) return NULL;
  carnot_type* inner = CARNOT_NEW(&importer->state.graph->arena, carnot_type);
  CARNOT_TRY(read_type(importer, element->elem_type, depth + 1, inner));
  type->element = inner;
  return NULL;
}

carnot_status* onnx_read_type(onnx_importer* importer, const onnx_type* proto,
                              carnot_type* out_type) {
  return read_type(importer, proto, 0, out_type);
}

void onnx_type_read(onnx_import* n, const onnx_type* proto, carnot_type* out_type) {
  carnot_status* status = onnx_read_type(n->importer, proto, out_type);
  if (n->node.status)
    carnot_status_free(status);
  else
    n->node.status = status;
}
