"""Small manifests for tables of cases, and their plans, objects and findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.findings import Finding, Severity
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.loading.validate import validate_document
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rules import catalog

Manifest = dict[str, Any]


def container(name: str = "vllm", gpus: Any = None, **more: Any) -> Manifest:
    """Return a vLLM container; without `gpus` it has the CPU image and requests only CPU."""
    limits = {"cpu": "1"} if gpus is None else {"nvidia.com/gpu": gpus}
    built = "-cpu" if gpus is None else ""
    value = {"image": f"vllm/vllm-openai:v0.11.0{built}", "args": ["--model", "m"]}
    return {"name": name, **value, "resources": {"limits": limits}, **more}


def template(*containers: Any, metadata: Any = None, **spec: Any) -> Manifest:
    """Return a pod template, of one plain container by default."""
    built: Manifest = {"spec": {"containers": list(containers) or [container()], **spec}}
    return built if metadata is None else {"metadata": metadata, **built}


def role(name: Any = "inference", component_type: Any = "worker", **more: Any) -> Manifest:
    """Return a role with a default pod template, without fields that are None."""
    built = {"name": name, "componentType": component_type, "template": template(), **more}
    return {key: value for key, value in built.items() if value is not None}


def on_port(port: int) -> Manifest:
    """Return a pod template whose engine listens on a port."""
    return template(container(args=["--model", "m", f"--port={port}"]))


def listening(name: str, port: int, component_type: str = "worker", **more: Any) -> Manifest:
    """Return a role whose engine listens on the role's `port`."""
    return role(name, component_type, port=port, template=on_port(port), **more)


def nodes(count: Any, **more: Any) -> Manifest:
    """Return `multinode` with this node count."""
    return {"nodeCount": count, **more}


def service(*roles: Any, metadata: Any = None, name: Any = "svc", **spec: Any) -> Manifest:
    """Return a service, of one plain role by default."""
    return {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"roles": list(roles) or [role()], **spec},
    }


def set_fields(manifest: Manifest, fields: Mapping[str, Any]) -> Manifest:
    """Set fields of a manifest by their paths in findings; None removes a field."""
    for path, value in fields.items():
        *parents, last = catalog._parse_path(path)
        parent: Any = manifest
        for part, following in zip(parents, [*parents[1:], last], strict=True):
            if part not in (range(len(parent)) if isinstance(parent, list) else parent):
                catalog._set_item(parent, part, [] if isinstance(following, int) else {})
            parent = parent[part]
        if value is None:
            del parent[last]
        else:
            catalog._set_item(parent, last, value)
    return manifest


def pod(*containers: Any, metadata: Any = None, **spec: Any) -> Manifest:
    """Return a service of one role with a pod template of these containers."""
    return service(role(template=template(*containers, metadata=metadata, **spec)))


def prefill_decode(prefill: Any = None, decode: Any = None, **spec: Any) -> Manifest:
    """Return a small service of one prefill and two decode replicas."""
    return service(
        role("prefill", "prefiller", **{"replicas": 1, **(prefill or {})}),
        role("decode", "decoder", **{"replicas": 2, **(decode or {})}),
        **spec,
    )


def scheduling(**fields: Any) -> Manifest:
    """Return `schedulingStrategy` as an argument of `service` and `prefill_decode`."""
    return {"schedulingStrategy": fields}


def minima(**roles: int) -> Manifest:
    """Return the `schedulingStrategy` of a gang with minimum replicas of these roles."""
    return scheduling(gangPolicy={"minRoleReplicas": roles})


def plan_of(manifest: Manifest) -> ServicePlan:
    """Return the plan of a valid manifest."""
    (args,) = load(manifest)
    return plan_service(args)


def rendered(manifest: Manifest) -> tuple[Manifest, ...]:
    """Return all objects of a manifest."""
    return render(plan_of(manifest))


def is_plain_data(value: Any) -> bool:
    """Return whether a value is plain data, which YAML and JSON can represent."""
    if type(value) is dict:
        return all(type(key) is str and is_plain_data(item) for key, item in value.items())
    if type(value) is list:
        return all(is_plain_data(item) for item in value)
    return value is None or type(value) in (bool, int, float, str)


def kinds(manifest: Manifest) -> list[str]:
    """Return kind and name of all objects of a manifest, in apply order."""
    return [f"{item['kind']}/{item['metadata']['name']}" for item in rendered(manifest)]


def of_kind(objects: Iterable[Manifest], kind: str) -> list[Manifest]:
    """Return the objects of a kind."""
    return [manifest for manifest in objects if manifest["kind"] == kind]


def pod_templates(manifest: Manifest) -> list[Manifest]:
    """Return every pod template of all LeaderWorkerSets of a manifest."""
    templates = []
    for workload in rendered(manifest):
        if workload["kind"] == "LeaderWorkerSet":
            body = workload["spec"]["leaderWorkerTemplate"]
            templates += [body[key] for key in ("leaderTemplate", "workerTemplate") if key in body]
    return templates


def serving_containers(manifest: Manifest) -> list[Manifest]:
    """Return the serving container of every pod template."""
    pods = [pod_template["spec"]["containers"] for pod_template in pod_templates(manifest)]
    return [next(c for c in containers if c["name"] == "vllm") for containers in pods]


def assert_one_line_errors(findings: Sequence[Finding]) -> None:
    """Assert that there are errors, and that each is one line."""
    assert findings
    assert "\n" not in "".join(str(finding) for finding in findings)


#: Rules that short pods like these violate; see `tests/pods`.
SHORT = ("accelerators-not-requested", "engine-on-loopback", "shared-memory-missing")


def plan_manifest(manifest: Any) -> tuple[ServicePlan | None, Sequence[Finding]]:
    """Return the plan of a manifest, or None if it is invalid, and all findings."""
    args, findings = validate_document(manifest)
    if args is None:
        return None, findings
    plan = plan_service(args)
    return plan, plan.findings


def list_findings(manifest: Any, *severities: Severity) -> list[str]:
    """Return the findings of a manifest, of these severities or all, without those of `SHORT`."""
    _, findings = plan_manifest(manifest)
    return [
        str(finding)
        for finding in findings
        if finding.rule not in SHORT and (not severities or finding.severity in severities)
    ]


def rules(manifest: Any, *severities: Severity) -> list[tuple[str, str]]:
    """Return rule and location of the findings of a manifest, of these severities or all."""
    _, findings = plan_manifest(manifest)
    chosen = [finding for finding in findings if not severities or finding.severity in severities]
    return [(item.rule, item.path) for item in chosen]


def problems(manifest: Any) -> list[str]:
    """Return the errors of a manifest."""
    return list_findings(manifest, Severity.ERROR)


def warnings(manifest: Any) -> list[str]:
    """Return the warnings of a manifest."""
    return list_findings(manifest, Severity.WARNING)
