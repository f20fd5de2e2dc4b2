"""Dry runs on the API server: sent objects, and findings at the users' fields."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clusters import KINDS, FakeCluster
from routed import routed
from rows import each_row
from samples import container, nodes, plan_of, pod, prefill_decode, role, service, template

from fusioninfer_pulumi.checks import server_dry_run
from fusioninfer_pulumi.checks.live_cluster import LiveCluster
from fusioninfer_pulumi.checks.server_dry_run import (
    build_next_request,
    check_dry_runs,
    list_dry_run_objects,
)
from fusioninfer_pulumi.findings import Finding, Severity, parse_path
from fusioninfer_pulumi.kube.client import Response
from fusioninfer_pulumi.plan.service_plan import ServicePlan

Manifest = dict[str, Any]
LWS = "leaderworkerset.x-k8s.io"
Reply = tuple[int, dict[str, Any]]
#: Responses of Kubernetes 1.35, recorded by `e2e/test_server.py`.
RECORDED: dict[str, Manifest] = json.loads(
    (Path(__file__).parent.parent / "fixtures" / "server_answers.json").read_text()
)


class FakeApi(FakeCluster):
    """A fake API server that accepts all objects that `reject` does not reject."""

    def __init__(self, reject: Callable[[Manifest], Reply | None] = lambda _: None) -> None:
        kinds = {api for api in KINDS if "." in api}
        super().__init__(without=kinds, more=[(f"{LWS}/v1", "LeaderWorkerSet")], reject=reject)

    def of_kind(self, kind: str) -> list[Manifest]:
        return [item for item in self.sent if item["kind"] == kind]


def check(
    manifest: Manifest, reject: Callable[[Manifest], Reply | None] = lambda _: None
) -> list[Finding]:
    return dry_run(FakeApi(reject), manifest)


def dry_run(api: FakeCluster, manifest: Manifest) -> list[Finding]:
    live = LiveCluster(api, [plan_of(manifest)], timeout_seconds=30)
    return [finding for _, finding in check_dry_runs(live)]


def of_kind(kind: str, status: Manifest) -> Callable[[Manifest], Reply | None]:
    return lambda manifest: (status["code"], status) if manifest["kind"] == kind else None


def of_pods(status: Manifest) -> Callable[[Manifest], Reply | None]:
    return of_kind("Pod", status)


def of_all(status: Manifest) -> Callable[[Manifest], Reply | None]:
    return lambda _: (status["code"], status)


LEADING = service(
    role(
        multinode=nodes(4, launcher="none"),
        template=None,
        leaderTemplate=template(),
        workerTemplate=template(container(command=["run"])),
    )
)


def objects_of_kind(plan: ServicePlan, kind: str) -> list[Manifest]:
    return [
        rendered.manifest
        for rendered in list_dry_run_objects(plan)
        if rendered.manifest["kind"] == kind
    ]


def test_each_distinct_object_is_sent_once() -> None:
    manifest = prefill_decode(decode={"replicas": 7, "multinode": nodes(2)})
    kinds = Counter(item.manifest["kind"] for item in list_dry_run_objects(plan_of(manifest)))
    # One prefiller; a leader and a worker of one decoder of seven.
    assert (kinds["LeaderWorkerSet"], kinds["Pod"]) == (2, 3)
    assert kinds["PodGroup"] == 1


def test_derived_pods_match_those_of_leader_worker_set() -> None:
    leader, worker = objects_of_kind(plan_of(LEADING), "Pod")
    lws = "leaderworkerset.sigs.k8s.io"
    assert leader["metadata"]["name"] == "svc-inference-0-0"
    assert leader["spec"]["hostname"] == "svc-inference-0-0"
    assert leader["spec"]["subdomain"] == "svc-inference-0"
    assert leader["metadata"]["labels"][f"{lws}/worker-index"] == "0"
    assert leader["metadata"]["annotations"][f"{lws}/size"] == "4"
    assert worker["metadata"]["name"] == "svc-inference-0-0-3"
    assert worker["metadata"]["annotations"][f"{lws}/leader-name"] == "svc-inference-0-0"
    assert worker["metadata"]["ownerReferences"][0]["name"] == "svc-inference-0-0"
    assert worker["spec"]["containers"][0]["command"] == ["run"]
    # Labels of the template reach the pods.
    assert worker["metadata"]["labels"]["fusioninfer.io/service"] == "svc"


def test_unique_subdomains_of_workers() -> None:
    policy = {"subdomainPolicy": "UniquePerReplica"}
    manifest = service(role(multinode=nodes(2), networkConfig=policy))
    leader, worker = objects_of_kind(plan_of(manifest), "Pod")
    assert leader["spec"]["subdomain"] == "svc-inference-0"
    assert worker["spec"]["subdomain"] == "svc-inference-0-0"


def test_picker_pod_is_sent_without_its_account() -> None:
    pickers = [
        item
        for item in objects_of_kind(plan_of(routed()), "Pod")
        if "-epp-" in item["metadata"]["name"]
    ]
    assert len(pickers) == 1
    assert "serviceAccountName" not in pickers[0]["spec"]


def test_rejected_worker_is_reported_at_its_template() -> None:
    def worker(manifest: Manifest) -> Reply | None:
        its = manifest["metadata"]["name"] == "svc-inference-0-0-3"
        return (422, RECORDED["unsupported"]) if its else None

    findings = check(LEADING, worker)
    container = "roles[0].workerTemplate.spec.containers[0]"
    assert [finding.path for finding in findings] == [f"{container}.imagePullPolicy"]


def test_same_cause_is_reported_once() -> None:
    status = RECORDED["unsupported"]
    below = {"LeaderWorkerSet": "spec.leaderWorkerTemplate.workerTemplate."}

    def reject(manifest: Manifest) -> Reply | None:
        if manifest["kind"] not in ("Pod", *below):
            return None
        (cause,) = status["details"]["causes"]
        at = below.get(manifest["kind"], "") + cause["field"]
        return 422, {**status, "details": {"causes": [{**cause, "field": at}]}}

    (finding,) = check(pod(container(imagePullPolicy="Always")), reject)
    assert finding.path == "roles[0].template.spec.containers[0].imagePullPolicy"
    assert "rejects LeaderWorkerSet svc-inference-0" in finding.message


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("account", "serviceAccountName"),
        ("class", "priorityClassName"),
        ("runtime", "runtimeClassName"),
    ],
)
def test_missing_reference_is_a_warning(name: str, field: str) -> None:
    status = RECORDED[name]
    api: Any = FakeApi(
        lambda manifest: (
            (403, status) if manifest["kind"] == "Pod" and field in manifest["spec"] else None
        )
    )
    (findings,) = dry_run(api, pod(**{field: "absent"}))
    assert (findings.rule, findings.severity) == ("api-server-rejects", Severity.WARNING)
    assert findings.path == f"roles[0].template.spec.{field}"
    assert "forbidden" not in findings.message
    # The second dry run omits the reference.
    assert [field in item["spec"] for item in api.of_kind("Pod")] == [True, False]


def test_each_missing_reference_is_reported_once() -> None:
    answers = {"serviceAccountName": "account", "runtimeClassName": "runtime"}

    def reject(manifest: Manifest) -> Reply | None:
        spec = manifest["spec"] if manifest["kind"] == "Pod" else {}
        missing = [name for field, name in answers.items() if field in spec]
        return (403, RECORDED[missing[0]]) if missing else None

    manifest = service(
        role(
            multinode=nodes(2),
            template=template(serviceAccountName="absent", runtimeClassName="absent"),
        )
    )
    assert [finding.path for finding in check(manifest, reject)] == [
        "roles[0].template.spec.serviceAccountName",
        "roles[0].template.spec.runtimeClassName",
    ]


def test_missing_namespace_falls_back_to_default() -> None:
    status = RECORDED["namespace"]
    manifest = service(metadata={"namespace": "absent"})
    api: Any = FakeApi(
        lambda manifest: (404, status) if manifest["metadata"]["namespace"] == "absent" else None
    )
    (findings,) = dry_run(api, manifest)
    assert (findings.rule, findings.severity) == ("api-server-check-incomplete", Severity.INFO)
    assert findings.path == "metadata.namespace"
    assert {item["metadata"]["namespace"] for item in api.sent} == {"absent", "default"}


def test_missing_kind_is_not_sent() -> None:
    api = FakeApi()
    assert dry_run(api, routed()) == []
    assert api.of_kind("InferencePool") == []


WEBHOOK = {"code": 403, "message": 'admission webhook "p.example.com" denied: no naked pods'}
LATER = {"message": "Internal error occurred: failed calling webhook"}
FIXED = {"field": "spec.clusterIP", "message": "Invalid value: field is immutable"}
SUBGROUPS = "the webhook denied the request: cannot enable subGroupSize after the lws is created"
REJECTS, NOT_ASKED = "api-server-rejects", "api-server-check-incomplete"


def test_accepted_objects_have_no_findings() -> None:
    assert check(service()) == []


def rejected(field: str) -> Manifest:
    causes = [{"field": field, "message": "Required value"}]
    return {"code": 422, "message": "no", "details": {"causes": causes}}


PULLED = pod(container(imagePullPolicy="Always", ports=[{"containerPort": 8000}]))
SPEC = "roles[0].template.spec"
WORKER = ".spec.leaderWorkerTemplate.workerTemplate.spec"
TWICE = {
    **RECORDED["twice"],
    "message": RECORDED["twice"]["message"].replace(".spec.template.spec", WORKER),
}


@each_row(
    ("manifest", "kind", "status", "field", "message"),
    [
        (PULLED, "Pod", RECORDED["unsupported"], f"{SPEC}.containers[0].imagePullPolicy",
         'rejects the Pod of LeaderWorkerSet svc-inference-0: Unsupported value: "Sometimes"'),
        # Fields that the library added are reported at the next field of the user.
        (service(), "Pod", rejected("spec.initContainers[0].env[3].name"), SPEC,
         "spec.initContainers[0].env[3].name: Required value"),
        (service(), "Pod", rejected("spec.containers[4].name"), f"{SPEC}.containers",
         "spec.containers[4].name: Required value"),
        # An answer without causes names its field.
        (PULLED, "LeaderWorkerSet", TWICE, f"{SPEC}.containers",
         '.spec.containers[name="vllm"].ports: duplicate entries for key'),
    ],
)  # fmt: skip
def test_rejected_field_is_an_error_at_the_users_field(
    manifest: Manifest, kind: str, status: Manifest, field: str, message: str
) -> None:
    (finding,) = check(manifest, of_kind(kind, status))
    assert (finding.rule, finding.severity, finding.path) == (REJECTS, Severity.ERROR, field)
    assert message in finding.message


@each_row(
    ("kind", "status", "expected"),
    [
        # Running pods may take up the quota.
        ("Pod", {"code": 403, "message": 'pods "a" is forbidden: exceeded quota: gpus'},
         ("warning", REJECTS, "roles[0].template")),
        ("Pod", RECORDED["rights"], ("warning", NOT_ASKED, "")),
        *(("Pod", {"code": code, **LATER}, ("warning", NOT_ASKED, ""))
          for code in (429, 500, 503)),
        # A policy may know controllers by their user.
        ("Pod", WEBHOOK, ("warning", REJECTS, "roles[0].template")),
        ("LeaderWorkerSet", WEBHOOK, ("error", REJECTS, "roles[0]")),
        # Pulumi replaces an object if an immutable field changes.
        ("Service", {"code": 422, "message": "no", "details": {"causes": [FIXED]}},
         ("warning", REJECTS, "")),
        ("LeaderWorkerSet", {"code": 403, "message": SUBGROUPS}, ("warning", REJECTS, "roles[0]")),
    ],
)  # fmt: skip
def test_each_answer_is_one_finding(kind: str, status: Manifest, expected: tuple[str, ...]) -> None:
    (finding,) = check(service(), of_kind(kind, status))
    assert (finding.severity.value, finding.rule, finding.path) == expected


def test_objects_without_answer_in_time_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    def answer_late(_api: Any, manifests: list[Any], *_: Any) -> list[None]:
        sent.extend(manifests)
        return [None] * len(manifests)

    monkeypatch.setattr(server_dry_run, "send_dry_runs", answer_late)
    (finding,) = check(service())
    assert finding.rule == "api-server-check-incomplete"
    assert finding.message.startswith(f"{len(sent)} of {len(sent)} objects got no response within ")


def test_final_answer_has_no_next_request() -> None:
    manifest = {"kind": "Pod", "metadata": {"namespace": "default"}, "spec": {}}
    for answer in (
        Response(201),
        Response(422, "no"),
        Response(404, "no", resource="namespaces"),
        Response(403, "error looking up service account"),
    ):
        assert build_next_request(manifest, answer) is None


@each_row(
    ("field", "location"),
    [
        ("spec.containers[0].env[12].name", ("spec", "containers", 0, "env", 12, "name")),
        (
            "spec.containers[0].resources.limits[nvidia.com/gpu]",
            ("spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"),
        ),
        ("metadata.labels", ("metadata", "labels")),
        (".spec.volumes", ("spec", "volumes")),
        ('spec.volumes[name="v"]', ("spec", "volumes", 'name="v"')),
        ("", ()),
    ],
)
def test_server_field_is_parsed(field: str, location: tuple[str | int, ...]) -> None:
    assert parse_path(field) == location


def test_unknown_values_are_replaced_by_stand_ins() -> None:
    class Output:
        """Recognized as an Output by its name and module."""

    Output.__module__ = "pulumi.output"
    image: Any = Output()
    manifest = pod({**container(), "image": image})
    cause = {"field": "spec.containers[0].image", "message": 'Invalid value: "unknown"'}
    status = {"code": 422, "message": "no", "details": {"causes": [cause]}}
    api: Any = FakeApi(of_pods(status))
    assert dry_run(api, manifest) == []
    assert {item["spec"]["containers"][0]["image"] for item in api.of_kind("Pod")} == {"unknown"}
