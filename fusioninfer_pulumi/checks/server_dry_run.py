"""The API server's dry run of a service's objects, and of the pods created from them.

The API server accepts a LeaderWorkerSet whose pod templates are invalid, and its replicas then
never appear. So the pods that controllers would create are sent as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fusioninfer_pulumi.checks.object_checks import find_user_field
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
from fusioninfer_pulumi.kube.client import KubernetesApi
from fusioninfer_pulumi.kube.dry_run import Answer, DryRunRequest, send_dry_runs
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.leader_worker_set import KIND as LEADER_WORKER_SET

Object = dict[str, Any]

API_SERVER_REFUSES = Rule("api-server-refuses")
KIND_NOT_INSTALLED = Rule("kind-not-installed")
API_SERVER_NOT_ASKED = Rule("api-server-not-asked")

#: Namespace in which objects are sent while their own does not exist.
FALLBACK_NAMESPACE = "default"
#: Sent in place of a value that is not known yet: a valid name, label value, image and host name.
STAND_IN = "unknown"
#: Fields of a pod with objects that other parts of a program may create first: the server's message
#: if they are missing, and the fields derived from them.
REFERENCES: Mapping[str, tuple[re.Pattern[str], tuple[str, ...]]] = {
    "serviceAccountName": (re.compile("error looking up service account"), ("serviceAccount",)),
    "priorityClassName": (
        re.compile("no PriorityClass with name"),
        ("priority", "preemptionPolicy"),
    ),
    "runtimeClassName": (re.compile('RuntimeClass ".*" not found'), ("overhead",)),
}
_LWS = "leaderworkerset.sigs.k8s.io"
#: A hash as the controllers write it.
_HASH, _KEY, _UID = "5d9f7c8b6", "0" * 40, "00000000-0000-0000-0000-000000000000"
_WORDS = 600


@dataclass(frozen=True)
class DryRunObject:
    """An object to send in a dry run, and where it comes from.

    Attributes:
        manifest: The object.
        rendered: The object of the plan that it is, or that it is made of.
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
    """Return the distinct objects of a plan, and those that controllers create from them.

    Replicas of a role differ in names only, and so do serving groups.
    """
    once = replace(
        plan,
        roles=tuple(replace(role, lws=role.lws[:1]) for role in plan.roles),
        gangs=plan.gangs[:1],
    )
    rendered = render(once)
    accounts = {
        manifest["metadata"]["name"]
        for manifest in rendered
        if manifest["kind"] == "ServiceAccount"
    }
    derived = [attempt for manifest in rendered for attempt in _derived(manifest)]
    for attempt in derived:
        # The account is created in the same update.
        spec = attempt.manifest["spec"]
        if attempt.manifest["kind"] == "Pod" and spec.get("serviceAccountName") in accounts:
            attempt.manifest["spec"] = _without(spec, "serviceAccountName")
    return [*(DryRunObject(manifest, manifest) for manifest in rendered), *derived]


def check_on_api_server(
    api: KubernetesApi,
    plans: Sequence[ServicePlan],
    *,
    seconds: float,
    namespace: str = FALLBACK_NAMESPACE,
) -> list[tuple[Finding, ...]]:
    """Return what the API server would reject of each plan without errors; nothing is stored.

    Args:
        api: The cluster.
        plans: Plans without errors.
        seconds: How long all of it may take.
        namespace: Namespace of services whose own is not known before the update.

    Raises:
        UnreadableError: The cluster does not respond, or does not accept the credentials.
    """
    return [
        findings_of_answers(plan, results, seconds)
        for plan, results in zip(
            plans, dry_run_objects(api, plans, seconds=seconds, namespace=namespace), strict=True
        )
    ]


def dry_run_objects(
    api: KubernetesApi,
    plans: Sequence[ServicePlan],
    *,
    seconds: float,
    namespace: str = FALLBACK_NAMESPACE,
) -> list[list[tuple[DryRunObject, list[Answer] | None]]]:
    """Return the answers to the objects of each plan; arguments as in `check_on_api_server`."""
    attempts = [
        (index, attempt)
        for index, plan in enumerate(plans)
        for attempt in list_dry_run_objects(plan)
    ]
    trials = [
        DryRunRequest(
            _sendable(attempt.manifest, namespace), created=attempt.manifest["kind"] == "Pod"
        )
        for _, attempt in attempts
    ]
    by_plan: list[list[tuple[DryRunObject, list[Answer] | None]]] = [[] for _ in plans]
    for (index, attempt), answers in zip(
        attempts, send_dry_runs(api, trials, next_request, seconds), strict=True
    ):
        by_plan[index].append((attempt, answers))
    return by_plan


def next_request(manifest: Mapping[str, Any], answer: Answer) -> Mapping[str, Any] | None:
    """Return the next request after an answer about another object; None for no further one."""
    metadata = manifest["metadata"]
    if _lacks_namespace(answer) and metadata.get("namespace") != FALLBACK_NAMESPACE:
        return {**manifest, "metadata": {**metadata, "namespace": FALLBACK_NAMESPACE}}
    reference = _missing_reference(answer)
    if manifest["kind"] == "Pod" and reference in manifest["spec"]:
        return {**manifest, "spec": _without(manifest["spec"], reference)}
    return None


def findings_of_answers(
    plan: ServicePlan,
    results: Sequence[tuple[DryRunObject, Sequence[Answer] | None]],
    seconds: float,
) -> tuple[Finding, ...]:
    """Return the findings of all answers to the objects of a plan, without duplicates."""
    by_field: dict[tuple[Location, str], Finding] = {}
    for dry_run, answers in results:
        for answer in answers or ():
            for words, finding in _of_answer(plan, dry_run, answer):
                # A template is rejected in its object and in its pod.
                by_field.setdefault((finding.location, words), finding)
    unanswered = sum(answers is None for _, answers in results)
    if unanswered:
        message = f"{unanswered} of {len(results)} objects got no answer within {seconds:g} s"
        by_field[(), message] = warning(API_SERVER_NOT_ASKED, (), message)
    return tuple(by_field.values())


def _of_answer(
    plan: ServicePlan, dry_run: DryRunObject, answer: Answer
) -> Iterator[tuple[str, Finding]]:
    """Yield the findings of one answer, each with the words that identify duplicates."""
    if answer.accepted:
        return
    kind = dry_run.manifest["kind"]
    at = find_user_field((), dry_run.rendered, plan)[0]
    if answer.code == 0:
        words = f"{kind} of {dry_run.manifest['apiVersion']}"
        message = (
            f"the cluster does not have kind {words}; install what provides it, or remove the field"
        )
        yield words, warning(KIND_NOT_INSTALLED, at, message)
    elif _lacks_namespace(answer):
        message = (
            f"the namespace does not exist yet: checked in {FALLBACK_NAMESPACE} instead, without "
            "its policies and quotas"
        )
        yield "", info(API_SERVER_NOT_ASKED, ("metadata", "namespace"), message)
    elif RIGHTS.search(answer.words):
        message = f"{kind} not checked: {_shown(answer.words)}"
        yield kind, warning(API_SERVER_NOT_ASKED, (), message)
    elif _is_silent(answer):
        message = f"{dry_run.name} not checked: {_shown(answer.words)}"
        yield answer.words, warning(API_SERVER_NOT_ASKED, at, message)
    else:
        yield from _rejections(plan, dry_run, answer)


def _rejections(
    plan: ServicePlan, dry_run: DryRunObject, answer: Answer
) -> Iterator[tuple[str, Finding]]:
    stand_ins = list(pulumi_outputs.output_paths(dry_run.manifest))
    for field, words in causes(answer):
        place = _indexed(parsed(field), dry_run.manifest)
        if any(place[: len(path)] == path for path in stand_ins):
            continue  # about `STAND_IN`, not the real value
        at, exact = find_user_field((*dry_run.template, *place), dry_run.rendered, plan)
        name = "" if exact or not place else f"{format_path(place)}: "
        lenient = (
            _missing_reference(answer)
            # The running pods of the same service take up the quota now.
            or "exceeded quota" in words
            or _IMMUTABLE.search(words)
            # It may recognize controllers by their user, and the dry run has another user.
            or (dry_run.template and _WEBHOOK in answer.words)
        )
        make_finding = warning if lenient else error
        message = f"the API server rejects {dry_run.name}: {name}{_shown(words)}"
        yield words, make_finding(API_SERVER_REFUSES, at, message)


RIGHTS = re.compile(r"\buser \".*\" cannot \w+ resource", re.IGNORECASE)
_WEBHOOK, _APPLY = "admission webhook", "failed to create typed patch object"
_IMMUTABLE = re.compile(r"immutable|updates to .* for fields other than", re.IGNORECASE)
_FIELD = re.compile(r'(?<![\w/"])"?\.?((?:spec|metadata)[.\[][^\s:,]*)')


def _lacks_namespace(answer: Answer) -> bool:
    return answer.code == 404 and answer.about == "namespaces"


def _missing_reference(answer: Answer) -> str:
    """Return the field of a pod that names a missing object, empty for any other answer."""
    if answer.code == 403:
        for field, (words, _) in REFERENCES.items():
            if words.search(answer.words):
                return field
    return ""


def _is_silent(answer: Answer) -> bool:
    """Whether the server did not judge the object."""
    if _APPLY in answer.words:
        return False  # sent as an internal error
    failed = answer.code in (404, 409, 429) or answer.code >= 500
    return failed or "does not support dry run" in answer.words


def causes(answer: Answer) -> Sequence[tuple[str, str]]:
    """Return field and words of each cause; of an answer without causes, its message's own."""
    if answer.causes:
        return answer.causes
    words = _HEAD.sub("", answer.words)
    if reference := _missing_reference(answer):
        return [(f"spec.{reference}", words)]
    place = _FIELD.search(words)
    return [(place[1].strip('"') if place else "", words)]


# Prefixes that repeat the object, which the finding names.
_HEAD = re.compile(
    r"""^([\w.]+ "[^"]*" is forbidden|failed to create typed patch object \([^)]*\)): (errors: )?"""
)
_KEYED = re.compile(r'(\w+)="?([^",]*)"?')
_PART = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def parsed(field: str) -> Location:
    """Parse a field as the API server writes it: `spec.containers[0].env[2].name`."""
    return tuple(
        int(index) if index.isdigit() else index or key for index, key in _PART.findall(field)
    )


def _indexed(location: Location, value: Any) -> Location:
    """Replace the merge keys of list items by indexes."""
    indexed: list[str | int] = []
    for part in location:
        key = _index(part, value) if isinstance(value, list) and isinstance(part, str) else part
        indexed.append(key)
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            value = None
    return tuple(indexed)


def _index(part: str, items: Sequence[Any]) -> str | int:
    """Return the index of the item with a merge key such as `name="vllm"`, else the key."""
    keys = dict(_KEYED.findall(part))
    for index, item in enumerate(items):
        if keys and all(str(item.get(key)) == text for key, text in keys.items()):
            return index
    return part


def _shown(words: str) -> str:
    text = one_line(words)
    return text if len(text) <= _WORDS else f"{text[: _WORDS - 1]}…"


def _sendable(manifest: Object, namespace: str) -> Object:
    """Return the object as JSON, with `STAND_IN` for values that are not known yet."""
    sent: Object = _known(manifest)
    if pulumi_outputs.is_output(manifest["metadata"].get("namespace")):
        sent["metadata"]["namespace"] = namespace
    return sent


def _known(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _known(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_known(item) for item in value]
    if isinstance(value, str):
        return STAND_IN if value in (pulumi_outputs.UNKNOWN, pulumi_outputs.PLACEHOLDER) else value
    return STAND_IN if pulumi_outputs.is_output(value) else value


def _derived(manifest: Object) -> Iterator[DryRunObject]:
    """Yield the pods that controllers create from an object."""
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    if kind == LEADER_WORKER_SET:
        yield from _of_leader_worker_set(manifest)
    elif kind in ("Deployment", "Job"):
        labels, owner = {"job-name": name}, (manifest["apiVersion"], kind, name)
        if kind == "Deployment":
            labels, owner = (
                {"pod-template-hash": _HASH},
                ("apps/v1", "ReplicaSet", f"{name}-{_HASH}"),
            )
        template = _labelled(manifest["spec"]["template"], labels, {})
        yield DryRunObject(
            _pod(manifest, template, f"{name}-{_HASH}-x", owner), manifest, ("spec", "template")
        )


def _of_leader_worker_set(lws: Object) -> Iterator[DryRunObject]:
    """Yield the leader and the last worker of a replica, as LeaderWorkerSet 0.9 creates them.

    Its webhook adds variables and addresses to the pods on the server.
    """
    name, spec = lws["metadata"]["name"], lws["spec"]
    group = spec["leaderWorkerTemplate"]
    size, policy, leader = group["size"], group.get("subGroupPolicy"), f"{name}-0"
    shared = (spec.get("networkConfig") or {}).get("subdomainPolicy", "Shared") == "Shared"
    annotations = {f"{_LWS}/size": str(size)}
    if policy:
        annotations[f"{_LWS}/subgroup-size"] = str(policy["subGroupSize"])
    of_leader = {} if shared else {f"{_LWS}/subdomainPolicy": "UniquePerReplica"}
    yield _of_stateful_set(
        lws,
        "leaderTemplate" if "leaderTemplate" in group else "workerTemplate",
        (name, name, 0),
        {f"{_LWS}/name": name, f"{_LWS}/worker-index": "0"},
        {**annotations, **of_leader},
    )
    if size > 1:
        yield _of_stateful_set(
            lws,
            "workerTemplate",
            (leader, name if shared else leader, size - 1),
            {f"{_LWS}/group-index": "0", f"{_LWS}/name": name, f"{_LWS}/group-key": _KEY},
            {**annotations, f"{_LWS}/leader-name": leader},
        )


def _of_stateful_set(
    lws: Object,
    key: str,
    names: tuple[str, str, int],
    selector: Mapping[str, str],
    annotations: Mapping[str, str],
) -> DryRunObject:
    """Build a pod of a StatefulSet with a template of a LeaderWorkerSet.

    `names` are that of the StatefulSet and of its Service, and the pod's ordinal.
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
    template = _labelled(lws["spec"]["leaderWorkerTemplate"][key], pod_labels, annotations)
    pod = _pod(lws, template, name, ("apps/v1", "StatefulSet", stateful_set))
    pod["spec"] |= {"hostname": name, "subdomain": subdomain}
    return DryRunObject(pod, lws, ("spec", "leaderWorkerTemplate", key))


def _labelled(
    template: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Object:
    metadata = template.get("metadata") or {}
    more = {
        "labels": {**(metadata.get("labels") or {}), **labels},
        "annotations": {**(metadata.get("annotations") or {}), **annotations},
    }
    return {**template, "metadata": {**metadata, **more}}


def _pod(source: Object, template: Object, name: str, owner: tuple[str, str, str]) -> Object:
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


def _without(spec: Mapping[str, Any], reference: str) -> Object:
    """Return a pod's spec without a reference and the fields derived from it."""
    fields = (reference, *REFERENCES[reference][1])
    return {key: value for key, value in spec.items() if key not in fields}
