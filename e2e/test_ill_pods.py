"""What the spec rejects of a pod template is rejected of every pod that would be made of it."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from e2e import inputs, objects
from e2e.dry_runs import derived_objects
from e2e.harness import ApiError, Cluster, Object
from fusioninfer_pulumi.checks.server_dry_run import check_on_api_server
from fusioninfer_pulumi.kube.client import KubernetesApi
from tests import refused_pods
from tests.ill_pods import CONTAINERS, PODS, TAKEN

CASES = [
    *(pytest.param(fields, {}, id=at) for fields, at, _ in PODS),
    *(pytest.param({}, fields, id=at) for fields, at, _ in CONTAINERS),
]
#: Of the right type, so that a LeaderWorkerSet carries them.
CARRIED = [
    {"priorityClassName": "Bad Name"},
    {"tolerations": [{"effect": "Never"}]},
    {"runtimeClassName": "Bad Name"},
]


@pytest.fixture(scope="module")
def room(cluster: Cluster) -> Iterator[str]:
    name = cluster.new_namespace()
    yield name
    cluster.delete_namespace(name)


def pod(fields: Object, container: Object) -> Object:
    made = copy.deepcopy(objects.pod("ill"))
    made["spec"].update(fields)
    made["spec"]["containers"][0].update(container)
    return made


@pytest.mark.proves("The API server rejects the malformed pods that preview rejects")
@pytest.mark.parametrize(("fields", "container"), CASES)
def test_server_rejects_malformed_pods(
    cluster: Cluster, room: str, fields: Object, container: Object
) -> None:
    with pytest.raises(ApiError):
        cluster.create(pod(fields, container), namespace=room, dry_run=True)


@pytest.mark.proves("The API server accepts LeaderWorkerSets with invalid pod templates")
@pytest.mark.parametrize("fields", CARRIED, ids=str)
def test_lws_with_invalid_pod_template_is_accepted(
    cluster: Cluster, room: str, fields: Object
) -> None:
    held = copy.deepcopy(objects.leader_worker_set("ill", size=1))
    held["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"].update(fields)
    cluster.apply([held], namespace=room, dry_run=True)


@pytest.mark.proves("Unusual but valid pod fields are accepted")
@pytest.mark.parametrize("fields", TAKEN, ids=str)
def test_unusual_pod_fields_are_accepted(cluster: Cluster, room: str, fields: Object) -> None:
    cluster.create(pod(fields, {}), namespace=room, dry_run=True)


def made_of(cluster: Cluster, room: str, template: Object) -> None:
    """Creates, by dry run, what LeaderWorkerSet would make of a template."""
    group = {"size": 1, "workerTemplate": copy.deepcopy(template)}
    held = {
        "metadata": {"name": "ill", "namespace": room},
        "spec": {"leaderWorkerTemplate": group, "networkConfig": {"subdomainPolicy": "Shared"}},
    }
    for manifest in derived_objects(held):
        cluster.create(manifest, dry_run=True)


RULES = [
    *(pytest.param(case[1], id=f"{case[0]} {case[2]}") for case in refused_pods.REFUSED),
    *(pytest.param(template, id=at) for template, at in refused_pods.REFUSED_BY_SERVER),
]


@pytest.mark.proves(f"The API server rejects {len(RULES)} pod templates that the library rejects")
@pytest.mark.parametrize("template", RULES)
def test_server_rejects_what_pod_rules_reject(
    cluster: Cluster, room: str, template: Object
) -> None:
    with pytest.raises(ApiError) as rejected:
        made_of(cluster, room, template)
    assert rejected.value.status in (403, 422)


@pytest.mark.proves("Unusual but valid templates become pods")
@pytest.mark.parametrize("template", refused_pods.TAKEN)
def test_unusual_templates_become_pods(cluster: Cluster, room: str, template: Object) -> None:
    made_of(cluster, room, template)


@pytest.mark.proves(
    f"`check --server` rejects {len(refused_pods.REFUSED_BY_SERVER)} pod templates accepted offline"
)
@pytest.mark.parametrize(("template", "at"), refused_pods.REFUSED_BY_SERVER)
def test_check_server_rejects_templates_accepted_offline(
    cluster: Cluster, room: str, template: Object, at: str
) -> None:
    del at
    role = {"name": "worker", "componentType": "worker", "template": copy.deepcopy(template)}
    service = inputs.service("ill", role)
    service["metadata"]["namespace"] = room
    plan = inputs.plan_of(service)
    (found,) = check_on_api_server(KubernetesApi(str(cluster.kubeconfig), None), [plan], seconds=60)
    rejected = [each for each in found if each.rule == "api-server-refuses"]
    assert any(each.path.startswith("roles[0]") for each in rejected), found
