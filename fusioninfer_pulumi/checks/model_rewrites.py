"""Checks of rewritten model names: the picker that reads them, and the engines that serve them."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.endpoint_pickers.families import FAMILIES
from fusioninfer_pulumi.findings import Finding, Rule, error, warning
from fusioninfer_pulumi.routing.epp import EppPlan
from fusioninfer_pulumi.routing.router import Routing
from fusioninfer_pulumi.rules.common import RELEASE_WITHOUT_FEATURE

REWRITE_TARGET_NOT_SERVED = Rule(
    "rewrite-target-not-served",
    "warning",
    "All pods of a pool serve the models and adapters that names are rewritten to.",
    remedy="Serve it on all of them, or rewrite to one that they serve.",
    source="vLLM answers 404 for a model that it does not serve",
)


def model_rewrite_findings(parts: Routing, epp: EppPlan) -> Iterator[Finding]:
    """Checks the rewrites of a router role."""
    rewrites, at = parts.args.model_rewrites, (*parts.at, "modelRewrites")
    if not rewrites:
        return
    if epp.family.rewrite_api is None:
        able = ", ".join(
            family.image for family in FAMILIES.values() if family.rewrite_api is not None
        )
        yield error(
            RELEASE_WITHOUT_FEATURE,
            at,
            f"{epp.family.name} reads no InferenceModelRewrites: requests would keep the names "
            f"that they ask for; images that read them: {able}",
        )
        return
    served = [(role.name, role.pods.command.asked_names) for role in parts.served]
    for index, rewrite in enumerate(rewrites):
        for number, target in enumerate(rewrite.targets):
            lacking = [
                f"{role} serves {', '.join(names)}"
                for role, names in served
                if names is not None and target.model not in names
            ]
            if lacking and target.weight != 0:
                yield warning(
                    REWRITE_TARGET_NOT_SERVED,
                    (*at, index, "targets", number, "model"),
                    f'"{target.model}" is not served by all pods: {"; ".join(lacking)}; engines '
                    "answer 404 for it. For a model with pods of its own use httproute.split",
                )
