"""Builds the DaemonSets that pull a role's images before an update changes its pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fusioninfer_pulumi.api.rollout import RolloutArgs
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.containers import build_security_context
from fusioninfer_pulumi.kube.object_metadata import (
    Manifest,
    ServiceMeta,
    build_metadata,
    build_object,
)
from fusioninfer_pulumi.pods.pod import Pod
from fusioninfer_pulumi.topology.role_plan import RolePlan

_USER = 65534
#: Fields copied from the role's container and pod; they determine the image and the nodes.
_CONTAINER_FIELDS = ("image", "imagePullPolicy")
_POD_FIELDS = ("nodeSelector", "tolerations", "imagePullSecrets")


def build_image_pulls(
    meta: ServiceMeta, roles: Iterable[RolePlan], rollout: RolloutArgs
) -> Iterator[Manifest]:
    """Build DaemonSets for the different pods of each role, if `rollout.pullImages` is set."""
    if not rollout.pull_images:
        return
    for role in roles:
        specs = [_build_pod_spec(pod) for pod in role.pods.all]
        for index, spec in enumerate(specs):
            # Leader and worker often need the same image on the same nodes.
            if spec not in specs[:index]:
                name = object_names.image_pull(meta.service, role.name, index)
                yield _build_daemon_set(meta, role.name, name, spec)


def _build_pod_spec(pod: Pod) -> Manifest:
    """Return the spec of a pod that pulls the engine's image and needs no accelerator."""
    container = {
        "name": "pull",
        **{key: pod.container[key] for key in _CONTAINER_FIELDS if key in pod.container},
        "command": ["sleep", "infinity"],
        "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}},
        "securityContext": build_security_context(_USER, readOnlyRootFilesystem=True),
    }
    spec: Manifest = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        **{key: pod.spec[key] for key in _POD_FIELDS if key in pod.spec},
    }
    node_affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity")
    if node_affinity is not None:
        spec["affinity"] = {"nodeAffinity": node_affinity}
    return spec


def _build_daemon_set(meta: ServiceMeta, role: str, name: str, pod: Manifest) -> Manifest:
    # The pods lack the service's label, because users and Services select serving pods by it.
    selector = {labels.APP: name}
    spec = {
        "selector": {"matchLabels": selector},
        # All nodes pull at the same time.
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
        "template": {"metadata": {"labels": selector}, "spec": pod},
    }
    own_metadata = build_metadata(
        meta, name, {labels.SERVICE: meta.service, labels.ROLE_NAME: role}
    )
    return build_object("apps/v1", "DaemonSet", own_metadata, spec=spec)
