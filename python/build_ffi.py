"""Writes the C source of the cffi module from the public headers: build_ffi.py INCLUDE_DIR OUT.c"""

import os
import pathlib
import re
import subprocess
import sys

import cffi

HEADERS = ["carnot/builder.h", "carnot/edit.h", "carnot/onnx.h", "carnot/runtime.h"]

# Functions of Python that C calls; the user pointer is a handle of the object concerned.
CALLBACKS = """
extern "Python" void carnot_py_log(void* user, int severity, const char* message);
extern "Python" bool carnot_py_progress(void* user, const char* phase, int done, int total);
extern "Python" void* carnot_py_allocate(void* user, const char* name, void* current, size_t bytes);
extern "Python" void carnot_py_notify(void* user, const char* name, const carnot_dims* dims);
extern "Python" void carnot_py_profile(void* user, const char* step, uint64_t time_ns);
extern "Python" bool carnot_py_cancel(void* user);
extern "Python" void carnot_py_weight(void* user, const char* name, carnot_dtype dtype,
                                      const carnot_dims* dims, const void* data);
extern "Python" bool carnot_py_onnx_node(void* user, const carnot_onnx_node* node);
"""


def declarations(include: str) -> str:
    """The headers after the preprocessor, without what the system's headers say."""
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
    builder.cdef(CALLBACKS)
    builder.set_source("carnot._carnot", "".join(f"#include <{header}>\n" for header in HEADERS))
    builder.emit_c_code(out)


if __name__ == "__main__":
    main()
