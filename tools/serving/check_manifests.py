#!/usr/bin/env python3
"""Checks Kubernetes manifests against the schemas of their custom resource definitions, with unknown fields as errors.

Usage: check_manifests.py CRDS MANIFEST …       CRDS: a folder with YAML files of CustomResourceDefinitions
"""

from __future__ import annotations

import pathlib
import sys
import typing

import jsonschema
import yaml


def strict(schema: typing.Any) -> typing.Any:
    """An OpenAPI schema as JSON Schema that knows no fields but those it lists."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items() if key != "properties"}
    if "properties" in schema:
        made["properties"] = {name: strict(value) for name, value in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            made.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
    return made


def schemas(folder: pathlib.Path) -> typing.Dict[typing.Tuple[str, str], typing.Any]:
    """By apiVersion and kind."""
    found = {}
    for path in sorted(folder.glob("*.yaml")):
        for definition in yaml.safe_load_all(path.read_text()):
            if not definition or definition.get("kind") != "CustomResourceDefinition":
                continue
            spec = definition["spec"]
            for version in spec["versions"]:
                schema = strict(version["schema"]["openAPIV3Schema"])
                schema["properties"].update(metadata={"type": "object"})
                found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def errors(manifest: typing.Any, known: typing.Dict[typing.Tuple[str, str], typing.Any]) -> typing.List[str]:
    key = manifest.get("apiVersion"), manifest.get("kind")
    if key not in known:
        return [f"no definition of {key[1]} {key[0]}"]
    validator = jsonschema.Draft202012Validator(known[key])
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in validator.iter_errors(manifest)]


def main() -> int:
    known = schemas(pathlib.Path(sys.argv[1]))
    wrong = 0
    for path in sys.argv[2:]:
        for manifest in yaml.safe_load_all(pathlib.Path(path).read_text()):
            found = errors(manifest, known)
            print(f"{path}: {manifest['kind']} {manifest['apiVersion']}: {'; '.join(found) or 'as its schema says'}")
            wrong += bool(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
