"""Imports the manifests of other systems' repositories, and prints how many are accepted.

`python tools/upstream_samples.py CHECKOUT...`: one checkout each of FusionInfer, KServe, KServe's
website, Kthena or Modelplane, in any order. A sample is a service, route or policy with the
documents that it refers to, from a YAML file, a YAML block of a page, or the fixtures of KServe's
end-to-end tests. `--recording FILE` adds the services of KServe's integration tests, which
kserve_tests.go records. `--write` writes the table to docs/systems.md. `--verbose` prints all
results other than "as is".
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import re
import subprocess
import sys
import types
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

import yaml

from fusioninfer_pulumi.cli.read_sources import Source, plan_documents
from fusioninfer_pulumi.findings import Finding, Origin, Severity
from fusioninfer_pulumi.loading.documents import load_documents

Manifest = dict[str, Any]
PAGE = Path(__file__).parent.parent / "docs" / "systems.md"
HEADING = "## How many of the upstream projects' manifests are accepted?\n"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FENCED = re.compile(r"^( *)```ya?ml[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
#: Directories without manifests that users apply: releases, templates, definitions, translations.
_SKIPPED = {
    "apis", "charts", "crd", "crds", "i18n", "install", "llmisvcconfig", "nix", "node_modules",
    "schemas", "templates", "tests", "vendor", "versioned_docs",
}  # fmt: skip
#: Kinds that are the main document of a sample, by API group.
_MAIN_KINDS = {
    "fusioninfer.io": ("InferenceService",),
    "serving.kserve.io": ("LLMInferenceService",),
    "workload.serving.volcano.sh": (
        "ModelServing", "ModelBooster", "AutoscalingPolicy", "AutoscalingPolicyBinding",
    ),
    "networking.serving.volcano.sh": ("ModelRoute",),
    "modelplane.ai": ("ModelDeployment", "ModelService"),
}  # fmt: skip
#: Kinds of the objects that these fields refer to by name.
_REFERENCES = {
    "baseRefs": "LLMInferenceServiceConfig",
    "ref": "ConfigMap",
    "serviceAccountName": "ServiceAccount",
    "secrets": "Secret",
    "modelServerName": "ModelServer",
    "targetRef": "ModelServing",
    "policyRef": "AutoscalingPolicy",
    "modelCacheRef": "ModelCache",
}
#: KServe's settings as its end-to-end tests install them (setup-kserve.sh).
_SETTINGS: Manifest = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "inferenceservice-config", "namespace": "kserve"},
    "data": {
        "autoscaling-wva-controller-config": '{"prometheus": {"url": "https://prometheus:9090"}}'
    },
}
_DEPLOYMENT = "modelplane.ai/deployment"
#: A file by which the checkout of a system is recognized.
_SYSTEMS = {
    "FusionInfer": "api/core/v1alpha1/inferenceservice_types.go",
    "KServe": "test/e2e/llmisvc/fixtures.py",
    "KServe's website": "docs/model-serving/generative-inference/llmisvc/llmisvc-overview.md",
    "Kthena": "pkg/apis/workload/v1alpha1/model_serving_types.go",
    "Modelplane": "apis/modelendpoints/definition.yaml",
}
#: Rules that also reject documents in the system's own API.
_INVALID_THERE = {"field-invalid", "unknown-key", "unknown-value", "wrong-type"}
#: Rules and fields whose rejection docs/systems.md documents: objects that upstream does not show,
#: engines that would not start, and what Kubernetes has no counterpart for.
_DOCUMENTED = {
    "reference-missing", "accelerators-too-few", "engine-release-unsupported", "engine-unknown",
    "engine-not-movable",
    "rateLimit", "externalModelProviderName", "homogeneousTarget", "heterogeneousTarget",
    "panicPolicy",
}  # fmt: skip
_BOOSTER = "ModelBooster"
DOCUMENTED = "rejected, expected"
INVALID = "rejected by both"
RESULTS = ("as is", "with warnings", "with --allow-lossy", "rejected", DOCUMENTED, INVALID)


@dataclass(frozen=True)
class Sample:
    """Documents that are applied together; the first one determines group and name."""

    group: str
    name: str
    documents: Sequence[Manifest]


def classify_sample(sample: Sample) -> tuple[str, list[Finding]]:
    """Return one of `RESULTS` and the findings that are the reason."""
    source = _import(sample, allow_lossy=False)
    findings = [finding for _, finding in source.findings]
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if not errors:
        warnings = [finding for finding in findings if finding.severity is Severity.WARNING]
        return ("with warnings" if warnings else "as is"), warnings
    # Documents that violate the CRD are not converted.
    converted = any(
        document.plan is not None or document.manifest for document in source.planned_documents
    )
    documented = sample.group.startswith(_BOOSTER) or all(map(_is_documented, errors))
    if any(finding.rule in _INVALID_THERE for finding in errors):
        return INVALID, errors
    if documented:
        return DOCUMENTED, errors
    lossy = [finding for _, finding in _import(sample, allow_lossy=True).findings]
    if all(finding.severity is not Severity.ERROR for finding in lossy):
        return "with --allow-lossy", errors
    return ("rejected" if converted else INVALID), errors


def _is_documented(finding: Finding) -> bool:
    return bool({str(finding.rule), finding.path.split(".")[-1]} & _DOCUMENTED)


def _import(sample: Sample, *, allow_lossy: bool) -> Source:
    located = [(Origin("", number), item) for number, item in enumerate(sample.documents, 1)]
    source = Source(sample.name)
    plan_documents(source, load_documents(located, allow_lossy=allow_lossy))
    return source


def collect(checkout: Path) -> Iterator[Sample]:
    """Yield the samples of a checkout, without repetitions."""
    seen: list[Sequence[Manifest]] = []
    files = list(_list_files(checkout))
    everything = [document for _, documents in files for document in documents]
    for name, documents in files:
        directory = str(Path(name).parent)
        neighbors = [
            item for other, items in files if str(Path(other).parent) == directory for item in items
        ]
        for document in documents:
            group = str(document["apiVersion"]).partition("/")[0]
            if document["kind"] not in _MAIN_KINDS.get(group, ()):
                continue
            related = list(_find_related(document, [*documents, *neighbors, *everything]))
            if related not in seen:
                seen.append(related)
                origin = "pages" if name.endswith((".md", ".mdx")) else "files"
                yield Sample(f"{document['kind']}, {origin}", name, related)
    if (checkout / _SYSTEMS["KServe"]).exists():
        yield from _read_fixtures(checkout / "test" / "e2e" / "llmisvc")


def _list_files(checkout: Path) -> Iterator[tuple[str, list[Manifest]]]:
    """Yield the objects of each YAML file, and of the YAML blocks of each page."""
    # If files contain objects of the same name, the file with the shortest name takes precedence.
    for path in sorted(checkout.rglob("*"), key=lambda path: (len(path.name), path)):
        name = path.relative_to(checkout)
        if set(name.parts) & _SKIPPED or path.suffix not in (".yaml", ".yml", ".md", ".mdx"):
            continue
        texts = [path.read_text(encoding="utf-8")]
        if path.suffix in (".md", ".mdx"):
            texts = [
                "\n".join(line.removeprefix(indent) for line in text.splitlines())
                for indent, text in _FENCED.findall(texts[0])
            ]
        documents = [document for text in texts for document in _parse_objects(text)]
        if documents:
            yield str(name), documents


def _parse_objects(text: str) -> list[Manifest]:
    """Return the complete Kubernetes objects of a text; none if it is a chart's template."""
    try:
        documents = list(yaml.load_all(text, Loader=_LOADER))
    except yaml.YAMLError:
        return []
    return [
        document
        for document in documents
        if isinstance(document, dict)
        and {"apiVersion", "kind", "metadata"} <= set(document)
        and isinstance(document["metadata"], dict)
    ]


def _find_related(main: Manifest, pool: Sequence[Manifest]) -> Iterator[Manifest]:
    """Yield a document, and the first document in the pool for each of its references."""
    connected = [main]
    for document in connected:
        yield document
        for kind, name in _find_names(document):
            connected += [
                other
                for other in pool
                if (other["kind"], other["metadata"].get("name")) == (kind, name)
            ][:1]
        for labels in _find_selectors(document):
            # Directories contain the same pods twice, as a ModelServing and as a Deployment.
            selected = [
                item
                for item in pool
                if any(labels.items() <= pod.items() for pod in _find_labels(item))
            ]
            connected += [] if any(item in connected for item in selected) else selected[:1]
        connected[:] = [
            item for index, item in enumerate(connected) if item not in connected[:index]
        ]


def _find_names(value: Any) -> Iterator[tuple[str, str]]:
    """Yield kind and name of the objects that a document names."""
    if isinstance(value, list):
        for item in value:
            yield from _find_names(item)
    if not isinstance(value, Mapping):
        return
    for key, field in value.items():
        if key == "wva":
            yield _SETTINGS["kind"], _SETTINGS["metadata"]["name"]
        for item in field if isinstance(field, list) else [field]:
            name = item.get("name") if isinstance(item, Mapping) else item
            if key in _REFERENCES and isinstance(name, str):
                yield _REFERENCES[key], name
        yield from _find_names(field)


def _find_selectors(document: Manifest) -> Iterator[Manifest]:
    """Yield the labels that a ModelServer or ModelService selects."""
    spec = document.get("spec") or {}
    selectors = [
        spec.get("workloadSelector"),
        *(e.get("selector") for e in spec.get("endpoints", ())),
    ]
    for selector in selectors:
        labels = (selector or {}).get("matchLabels")
        if labels:
            # Prefill labels distinguish a pair from other workloads with the same labels.
            yield {**labels, **((selector.get("pdGroup") or {}).get("prefillLabels") or {})}


def _find_labels(workload: Manifest) -> Iterator[Manifest]:
    """Yield the labels of a workload's pods by role, or of a ModelDeployment's endpoints."""
    template, metadata = (workload.get("spec") or {}).get("template") or {}, workload["metadata"]
    if workload["kind"] == "ModelServing":
        for role in template.get("roles") or ():
            entry = (role.get("entryTemplate") or {}).get("metadata") or {}
            pod_labels = {"name": metadata.get("name"), "role": role.get("name"), "entry": "true"}
            prefixed = {
                f"modelserving.volcano.sh/{key}": value for key, value in pod_labels.items()
            }
            yield {**prefixed, **(entry.get("labels") or {})}
    elif workload["kind"] == "ModelDeployment":
        yield {**(metadata.get("labels") or {}), _DEPLOYMENT: metadata["name"]}
    elif workload["kind"] == "Deployment":
        yield (template.get("metadata") or {}).get("labels") or {}


def _read_fixtures(directory: Path) -> Iterator[Sample]:
    """Yield a service for each combination of configs (`base_refs`) in KServe's e2e tests."""
    fixtures = _import_alone(directory, "fixtures")
    configs: Manifest = fixtures.LLMINFERENCESERVICE_CONFIGS
    scheduler = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": fixtures.SCHEDULER_CONFIGMAP_NAME, "namespace": "e2e"},
        "data": {fixtures.SCHEDULER_CONFIGMAP_KEY: fixtures.SCHEDULER_CONFIG_YAML},
    }
    modules = [ast.parse(path.read_text("utf-8")) for path in sorted(directory.glob("test_*.py"))]
    for refs in dict.fromkeys(refs for module in modules for refs in _read_base_refs(module)):
        if set(refs) <= set(configs):
            specs = {ref: configs[ref] for ref in refs}
            service = _build_kserve("LLMInferenceService", "service", {"baseRefs": [
                {"name": _sanitize(ref)} for ref in refs
            ]})  # fmt: skip
            bases = [
                _build_kserve("LLMInferenceServiceConfig", _sanitize(ref), spec)
                for ref, spec in ((ref, s("e2e") if callable(s) else s) for ref, s in specs.items())
            ]
            used = [scheduler] if "scheduler-with-configmap-ref" in refs else []
            used += [_SETTINGS] if {"scaling-keda", "scaling-prefill-keda"} & set(refs) else []
            yield Sample("LLMInferenceService, e2e", " + ".join(refs), [service, *bases, *used])


def _read_recording(path: Path) -> Iterator[Sample]:
    """Yield the services that KServe's integration tests create; equal ones once."""
    tests: dict[str, list[Manifest]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        manifest = {key: value for key, value in entry["object"].items() if key != "status"}
        tests.setdefault(entry["test"], []).append(_drop_nulls(manifest))
    tests.pop("", None)  # the suite's own objects: KServe's presets
    seen: set[str] = set()
    for test, objects in tests.items():
        for document in objects:
            if document["kind"] != "LLMInferenceService":
                continue
            related = list(_find_related(document, [*objects, _SETTINGS]))
            metadata = document["metadata"]
            text = json.dumps(related)
            for name in sorted((metadata["name"], metadata["namespace"]), key=len, reverse=True):
                text = text.replace(name, "NAME")
            if text not in seen:
                seen.add(text)
                yield Sample("LLMInferenceService, Go tests", test, related)


def _drop_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _drop_nulls(item) for key, item in value.items() if item is not None}
    return [_drop_nulls(item) for item in value] if isinstance(value, list) else value


def _read_base_refs(module: ast.Module) -> Iterator[tuple[str, ...]]:
    for node in ast.walk(module):
        if isinstance(node, ast.keyword) and node.arg == "base_refs":
            items = node.value.elts if isinstance(node.value, ast.List) else []
            refs = [str(item.value) for item in items if isinstance(item, ast.Constant)]
            if refs and len(refs) == len(items):
                yield tuple(refs)


def _build_kserve(kind: str, name: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": "e2e"}
    version = "serving.kserve.io/v1alpha1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _sanitize(name: str) -> str:
    return re.sub("[^a-z0-9-]", "-", name)


def _import_alone(directory: Path, name: str) -> Any:
    """Import a module of a package, with stand-ins for the other packages that it imports."""
    package = types.ModuleType("upstream.tests")
    package.__path__ = [str(directory)]
    stubs = ("upstream", "upstream.common", "upstream.common.gw_api", "kserve", "kubernetes")
    modules: dict[str, Any] = {stubbed: MagicMock() for stubbed in (*stubs, "pytest")}
    path = directory / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"upstream.tests.{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with patch.dict(sys.modules, {**modules, "upstream.tests": package, spec.name: module}):
        spec.loader.exec_module(module)
    return module


def render_table(classified: Iterable[tuple[str, Sample, str, Sequence[Finding]]]) -> Iterator[str]:
    """Yield the lines of a Markdown table: results by repository."""
    counts: dict[str, Counter[str]] = {}
    for system, _, result, _ in classified:
        counts.setdefault(system, Counter())[result] += 1
    yield f"| Repository | {' | '.join(RESULTS)} | accepted |"
    yield "|" + "---|" * (len(RESULTS) + 2)
    for system, results in counts.items():
        numbers = " | ".join(str(results[result]) for result in RESULTS)
        total = sum(results[result] for result in RESULTS[:4])
        accepted = results["as is"] + results["with warnings"]
        percent = f"{100 * accepted // total} %" if total else ""
        yield f"| {system} | {numbers} | {percent} |"


def main() -> None:
    """Print the table of checkouts, or write it to the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", type=Path, nargs="+")
    parser.add_argument(
        "--commits",
        nargs="*",
        default=[],
        help="commits of the checkouts, if they are not git clones",
    )
    parser.add_argument("--recording", type=Path, help="recording of KServe's integration tests")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    classified, versions = [], []
    for index, checkout in enumerate(options.checkouts):
        system = next(name for name, file in _SYSTEMS.items() if (checkout / file).exists())
        commit = options.commits[index : index + 1] or [_read_commit(checkout)]
        versions.append(f"{system} {commit[0]}")
        samples = [*collect(checkout)]
        if system == "KServe" and options.recording is not None:
            samples += _read_recording(options.recording)
        for sample in samples:
            result, findings = classify_sample(sample)
            classified.append((system, sample, result, findings))
            if options.verbose and result != "as is":
                print(f"{system}: {sample.group}: {sample.name}: {result}")
                for finding in findings:
                    print(f"    {finding}")
    text = "\n".join(render_table(classified)) + "\n"
    if not options.write:
        print(text, end="")
        return
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(HEADING)
    intro = (
        "An input is a service, route or policy in a YAML file, page or test of the project, with "
        "the documents it refers to.\n\n- *Rejected, expected*: a table above rejects a field, the "
        "input lacks an object that it names, or the engine would not start.\n"
        "- *Rejected by both*: the project's own API also rejects the input.\n- *Accepted*: "
        "share of *as is* and *with warnings* in the first four columns.\n\n"
        "Generated by `tools/upstream_samples.py` from\n"
        f"{', '.join(versions)}.\n"
    )
    PAGE.write_text(f"{before}{HEADING}\n{intro}\n{text}", encoding="utf-8")


def _read_commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
