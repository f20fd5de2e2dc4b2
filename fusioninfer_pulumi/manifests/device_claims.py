"""ResourceClaimTemplates (resource.k8s.io/v1): one for each claim that a role describes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.manifests.metadata import metadata
from fusioninfer_pulumi.manifests.pod_template import role_labels
from fusioninfer_pulumi.plan.device_claims import claim_templates
from fusioninfer_pulumi.plan.records import Topology


def device_claims(plan: Topology) -> Iterator[dict[str, Any]]:
    """Builds the templates of all roles that have pods."""
    for role in plan.roles:
        if not role.replicas:
            continue
        for template in claim_templates(plan.service, role.args):
            yield {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": metadata(plan, template.name, role_labels(plan, role)),
                "spec": {"spec": template.spec},
            }
