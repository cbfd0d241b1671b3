"""Writes the C source of the cffi module from the public headers: build_ffi.py INCLUDE_DIR OUT.c"""

import os
import pathlib
import re
import subprocess
import sys

import cffi

HEADERS = [
    "carnot/builder.h",
    "carnot/caffe.h",
    "carnot/calibration.h",
    "carnot/control_flow.h",
    "carnot/data.h",
    "carnot/edit.h",
    "carnot/onnx.h",
    "carnot/plugin.h",
    "carnot/runtime.h",
    "carnot/tensorflow.h",
]

# Python functions that C calls; the user pointer is a handle of the Python object.
CALLBACKS = """
extern "Python" void carnot_py_log(void* user, int severity, const char* message);
extern "Python" bool carnot_py_progress(void* user, const char* phase, int done, int total);
extern "Python" bool carnot_py_select_tactics(void* user, const carnot_layer_tactics* layer, bool* keep);
extern "Python" bool carnot_py_report_tactics(void* user, const carnot_layer_tactics* layers, uint32_t layer_count);
extern "Python" void* carnot_py_allocate(void* user, const char* name, void* current, size_t bytes);
extern "Python" void carnot_py_notify(void* user, const char* name, const carnot_dims* dims);
extern "Python" void carnot_py_profile(void* user, const char* step, uint64_t time_ns);
extern "Python" bool carnot_py_cancel(void* user);
extern "Python" void carnot_py_weight(void* user, const char* name, carnot_dtype dtype,
                                      const carnot_dims* dims, const void* data);
extern "Python" bool carnot_py_caffe_computes(void* user, const char* layer_name);
extern "Python" const carnot_plugin* carnot_py_caffe_create(void* user, const char* layer_name,
                                                            const carnot_caffe_weights* weights, size_t weights_count,
                                                            carnot_plugin_error* error);
extern "Python" bool carnot_py_onnx_node(void* user, const carnot_onnx_node* node);

// The functions of carnot_plugin and carnot_plugin_creator.
extern "Python" bool carnot_py_plugin_output_dtypes(void* self, const carnot_dtype* inputs, int32_t input_count,
                                                    carnot_dtype* outputs, int32_t output_count,
                                                    carnot_plugin_error* error);
extern "Python" bool carnot_py_plugin_output_dims(void* self, const carnot_plugin_shape* inputs, int32_t input_count,
                                                  carnot_plugin_shape* outputs, int32_t output_count,
                                                  const carnot_exprs* exprs, carnot_plugin_error* error);
extern "Python" bool carnot_py_plugin_shape_input(void* self, int32_t input);
extern "Python" bool carnot_py_plugin_supports(void* self, int32_t position, const carnot_plugin_format* operands,
                                               int32_t input_count, int32_t output_count);
extern "Python" bool carnot_py_plugin_configure(void* self, const carnot_plugin_range* inputs, int32_t input_count,
                                                const carnot_plugin_range* outputs, int32_t output_count,
                                                carnot_plugin_error* error);
extern "Python" bool carnot_py_plugin_on_shape_change(void* self, const carnot_plugin_tensor* inputs,
                                                      int32_t input_count, const carnot_plugin_tensor* outputs,
                                                      int32_t output_count, carnot_plugin_error* error);
extern "Python" size_t carnot_py_plugin_workspace_bytes(void* self, const carnot_plugin_tensor* inputs,
                                                        int32_t input_count, const carnot_plugin_tensor* outputs,
                                                        int32_t output_count);
extern "Python" bool carnot_py_plugin_enqueue(void* self, const carnot_plugin_run* run, carnot_plugin_error* error);
extern "Python" bool carnot_py_plugin_serialize(void* self, const carnot_plugin_field** out_fields,
                                                int32_t* out_count, carnot_plugin_error* error);
extern "Python" carnot_plugin* carnot_py_plugin_clone(void* self, carnot_plugin_error* error);
extern "Python" void carnot_py_plugin_destroy(void* self);
extern "Python" int32_t carnot_py_plugin_aliased_input(void* self, int32_t output);
extern "Python" const char* carnot_py_plugin_timing_key(void* self);
extern "Python" carnot_plugin* carnot_py_plugin_create(void* user, const char* name,
                                                       const carnot_plugin_field* fields, int32_t field_count,
                                                       carnot_plugin_phase phase, carnot_plugin_error* error);
"""


def declarations(include: str) -> str:
    """The preprocessed public headers without system headers."""
    source = "".join(f"#include <{header}>\n" for header in HEADERS)
    compiler = os.environ.get("CC", "cc").split()
    text = subprocess.run(
        [*compiler, "-E", "-std=c11", "-DCARNOT_API=", f"-I{include}", "-x", "c", "-"],
        input=source,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    kept, ours = [], False
    for line in text.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            ours = "/carnot/" in marker.group(1) and marker.group(1).startswith(include)
        elif ours:
            kept.append(line)
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)(?=[;\s])", "", "\n".join(kept))
    return text.replace("_Bool", "bool")


def main() -> None:
    include, out = sys.argv[1:]
    builder = cffi.FFI()
    builder.cdef(declarations(str(pathlib.Path(include))))
    builder.cdef("#define CARNOT_API_VERSION ...")
    builder.cdef("#define CARNOT_MAX_RANK ...")
    builder.cdef("#define CARNOT_PLUGIN_API_VERSION ...")
    builder.cdef(CALLBACKS)
    builder.set_source("carnot._carnot", "".join(f"#include <{header}>\n" for header in HEADERS))
    builder.emit_c_code(out)


if __name__ == "__main__":
    main()
