// What reads a network: its inputs, layers and outputs. Blobs have names; several layers may write
// one, each after it was read.
#ifndef CARNOT_IMPORT_CAFFE_NET_H_
#define CARNOT_IMPORT_CAFFE_NET_H_

#include "import/caffe/importer.h"

// ---- which layers there are (phase.c) ----

// Whether the layer is there in phase TEST with level and stages of |state| (NULL: level 0).
carnot_status* caffe_is_included(const caffe_layer* layer, const caffe_state* state,
                                 bool* out) CARNOT_MUST_USE;
// True for types that no deployed network needs: data, losses, what measures.
bool caffe_is_for_training(carnot_strview type);

// ---- blobs by name (tops.c) ----

void caffe_set_blob(caffe_importer* importer, carnot_strview name, carnot_value* value);
// The value that blob |name| has now; an error where it has none.
carnot_status* caffe_find_blob(caffe_importer* importer, carnot_strview name,
                               carnot_value** out) CARNOT_MUST_USE;
// Notes |layer| as what makes its tops; an error where another made one.
carnot_status* caffe_claim_tops(caffe_importer* importer, const caffe_layer* layer) CARNOT_MUST_USE;
// True where no layer after |layer| writes the blob again.
bool caffe_is_last_writer(const caffe_net* net, const caffe_layer* layer, carnot_strview top);
// The fields input, and input_shape or input_dim (four numbers each).
carnot_status* caffe_read_input_fields(caffe_importer* importer) CARNOT_MUST_USE;
// Layer Input: a shape for each top, or one for all.
carnot_status* caffe_read_input_layer(caffe_importer* importer,
                                      const caffe_layer* layer) CARNOT_MUST_USE;
// The outputs that the options name, or the tops that no layer reads.
carnot_status* caffe_mark_outputs(caffe_importer* importer) CARNOT_MUST_USE;

// ---- layers (layers.c) ----

carnot_status* caffe_read_layers(caffe_importer* importer) CARNOT_MUST_USE;

// ---- plugins (plugin.c, registered_plugin.c) ----

// What imports a layer that the options' factory makes a plugin for; NULL: it makes none.
const caffe_row* caffe_plugin_row(const caffe_importer* importer, const caffe_layer* layer);
// Adds |plugin| as the layer; an error where it has another number of outputs than the layer tops.
void caffe_add_plugin(caffe_import* n, const carnot_plugin* plugin, carnot_value* const* inputs,
                      int input_count);
// What imports a layer whose type is the name of a registered plugin; else NULL.
const caffe_row* caffe_registered_row(const caffe_importer* importer, const caffe_layer* layer);

#endif  // CARNOT_IMPORT_CAFFE_NET_H_
