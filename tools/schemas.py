"""Writes the schemas of the kinds that the library emits: `python tools/schemas.py [--check]`.

They come from the Go modules that the end-to-end tests pin in `e2e/tools`:
CustomResourceDefinitions, and Kubernetes' OpenAPI. Descriptions, status and keywords that validate
nothing are omitted; repeated parts are moved to definitions. `--check` writes nothing, and fails if
a file is out of date.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Schema = dict[str, Any]

ROOT = Path(__file__).parent.parent
TOOLS = ROOT / "e2e" / "tools"
DATA = ROOT / "fusioninfer_pulumi" / "generated" / "kubernetes"
VERSIONS = "versions.json"

#: Directory of `e2e/tools`, Go module, path of the CRD in the module, version of the API.
DEFINITIONS = (
    ("lws-0.9", "sigs.k8s.io/lws",
     "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml", "v1"),
    ("volcano", "volcano.sh/volcano",
     "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml", "v1beta1"),
    ("gateway-api", "sigs.k8s.io/gateway-api",
     "config/crd/experimental/gateway.networking.k8s.io_gateways.yaml", "v1"),
    ("gateway-api", "sigs.k8s.io/gateway-api",
     "config/crd/experimental/gateway.networking.k8s.io_httproutes.yaml", "v1"),
    ("gateway-api", "sigs.k8s.io/gateway-api",
     "config/crd/standard/gateway.networking.k8s.io_referencegrants.yaml", "v1beta1"),
    ("epp-1.5", "sigs.k8s.io/gateway-api-inference-extension",
     "config/crd/bases/inference.networking.k8s.io_inferencepools.yaml", "v1"),
    ("epp-1.5", "sigs.k8s.io/gateway-api-inference-extension",
     "config/crd/bases/inference.networking.x-k8s.io_inferencemodelrewrites.yaml", "v1alpha2"),
    ("epp-1.5", "sigs.k8s.io/gateway-api-inference-extension",
     "config/crd/bases/inference.networking.x-k8s.io_inferenceobjectives.yaml", "v1alpha2"),
    ("keda", "github.com/kedacore/keda/v2", "config/crd/bases/keda.sh_scaledobjects.yaml",
     "v1alpha1"),
    ("prometheus-operator", "github.com/prometheus-operator/prometheus-operator",
     "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml", "v1"),
    ("prometheus-operator", "github.com/prometheus-operator/prometheus-operator",
     "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml", "v1"),
    ("prometheus-operator", "github.com/prometheus-operator/prometheus-operator",
     "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml", "v1"),
)  # fmt: skip

#: llm-d v0.10.0 has the inference extension's definitions of v1.5.0 in its own group
#: (`config/crd/bases`), so they are written for both groups.
GROUP_COPIES = {"inference.networking.x-k8s.io/v1alpha2": "llm-d.ai/v1alpha2"}

KUBERNETES = ("kubernetes", "k8s.io/kubernetes")
#: Built-in kinds by their apiVersion.
BUILT_IN = {
    "v1": ("ConfigMap", "PersistentVolumeClaim", "Service", "ServiceAccount"),
    "apps/v1": ("DaemonSet", "Deployment"),
    "autoscaling/v2": ("HorizontalPodAutoscaler",),
    "batch/v1": ("Job",),
    "networking.k8s.io/v1": ("NetworkPolicy",),
    "policy/v1": ("PodDisruptionBudget",),
    "rbac.authorization.k8s.io/v1": ("ClusterRoleBinding", "Role", "RoleBinding"),
    "resource.k8s.io/v1": ("ResourceClaimTemplate",),
}

_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
#: Metadata that manifests set; the API server sets the rest of ObjectMeta.
_METADATA: Schema = {
    "type": "object",
    "properties": {
        "annotations": _STRINGS,
        "finalizers": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "labels": _STRINGS,
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
    "additionalProperties": False,
}
_QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
#: Replacements for definitions of Kubernetes that only have a format, and for ObjectMeta.
_SCALARS: Mapping[str, Schema] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {
        "type": ["string", "number"],
        "pattern": _QUANTITY,
    },
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": ["integer", "string"]},
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": _METADATA,
}
_BOUNDS = {"int32": 2**31, "int64": 2**63}
#: Keywords that JSON Schema also has. `oneOf` and similar keywords are omitted: they only repeat
#: types, except in the addresses of a Gateway, which are left to the API server.
_KEPT = (
    "$ref", "additionalProperties", "enum", "items", "maxItems", "maxLength", "maxProperties",
    "maximum", "minItems", "minLength", "minProperties", "minimum", "pattern", "properties",
    "required", "type",
)  # fmt: skip
#: Repeated parts of at least this many characters become definitions.
_MIN_SHARED = 120


def main() -> int:
    """Write the files, or compare them; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail if a file is out of date")
    check = parser.parse_args().check
    wanted = {name: text.encode() for name, text in files()}
    if check:
        stale = sorted(
            name for name in {*wanted, *(file.name for file in DATA.iterdir())}
            if wanted.get(name) != _read_content(DATA / name)
        )  # fmt: skip
        if stale:
            print(f"out of date: {', '.join(stale)}; run python tools/schemas.py", file=sys.stderr)
        return 1 if stale else 0
    DATA.mkdir(exist_ok=True)
    for old in DATA.iterdir():
        old.unlink()
    for name, content in wanted.items():
        packed = gzip.compress(content, mtime=0) if name.endswith(".gz") else content
        (DATA / name).write_bytes(packed)
    return 0


def _read_content(file: Path) -> bytes | None:
    if not file.is_file():
        return None
    return gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()


def files() -> Iterator[tuple[str, str]]:
    """Yield the name and the uncompressed content of each file."""
    modules = {(tool, module) for tool, module, *_ in DEFINITIONS} | {KUBERNETES}
    downloaded = {pinned: _download(*pinned) for pinned in sorted(modules)}
    yield (
        VERSIONS,
        _dump({module: downloaded[tool, module][0] for tool, module in downloaded}, indent=1),
    )
    for tool, module, path, version in DEFINITIONS:
        definition = downloaded[tool, module][1] / path
        name, text = _read_custom(definition, version)
        yield name, text
        for group, copy in GROUP_COPIES.items():
            if name.startswith(group.replace("/", "_")):
                yield name.replace(group.replace("/", "_"), copy.replace("/", "_")), text
    for version, kinds in BUILT_IN.items():
        group = f"apis__{version.replace('/', '__')}" if "/" in version else f"api__{version}"
        directory = downloaded[KUBERNETES][1] / "api" / "openapi-spec" / "v3"
        text = (directory / f"{group}_openapi.json").read_text(encoding="utf-8")
        known = json.loads(text)["components"]["schemas"]
        for kind in kinds:
            yield _read_built_in(known, version, kind)


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _download(tool: str, module: str) -> tuple[str, Path]:
    """Return version and directory of a module; download it if it is not in the module cache."""
    done = subprocess.run(
        ["go", "mod", "download", "-json", module],  # noqa: S607 - as the developer has installed it
        cwd=TOOLS / tool,
        env={**os.environ, "GOFLAGS": "", "GOTOOLCHAIN": "local", "GOWORK": "off"},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    download = json.loads(done.stdout)
    return download["Version"], Path(download["Dir"])


def file_name(version: str, kind: str) -> str:
    """Return the file name of a kind."""
    return f"{version.replace('/', '_')}_{kind}.json.gz"


def _dump(value: Any, indent: int | None = None) -> str:
    separators = (",", ": ") if indent else (",", ":")
    return json.dumps(value, sort_keys=True, indent=indent, separators=separators) + "\n"


def _read_custom(file: Path, version: str) -> tuple[str, str]:
    spec, schema = _read_definition(file, version)
    schema["properties"]["metadata"] = _METADATA
    name = file_name(f"{spec['group']}/{version}", spec["names"]["kind"])
    return name, _dump(_share_parts(_remove_status(schema)))


def _read_definition(file: Path, version: str) -> tuple[Mapping[str, Any], Schema]:
    """Return the spec of a CustomResourceDefinition, and the schema of one of its versions."""
    text = file.read_text(encoding="utf-8")
    spec = yaml.load(text, Loader=_LOADER)["spec"]  # noqa: S506 - CSafeLoader or SafeLoader
    (served,) = [
        stored_version for stored_version in spec["versions"] if stored_version["name"] == version
    ]
    return spec, _convert(served["schema"]["openAPIV3Schema"])


def _read_built_in(known: Mapping[str, Schema], version: str, kind: str) -> tuple[str, str]:
    group, _, number = version.rpartition("/")
    wanted = {"group": group, "kind": kind, "version": number}
    (name,) = [
        name
        for name, definition in known.items()
        if wanted in definition.get("x-kubernetes-group-version-kind", ())
    ]
    definitions: dict[str, Schema] = {}
    schema = _remove_status(_convert(known[name]))
    _define(schema, known, definitions)
    return file_name(version, kind), _dump({**schema, "definitions": definitions})


def _define(schema: Any, known: Mapping[str, Schema], definitions: dict[str, Schema]) -> None:
    """Add every definition that a schema refers to, and shorten the references."""
    if isinstance(schema, list):
        for item in schema:
            _define(item, known, definitions)
    elif isinstance(schema, dict):
        if "$ref" in schema:
            full = schema["$ref"].rpartition("/")[2]
            short = full.rpartition(".")[2]
            schema["$ref"] = f"#/definitions/{short}"
            if short not in definitions:
                definitions[short] = _SCALARS.get(full) or _convert(known[full])
                _define(definitions[short], known, definitions)
        for key, item in schema.items():
            if key != "$ref":
                _define(item, known, definitions)


def _remove_status(schema: Schema) -> Schema:
    properties = {
        key: property_schema
        for key, property_schema in schema["properties"].items()
        if key != "status"
    }
    return {**schema, "properties": properties}


def _convert(schema: Schema) -> Schema:
    """Return a schema of Kubernetes as JSON Schema draft 4, in which 1.0 is not an integer."""
    if len(schema.get("allOf", ())) == 1 and "$ref" in schema["allOf"][0]:
        return dict(schema["allOf"][0])
    if schema.get("x-kubernetes-int-or-string"):
        pattern = {"pattern": schema["pattern"]} if "pattern" in schema else {}
        return {"type": ["integer", "string"], **pattern}
    result: Schema = {}
    for key in _KEPT:
        # JSON Schema has no flags in patterns.
        if key not in schema or (key == "pattern" and "(?i)" in schema[key]):
            continue
        value = schema[key]
        if key == "properties":
            result[key] = {name: _convert(subschema) for name, subschema in value.items()}
        elif isinstance(value, dict):
            result[key] = _convert(value)
        else:
            result[key] = value
    bound = _BOUNDS.get(schema.get("format", ""))
    if bound is not None:
        result = {"minimum": -bound, "maximum": bound - 1, **result}
    if "properties" in result and not schema.get("x-kubernetes-preserve-unknown-fields"):
        result.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-list-type") == "set":
        result["uniqueItems"] = True
    if schema.get("x-kubernetes-list-type") == "map":
        result["x-keys"] = schema["x-kubernetes-list-map-keys"]
    # Needed for keys of list items (`x-keys`), which items may omit.
    if "default" in schema and isinstance(schema["default"], (str, int)):
        result["default"] = schema["default"]
    return result


def _share_parts(schema: Schema) -> Schema:
    """Return the schema with long repeated parts moved to definitions."""
    counts = Counter(_dump(part) for part in _list_parts(schema))
    definitions: dict[str, Schema] = {}
    names: dict[str, str] = {}

    def share_part(part: Schema) -> Schema:
        text = _dump(part)
        if counts[text] == 1 or len(text) < _MIN_SHARED:
            return share_parts_below(part)
        if text not in names:
            names[text] = str(len(names))
            definitions[names[text]] = share_parts_below(part)
        return {"$ref": f"#/definitions/{names[text]}"}

    def share_parts_below(part: Schema) -> Schema:
        result = dict(part)
        for key, value in part.items():
            if key == "properties":
                result[key] = {name: share_part(subschema) for name, subschema in value.items()}
            elif key in ("items", "additionalProperties") and isinstance(value, dict):
                result[key] = share_part(value)
        return result

    return {**share_parts_below(schema), "definitions": definitions}


def _list_parts(schema: Schema) -> Iterator[Schema]:
    yield schema
    for key, value in schema.items():
        if key == "properties":
            for subschema in value.values():
                yield from _list_parts(subschema)
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            yield from _list_parts(value)


if __name__ == "__main__":
    sys.exit(main())
