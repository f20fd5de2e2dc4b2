"""Referenced objects that do not exist in the cluster."""

from __future__ import annotations

from typing import Any

from clusters import KINDS, FakeCluster, stored
from routed import routed
from rows import each_row
from samples import container, nodes, plan_of, pod, role, service, template

from fusioninfer_pulumi.checks.live_cluster import LiveCluster
from fusioninfer_pulumi.checks.named_object_checks import check_named_objects, find_references
from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.kube.supported_products import CLUSTER_SCOPED, REFERENCES

NAMESPACE = stored("v1", "Namespace", "default")
AT = "roles[0].template.spec"


def findings(manifest: Any, *objects: Any, registered: Any = (), **cluster: Any) -> list[Any]:
    api = FakeCluster(NAMESPACE, *objects, **cluster)
    live = LiveCluster(api, [plan_of(manifest)], registered_objects=registered)
    return [finding for _, finding in check_named_objects(live)]


def secret_env(**more: Any) -> Any:
    return {"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k", **more}}}


VOLUMES: list[Any] = [
    {"name": "a", "secret": {"secretName": "x"}},
    {"name": "b", "configMap": {"name": "x"}},
    {"name": "c", "persistentVolumeClaim": {"claimName": "x"}},
    {"name": "d", "projected": {"sources": [{"secret": {"name": "x"}}]}},
    {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "x"}}}},
]
VOLUME_FIELDS = (
    "secret.secretName", "configMap.name", "persistentVolumeClaim.claimName",
    "projected.sources[0].secret.name", "ephemeral.volumeClaimTemplate.spec.storageClassName",
)  # fmt: skip
VOLUME_KINDS = ("Secret", "ConfigMap", "PersistentVolumeClaim", "Secret", "StorageClass")
CLAIM = {"name": "gpus", "deviceClassName": "x", "count": 8}


ENV = "containers[0].env[0].valueFrom.secretKeyRef.name"
QUEUE = "schedulingStrategy.queue"
KUEUE = {"queue": "x", "gangPolicy": {"backend": "Kueue"}}


@each_row(
    ("manifest", "field", "kind"),
    [
        (pod(imagePullSecrets=[{"name": "x"}]), f"{AT}.imagePullSecrets[0].name", "Secret"),
        *(
            (pod(volumes=[volume]), f"{AT}.volumes[0].{field}", kind)
            for volume, field, kind in zip(VOLUMES, VOLUME_FIELDS, VOLUME_KINDS, strict=True)
        ),
        (pod(container(env=[secret_env()])), f"{AT}.{ENV}", "Secret"),
        (pod(container(envFrom=[{"configMapRef": {"name": "x"}}])),
         f"{AT}.containers[0].envFrom[0].configMapRef.name", "ConfigMap"),
        (pod(serviceAccountName="x"), f"{AT}.serviceAccountName", "ServiceAccount"),
        (pod(priorityClassName="x"), f"{AT}.priorityClassName", "PriorityClass"),
        (pod(runtimeClassName="x"), f"{AT}.runtimeClassName", "RuntimeClass"),
        (service(role(), schedulingStrategy={"priorityClassName": "x"}),
         "schedulingStrategy.priorityClassName", "PriorityClass"),
        (service(role(multinode=nodes(2)), schedulingStrategy={"queue": "x"}), QUEUE, "Queue"),
        (service(role(), schedulingStrategy={"schedulerName": "volcano", "queue": "x"}),
         QUEUE, "Queue"),
        (service(role(), schedulingStrategy=KUEUE), QUEUE, "LocalQueue"),
    ],
)  # fmt: skip
def test_missing_object_is_one_warning_at_its_field(manifest: Any, field: str, kind: str) -> None:
    (finding,) = findings(manifest)
    assert (finding.severity, finding.path) == (Severity.WARNING, field)
    where = "the cluster" if kind in CLUSTER_SCOPED else "namespace default"
    assert finding.message == f"{where} has no {kind} x: create it, or correct the name"
    assert finding.rule == "named-object-missing"
    api = next(api for api, named in REFERENCES.values() if named == kind)
    version = next(known for known in KINDS if known == api or known.startswith(f"{api}/"))
    there = stored(version, kind, "x", "" if kind in CLUSTER_SCOPED else "default")
    assert findings(manifest, there) == []
    # The object exists only in another namespace.
    if kind not in CLUSTER_SCOPED:
        assert findings(manifest, stored(version, kind, "x", "other")) != []


def test_missing_device_class_is_an_error() -> None:
    manifest = service(role(template=template(container(gpus=None)), resourceClaims=[CLAIM]))
    (finding,) = findings(manifest)
    assert finding.severity is Severity.ERROR
    assert finding.message == "the cluster has no DeviceClass x: create it, or correct the name"


def test_each_missing_object_is_reported_once() -> None:
    """Leader and workers share a template that references the Secret twice."""
    env = [secret_env(), {**secret_env(), "name": "B"}]
    manifest = service(role(multinode=nodes(2), template=template(container(env=env))))
    assert len(findings(manifest)) == 1


@each_row(
    ("manifest", "more"),
    [
        (service(role()), {}),
        # The service creates its ServiceAccount, ConfigMap and Secrets.
        (routed(), {}),
        (pod(container(env=[secret_env(optional=True)])), {}),
        (pod(volumes=[{"name": "a", "secret": {"secretName": "x", "optional": True}}]), {}),
        # The program creates the object or its namespace.
        (pod(volumes=[VOLUMES[0]]), {"registered": [stored("v1", "Secret", "x", "default")]}),
        (service(role(template=template(volumes=[VOLUMES[0]])), metadata={"namespace": "n"}), {}),
        # The cluster lacks the kind, which other findings report.
        (pod(runtimeClassName="x"), {"without": ["node.k8s.io"]}),
    ],
)
def test_optional_and_created_objects_are_not_reported(manifest: Any, more: Any) -> None:
    assert findings(manifest, **more) == []


def test_denied_read_is_not_a_finding() -> None:
    api = FakeCluster(NAMESPACE, denied=["/secrets/", "/namespaces/default/configmaps"])
    plan = plan_of(pod(volumes=VOLUMES[:2]))
    assert list(check_named_objects(LiveCluster(api, [plan]))) == []
    assert list(api.unread) == [
        "secrets/x in default: 403 Forbidden",
        "configmaps/x in default: 403 Forbidden",
    ]


def test_existence_of_denied_object_stays_unknown() -> None:
    api = FakeCluster(NAMESPACE, denied=["/secrets/"])
    assert [api.has("v1", "Secret", "default", "x") for _ in range(2)] == [None, None]


def test_named_object_is_read_once_for_all_services() -> None:
    api = FakeCluster(NAMESPACE)
    plan = plan_of(pod(serviceAccountName="x"))
    assert len(list(check_named_objects(LiveCluster(api, [plan, plan])))) == 2
    assert len(api.requests) == len(set(api.requests))


def test_gateway_secret_is_read_in_its_namespace() -> None:
    tls = {"certificateRefs": [{"name": "x", "namespace": "certs"}]}
    listener = {"name": "https", "protocol": "HTTPS", "port": 443, "tls": tls}
    manifest = routed(gateway={"gatewayClassName": "g", "listeners": [listener]})
    named = {(item[1], item[2]) for item, _, _ in find_references(plan_of(manifest))}
    assert ("Secret", "certs") in named
