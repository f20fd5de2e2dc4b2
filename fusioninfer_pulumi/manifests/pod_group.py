"""The Volcano PodGroup (scheduling.volcano.sh/v1beta1) of a gang."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi import labels
from fusioninfer_pulumi.manifests.metadata import metadata
from fusioninfer_pulumi.plan.records import GangPlan, SubGroup
from fusioninfer_pulumi.plan.service_meta import ServiceMeta
from fusioninfer_pulumi.spec.scheduling import NetworkTopologyRuleArgs

API_VERSION = "scheduling.volcano.sh/v1beta1"
KIND = "PodGroup"


def pod_group(plan: ServiceMeta, gang: GangPlan) -> dict[str, Any]:
    """Builds the PodGroup that all pods of a service, or of a group, name in their annotation.

    Args:
        plan: The service.
        gang: Its gang.

    Returns:
        The literal form (`minTaskMember`) or the one that may run in part (`subGroupPolicy`,
        Volcano 1.14.1 and later); Volcano knows no mixture of the two.
    """
    spec: dict[str, Any] = {"minMember": gang.min_member}
    if gang.tasks is not None:
        spec["minTaskMember"] = dict(gang.tasks)
    if gang.sub_groups is not None:
        spec["subGroupPolicy"] = [
            policy for group in gang.sub_groups for policy in _sub_groups(plan, gang, group)
        ]
    if gang.topology is not None and gang.topology.group_policy is not None:
        spec["networkTopology"] = _topology(gang.topology.group_policy)
    if gang.min_resources is not None:
        spec["minResources"] = dict(gang.min_resources)
    if gang.queue is not None:
        spec["queue"] = gang.queue
    if gang.priority_class is not None:
        spec["priorityClassName"] = gang.priority_class
    own = {labels.SERVICE: plan.service}
    if gang.group is not None:
        own[labels.GROUP_INDEX] = str(gang.group)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata(plan, gang.pod_group, own),
        "spec": spec,
    }


def _topology(rule: NetworkTopologyRuleArgs) -> dict[str, Any]:
    return rule.model_dump(mode="json", by_alias=True, exclude_none=True)


def _sub_groups(plan: ServiceMeta, gang: GangPlan, group: SubGroup) -> Iterator[dict[str, Any]]:
    whole = _sub_group(plan, gang, group)
    if not group.lowest:
        yield whole
        return
    # Volcano takes the first policy that a pod matches. No role's name holds a dot.
    ordinals = [str(ordinal) for ordinal in range(group.minimum)]
    chosen = {"key": labels.REPLICA_INDEX, "operator": "In", "values": ordinals}
    selector = {**whole["labelSelector"], "matchExpressions": [chosen]}
    yield {**whole, "name": f"{group.role}.required", "labelSelector": selector}
    # Listed even where there are none yet, so that a replica more changes nothing.
    yield {**whole, "minSubGroups": 0}


def _sub_group(plan: ServiceMeta, gang: GangPlan, group: SubGroup) -> dict[str, Any]:
    rule = None if gang.topology is None else gang.topology.role_policy
    return {
        # Volcano breaks ties between roles by this name; the capacity model relies on it.
        "name": group.role,
        "labelSelector": {
            "matchLabels": {labels.SERVICE: plan.service, labels.ROLE_NAME: group.role}
        },
        # One subgroup per replica: without a key the pods would fall into one subgroup.
        "matchLabelKeys": [gang.replica_label],
        "subGroupSize": group.size,
        "minSubGroups": group.minimum,
        **({} if rule is None else {"networkTopology": _topology(rule)}),
    }
