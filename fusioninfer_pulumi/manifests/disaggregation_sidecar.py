"""The sidecar of decode leaders: restricted, and with a token only where it uses one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi import names
from fusioninfer_pulumi.pickers.sidecar import HEALTH_PATH, USER
from fusioninfer_pulumi.plan.disaggregation.records import SidecarPlan
from fusioninfer_pulumi.plan.disaggregation.sidecar import NAMESPACE_ENV
from fusioninfer_pulumi.plan.pod_edits import free_name

Manifest = dict[str, Any]

#: Name of the sidecar's container.
SIDECAR = "pd-sidecar"
# Where every container finds the token of the pod's ServiceAccount, unless something else is
# mounted there (the ServiceAccount admission plugin's DefaultAPITokenMountPath).
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  # a folder
_NO_TOKEN = "no-token"  # noqa: S105  # a volume
_TOKEN = "sidecar-token"  # noqa: S105  # a volume
_TOKEN_SECONDS = 3607  # as in the volume that the API server would add


def with_sidecar(spec: Manifest, sidecar: SidecarPlan) -> Manifest:
    """Adds the sidecar to a leader's pod spec.

    Args:
        spec: The pod spec; it is not changed.
        sidecar: The sidecar. It stands last, so that nothing starts before the model is loaded
            that other init containers bring; as an init container that goes on, it ends only
            after the engine has answered what was under way.
    """
    built = dict(spec)
    mounts: list[Manifest] = []
    token = _token(spec, sidecar)
    if token is not None:
        mounts = [{"name": token["name"], "mountPath": _TOKEN_PATH, "readOnly": True}]
        built["volumes"] = [*(spec.get("volumes") or ()), token]
    if sidecar.account is not None and not sidecar.own_account:
        built["serviceAccountName"] = sidecar.account
        # The account is the sidecar's, so its token is mounted there alone.
        built["automountServiceAccountToken"] = False
    built["initContainers"] = [
        *(spec.get("initContainers") or ()),
        _sidecar(sidecar, mounts),
    ]
    return built


def _sidecar(sidecar: SidecarPlan, mounts: list[Manifest]) -> Manifest:
    env: list[Manifest] = [
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    ]
    if sidecar.account is not None:
        field = {"fieldRef": {"fieldPath": "metadata.namespace"}}
        env.append({"name": NAMESPACE_ENV, "valueFrom": field})
    scheme = {"scheme": "HTTPS"} if sidecar.https else {}
    return {
        "name": SIDECAR,
        "image": sidecar.image,
        "restartPolicy": "Always",
        "args": list(sidecar.arguments),
        "env": env,
        "ports": [{"name": names.SIDECAR_PORT, "containerPort": sidecar.port}],
        # Says that it listens; whether the engine behind it serves is the engine's to say.
        "readinessProbe": {
            "httpGet": {"path": HEALTH_PATH, "port": sidecar.port, **scheme},
            "periodSeconds": 10,
        },
        "resources": dict(sidecar.resources),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            # Stated, because a pod that runs its engine as root would pass that on.
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **({"volumeMounts": mounts} if mounts else {}),
    }


def _token(spec: Mapping[str, Any], sidecar: SidecarPlan) -> Manifest | None:
    """What the sidecar finds where a ServiceAccount's token would be.

    A token of its own if it uses one, as the API server would mount it. Else an empty volume: an
    account's token is mounted into every container, wherever nothing else is.
    """
    if sidecar.account is None:
        if spec.get("automountServiceAccountToken") is False:
            return None
        return {"name": free_name(_NO_TOKEN, spec.get("volumes")), "emptyDir": {}}
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    root = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}},
        {"configMap": root},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": free_name(_TOKEN, spec.get("volumes")), "projected": {"sources": sources}}
