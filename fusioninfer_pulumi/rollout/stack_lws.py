"""LeaderWorkerSets in the stack's state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.rollout.mixed_revisions import EngineLws
from fusioninfer_pulumi.rollout.state_machine import Version


@dataclass(frozen=True)
class StackTemplate:
    """The pod template of a LeaderWorkerSet in the stack's state.

    Attributes:
        gang: PodGroup that its pods name, empty without one.
    """

    sub_groups: Mapping[str, Any]
    gang: str
    nodes: int
    replicas: int


@dataclass(frozen=True)
class StackLws:
    """A LeaderWorkerSet in the stack's state.

    Attributes:
        name: Its Kubernetes name, empty where it is not known yet.
        layout: The layout that its labels show, None where they show none: it is not ours.
        template: What runs in it, None where that is not known.
        version: Its uid and generation, which change with its spec.
        role: Name of its role, empty where its labels show none.
        pair_revision: What its pods' handshake compares, empty where its labels do not show it.
        engine: Its engine, for previews; None if it has secrets.
    """

    logical: str
    name: str
    namespace: str
    service: str
    layout: Layout | None
    revision: str
    template: StackTemplate | None
    version: Version = ("", 0)
    role: str = ""
    pair_revision: str = ""
    engine: EngineLws | None = None

    @property
    def component(self) -> str:
        """Logical name of its component, empty where its own name does not follow from one."""
        suffix = self.name[len(self.service) :]
        ours = self.service and suffix and self.name.startswith(f"{self.service}-")
        return self.logical[: -len(suffix)] if ours and self.logical.endswith(suffix) else ""

    def is_at(self, name: str, namespace: Any) -> bool:
        """Return whether it has a Kubernetes name and a namespace, as far as both are known."""
        elsewhere = isinstance(namespace, str) and self.namespace not in ("", namespace)
        return self.name == name and not elsewhere


def layout_of(set_labels: Mapping[str, Any]) -> Layout | None:
    """Return the layout of a LeaderWorkerSet by its labels, None if it is not of this library."""
    if labels.ROLE_NAME not in set_labels:
        return None
    return Layout.PER_REPLICA if labels.REPLICA_INDEX in set_labels else Layout.PER_ROLE
