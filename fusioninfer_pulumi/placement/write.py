"""Writes a chosen pool into a role's pod templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.inventory import InventoryArgs, NodePoolArgs
from fusioninfer_pulumi.api.placement import ServicePlacementArgs
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.placement import selectors
from fusioninfer_pulumi.placement.admissible import templates


def on_pools(
    service: InferenceServiceArgs, pools: Mapping[str, NodePoolArgs], inventory: InventoryArgs
) -> InferenceServiceArgs:
    """A service whose roles select their pools and tolerate their taints.

    What the user wrote stays, Outputs included. The demands of `placement` are carried out and
    left out: what was chosen is in the pod templates.

    Args:
        service: The service.
        pools: Pool by the name of the role.
        inventory: Where the pools are from.
    """
    roles = [
        _role(role, pools[role.name], inventory) if role.name in pools else role
        for role in service.roles
    ]
    return service.model_copy(update={"roles": roles, "placement": ServicePlacementArgs()})


def _role(role: RoleArgs, pool: NodePoolArgs, inventory: InventoryArgs) -> RoleArgs:
    key = inventory.selector_label
    assert key is not None, "an inventory without a label is refused"
    names = {"template": "template", "leaderTemplate": "leader_template"}
    changed: dict[str, Any] = {
        names.get(field, "worker_template"): _template(template, key, pool, inventory)
        for field, template in templates(role)
    }
    return role.model_copy(update={**changed, "placement": None})


def _template(
    template: Mapping[str, Any], key: str, pool: NodePoolArgs, inventory: InventoryArgs
) -> dict[str, Any]:
    spec = dict(template["spec"])
    spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), key: inventory.selected_by(pool)}
    own: Sequence[Any] = spec.get("tolerations") or ()
    more = [selectors.toleration(taint) for taint in selectors.untolerated(spec, pool.taints)]
    if more:
        spec["tolerations"] = [*own, *more]
    return {**template, "spec": spec}
