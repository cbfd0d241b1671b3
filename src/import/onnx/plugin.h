// Nodes that name a plugin of the registry.
#ifndef CARNOT_IMPORT_ONNX_PLUGIN_H_
#define CARNOT_IMPORT_ONNX_PLUGIN_H_

#include "import/onnx/importer.h"
#include "plugin/registry.h"

// The creator that the node names, or NULL.
const carnot_plugin_entry* onnx_plugin_find(onnx_import* n);
// True when the options want a plugin in the place of the operator.
bool onnx_plugin_replaces(onnx_import* n);
// Notes the error that neither operator nor plugin is there, with the nearest plugins.
void onnx_plugin_missing(onnx_import* n);
// Adds the plugin that the node names.
void onnx_plugin_import(onnx_import* n);

#endif  // CARNOT_IMPORT_ONNX_PLUGIN_H_
