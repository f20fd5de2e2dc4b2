"""Pod templates that the library rejects, sent to the API server."""

from __future__ import annotations

import copy

import pytest

from e2e import inputs
from e2e.harness import ApiError, Cluster, Object
from e2e.harness.resources import read_objects
from fusioninfer_pulumi.checks.live_cluster import LiveCluster
from fusioninfer_pulumi.checks.server_dry_run import check_dry_runs
from fusioninfer_pulumi.kube.client import KubernetesApi
from tests import invalid_pods, rejected_pods

#: Pod fields that reference cluster objects, and fields that admission sets from them. The dry run
#: of the StatefulSet validates their format.
CLUSTER_FIELDS = (
    "serviceAccount", "serviceAccountName", "priorityClassName", "priority", "preemptionPolicy",
    "runtimeClassName",
)  # fmt: skip
#: Invalid pod fields that the LeaderWorkerSet schema accepts.
INVALID_IN_PODS = [
    {"priorityClassName": "Bad Name"},
    {"tolerations": [{"effect": "Never"}]},
    {"runtimeClassName": "Bad Name"},
]


def make_template(fields: Object, container: Object) -> Object:
    (pod,) = read_objects("test pod")
    pod["spec"]["containers"][0] |= container
    return {"spec": {**pod["spec"], **fields}}


def create_pod(cluster: Cluster, dry_run_ns: str, template: Object) -> None:
    (pod,) = read_objects("test pod")
    pod["metadata"] = {**template.get("metadata", {}), **pod["metadata"]}
    cluster.create({**pod, "spec": template["spec"]}, namespace=dry_run_ns, dry_run=True)


def create_pods(cluster: Cluster, dry_run_ns: str, template: Object) -> None:
    """Create the StatefulSet and the pod of a template by dry run, as LeaderWorkerSet does."""
    metadata = template.get("metadata", {})
    labels = {**metadata.get("labels", {}), "name": "ill"}
    pod = {"metadata": {**metadata, "labels": labels}, "spec": template["spec"]}
    stateful_set = read_objects("test StatefulSet", template=pod)
    cluster.apply(stateful_set, namespace=dry_run_ns, dry_run=True)
    omitted = {*CLUSTER_FIELDS, *(["overhead"] if "runtimeClassName" in template["spec"] else ())}
    pod_spec = {key: value for key, value in template["spec"].items() if key not in omitted}
    create_pod(cluster, dry_run_ns, {**pod, "spec": pod_spec})


REJECTED = [
    *(pytest.param(make_template(fields, {}), id=at) for fields, at, _ in invalid_pods.PODS),
    *(pytest.param(make_template({}, fields), id=at) for fields, at, _ in invalid_pods.CONTAINERS),
    *(pytest.param(case[1], id=f"{case[0]} {case[2]}") for case in rejected_pods.REJECTED),
    *(pytest.param(rejected, id=at) for rejected, at in rejected_pods.REJECTED_BY_SERVER),
]


@pytest.mark.verifies(f"The API server rejects {len(REJECTED)} pod templates the library rejects")
@pytest.mark.parametrize("template", REJECTED)
def test_server_rejects_what_pod_rules_reject(
    cluster: Cluster, dry_run_ns: str, template: Object
) -> None:
    with pytest.raises(ApiError):
        create_pods(cluster, dry_run_ns, template)


@pytest.mark.verifies("Unusual but valid templates become pods")
@pytest.mark.parametrize("template", rejected_pods.ACCEPTED)
def test_unusual_templates_become_pods(cluster: Cluster, dry_run_ns: str, template: Object) -> None:
    create_pods(cluster, dry_run_ns, template)


@pytest.mark.verifies("Unusual but valid pod fields are accepted")
@pytest.mark.parametrize("fields", invalid_pods.ACCEPTED, ids=str)
def test_unusual_pod_fields_are_accepted(cluster: Cluster, dry_run_ns: str, fields: Object) -> None:
    create_pod(cluster, dry_run_ns, make_template(fields, {}))


@pytest.mark.verifies("The API server accepts LeaderWorkerSets with invalid pod templates")
@pytest.mark.parametrize("fields", INVALID_IN_PODS, ids=str)
def test_lws_with_invalid_pod_template_is_accepted(
    cluster: Cluster, dry_run_ns: str, fields: Object
) -> None:
    (lws,) = read_objects("test LeaderWorkerSet")
    lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"].update(fields)
    cluster.apply([lws], namespace=dry_run_ns, dry_run=True)


@pytest.mark.verifies(
    f"`check --server` rejects {len(rejected_pods.REJECTED_BY_SERVER)} pod templates "
    "accepted offline"
)
@pytest.mark.parametrize(("template", "at"), rejected_pods.REJECTED_BY_SERVER)
def test_check_server_rejects_templates_accepted_offline(
    cluster: Cluster, dry_run_ns: str, template: Object, at: str
) -> None:
    del at
    role = {"name": "worker", "componentType": "worker", "template": copy.deepcopy(template)}
    service = inputs.service("ill", role)
    service["metadata"]["namespace"] = dry_run_ns
    plan = inputs.build_plan(service)
    live = LiveCluster(KubernetesApi(str(cluster.kubeconfig), None), [plan])
    rows = [item for _, item in check_dry_runs(live)]
    rejected = [item for item in rows if item.rule == "api-server-rejects"]
    assert any(item.path.startswith("roles[0]") for item in rejected), rows
