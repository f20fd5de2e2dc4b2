"""ReferenceGrants (gateway.networking.k8s.io/v1beta1) for references between namespaces."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.manifests.routing.common import Manifest, router_metadata
from fusioninfer_pulumi.plan.routing.records import GrantPlan, RouterPlan
from fusioninfer_pulumi.plan.service_meta import ServiceMeta

_GROUP = "gateway.networking.k8s.io"


def reference_grants(plan: ServiceMeta, router: RouterPlan) -> Iterator[Manifest]:
    """Builds one ReferenceGrant for each namespace that is referred to, or from."""
    together: dict[tuple[str, str], list[GrantPlan]] = {}
    for grant in router.grants:
        together.setdefault((grant.namespace, grant.name), []).append(grant)
    for (namespace, name), grants in together.items():
        targets = {(grant.to_group, grant.to_kind, grant.to_name) for grant in grants}
        yield {
            "apiVersion": f"{_GROUP}/v1beta1",
            "kind": "ReferenceGrant",
            "metadata": {**router_metadata(plan, router, name), "namespace": namespace},
            "spec": {
                "from": [
                    {
                        "group": _GROUP,
                        "kind": grants[0].from_kind,
                        "namespace": grants[0].from_namespace,
                    }
                ],
                "to": [
                    {"group": group, "kind": kind, "name": target}
                    for group, kind, target in sorted(targets)
                ],
            },
        }
