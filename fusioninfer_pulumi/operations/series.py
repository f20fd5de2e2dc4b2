"""PromQL selectors of a service's series, with the labels that its monitors give them."""

from __future__ import annotations

from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.topology import Topology


def series_label(label: str) -> str:
    """Returns the name that Prometheus makes of a pod's label."""
    return "".join(letter if letter.isalnum() else "_" for letter in label)


#: Series label with the role.
ROLE = series_label(labels.ROLE_NAME)
#: Series label with the revision of the pod's template.
REVISION = series_label(labels.REVISION)


def service_selector(plan: Topology) -> str:
    """Returns the matchers of all engines of a service."""
    return f'namespace="{plan.namespace}", {series_label(labels.SERVICE)}="{plan.service}"'


def role_selector(plan: Topology, role: RolePlan) -> str:
    """Returns the matchers of the engines of one role."""
    return f'{service_selector(plan)}, {ROLE}="{role.name}"'


def picker_selector(plan: Topology) -> str:
    """Returns the matchers of the endpoint picker, whose job is named after its Service."""
    return f'namespace="{plan.namespace}", job="{names.endpoint_picker(plan.service)}"'


def replicas_up(selector: str) -> str:
    """Returns the number of replicas whose leader answers on every port; 0 without any series."""
    return f"(count(min by (pod) (up{{{selector}}}) == 1) or vector(0))"
