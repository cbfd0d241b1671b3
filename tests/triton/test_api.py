"""The backend's own declarations of Triton's interface, compiled with the published headers.

The published headers are looked for in $CARNOT_TRITON_INCLUDE, else in ../shared/serving.
"""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OWN = (ROOT / "src/triton/triton_api.h").read_text()
PUBLISHED = pathlib.Path(os.environ.get("CARNOT_TRITON_INCLUDE", ROOT.parent / "shared/serving"))
ENUM = re.compile(r"typedef enum \w+ \{(.*?)\} \w+;", re.DOTALL)
FUNCTION = re.compile(r"CARNOT_TRITON_API \w+[ *]+(\w+)\(")


def compiles(folder: pathlib.Path, text: str) -> subprocess.CompletedProcess:
    """Compiles |text| behind the published headers, which are no C by themselves: they lack typedefs."""
    core = folder / "triton/core"
    core.mkdir(parents=True, exist_ok=True)
    names = set()
    for name in ("tritonserver.h", "tritonbackend.h"):
        header = (PUBLISHED / name).read_text()
        (core / name).write_text(header)
        names |= set(re.findall(r"^struct (TRITON\w+);", header, re.MULTILINE))
    typedefs = "".join(f"typedef struct {name} {name};\n" for name in sorted(names))
    source = folder / "both.c"
    source.write_text(f"{typedefs}#include <triton/core/tritonbackend.h>\n{text}")
    return subprocess.run(
        ["cc", "-std=c11", f"-I{folder}", "-fsyntax-only", str(source)], capture_output=True, text=True
    )


def enumerators() -> dict:
    """The values of the own header, as C counts them."""
    values = {}
    for body in ENUM.findall(OWN):
        following = 0
        for part in re.sub(r"//.*", "", body).split(","):
            name, _, value = part.strip().partition("=")
            if name:
                following = int(value) if value else following
                values[name.strip()] = following
                following += 1
    return values


def declarations() -> str:
    """The own header without enumerations, which may not be defined twice; functions may be declared twice."""
    return ENUM.sub("", OWN)


@pytest.fixture
def folder(tmp_path):
    if not (PUBLISHED / "tritonbackend.h").exists():
        pytest.skip(f"Triton's published headers are not in {PUBLISHED}")
    return tmp_path


def test_functions_are_as_published(folder):
    assert len(FUNCTION.findall(OWN)) > 40
    done = compiles(folder, declarations())
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("function", FUNCTION.findall(OWN))
def test_function_is_published(folder, function):
    """Also a function that the own header alone declares would compile: each must be in the published ones."""
    published = "".join((PUBLISHED / name).read_text() for name in ("tritonserver.h", "tritonbackend.h"))
    assert re.search(rf"\b{function}\(", published)


def test_values_are_as_published(folder):
    values = enumerators()
    assert values["TRITONSERVER_TYPE_BF16"] == 14
    asserts = "".join(f'_Static_assert({name} == {value}, "{name}");\n' for name, value in values.items())
    done = compiles(folder, asserts)
    assert done.returncode == 0, done.stderr


def test_a_difference_is_seen(folder):
    text = declarations()
    wrong = text.replace("uint32_t release_flags", "uint64_t release_flags")
    assert wrong != text
    assert "conflicting types" in compiles(folder, wrong).stderr
    assert compiles(folder, '_Static_assert(TRITONSERVER_TYPE_BF16 == 13, "");').returncode != 0
