"""Reads the samples of another system's repository and prints what becomes of them, as a table.

`python tools/upstream_samples.py kserve CHECKOUT`: a sample is accepted, accepted with losses
(`--allow-lossy`, with what is left out), or refused (with the reasons). KServe's end-to-end
fixtures are a Python module: it is imported, without the packages that it needs itself.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

import yaml

from fusioninfer_pulumi.cli.read_sources import plan_documents
from fusioninfer_pulumi.cli.source import Source
from fusioninfer_pulumi.findings import Finding, Origin, Severity
from fusioninfer_pulumi.loading.documents import load_documents

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Manifest = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """Documents that are applied together.

    Attributes:
        group: The goal that it counts for.
        name: Its name in the table.
        documents: What is read.
        uses: How often the system's own tests apply it.
    """

    group: str
    name: str
    documents: Sequence[Manifest]
    uses: int = 1


@dataclass(frozen=True)
class Outcome:
    """What became of a sample.

    Attributes:
        sample: The sample.
        result: `accepted`, `with loss` or `refused`.
        why: What is left out, or why it is refused.
    """

    sample: Sample
    result: str
    why: Sequence[str] = ()


def outcome(sample: Sample) -> Outcome:
    """What becomes of a sample."""
    refused = _said(sample, Severity.ERROR, lossy=False)
    if not refused:
        return Outcome(sample, "accepted")
    if not (still := _said(sample, Severity.ERROR, lossy=True)):
        lost = {str(finding) for finding in _findings(sample, lossy=True)} & {
            str(finding).replace("error: ", "warning: ", 1) for finding in refused
        }
        return Outcome(sample, "with loss", sorted(lost) or [str(finding) for finding in refused])
    return Outcome(sample, "refused", [str(finding) for finding in still])


def _said(sample: Sample, severity: Severity, *, lossy: bool) -> list[Finding]:
    return [finding for finding in _findings(sample, lossy=lossy) if finding.severity is severity]


def _findings(sample: Sample, *, lossy: bool) -> list[Finding]:
    labelled = [
        (Origin("", number), document) for number, document in enumerate(sample.documents, 1)
    ]
    source = Source(sample.name)
    plan_documents(source, load_documents(labelled, allow_lossy=lossy))
    return [finding for _, finding in source.findings]


def kserve(checkout: Path) -> Iterator[Sample]:
    """KServe's documentation samples, and the services of its end-to-end tests."""
    yield from _kserve_samples(checkout / "docs" / "samples" / "llmisvc")
    yield from _kserve_fixtures(checkout / "test" / "e2e" / "llmisvc")


def _kserve_samples(folder: Path) -> Iterator[Sample]:
    """Each file with a service, with the other files of its folder that it refers to."""
    files = {path: _documents(path) for path in sorted(folder.rglob("*.yaml"))}
    for path, documents in files.items():
        services = [document for document in documents if document["kind"] == "LLMInferenceService"]
        if not services:
            continue
        wanted = {
            ref["name"] for service in services for ref in service["spec"].get("baseRefs", ())
        }
        beside = [
            other_document
            for other, its in files.items()
            for other_document in its
            if other != path
            and other.parent == path.parent
            and other_document["metadata"]["name"] in wanted
        ]
        read = [document for document in documents if document["kind"] in _KSERVE_KINDS]
        yield Sample("documentation", str(path.relative_to(folder)), [*read, *beside])


_KSERVE_KINDS = ("LLMInferenceService", "LLMInferenceServiceConfig", "ConfigMap")


def _kserve_fixtures(folder: Path) -> Iterator[Sample]:
    """The distinct lists of configs that KServe's tests base services on."""
    fixtures = _import_alone(folder, "fixtures")
    configs: Manifest = fixtures.LLMINFERENCESERVICE_CONFIGS
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": fixtures.SCHEDULER_CONFIGMAP_NAME, "namespace": "e2e"},
        "data": {fixtures.SCHEDULER_CONFIGMAP_KEY: fixtures.SCHEDULER_CONFIG_YAML},
    }
    cases = [
        case
        for path in sorted(folder.glob("test_*.py"))
        for case in _test_cases(ast.parse(path.read_text(encoding="utf-8")))
        if set(case[0]) <= set(configs)
    ]
    uses = Counter(refs for refs, _ in cases)
    for refs, name in dict(reversed(cases)).items():
        specs = {ref: configs[ref] for ref in refs}
        documents = [_kserve_service(name, refs)] + [
            _kserve_config(ref, spec("e2e") if callable(spec) else spec)
            for ref, spec in specs.items()
        ]
        used = [config_map] if "scheduler-with-configmap-ref" in refs else []
        yield Sample("end-to-end", " + ".join(refs), [*documents, *used], uses[refs])


def _test_cases(module: ast.Module) -> Iterator[tuple[tuple[str, ...], str]]:
    """The configs that each service of a test module is based on, and the service's name."""
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        listed, name = keywords.get("base_refs"), keywords.get("service_name")
        if not isinstance(listed, ast.List):
            continue
        refs = [element.value for element in listed.elts if isinstance(element, ast.Constant)]
        service_name = name.value if isinstance(name, ast.Constant) else "service"
        if refs and len(refs) == len(listed.elts):
            yield tuple(str(ref) for ref in refs), str(service_name)


def _kserve_service(name: str, refs: Iterable[str]) -> Manifest:
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "LLMInferenceService",
        "metadata": {"name": name, "namespace": "e2e"},
        "spec": {"baseRefs": [{"name": _sanitized(ref)} for ref in refs]},
    }


def _kserve_config(name: str, spec: Manifest) -> Manifest:
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "LLMInferenceServiceConfig",
        "metadata": {"name": _sanitized(name), "namespace": "e2e"},
        "spec": spec,
    }


def _sanitized(name: str) -> str:
    return re.sub("[^a-z0-9-]", "-", name)


def _import_alone(folder: Path, name: str) -> Any:
    """A module of a package, whose imports of other packages are empty stand-ins."""
    package = types.ModuleType("upstream.tests")
    package.__path__ = [str(folder)]
    stubs = ("upstream", "upstream.common", "upstream.common.gw_api", "kserve", "kubernetes")
    modules: dict[str, Any] = {stubbed: MagicMock() for stubbed in (*stubs, "pytest")}
    path = folder / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"upstream.tests.{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with patch.dict(sys.modules, {**modules, "upstream.tests": package, spec.name: module}):
        spec.loader.exec_module(module)
    return module


def _documents(path: Path) -> list[Manifest]:
    """The Kubernetes objects of a file."""
    text = path.read_text(encoding="utf-8")
    return [
        document
        for document in yaml.load_all(text, Loader=_LOADER)
        if isinstance(document, dict) and "kind" in document
    ]


_FENCED = re.compile(r"^( *)```ya?ml[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
#: Folders that hold copies of older releases' documentation, templates, and no samples.
_NO_SAMPLES = ("crds", "templates", "node_modules", "schemas", "apis", "reference", "nix", "tests")
_KTHENA_SERVER, _KTHENA_SERVING = "ModelServer", "ModelServing"
_KTHENA_ROUTE = ("ModelRoute",)
_KTHENA_POLICIES = ("AutoscalingPolicy", "AutoscalingPolicyBinding")


def _published(checkout: Path) -> Iterator[tuple[str, list[Manifest]]]:
    """The objects of each YAML file, and of the YAML blocks of each page."""
    for path in sorted(checkout.rglob("*")):
        name = path.relative_to(checkout)
        if set(name.parts) & set(_NO_SAMPLES) or not path.is_file():
            continue
        if path.suffix in (".yaml", ".yml"):
            texts = [path.read_text(encoding="utf-8")]
        elif path.suffix == ".md":
            blocks = _FENCED.findall(path.read_text(encoding="utf-8"))
            texts = [
                "\n".join(line.removeprefix(indent) for line in text.splitlines())
                for indent, text in blocks
            ]
        else:
            continue
        read = [document for text in texts for document in _objects(text)]
        if read:
            yield str(name), read


def _objects(text: str) -> list[Manifest]:
    """The complete Kubernetes objects of a text; none where it is a template or an extract."""
    try:
        read = list(yaml.load_all(text, Loader=_LOADER))
    except yaml.YAMLError:
        return []
    return [
        document
        for document in read
        if isinstance(document, dict) and {"kind", "spec"} <= set(document)
    ]


def _distinct(samples: Iterable[Sample]) -> Iterator[Sample]:
    """Each sample once: documentation repeats them for each release."""
    seen = []
    for sample in samples:
        if sample.documents not in seen:
            seen.append(sample.documents)
            yield sample


def kthena(checkout: Path) -> Iterator[Sample]:
    """Every ModelServing, every ModelRoute with what it leads to, every policy with its target."""
    return _distinct(_kthena(checkout))


def _kthena(checkout: Path) -> Iterator[Sample]:
    folders: dict[str, list[Manifest]] = {}
    files = list(_published(checkout))
    for name, documents in files:
        # The manifests of one page, or of one folder, belong together.
        whole = name if name.endswith(".md") else str(Path(name).parent)
        folders.setdefault(whole, []).extend(documents)
    for name, documents in files:
        beside = folders[name if name.endswith(".md") else str(Path(name).parent)]
        for document in documents:
            title = f"{name}: {(document.get('metadata') or {}).get('name')}"
            if document["kind"] == _KTHENA_SERVING:
                valid = "invalid" if _is_invalid(document) else "valid"
                yield Sample(f"{valid} servings", title, [document])
            elif document["kind"] in _KTHENA_ROUTE:
                yield Sample("routes", title, [document, *_led_to(document, beside)])
            elif document["kind"] in _KTHENA_POLICIES:
                yield Sample("policies", title, [document, *_scaled(document, beside)])


def _is_invalid(serving: Manifest) -> bool:
    """Whether Kthena's own CRD refuses a ModelServing, or the API server its name."""
    roles = (serving["spec"].get("template") or {}).get("roles") or ()
    name = str((serving.get("metadata") or {}).get("name"))
    return (
        serving.get("apiVersion") != "workload.serving.volcano.sh/v1alpha1"
        or "topologySpreadConstraints" in serving["spec"]
        or not roles
        or re.fullmatch("[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name) is None
        or any("entryTemplate" not in role or "networkTopology" in role for role in roles)
    )


def _led_to(route: Manifest, beside: Sequence[Manifest]) -> Iterator[Manifest]:
    """The ModelServers of a route, and the pods that they select."""
    rules = route["spec"].get("rules") or ()
    names = {
        target.get("modelServerName")
        for rule in rules
        for target in (rule or {}).get("targetModels") or ()
    }
    servers = [
        server
        for server in _once(beside, _KTHENA_SERVER)
        if (server.get("metadata") or {}).get("name") in names
    ]
    yield from servers
    selectors = [
        (server["spec"].get("workloadSelector") or {}).get("matchLabels") or {}
        for server in servers
    ]
    # Folders hold the same pods twice, made by either: one of them is applied.
    for selector in selectors:
        workloads = [
            workload
            for kind in (_KTHENA_SERVING, "Deployment")
            for workload in _once(beside, kind)
            if selector.items() <= _pod_labels(workload).items()
        ]
        yield from workloads[:1]


def _pod_labels(workload: Manifest) -> Manifest:
    """Labels of the pods of a Deployment or of the first role of a ModelServing."""
    template = workload["spec"].get("template") or {}
    roles = template.get("roles") or ({},)
    template_ = (
        template if workload["kind"] == "Deployment" else roles[0].get("entryTemplate") or {}
    )
    name = (workload.get("metadata") or {}).get("name")
    own_labels = (
        {"modelserving.volcano.sh/name": name} if workload["kind"] == _KTHENA_SERVING else {}
    )
    return {**((template_.get("metadata") or {}).get("labels") or {}), **own_labels}


def _once(documents: Sequence[Manifest], kind: str) -> list[Manifest]:
    """The objects of a kind, the first of each name."""
    by_name: Manifest = {}
    for document in documents:
        if document["kind"] == kind:
            by_name.setdefault((document.get("metadata") or {}).get("name"), document)
    return list(by_name.values())


def _scaled(policy: Manifest, beside: Sequence[Manifest]) -> list[Manifest]:
    """The ModelServing that a policy or a binding names, and the binding's policy."""
    text = str(policy["spec"])
    return [
        document
        for kind in (_KTHENA_SERVING, "AutoscalingPolicy")
        for document in _once(beside, kind)
        if document is not policy and repr((document.get("metadata") or {}).get("name")) in text
    ]


def modelplane(checkout: Path) -> Iterator[Sample]:
    """Every ModelDeployment, with the ModelCache and the ModelService of its folder."""
    return _distinct(_modelplane(checkout))


def _modelplane(checkout: Path) -> Iterator[Sample]:
    files = list(_published(checkout))
    caches = [
        cache for _, documents in files for cache in documents if cache["kind"] == "ModelCache"
    ]
    for name, documents in files:
        for document in documents:
            if document["kind"] != "ModelDeployment":
                continue
            wanted = repr(document["spec"])
            beside = [
                cache
                for cache in _once(caches, "ModelCache")
                if f"'modelCacheRef': {{'name': {cache['metadata']['name']!r}}}" in wanted
            ]
            shown = "'engines': [" in wanted or "'workers': {" in wanted
            yield Sample("deployments" if shown else "extracts", name, [document, *beside])


SYSTEMS: dict[str, Callable[[Path], Iterator[Sample]]] = {
    "kserve": kserve,
    "kthena": kthena,
    "modelplane": modelplane,
}


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The lines of a Markdown table, and the shares of each group."""
    yield "| Sample | Result | What is left out, or why |"
    yield "|---|---|---|"
    for row in outcomes:
        why = "<br>".join(text.replace("|", "\\|") for text in row.why)
        yield f"| {row.sample.name} | {row.result} | {why} |"
    yield ""
    totals = Counter(row.sample.group for row in outcomes)
    for group, count in totals.items():
        results = Counter(row.result for row in outcomes if row.sample.group == group)
        parts = [f"{results[result]} {result}" for result in ("accepted", "with loss", "refused")]
        share = 100 * results["accepted"] // count
        yield f"{group}: {count} samples, {', '.join(parts)}; {share} % as they are"
        uses = sum(row.sample.uses for row in outcomes if row.sample.group == group)
        if uses > count:
            read = sum(
                row.sample.uses
                for row in outcomes
                if row.sample.group == group and row.result == "accepted"
            )
            yield f"{group}: {read} of {uses} tests that apply them; {100 * read // uses} %"


def main() -> None:
    """Prints the table of a system's checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", choices=sorted(SYSTEMS))
    parser.add_argument("checkout", type=Path)
    options = parser.parse_args()
    outcomes = [outcome(sample) for sample in SYSTEMS[options.system](options.checkout)]
    print("\n".join(table(outcomes)))


if __name__ == "__main__":
    main()
