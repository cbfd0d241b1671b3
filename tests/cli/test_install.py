"""make install: C, C++, CMake, static and runtime-only programs against the installed files; completions; the manual page."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest
from harness import CARNOT, ROOT, passes

BUILD = pathlib.Path(CARNOT).resolve().parent.parent
pytestmark = pytest.mark.skipif(not (BUILD / "cmake_install.cmake").exists(), reason="not a build tree")

CPP = """#include <carnot/carnot.hpp>
#include <cstdio>
int main(int, char** argv) {
  try {
    carnot::Engine engine = carnot::load(argv[1]);
    std::printf("%u tensors\\n", carnot_engine_tensor_count(engine.get()));
  } catch (const carnot::Error& error) {
    std::printf("%s\\n", error.what());
    return 1;
  }
}
"""
RUNTIME = """#include <carnot/runtime.h>
#include <stdio.h>
int main(int argc, char** argv) {
  (void)argc;
  carnot_engine* engine;
  carnot_context* context;
  carnot_status* status = carnot_engine_load_file(argv[1], &engine);
  if (!status) status = carnot_context_create(engine, NULL, &context);
  if (status) return fprintf(stderr, "%s\\n", carnot_status_message(status)), 1;
  printf("%u tensors\\n", carnot_engine_tensor_count(engine));
  carnot_context_destroy(context);
  carnot_engine_release(engine);
}
"""
CMAKE = """cmake_minimum_required(VERSION 3.16)
project(user C CXX)
find_package(carnot 0.1 REQUIRED)
add_executable(shared runtime.c)
target_link_libraries(shared PRIVATE carnot::carnot)
add_executable(small runtime.c)
target_link_libraries(small PRIVATE carnot::runtime)
add_executable(whole runtime.c)
target_link_libraries(whole PRIVATE carnot::static)
add_executable(cpp main.cpp)
target_compile_features(cpp PRIVATE cxx_std_17)
target_link_libraries(cpp PRIVATE carnot::carnot)
"""


def run(*command: object, **more: object) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", BUILD, "--prefix", folder)
    (folder / "m.c").write_text(RUNTIME)
    return folder


@pytest.fixture
def environment(prefix: pathlib.Path) -> dict:
    library = next(prefix.glob("**/libcarnot.so")).parent
    return dict(os.environ, PKG_CONFIG_PATH=str(library / "pkgconfig"), LD_LIBRARY_PATH=str(library))


@pytest.mark.parametrize("example", sorted(p.name for p in (ROOT / "examples").glob("*.c") if p.name != "plugin_hard_swish.c"))
def test_examples(prefix: pathlib.Path, environment: dict, tmp_path: pathlib.Path, example: str) -> None:
    source = prefix / "share/doc/carnot/examples" / example
    flags = run("pkg-config", "--cflags", "--libs", "carnot", env=environment).split()
    run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", source, "-o", tmp_path / "program", *flags, "-lm")
    if example in ("network_layer_by_layer.c", "dynamic_shapes.c", "refit.c"):
        run(tmp_path / "program", env=environment)


def test_static_by_pkg_config(environment: dict, tmp_path: pathlib.Path, plan: pathlib.Path) -> None:
    (tmp_path / "runtime.c").write_text(RUNTIME)
    library = environment["LD_LIBRARY_PATH"]
    flags = run("pkg-config", "--static", "--cflags", "--libs", "carnot", env=environment).split()
    flags = [f"{library}/libcarnot.a" if f == "-lcarnot" else f for f in flags]
    run("cc", tmp_path / "runtime.c", "-o", tmp_path / "program", *flags)
    assert "libcarnot" not in run("ldd", tmp_path / "program")
    assert run(tmp_path / "program", plan) == "2 tensors\n"


def test_cmake_package(prefix: pathlib.Path, environment: dict, tmp_path: pathlib.Path, plan: pathlib.Path) -> None:
    for name, text in (("CMakeLists.txt", CMAKE), ("runtime.c", RUNTIME), ("main.cpp", CPP)):
        (tmp_path / name).write_text(text)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "b")
    for program in ("shared", "small", "whole", "cpp"):
        assert run(tmp_path / "b" / program, plan, env=environment) == "2 tensors\n", program


def test_the_runtime_needs_little(environment: dict) -> None:
    """An application that only runs engines carries libcarnot_runtime, xxHash and LZ4."""
    linked = run("ldd", pathlib.Path(environment["LD_LIBRARY_PATH"]) / "libcarnot_runtime.so.0")
    assert not [name for name in ("png", "jpeg", "pcre2", "lept", "libcarnot.so") if name in linked], linked


def test_the_backend_of_triton_finds_the_runtime(prefix: pathlib.Path) -> None:
    (backend,) = prefix.glob("**/triton/backends/carnot/libtriton_carnot.so")
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    linked = run("ldd", backend, env=environment)
    assert f"{backend.parents[3]}" in linked.split("libcarnot_runtime.so.0 => ")[1].split("\n")[0], linked
    assert "not found" not in linked


def test_the_installed_program(prefix: pathlib.Path, model: pathlib.Path) -> None:
    program = prefix / "bin/carnot"
    assert json.loads(run(program, "bench", model, "--json", "--duration=0.05"))["median_ms"] > 0
    (prefix / "x.png").write_bytes(b"no picture, but long enough")
    done = subprocess.run([program, "run", model, "--input", prefix / "x.png"], capture_output=True, text=True)
    assert "codecs module" not in done.stderr  # it is found in lib/


# ---- completions and the manual page ----


def complete(tmp_path: pathlib.Path, *words: str) -> list[str]:
    script = tmp_path / "completion"
    script.write_text(passes("completion", "bash"))
    quoted = " ".join(f"'{w}'" for w in words)
    command = f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _carnot 2>/dev/null; echo ${{COMPREPLY[@]}}"
    return run("bash", "-c", command).split()


def test_bash_completion(tmp_path: pathlib.Path) -> None:
    assert complete(tmp_path, "carnot", "be") == ["bench"]
    assert complete(tmp_path, "carnot", "debug", "b") == ["backends"]
    assert "build" in complete(tmp_path, "carnot", "help", "")
    assert complete(tmp_path, "carnot", "build", "--builderO") == ["--builderOptimizationLevel="]
    assert complete(tmp_path, "carnot", "build", "--isa", "=", "avx512v") == ["avx512vnni"]
    assert complete(tmp_path, "carnot", "build", "--fp32", "=") == ["exact", "fast"]
    assert "cse" in complete(tmp_path, "carnot", "build", "--disablePasses", "=", "cs")


def test_zsh_completion(tmp_path: pathlib.Path) -> None:
    if not shutil.which("zsh"):
        pytest.skip("zsh is not installed")
    (tmp_path / "_carnot").write_text(passes("completion", "zsh"))
    run("zsh", "-n", tmp_path / "_carnot")


def test_fish_completion(tmp_path: pathlib.Path) -> None:
    if not shutil.which("fish"):
        pytest.skip("fish is not installed")
    (tmp_path / "carnot.fish").write_text(passes("completion", "fish"))
    command = f"source {tmp_path / 'carnot.fish'}; complete -C 'carnot build --isa=avx512v'"
    assert "--isa=avx512vnni" in run("fish", "--no-config", "-c", command)


def test_manual_page(tmp_path: pathlib.Path) -> None:
    """Every command and the flags of its table are there, and troff has nothing to complain about."""
    page = passes("completion", "man")
    for command in ("exec", "run", "bench", "build", "inspect", "compare", "debug", "device", "completion"):
        assert f".SS carnot {command}\n" in page
    assert "\\-\\-timingCacheFile" in page and "CARNOT_THREADS" in page
    if not shutil.which("groff"):
        pytest.skip("groff is not installed: the page was not formatted")
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=page, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
