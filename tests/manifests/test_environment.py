"""Variables of Kthena's pods, from those of LeaderWorkerSet."""

from __future__ import annotations

from samples import Manifest, container, nodes, pod_templates, role, service, template

ADDED = [
    {"name": "GROUP_SIZE", "value": "$(LWS_GROUP_SIZE)"},
    {"name": "ENTRY_ADDRESS", "value": "$(LWS_LEADER_ADDRESS)"},
    {"name": "WORKER_INDEX", "value": "$(LWS_WORKER_INDEX)"},
]


def environments(**fields: object) -> list[list[Manifest]]:
    """Variables of every container of every pod."""
    found = []
    for each in pod_templates(service(role(multinode=nodes(2, launcher="none"), **fields))):
        spec = each["spec"]
        found += [one.get("env", []) for key in ("initContainers", "containers")
                  for one in spec.get(key, [])]  # fmt: skip
    return found


def test_every_container_of_leader_and_workers_gets_them() -> None:
    side = container("side", image="side:1", env=[{"name": "OWN", "value": "$(ENTRY_ADDRESS)"}])
    first = container("first", args=["--help"])
    made = template(container(), side, initContainers=[first])
    found = environments(template=made, environment="Kthena")
    # Two pod templates of three containers; an own variable may refer to what stands before it.
    assert found == [ADDED, ADDED, [*ADDED, {"name": "OWN", "value": "$(ENTRY_ADDRESS)"}]] * 2


def test_existing_variable_is_kept() -> None:
    own = {"name": "GROUP_SIZE", "value": "9"}
    found = environments(template=template(container(env=[own])), environment="Kthena")
    assert found == [[*ADDED[1:], own]] * 2


def test_nothing_is_added_by_default() -> None:
    assert environments() == [[], []]
