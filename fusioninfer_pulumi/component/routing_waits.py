"""Patches that wait until a gateway serves the route: what `wait.level: Serving` adds to a router.

Gateway API and InferencePool keep the generation that a condition speaks of in the condition
itself, inside of `status.parents[]`. The provider reads paths as RFC 9535 has them, whose filters
may compare with the object's own generation; so a condition from before a change does not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pulumi

from fusioninfer_pulumi import labels
from fusioninfer_pulumi.component.resources import KubernetesObject
from fusioninfer_pulumi.component.waits import PATCHED, Awaited, Patch, patch_options
from fusioninfer_pulumi.plan.rollout import Rollout
from fusioninfer_pulumi.plan.routing.records import RouterPlan

#: Kinds whose conditions a gateway's controller writes.
KINDS = ("Gateway", "InferencePool", "HTTPRoute")

# No `>=`, because the provider takes every single `=` for the end of the path; and no blanks around
# `&&`, because its parser takes none before a third term.
_CURRENT = "!(@.observedGeneration < $.metadata.generation)"
_ACCEPTED = f'@.conditions[?@.type=="Accepted"&&@.status=="True"&&{_CURRENT}]'
_RESOLVED = f'@.conditions[?@.type=="ResolvedRefs"&&@.status=="True"&&{_CURRENT}]'


def conditions(kind: str, router: RouterPlan) -> list[str]:
    """What is waited for, as the provider reads it.

    Args:
        kind: One of KINDS.
        router: The service's router.

    Returns:
        For a Gateway that its controller has accepted and programmed it; for a route, and for the
        pool, that each Gateway which the route names has accepted it and found what it refers to.
        Only conditions that speak of the object as it is now count.
    """
    if kind == "Gateway":
        return ["condition=Accepted", "condition=Programmed"]
    parents = dict.fromkeys(_parents(kind, router)) or {"": None}
    return [
        f"jsonpath={{.status.parents[?{parent}{_ACCEPTED}&&{_RESOLVED}]}}" for parent in parents
    ]


def patch_routing(
    rollout: Rollout,
    router: RouterPlan,
    objects: Sequence[Awaited],
    after: Sequence[KubernetesObject],
    given: pulumi.ResourceOptions,
) -> dict[str, Patch]:
    """Registers the patches of a router's objects.

    Args:
        rollout: How long to wait.
        router: The service's router.
        objects: Its objects of KINDS.
        after: What has to be there before: they come last, so that they hold up nothing.
        given: Options of every child of the component.

    Returns:
        The patches by Kubernetes name; none without a route, for which no gateway would speak.
    """
    if router.route is None:
        return {}
    # A pool is looked at only once a route leads to it, a Gateway's address may wait for one too.
    before = [*after, *(each.resource for each in objects)]
    return {
        target.manifest["metadata"]["name"]: Patch(
            f"{target.logical}-wait",
            target.manifest,
            {
                labels.PULUMI_WAIT_FOR: json.dumps(
                    [*conditions(target.manifest["kind"], router), PATCHED]
                ),
                # The object itself does not wait, so each change of it has to touch the patch.
                labels.GENERATION: target.resource.metadata.apply(_generation),
            },
            patch_options(rollout, target, [target.resource, *before], given),
        )
        for target in objects
    }


def _parents(kind: str, router: RouterPlan) -> Iterator[str]:
    for parent in router.parents:
        named = f'@.parentRef.name=="{parent.name}"&&'
        if kind == "HTTPRoute" and parent.section is not None:
            named += f'@.parentRef.sectionName=="{parent.section}"&&'
        yield named


def _generation(metadata: Mapping[str, Any] | None) -> str:
    return str(int((metadata or {}).get("generation") or 0))
