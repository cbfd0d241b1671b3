"""Writes type stubs of names that are created at import.

build_stubs.py ENUMS.py ENUMS.pyi      the enumerations, from their table
build_stubs.py PACKAGE_FOLDER INIT.pyi  all public names of the package, from the package itself
"""

import importlib
import inspect
import os
import re
import sys
import types
from typing import Any, Iterator, List, Set

TYPING = (
    "Any",
    "Callable",
    "Dict",
    "Iterable",
    "Iterator",
    "List",
    "Mapping",
    "Optional",
    "Sequence",
    "Set",
    "Tuple",
    "Union",
)
BUILTINS = (
    "bool",
    "int",
    "float",
    "str",
    "bytes",
    "bytearray",
    "memoryview",
    "list",
    "dict",
    "tuple",
    "object",
    "None",
)


def write_enums(source: str, out: str) -> None:
    package = types.ModuleType("carnot")  # without what needs the C module
    package.__path__ = [os.path.dirname(source)]
    sys.modules["carnot"] = package
    made = importlib.import_module("carnot.enums")._made
    lines = [
        "import enum",
        "from typing import Any, ClassVar, Dict",
        "",
        "class _Enum(enum.Enum):  # type: ignore[misc]",
        "    __members__: ClassVar[Dict[str, Any]]  # type: ignore[assignment]",
        "    def __int__(self) -> int: ...",
        "    def __index__(self) -> int: ...",
        "",
    ]
    for name, kind in made.items():
        lines += [f"class {name}(_Enum):"]
        lines += [f"    {member} = {value.value}" for member, value in kind._member_map_.items()] + [""]
    with open(out, "w") as file:
        file.write("\n".join(lines))


class Stub:
    """The stub of one package."""

    def __init__(self, package: Any) -> None:
        self.package = package
        self.names = [name for name in vars(package) if not name.startswith("_")]
        self.classes: Set[str] = {n for n in self.names if isinstance(getattr(package, n), type)}

    def hint(self, annotation: Any) -> str:
        """An annotation with names that the stub knows; bool is a data type in this package."""
        if annotation in (inspect.Parameter.empty, None):
            return "None" if annotation is None else "Any"
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))

        def known(match: Any) -> str:
            word = match.group()
            if word == "os.PathLike":
                return "os.PathLike[Any]"
            if word in TYPING or word in self.classes or word == "None":
                return word
            return f"builtins.{word}" if word in BUILTINS else "Any"

        return re.sub(r"[A-Za-z_][\w.]*", known, text.replace('"', "").replace("'", ""))

    def signature(self, function: Any) -> str:
        parts: List[str] = []
        is_named = False
        for name, p in inspect.signature(function).parameters.items():
            if p.kind == p.VAR_POSITIONAL:
                is_named, name = True, "*" + name
            elif p.kind == p.VAR_KEYWORD:
                name = "**" + name
            elif p.kind == p.KEYWORD_ONLY and not is_named:
                is_named = True
                parts.append("*")
            hint = "" if name == "self" else f": {self.hint(p.annotation)}"
            parts.append(f"{name}{hint}" + ("" if p.default is p.empty else " = ..."))
        given = inspect.signature(function).return_annotation
        return f"({', '.join(parts)}) -> {'None' if function.__name__ == '__init__' else self.hint(given)}"

    def members(self, kind: type) -> Iterator[str]:
        """The members of the class and of its private bases."""
        seen: Set[str] = set()
        for base in kind.__mro__:
            if base is object or (base is not kind and base.__name__ in self.classes):
                continue
            if base.__module__.split(".")[0] != self.package.__name__:
                continue
            for name, value in vars(base).items():
                is_operator = name.startswith("__") and callable(value)
                if name in seen or (name.startswith("_") and not is_operator):
                    continue
                seen.add(name)
                yield from self.member(name, value)
            for name in self.attributes(base) - seen:
                seen.add(name)
                yield f"    {name}: Any"

    @staticmethod
    def attributes(kind: type) -> Set[str]:
        """Public attributes that the constructor sets."""
        source = "".join(
            inspect.getsource(vars(kind)[name])
            for name in ("__init__", "reset")
            if inspect.isfunction(vars(kind).get(name))
        )
        return set(re.findall(r"self\.([a-zA-Z]\w*)\s*(?::[^=\n]+)?=[^=]", source)) - set(vars(kind))

    def member(self, name: str, value: Any) -> Iterator[str]:
        if isinstance(value, property):
            getter = value.fget
            hint = self.hint(inspect.signature(getter).return_annotation) if getter else "Any"
            yield "    @property"
            yield f"    def {name}(self) -> {hint}: ..."
            if value.fset:
                yield f"    @{name}.setter"
                yield f"    def {name}(self, value: Any) -> None: ..."
        elif isinstance(value, (staticmethod, classmethod)):
            yield f"    @{type(value).__name__}"
            yield f"    def {name}{self.signature(value.__func__).replace('(cls: Any', '(cls')}: ..."
        elif inspect.isfunction(value):
            yield f"    def {name}{self.signature(value)}: ..."
        elif not callable(value) and value is not None or not name.startswith("__"):
            yield f"    {name}: Any"

    def lines(self) -> Iterator[str]:
        from importlib import import_module

        enums = [n for n in self.names if getattr(self.package, n) in vars(import_module("carnot.enums")).values()]
        enums = [n for n in enums if n in self.classes]
        yield "import builtins"
        yield "import os"
        yield f"from typing import {', '.join(TYPING)}"
        yield f"from .enums import {', '.join(f'{n} as {n}' for n in enums)}"
        for name in self.names:
            value = getattr(self.package, name)
            if name in enums or inspect.ismodule(value):
                continue
            if isinstance(value, type):
                bases = [b.__name__ for b in value.__bases__ if b.__name__ in self.classes and b.__name__ != name]
                yield f"class {name}" + (f"({', '.join(bases)})" if bases else "") + ":"
                yield from list(self.members(value)) or ["    ..."]
            elif inspect.isfunction(value):
                yield f"def {name}{self.signature(value)}: ..."
            else:
                kind = type(value).__name__
                yield f"{name}: {kind if kind in self.classes else self.hint(kind)}"
        yield "__version__: builtins.str"


def write_package(folder: str, out: str) -> None:
    sys.path.insert(0, os.path.dirname(os.path.abspath(folder)))
    package = importlib.import_module(os.path.basename(folder))
    with open(out, "w") as file:
        file.write("\n".join(Stub(package).lines()) + "\n")


if __name__ == "__main__":
    (write_enums if sys.argv[1].endswith(".py") else write_package)(*sys.argv[1:])
