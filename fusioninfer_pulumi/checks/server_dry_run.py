"""Server-side dry runs of a service's objects, and of the pods that controllers create from them.

The API server accepts a LeaderWorkerSet with invalid pod templates, whose pods are then never
created. So the pods are sent as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from fusioninfer_pulumi.checks.object_checks import find_user_field, render_distinct
from fusioninfer_pulumi.findings import (
    Finding,
    Location,
    Rule,
    error,
    format_path,
    info,
    one_line,
    warning,
)
from fusioninfer_pulumi.kube import pulumi_outputs
from fusioninfer_pulumi.kube.client import Answer, KubernetesApi, send_dry_runs
from fusioninfer_pulumi.kube.supported_products import find_products
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rules.common import CRD_NOT_INSTALLED
from fusioninfer_pulumi.topology.leader_worker_set import KIND as LEADER_WORKER_SET

Object = dict[str, Any]

API_SERVER_REJECTS = Rule("api-server-rejects")
API_SERVER_CHECK_INCOMPLETE = Rule("api-server-check-incomplete")

#: Namespace of dry runs of objects whose own namespace does not exist yet.
FALLBACK_NAMESPACE = "default"
#: Sent instead of an unknown value, because it is a valid name, label value, image and host name.
STAND_IN = "unknown"
#: Fields of a pod that name objects which the same program may create. For each: the API server's
#: message if the object is missing, and the pod's fields that the API server sets from the object.
POD_REFERENCES: Mapping[str, tuple[re.Pattern[str], tuple[str, ...]]] = {
    "serviceAccountName": (re.compile("error looking up service account"), ("serviceAccount",)),
    "priorityClassName": (
        re.compile("no PriorityClass with name"),
        ("priority", "preemptionPolicy"),
    ),
    "runtimeClassName": (re.compile('RuntimeClass ".*" not found'), ("overhead",)),
}
_LWS = "leaderworkerset.sigs.k8s.io"
#: Values in the format of those that controllers generate.
_HASH, _GROUP_KEY, _UID = "5d9f7c8b6", "0" * 40, "00000000-0000-0000-0000-000000000000"
_MAX_MESSAGE_LENGTH = 600


@dataclass(frozen=True)
class DryRunObject:
    """An object to send in a dry run, and its origin.

    Attributes:
        manifest: The object.
        rendered: Object of the plan: the manifest itself, or the owner of a derived pod.
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
        # The same update creates the pod's ServiceAccount, so the dry run omits it.
        spec = pod.manifest["spec"]
        if spec.get("serviceAccountName") in accounts:
            pod.manifest["spec"] = _drop_reference(spec, "serviceAccountName")
    return [*(DryRunObject(manifest, manifest) for manifest in rendered), *pods]


def check_on_api_server(
    api: KubernetesApi,
    plans: Sequence[ServicePlan],
    *,
    seconds: float,
    namespace: str = FALLBACK_NAMESPACE,
) -> list[tuple[Finding, ...]]:
    """Return the findings of each plan: what the API server would reject or could not check.

    Args:
        api: The cluster.
        plans: Plans without errors.
        seconds: Timeout for all dry runs together, in seconds.
        namespace: Namespace of services whose own is not known before the update.

    Raises:
        UnreadableError: The cluster does not respond, or does not accept the credentials.
    """
    dry_runs = [list_dry_run_objects(plan) for plan in plans]
    manifests = [_to_json(dry_run.manifest, namespace) for dry_run in chain(*dry_runs)]
    answers = iter(send_dry_runs(api, manifests, build_next_request, seconds))
    return [
        convert_answers(plan, list(zip(objects, answers, strict=False)), seconds)
        for plan, objects in zip(plans, dry_runs, strict=True)
    ]


def build_next_request(manifest: Mapping[str, Any], answer: Answer) -> Mapping[str, Any] | None:
    """Return the object to send next, without a missing reference or namespace; None to stop."""
    metadata = manifest["metadata"]
    if _is_namespace_missing(answer) and metadata.get("namespace") != FALLBACK_NAMESPACE:
        return {**manifest, "metadata": {**metadata, "namespace": FALLBACK_NAMESPACE}}
    reference = _find_reference(answer)
    if manifest["kind"] == "Pod" and reference in manifest["spec"]:
        return {**manifest, "spec": _drop_reference(manifest["spec"], reference)}
    return None


def convert_answers(
    plan: ServicePlan,
    results: Sequence[tuple[DryRunObject, Sequence[Answer] | None]],
    seconds: float,
) -> tuple[Finding, ...]:
    """Return the findings of the answers about a plan's objects; late answers are None."""
    by_field: dict[tuple[Location, str], Finding] = {}
    for dry_run, answers in results:
        for answer in answers or ():
            for reason, finding in _convert_answer(plan, dry_run, answer):
                # The API server rejects an invalid template twice: in its object and as a pod.
                by_field.setdefault((finding.location, reason), finding)
    unanswered = sum(answers is None for _, answers in results)
    if unanswered:
        message = f"{unanswered} of {len(results)} objects got no answer within {seconds:g} s"
        by_field[(), message] = warning(API_SERVER_CHECK_INCOMPLETE, (), message)
    return tuple(by_field.values())


def _convert_answer(
    plan: ServicePlan, dry_run: DryRunObject, answer: Answer
) -> Iterator[tuple[str, Finding]]:
    """Yield the findings of one answer, each with a reason that its duplicates share."""
    if answer.is_accepted:
        return
    kind = dry_run.manifest["kind"]
    at = find_user_field((), dry_run.rendered, plan)[0]
    if answer.code == 0:
        name = f"{kind} of {dry_run.manifest['apiVersion']}"
        message = f"the cluster does not serve kind {name}; install its CRD, or remove the field"
        yield name, warning(CRD_NOT_INSTALLED, at, message)
    elif _is_namespace_missing(answer):
        message = (
            f"the namespace does not exist yet: checked in {FALLBACK_NAMESPACE} instead, without "
            "its policies and quotas"
        )
        yield "", info(API_SERVER_CHECK_INCOMPLETE, ("metadata", "namespace"), message)
    elif _FORBIDDEN.search(answer.reply):
        message = f"{kind} not checked: {_shorten(answer.reply)}"
        yield kind, warning(API_SERVER_CHECK_INCOMPLETE, (), message)
    elif _is_unrelated_failure(answer):
        message = f"{dry_run.name} not checked: {_shorten(answer.reply)}"
        yield answer.reply, warning(API_SERVER_CHECK_INCOMPLETE, at, message)
    else:
        yield from _convert_rejection(plan, dry_run, answer)


def _convert_rejection(
    plan: ServicePlan, dry_run: DryRunObject, answer: Answer
) -> Iterator[tuple[str, Finding]]:
    stand_ins = list(pulumi_outputs.output_paths(dry_run.manifest))
    api = dry_run.manifest["apiVersion"]
    products = [product for product, kind in find_products(dry_run.manifest) if kind[0] == api]
    for field, reason in _list_causes(answer):
        location = _replace_merge_keys(parse_field(field), dry_run.manifest)
        if any(location[: len(path)] == path for path in stand_ins):
            continue  # about `STAND_IN`, not the real value
        at, is_exact = find_user_field((*dry_run.template, *location), dry_run.rendered, plan)
        if products and _UNKNOWN_FIELD.search(reason):
            message = (
                f"{products[-1].name}: {dry_run.manifest['kind']} has no field "
                f"{format_path(location)}; {plan.service} needs {products[-1].requirement}"
            )
            yield reason, error(CRD_NOT_INSTALLED, at, message)
            continue
        name = "" if is_exact or not location else f"{format_path(location)}: "
        is_uncertain = (
            _find_reference(answer)
            # The service's running pods count against the quota, but may be replaced.
            or "exceeded quota" in reason
            or _IMMUTABLE.search(reason)
            # A webhook may accept the pod only from the user of its controller.
            or (dry_run.template and _WEBHOOK in answer.reply)
        )
        make_finding = warning if is_uncertain else error
        message = f"the API server rejects {dry_run.name}: {name}{_shorten(reason)}"
        yield reason, make_finding(API_SERVER_REJECTS, at, message)


_FORBIDDEN = re.compile(r"\buser \".*\" cannot \w+ resource", re.IGNORECASE)
_WEBHOOK, _APPLY = "admission webhook", "failed to create typed patch object"
# Messages about fields that only a replacement changes; the last two are LeaderWorkerSet's.
_IMMUTABLE = re.compile(
    r"immutable|updates to .* for fields other than|subGroupSize after|subdomainPolicy as null",
    re.IGNORECASE,
)
_UNKNOWN_FIELD = re.compile(r"field not declared in schema|unknown field")
_FIELD = re.compile(r'(?<![\w/"])"?\.?((?:spec|metadata)[.\[][^\s:,]*)')


def _is_namespace_missing(answer: Answer) -> bool:
    return answer.code == 404 and answer.resource == "namespaces"


def _find_reference(answer: Answer) -> str:
    """Return the field of a pod that names a missing object, empty for any other answer."""
    if answer.code == 403:
        for field, (pattern, _) in POD_REFERENCES.items():
            if pattern.search(answer.reply):
                return field
    return ""


def _is_unrelated_failure(answer: Answer) -> bool:
    """Return whether the request failed for a reason other than the object's content."""
    if _APPLY in answer.reply:
        return False  # about the object, although the status is 500
    failed = answer.code in (404, 409, 429) or answer.code >= 500
    return failed or "does not support dry run" in answer.reply


def _list_causes(answer: Answer) -> Sequence[tuple[str, str]]:
    """Return field and reason of each cause, parsed from the message if it lists no causes."""
    if answer.causes:
        return answer.causes
    reason = _OBJECT_PREFIX.sub("", answer.reply)
    if reference := _find_reference(answer):
        return [(f"spec.{reference}", reason)]
    field = _FIELD.search(reason)
    return [(field[1].strip('"') if field else "", reason)]


# Prefixes that name the object, removed because the finding names it, too.
_OBJECT_PREFIX = re.compile(
    r"""^([\w.]+ "[^"]*" is forbidden|failed to create typed patch object \([^)]*\)): (errors: )?"""
)
_MERGE_KEY = re.compile(r'(\w+)="?([^",]*)"?')
_PART = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def parse_field(field: str) -> Location:
    """Parse a field in the API server's notation: `spec.containers[0].env[2].name`."""
    return tuple(
        int(index) if index.isdigit() else index or key for index, key in _PART.findall(field)
    )


def _replace_merge_keys(location: Location, value: Any) -> Location:
    indexed: list[str | int] = []
    for part in location:
        key = (
            _find_index(part, value) if isinstance(value, list) and isinstance(part, str) else part
        )
        indexed.append(key)
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            value = None
    return tuple(indexed)


def _find_index(part: str, items: Sequence[Any]) -> str | int:
    """Return the index of the item with a merge key such as `name="vllm"`, else the key."""
    keys = dict(_MERGE_KEY.findall(part))
    for index, item in enumerate(items):
        if keys and all(str(item.get(key)) == text for key, text in keys.items()):
            return index
    return part


def _shorten(message: str) -> str:
    text = one_line(message)
    return text if len(text) <= _MAX_MESSAGE_LENGTH else f"{text[: _MAX_MESSAGE_LENGTH - 1]}…"


def _to_json(manifest: Object, namespace: str) -> Object:
    """Return the object as JSON, with `STAND_IN` for unknown values."""
    content: Object = _replace_unknown(manifest)
    if pulumi_outputs.is_output(manifest["metadata"].get("namespace")):
        content["metadata"]["namespace"] = namespace
    return content


def _replace_unknown(value: Any) -> Any:
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
        labels, owner = {"job-name": name}, (manifest["apiVersion"], kind, name)
        if kind == "Deployment":
            labels, owner = (
                {"pod-template-hash": _HASH},
                ("apps/v1", "ReplicaSet", f"{name}-{_HASH}"),
            )
        template = _add_metadata(manifest["spec"]["template"], labels, {})
        yield DryRunObject(
            _build_pod(manifest, template, f"{name}-{_HASH}-x", owner),
            manifest,
            ("spec", "template"),
        )


def _derive_replica_pods(lws: Object) -> Iterator[DryRunObject]:
    """Yield the leader and the last worker of a replica, as LeaderWorkerSet 0.9 creates them.

    LeaderWorkerSet's webhook adds variables and addresses during the dry run.
    """
    name, spec = lws["metadata"]["name"], lws["spec"]
    group = spec["leaderWorkerTemplate"]
    size, policy, leader = group["size"], group.get("subGroupPolicy"), f"{name}-0"
    is_shared = (spec.get("networkConfig") or {}).get("subdomainPolicy", "Shared") == "Shared"
    annotations = {f"{_LWS}/size": str(size)}
    if policy:
        annotations[f"{_LWS}/subgroup-size"] = str(policy["subGroupSize"])
    leader_annotations = {} if is_shared else {f"{_LWS}/subdomainPolicy": "UniquePerReplica"}
    yield _build_stateful_set_pod(
        lws,
        "leaderTemplate" if "leaderTemplate" in group else "workerTemplate",
        (name, name, 0),
        {f"{_LWS}/name": name, f"{_LWS}/worker-index": "0"},
        {**annotations, **leader_annotations},
    )
    if size > 1:
        yield _build_stateful_set_pod(
            lws,
            "workerTemplate",
            (leader, name if is_shared else leader, size - 1),
            {f"{_LWS}/group-index": "0", f"{_LWS}/name": name, f"{_LWS}/group-key": _GROUP_KEY},
            {**annotations, f"{_LWS}/leader-name": leader},
        )


def _build_stateful_set_pod(
    lws: Object,
    key: str,
    names: tuple[str, str, int],
    selector: Mapping[str, str],
    annotations: Mapping[str, str],
) -> DryRunObject:
    """Build a pod of a StatefulSet with a template of a LeaderWorkerSet.

    `names`: the StatefulSet, its Service, and the pod's ordinal.
    """
    stateful_set, subdomain, ordinal = names
    name = f"{stateful_set}-{ordinal}"
    pod_labels = {
        **selector,
        f"{_LWS}/template-revision-hash": _HASH,
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
        "controller-revision-hash": f"{stateful_set}-{_HASH}",
    }
    template = _add_metadata(lws["spec"]["leaderWorkerTemplate"][key], pod_labels, annotations)
    pod = _build_pod(lws, template, name, ("apps/v1", "StatefulSet", stateful_set))
    pod["spec"] |= {"hostname": name, "subdomain": subdomain}
    return DryRunObject(pod, lws, ("spec", "leaderWorkerTemplate", key))


def _add_metadata(
    template: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Object:
    metadata = template.get("metadata") or {}
    more = {
        "labels": {**(metadata.get("labels") or {}), **labels},
        "annotations": {**(metadata.get("annotations") or {}), **annotations},
    }
    return {**template, "metadata": {**metadata, **more}}


def _build_pod(source: Object, template: Object, name: str, owner: tuple[str, str, str]) -> Object:
    """Build a pod; `owner` is the version, kind and name of its controller."""
    version, kind, owner_name = owner
    reference = {"apiVersion": version, "kind": kind, "name": owner_name, "uid": _UID}
    metadata = {
        **template["metadata"],
        "name": name,
        "namespace": source["metadata"].get("namespace"),
        "ownerReferences": [{**reference, "controller": True}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": dict(template["spec"]),
    }


def _drop_reference(spec: Mapping[str, Any], reference: str) -> Object:
    """Return a pod's spec without a reference and the fields derived from it."""
    fields = (reference, *POD_REFERENCES[reference][1])
    return {key: value for key, value in spec.items() if key not in fields}
