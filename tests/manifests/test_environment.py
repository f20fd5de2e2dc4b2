"""Kthena's environment variables, derived from LeaderWorkerSet's."""

from __future__ import annotations

from samples import Manifest, container, nodes, pod_templates, role, service, template

ADDED = [
    {"name": "GROUP_SIZE", "value": "$(LWS_GROUP_SIZE)"},
    {"name": "ENTRY_ADDRESS", "value": "$(LWS_LEADER_ADDRESS)"},
    {"name": "WORKER_INDEX", "value": "$(LWS_WORKER_INDEX)"},
]


def environments(**fields: object) -> list[list[Manifest]]:
    """Return the variables of every container of every pod."""
    result = []
    for pod_template in pod_templates(service(role(multinode=nodes(2, launcher="none"), **fields))):
        spec = pod_template["spec"]
        result += [container.get("env", []) for key in ("initContainers", "containers")
                  for container in spec.get(key, [])]  # fmt: skip
    return result


def test_every_container_gets_kthena_variables() -> None:
    side = container("side", image="side:1", env=[{"name": "OWN", "value": "$(ENTRY_ADDRESS)"}])
    first = container("first", args=["--help"])
    built = template(container(), side, initContainers=[first])
    result = environments(template=built, environment="Kthena")
    # Two pod templates with three containers. Users' variables may reference earlier ones.
    assert result == [ADDED, ADDED, [*ADDED, {"name": "OWN", "value": "$(ENTRY_ADDRESS)"}]] * 2


def test_existing_variable_is_kept() -> None:
    fields = {"name": "GROUP_SIZE", "value": "9"}
    result = environments(template=template(container(env=[fields])), environment="Kthena")
    assert result == [[*ADDED[1:], fields]] * 2


def test_nothing_is_added_by_default() -> None:
    assert environments() == [[], []]
