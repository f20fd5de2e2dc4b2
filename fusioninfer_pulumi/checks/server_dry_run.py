"""Server-side dry runs of a service's objects, and of the pods that controllers create from them.

The API server accepts a LeaderWorkerSet with invalid pod templates, although its pods can never be
created. Therefore the pods are also sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.checks.live_cluster import FALLBACK_NAMESPACE, ClusterFindings, LiveCluster
from fusioninfer_pulumi.checks.object_checks import find_user_field, render_distinct
from fusioninfer_pulumi.findings import (
    Finding,
    Location,
    Rule,
    error,
    format_path,
    info,
    parse_path,
    warning,
)
from fusioninfer_pulumi.kube import pulumi_outputs
from fusioninfer_pulumi.kube.client import Object, Response, send_dry_runs
from fusioninfer_pulumi.kube.supported_products import find_products
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rules.common import CRD_NOT_INSTALLED
from fusioninfer_pulumi.topology.leader_worker_set import KIND as LEADER_WORKER_SET

API_SERVER_REJECTS = Rule("api-server-rejects")
API_SERVER_CHECK_INCOMPLETE = Rule("api-server-check-incomplete")

#: Sent instead of an unknown value. It is a valid name, label value, image and host name.
STAND_IN = "unknown"
#: Fields of a pod that name objects which the same program may create. Each is mapped to the API
#: server's message about a missing object, and to the fields that the API server copies from the
#: object to the pod.
POD_REFERENCES: Mapping[str, tuple[re.Pattern[str], tuple[str, ...]]] = {
    "serviceAccountName": (re.compile("error looking up service account"), ("serviceAccount",)),
    "priorityClassName": (
        re.compile("no PriorityClass with name"),
        ("priority", "preemptionPolicy"),
    ),
    "runtimeClassName": (re.compile('RuntimeClass ".*" not found'), ("overhead",)),
}
_LWS = "leaderworkerset.sigs.k8s.io"
#: Values in the format of values that controllers generate.
_HASH, _GROUP_KEY, _UID = "5d9f7c8b6", "0" * 40, "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class DryRunObject:
    """An object to send in a dry run, and the rendered object that it is derived from.

    Attributes:
        manifest: The object.
        rendered: The plan's object: the manifest itself, or the owner of a derived pod.
        template: Location of a derived pod's template in `rendered`; empty for `rendered` itself.
    """

    manifest: Object
    rendered: Object
    template: Location = ()

    @property
    def name(self) -> str:
        """Kind and name for messages."""
        name = f"{self.rendered['kind']} {self.rendered['metadata']['name']}"
        return f"the Pod of {name}" if self.template else name


def list_dry_run_objects(plan: ServicePlan) -> list[DryRunObject]:
    """Return the distinct objects of a plan, and the pods that controllers create from them."""
    rendered = render_distinct(plan)
    accounts = {
        manifest["metadata"]["name"]
        for manifest in rendered
        if manifest["kind"] == "ServiceAccount"
    }
    pods = [pod for manifest in rendered for pod in _derive_pods(manifest)]
    for pod in pods:
        spec = pod.manifest["spec"]
        if spec.get("serviceAccountName") in accounts:
            # The update creates this ServiceAccount, so the API server may not know it yet.
            pod.manifest["spec"] = _drop_reference(spec, "serviceAccountName")
    return [*(DryRunObject(manifest, manifest) for manifest in rendered), *pods]


def check_dry_runs(cluster: LiveCluster) -> ClusterFindings:
    """Yield findings about objects that the API server rejects or cannot check."""
    dry_runs = [(plan, item) for plan in cluster.plans for item in list_dry_run_objects(plan)]
    manifests = [_replace_unknown(dry_run.manifest) for _, dry_run in dry_runs]
    seconds = cluster.remaining_seconds
    results = send_dry_runs(cluster.api, manifests, build_next_request, seconds)
    reported: set[tuple[Any, ...]] = set()
    for (plan, dry_run), responses in zip(dry_runs, results, strict=True):
        for response in responses or ():
            for cause, finding_plan, finding in _convert_response(plan, dry_run, response):
                # The API server rejects an invalid template twice: in its object and as a pod.
                key = (id(finding_plan), finding.location, cause)
                if key not in reported:
                    reported.add(key)
                    yield finding_plan, finding
    if unanswered := results.count(None):
        message = f"{unanswered} of {len(results)} objects got no response within {seconds:g} s"
        yield None, warning(API_SERVER_CHECK_INCOMPLETE, (), message)


def build_next_request(manifest: Mapping[str, Any], response: Response) -> Mapping[str, Any] | None:
    """Return the object to send next, or None if no other request is needed.

    If the object's namespace is missing, the next request is in `default`. If the object refers to
    a missing object, the next request omits the reference.
    """
    metadata = manifest["metadata"]
    if _is_namespace_missing(response) and metadata.get("namespace") != FALLBACK_NAMESPACE:
        return {**manifest, "metadata": {**metadata, "namespace": FALLBACK_NAMESPACE}}
    reference = _find_missing_reference(response)
    if manifest["kind"] == "Pod" and reference in manifest["spec"]:
        return {**manifest, "spec": _drop_reference(manifest["spec"], reference)}
    return None


def _convert_response(
    plan: ServicePlan, dry_run: DryRunObject, response: Response
) -> Iterator[tuple[str, ServicePlan | None, Finding]]:
    """Yield cause, plan (None for the cluster as a whole) and finding of each problem."""
    if response.is_accepted or response.code == 0:
        return  # code 0: the cluster does not serve the kind, which `check_apis` reports
    kind = dry_run.manifest["kind"]
    if _is_namespace_missing(response):
        message = (
            f"the namespace does not exist yet: checked in {FALLBACK_NAMESPACE} instead, without "
            "its policies and quotas"
        )
        yield "", plan, info(API_SERVER_CHECK_INCOMPLETE, ("metadata", "namespace"), message)
    elif _is_unrelated_failure(response):
        message = f"{kind} not checked: {response.reply}"
        yield kind, None, warning(API_SERVER_CHECK_INCOMPLETE, (), message)
    else:
        for cause, finding in _convert_rejection(plan, dry_run, response):
            yield cause, plan, finding


def _convert_rejection(
    plan: ServicePlan, dry_run: DryRunObject, response: Response
) -> Iterator[tuple[str, Finding]]:
    output_paths = list(pulumi_outputs.output_paths(dry_run.manifest))
    api_version = dry_run.manifest["apiVersion"]
    # Products that provide the object's own kind, not an API that one of its fields needs.
    products = [
        product for product, (api, _) in find_products(dry_run.manifest) if api == api_version
    ]
    for field, reason in _list_causes(response):
        location = parse_path(field)
        if any(location[: len(path)] == path for path in output_paths):
            continue  # about `STAND_IN`, not the real value
        user_location, is_exact = find_user_field(
            (*dry_run.template, *location), dry_run.rendered, plan
        )
        if products and _UNKNOWN_FIELD.search(reason):
            message = (
                f"{products[-1].name}: {dry_run.manifest['kind']} has no field "
                f"{format_path(location)}; install {products[-1].requirement}"
            )
            yield reason, error(CRD_NOT_INSTALLED, user_location, message)
            continue
        prefix = "" if is_exact or not location else f"{format_path(location)}: "
        is_uncertain = (
            _find_missing_reference(response)
            # The service's running pods count against the quota, but may be replaced.
            or "exceeded quota" in reason
            or _IMMUTABLE.search(reason)
            # A webhook may accept the pod only from its controller's ServiceAccount.
            or (dry_run.template and _WEBHOOK in response.reply)
        )
        make_finding = warning if is_uncertain else error
        message = f"the API server rejects {dry_run.name}: {prefix}{reason}"
        yield reason, make_finding(API_SERVER_REJECTS, user_location, message)


_NOT_CHECKED = re.compile(
    r"\buser \".*\" cannot \w+ resource|does not support dry run", re.IGNORECASE
)
_WEBHOOK, _APPLY_ERROR = "admission webhook", "failed to create typed patch object"
# Messages about fields that cannot be updated; the last two are from LeaderWorkerSet's webhook.
_IMMUTABLE = re.compile(
    r"immutable|updates to .* for fields other than|subGroupSize after|subdomainPolicy as null",
    re.IGNORECASE,
)
_UNKNOWN_FIELD = re.compile(r"field not declared in schema|unknown field")
#: A field that a message mentions, such as `.spec.containers[0].image`.
_FIELD = re.compile(r'(?<![\w/"])"?\.?((?:spec|metadata)[.\[][^\s:,]*)')


def _is_namespace_missing(response: Response) -> bool:
    return response.code == 404 and response.resource == "namespaces"


def _find_missing_reference(response: Response) -> str:
    """Return the field of a pod that names a missing object, or empty for other responses."""
    if response.code == 403:
        for field, (pattern, _) in POD_REFERENCES.items():
            if pattern.search(response.reply):
                return field
    return ""


def _is_unrelated_failure(response: Response) -> bool:
    """Return whether the request failed for a reason other than the object's content."""
    if _APPLY_ERROR in response.reply:
        return False  # about the object, although the status is 500
    failed = response.code in (404, 409, 429) or response.code >= 500
    return failed or _NOT_CHECKED.search(response.reply) is not None


def _list_causes(response: Response) -> Sequence[tuple[str, str]]:
    """Return field and reason of each cause; if there are none, parse the reply into one."""
    if response.causes:
        return response.causes
    reason = _OBJECT_PREFIX.sub("", response.reply)
    if reference := _find_missing_reference(response):
        return [(f"spec.{reference}", reason)]
    field = _FIELD.search(reason)
    return [(field[1].strip('"') if field else "", reason)]


# Prefixes that name the object. They are removed from messages, because findings name the object.
_OBJECT_PREFIX = re.compile(
    r"""^([\w.]+ "[^"]*" is forbidden|failed to create typed patch object \([^)]*\)): (errors: )?"""
)


def _replace_unknown(value: Any) -> Any:
    """Return a copy in which `STAND_IN` replaces unknown values."""
    if isinstance(value, Mapping):
        return {key: _replace_unknown(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace_unknown(item) for item in value]
    if isinstance(value, str):
        return STAND_IN if value in (pulumi_outputs.UNKNOWN, pulumi_outputs.PLACEHOLDER) else value
    return STAND_IN if pulumi_outputs.is_output(value) else value


def _derive_pods(manifest: Object) -> Iterator[DryRunObject]:
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    if kind == LEADER_WORKER_SET:
        yield from _derive_replica_pods(manifest)
    elif kind in ("Deployment", "DaemonSet", "Job"):
        owner_kind = "ReplicaSet" if kind == "Deployment" else kind
        owner = (manifest["apiVersion"], owner_kind, f"{name}-{_HASH}")
        yield _derive_pod(manifest, ("spec", "template"), f"{name}-{_HASH}-x", owner)


def _derive_replica_pods(lws: Object) -> Iterator[DryRunObject]:
    """Yield the leader pod and the last worker pod, if any, as LeaderWorkerSet 0.9 creates them.

    LeaderWorkerSet's webhook adds variables and addresses during the dry run.
    """
    name, spec = lws["metadata"]["name"], lws["spec"]
    template, leader_name = spec["leaderWorkerTemplate"], f"{name}-0"
    size, policy = template["size"], template.get("subGroupPolicy")
    is_shared = (spec.get("networkConfig") or {}).get("subdomainPolicy", "Shared") == "Shared"
    annotations = {f"{_LWS}/size": str(size)}
    if policy:
        annotations[f"{_LWS}/subgroup-size"] = str(policy["subGroupSize"])
    leader_annotations = {} if is_shared else {f"{_LWS}/subdomainPolicy": "UniquePerReplica"}
    path = ("spec", "leaderWorkerTemplate")
    leader_key = "leaderTemplate" if "leaderTemplate" in template else "workerTemplate"
    yield _derive_pod(
        lws,
        path=(*path, leader_key),
        name=leader_name,
        owner=("apps/v1", "StatefulSet", name),
        labels={f"{_LWS}/name": name, f"{_LWS}/worker-index": "0"},
        annotations={**annotations, **leader_annotations},
        subdomain=name,
    )
    if size > 1:
        yield _derive_pod(
            lws,
            path=(*path, "workerTemplate"),
            name=f"{leader_name}-{size - 1}",
            owner=("apps/v1", "StatefulSet", leader_name),
            labels={
                f"{_LWS}/group-index": "0",
                f"{_LWS}/name": name,
                f"{_LWS}/group-key": _GROUP_KEY,
            },
            annotations={**annotations, f"{_LWS}/leader-name": leader_name},
            subdomain=name if is_shared else leader_name,
        )


def _derive_pod(
    rendered: Object,
    path: Location,
    name: str,
    owner: tuple[str, str, str],
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    subdomain: str = "",
) -> DryRunObject:
    """Return a pod that is created from the template at `path` in `rendered`.

    `owner` is the apiVersion, kind and name of the pod's controller. `subdomain` is set for pods of
    StatefulSets, whose host name is the pod's name.
    """
    template: Any = rendered
    for key in path:
        template = template[key]
    metadata = template.get("metadata") or {}
    api_version, kind, owner_name = owner
    reference = {"apiVersion": api_version, "kind": kind, "name": owner_name, "uid": _UID}
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "labels": {**(metadata.get("labels") or {}), **(labels or {})},
            "annotations": {**(metadata.get("annotations") or {}), **(annotations or {})},
            "name": name,
            "namespace": rendered["metadata"].get("namespace"),
            "ownerReferences": [{**reference, "controller": True}],
        },
        "spec": dict(template["spec"]),
    }
    if subdomain:
        pod["spec"] |= {"hostname": name, "subdomain": subdomain}
    return DryRunObject(pod, rendered, path)


def _drop_reference(spec: Mapping[str, Any], reference: str) -> Object:
    """Return a pod's spec without a reference and the fields derived from it."""
    _, derived_fields = POD_REFERENCES[reference]
    dropped = (reference, *derived_fields)
    return {key: value for key, value in spec.items() if key not in dropped}
