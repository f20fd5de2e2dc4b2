"""The InferenceModelRewrite: plan and object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.endpoint_pickers.families import EppFamily
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.metadata import Manifest, ServiceMeta, metadata
from fusioninfer_pulumi.routing.pool import pool_reference


@dataclass(frozen=True)
class RewriteRule:
    """One rule.

    Attributes:
        models: Names in requests; none for all that no other rule has.
        weights: Weights of the models that answer, each above 0.
    """

    models: tuple[str, ...]
    weights: Mapping[str, int]

    def shares(self) -> dict[str, float]:
        """The share of each model that answers, in percent."""
        total = sum(self.weights.values())
        return {model: 100 * weight / total for model, weight in self.weights.items()}

    def text(self) -> str:
        """The rule, for people."""
        asked = ", ".join(self.models) or "any other model"
        if len(self.weights) == 1:
            return f"{asked} -> {next(iter(self.weights))}"
        shares = ", ".join(f"{model} {share:.4g} %" for model, share in self.shares().items())
        return f"{asked} -> {shares}"


@dataclass(frozen=True)
class RewritePlan:
    """The InferenceModelRewrite of a router.

    Attributes:
        api_version: That of the kind that the endpoint picker watches.
        rules: Its rules, that of a name before that of all names.
    """

    name: str
    api_version: str
    rules: tuple[RewriteRule, ...]

    def text(self) -> str:
        """Its rules, for people."""
        return "; ".join(rule.text() for rule in self.rules)


def rewrite_plan(service: str, args: RoleArgs, family: EppFamily) -> RewritePlan | None:
    """Plans the rewrites of a router role; None where it has none, or its picker knows none."""
    if not args.model_rewrites or family.rewrite_api is None:
        return None
    rules = [
        RewriteRule(
            tuple(rewrite.models or ()),
            # The kind takes no weight of 0.
            {
                target.model: 1 if target.weight is None else target.weight
                for target in rewrite.targets
                if target.weight != 0
            },
        )
        for rewrite in args.model_rewrites
    ]
    rules.sort(key=lambda rule: not rule.models)
    return RewritePlan(names.model_rewrite(service), family.rewrite_api, tuple(rules))


def inference_model_rewrite(meta: ServiceMeta, plan: RewritePlan, pool: str) -> Manifest:
    """Builds the InferenceModelRewrite of the pool of that name."""
    return {
        "apiVersion": plan.api_version,
        "kind": names.REWRITE_KIND,
        "metadata": metadata(meta, plan.name),
        "spec": {"poolRef": pool_reference(pool), "rules": [_rule(rule) for rule in plan.rules]},
    }


def _rule(rule: RewriteRule) -> Manifest:
    matches = [{"model": {"type": "Exact", "value": name}} for name in rule.models]
    targets = [{"modelRewrite": name, "weight": weight} for name, weight in rule.weights.items()]
    return {**({"matches": matches} if matches else {}), "targets": targets}
