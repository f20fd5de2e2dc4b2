"""The Deployment of the endpoint picker: fit for namespaces that enforce `restricted`."""

from __future__ import annotations

from fusioninfer_pulumi import labels
from fusioninfer_pulumi.manifests.routing.common import Manifest, picker_labels, router_metadata
from fusioninfer_pulumi.manifests.routing.config_map import checksum
from fusioninfer_pulumi.manifests.routing.overlay import overlaid
from fusioninfer_pulumi.pickers.flags import GRPC_PORT, HEALTH_PORT, METRICS_PORT
from fusioninfer_pulumi.plan.routing.picker import (
    CERTIFICATE_PATH,
    CERTIFICATE_VOLUME,
    CONFIG_VOLUME,
)
from fusioninfer_pulumi.plan.routing.records import RouterPlan
from fusioninfer_pulumi.plan.service_meta import ServiceMeta
from fusioninfer_pulumi.spec.router import MetricsMode
from fusioninfer_pulumi.spec.router_rules import PICKER_CONTAINER

#: As long as upstream's charts give a picker to finish the streams that it stands in.
_GRACE_SECONDS = 130

# Its indexes grow with the traffic, so there is no limit that would end the pod.
_REQUESTS = {"cpu": "500m", "memory": "1Gi"}


def picker_deployment(plan: ServiceMeta, router: RouterPlan) -> Manifest:
    """Builds the Deployment.

    Two pickers at a time would each know half of what they are to balance by, hence `Recreate`;
    with several replicas only the one that leads is ever Ready, and nothing waits for the others.
    """
    metadata = router_metadata(plan, router, router.picker.name)
    if router.picker.replicas > 1:
        own = metadata.get("annotations", {})
        metadata["annotations"] = {**own, labels.PULUMI_SKIP_AWAIT: "true"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": router.picker.replicas,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": picker_labels(router)},
            "template": overlaid(_template(router), router.picker.args.template or {}),
        },
    }


def _template(router: RouterPlan) -> Manifest:
    secret = router.picker.args.tls.secret_name
    volumes: list[Manifest] = [
        {"name": CONFIG_VOLUME, "configMap": {"name": router.picker.config_name}}
    ]
    if secret is not None:
        volumes.append({"name": CERTIFICATE_VOLUME, "secret": {"secretName": secret}})
    return {
        "metadata": {
            "labels": picker_labels(router),
            "annotations": {labels.CONFIG_CHECKSUM: checksum(router)},
        },
        "spec": {
            "serviceAccountName": router.picker.name,
            "automountServiceAccountToken": True,
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(router)],
            "volumes": volumes,
        },
    }


def _container(router: RouterPlan) -> Manifest:
    picker = router.picker
    ports: list[Manifest] = [
        {"name": "grpc", "containerPort": GRPC_PORT},
        {"name": "grpc-health", "containerPort": HEALTH_PORT},
    ]
    if picker.metrics is not MetricsMode.OFF:
        ports.append({"name": "metrics", "containerPort": METRICS_PORT})
    mounts = [{"name": CONFIG_VOLUME, "mountPath": "/config", "readOnly": True}]
    if picker.args.tls.secret_name is not None:
        mounts.append({"name": CERTIFICATE_VOLUME, "mountPath": CERTIFICATE_PATH, "readOnly": True})
    return {
        "name": PICKER_CONTAINER,
        "image": picker.image,
        "args": list(picker.arguments),
        "ports": ports,
        # Of all service names only these two are known with and without leader election.
        "livenessProbe": {
            "grpc": {"port": HEALTH_PORT, "service": "liveness"},
            "initialDelaySeconds": 5,
            "periodSeconds": 10,
        },
        "readinessProbe": {
            "grpc": {"port": HEALTH_PORT, "service": "readiness"},
            "periodSeconds": 2,
        },
        "env": [
            _field("NAMESPACE", "metadata.namespace"),
            _field("POD_NAME", "metadata.name"),
            *(dict(each) for each in picker.env),
        ],
        "resources": picker.args.resources or {"requests": _REQUESTS},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": mounts,
    }


def _field(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
