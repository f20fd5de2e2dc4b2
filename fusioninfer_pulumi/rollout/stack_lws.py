"""LeaderWorkerSets in the stack's state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.rollout.mixed_revisions import EngineLws
from fusioninfer_pulumi.rollout.state_machine import ObjectVersion


@dataclass(frozen=True)
class StackSpec:
    """Fields of a LeaderWorkerSet's spec in the stack's state.

    Attributes:
        gang: The `GangPlan.reference` of the pods; empty if they are in no gang.
    """

    sub_group_policy: Mapping[str, Any]
    gang: str
    nodes: int
    replicas: int


@dataclass(frozen=True)
class StackLws:
    """A LeaderWorkerSet in the stack's state.

    Attributes:
        name: Kubernetes name, or empty if not known yet.
        layout: See `derive_layout`.
        spec: Fields of its spec, or None if unknown.
        version: UID and generation; a replacement changes the UID, an update the generation.
        role: Name of its role, or empty if it has no such label.
        pair_revision: Value of its label `pair-revision`, or empty.
        engine: The engine of its pods; known only in previews, and only if the object has no
            secrets.
    """

    logical_name: str
    name: str
    namespace: str
    service: str
    layout: Layout | None
    revision: str
    spec: StackSpec | None
    version: ObjectVersion = ("", 0)
    role: str = ""
    pair_revision: str = ""
    engine: EngineLws | None = None

    @property
    def component(self) -> str:
        """Logical name of the component that owns the LeaderWorkerSet, or empty if unknown.

        If the logical name is `prod-decode-0`, the Kubernetes name `chat-decode-0` and the service
        `chat`, the component is `prod`.
        """
        suffix = self.name[len(self.service) :]
        if (
            self.service
            and self.name.startswith(f"{self.service}-")
            and self.logical_name.endswith(suffix)
        ):
            return self.logical_name[: -len(suffix)]
        return ""

    def has_name(self, name: str, namespace: Any) -> bool:
        """Return whether name and namespace match; an unknown namespace matches any."""
        same_namespace = not isinstance(namespace, str) or self.namespace in ("", namespace)
        return self.name == name and same_namespace


def derive_layout(lws_labels: Mapping[str, Any]) -> Layout | None:
    """Return the layout of a LeaderWorkerSet, or None if this library did not create it."""
    if labels.ROLE_NAME not in lws_labels:
        return None
    return Layout.PER_REPLICA if labels.REPLICA_INDEX in lws_labels else Layout.PER_ROLE
