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

from fusioninfer_pulumi.cli.planned import Source
from fusioninfer_pulumi.cli.sources import plan_all
from fusioninfer_pulumi.findings import Finding, Origin, Severity
from fusioninfer_pulumi.loading.documents import read_all

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
        lost = {str(each) for each in _findings(sample, lossy=True)} & {
            str(each).replace("error: ", "warning: ", 1) for each in refused
        }
        return Outcome(sample, "with loss", sorted(lost) or [str(each) for each in refused])
    return Outcome(sample, "refused", [str(each) for each in still])


def _said(sample: Sample, severity: Severity, *, lossy: bool) -> list[Finding]:
    return [each for each in _findings(sample, lossy=lossy) if each.severity is severity]


def _findings(sample: Sample, *, lossy: bool) -> list[Finding]:
    labelled = [(Origin("", number), each) for number, each in enumerate(sample.documents, 1)]
    source = Source(sample.name)
    plan_all(source, read_all(labelled, allow_lossy=lossy))
    return [finding for _, finding in source.findings]


def kserve(checkout: Path) -> Iterator[Sample]:
    """KServe's documentation samples, and the services of its end-to-end tests."""
    yield from _kserve_samples(checkout / "docs" / "samples" / "llmisvc")
    yield from _kserve_fixtures(checkout / "test" / "e2e" / "llmisvc")


def _kserve_samples(folder: Path) -> Iterator[Sample]:
    """Each file with a service, with the other files of its folder that it refers to."""
    files = {path: _documents(path) for path in sorted(folder.rglob("*.yaml"))}
    for path, documents in files.items():
        services = [each for each in documents if each["kind"] == "LLMInferenceService"]
        if not services:
            continue
        wanted = {ref["name"] for each in services for ref in each["spec"].get("baseRefs", ())}
        beside = [
            each
            for other, its in files.items()
            for each in its
            if other != path and other.parent == path.parent and each["metadata"]["name"] in wanted
        ]
        read = [each for each in documents if each["kind"] in _KSERVE_KINDS]
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
        given = {each.arg: each.value for each in node.keywords}
        listed, name = given.get("base_refs"), given.get("service_name")
        if not isinstance(listed, ast.List):
            continue
        refs = [each.value for each in listed.elts if isinstance(each, ast.Constant)]
        own = name.value if isinstance(name, ast.Constant) else "service"
        if refs and len(refs) == len(listed.elts):
            yield tuple(str(each) for each in refs), str(own)


def _kserve_service(name: str, refs: Iterable[str]) -> Manifest:
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "LLMInferenceService",
        "metadata": {"name": name, "namespace": "e2e"},
        "spec": {"baseRefs": [{"name": _sanitized(each)} for each in refs]},
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
    modules: dict[str, Any] = {each: MagicMock() for each in (*stubs, "pytest")}
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
        each
        for each in yaml.load_all(text, Loader=_LOADER)
        if isinstance(each, dict) and "kind" in each
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
            found = _FENCED.findall(path.read_text(encoding="utf-8"))
            texts = [
                "\n".join(line.removeprefix(indent) for line in text.splitlines())
                for indent, text in found
            ]
        else:
            continue
        read = [each for text in texts for each in _objects(text)]
        if read:
            yield str(name), read


def _objects(text: str) -> list[Manifest]:
    """The complete Kubernetes objects of a text; none where it is a template or an extract."""
    try:
        read = list(yaml.load_all(text, Loader=_LOADER))
    except yaml.YAMLError:
        return []
    return [each for each in read if isinstance(each, dict) and {"kind", "spec"} <= set(each)]


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
        # A page is a whole of its own, and so is a folder of files.
        whole = name if name.endswith(".md") else str(Path(name).parent)
        folders.setdefault(whole, []).extend(documents)
    for name, documents in files:
        beside = folders[name if name.endswith(".md") else str(Path(name).parent)]
        for each in documents:
            title = f"{name}: {(each.get('metadata') or {}).get('name')}"
            if each["kind"] == _KTHENA_SERVING:
                valid = "invalid" if _is_invalid(each) else "valid"
                yield Sample(f"{valid} servings", title, [each])
            elif each["kind"] in _KTHENA_ROUTE:
                yield Sample("routes", title, [each, *_led_to(each, beside)])
            elif each["kind"] in _KTHENA_POLICIES:
                yield Sample("policies", title, [each, *_scaled(each, beside)])


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
        each
        for each in _once(beside, _KTHENA_SERVER)
        if (each.get("metadata") or {}).get("name") in names
    ]
    yield from servers
    selectors = [
        (each["spec"].get("workloadSelector") or {}).get("matchLabels") or {} for each in servers
    ]
    # Folders hold the same pods twice, made by either: one of them is applied.
    for selector in selectors:
        found = [
            each
            for kind in (_KTHENA_SERVING, "Deployment")
            for each in _once(beside, kind)
            if selector.items() <= _pod_labels(each).items()
        ]
        yield from found[:1]


def _pod_labels(workload: Manifest) -> Manifest:
    """Labels of the pods of a Deployment or of the first role of a ModelServing."""
    template = workload["spec"].get("template") or {}
    roles = template.get("roles") or ({},)
    held = template if workload["kind"] == "Deployment" else roles[0].get("entryTemplate") or {}
    name = (workload.get("metadata") or {}).get("name")
    own = {"modelserving.volcano.sh/name": name} if workload["kind"] == _KTHENA_SERVING else {}
    return {**((held.get("metadata") or {}).get("labels") or {}), **own}


def _once(documents: Sequence[Manifest], kind: str) -> list[Manifest]:
    """The objects of a kind, the first of each name."""
    found: Manifest = {}
    for each in documents:
        if each["kind"] == kind:
            found.setdefault((each.get("metadata") or {}).get("name"), each)
    return list(found.values())


def _scaled(policy: Manifest, beside: Sequence[Manifest]) -> list[Manifest]:
    """The ModelServing that a policy or a binding names, and the binding's policy."""
    text = str(policy["spec"])
    return [
        each
        for kind in (_KTHENA_SERVING, "AutoscalingPolicy")
        for each in _once(beside, kind)
        if each is not policy and repr((each.get("metadata") or {}).get("name")) in text
    ]


def modelplane(checkout: Path) -> Iterator[Sample]:
    """Every ModelDeployment, with the ModelCache and the ModelService of its folder."""
    return _distinct(_modelplane(checkout))


def _modelplane(checkout: Path) -> Iterator[Sample]:
    files = list(_published(checkout))
    caches = [each for _, documents in files for each in documents if each["kind"] == "ModelCache"]
    for name, documents in files:
        for each in documents:
            if each["kind"] != "ModelDeployment":
                continue
            wanted = repr(each["spec"])
            beside = [
                cache
                for cache in _once(caches, "ModelCache")
                if f"'modelCacheRef': {{'name': {cache['metadata']['name']!r}}}" in wanted
            ]
            shown = "'engines': [" in wanted or "'workers': {" in wanted
            yield Sample("deployments" if shown else "extracts", name, [each, *beside])


SYSTEMS: dict[str, Callable[[Path], Iterator[Sample]]] = {
    "kserve": kserve,
    "kthena": kthena,
    "modelplane": modelplane,
}


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The lines of a Markdown table, and the shares of each group."""
    yield "| Sample | Result | What is left out, or why |"
    yield "|---|---|---|"
    for each in outcomes:
        why = "<br>".join(text.replace("|", "\\|") for text in each.why)
        yield f"| {each.sample.name} | {each.result} | {why} |"
    yield ""
    totals = Counter(each.sample.group for each in outcomes)
    for group, count in totals.items():
        own = Counter(each.result for each in outcomes if each.sample.group == group)
        parts = [f"{own[result]} {result}" for result in ("accepted", "with loss", "refused")]
        share = 100 * own["accepted"] // count
        yield f"{group}: {count} samples, {', '.join(parts)}; {share} % as they are"
        uses = sum(each.sample.uses for each in outcomes if each.sample.group == group)
        if uses > count:
            read = sum(
                each.sample.uses
                for each in outcomes
                if each.sample.group == group and each.result == "accepted"
            )
            yield f"{group}: {read} of {uses} tests that apply them; {100 * read // uses} %"


def main() -> None:
    """Prints the table of a system's checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", choices=sorted(SYSTEMS))
    parser.add_argument("checkout", type=Path)
    options = parser.parse_args()
    outcomes = [outcome(each) for each in SYSTEMS[options.system](options.checkout)]
    print("\n".join(table(outcomes)))


if __name__ == "__main__":
    main()
