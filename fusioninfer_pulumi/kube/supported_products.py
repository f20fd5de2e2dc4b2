"""Products that must be installed in a cluster, with their supported releases.

Also lists the fields that name other objects. A field is `Kind path`; `[*]` is any item of a list
or value of a mapping. `Pod` stands for the pods that controllers create from rendered objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Release = tuple[int, int, int]
_RELEASE = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:[-+].*)?")
_PART = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


@dataclass(frozen=True)
class Product:
    """A product that provides an API group, or a part of one.

    Attributes:
        name: Its name in messages.
        group: The API group.
        install: URL of a manifest to apply, or a command, or what to install.
        kind: The only kind that needs the product, empty for all kinds of the group.
        field: Field that needs the product, empty if every object of the group does.
        min_release: First supported release, None if any that serves the API version works.
        broken: Later releases that do not work.
        last_release: Last release that has the group, None if no release removed it.
        program: Name of the image whose tag is the release, empty if the CRDs' annotations have it.
        namespace: Namespace in which the program usually runs.
    """

    name: str
    group: str
    install: str
    kind: str = ""
    field: str = ""
    min_release: Release | None = None
    broken: tuple[Release, ...] = ()
    last_release: Release | None = None
    program: str = ""
    namespace: str = ""

    @property
    def requirement(self) -> str:
        """Supported releases and how to install one, as the end of a sentence."""
        apply = "kubectl apply --server-side -f " if self.install.startswith("https:") else ""
        if self.min_release is None:
            return f"it: {apply}{self.install}"
        if self.last_release is not None:
            releases = f"{format_release(self.min_release)} to {format_release(self.last_release)}"
        else:
            unless = f" (not {', '.join(map(format_release, self.broken))})" if self.broken else ""
            releases = f"{format_release(self.min_release)} or later{unless}"
        return f"{releases}: {apply}{self.install}"


_GATEWAY = "https://github.com/kubernetes-sigs/gateway-api/releases/download/v1.4.1"
_KUBERNETES = "Kubernetes v1.34 or later"

# v0.9.0 added status.observedGeneration, without which "Available" may be about an older spec, and
# the restart policy RecreateGroupAfterStart (api/leaderworkerset/v1).
LEADER_WORKER_SET = Product(
    name="LeaderWorkerSet",
    group="leaderworkerset.x-k8s.io",
    install="https://github.com/kubernetes-sigs/lws/releases/download/v0.9.0/manifests.yaml",
    min_release=(0, 9, 0),
    program="lws",
    namespace="lws-system",
)
# Before v1.12.3 and v1.13.1 a removed replica's minTaskMember kept the gang pending (gang plugin).
VOLCANO = Product(
    name="Volcano",
    group="scheduling.volcano.sh",
    install="https://raw.githubusercontent.com/volcano-sh/volcano/v1.14.1/installer/volcano-development.yaml",
    min_release=(1, 12, 3),
    broken=((1, 13, 0),),
    program="vc-scheduler",
    namespace="volcano-system",
)
# Kueue supports LeaderWorkerSets since v0.11.0 (its changelog).
KUEUE = Product(
    name="Kueue",
    group="kueue.x-k8s.io",
    install="https://github.com/kubernetes-sigs/kueue/releases/download/v0.15.2/manifests.yaml",
    field="LeaderWorkerSet metadata.labels[kueue.x-k8s.io/queue-name]",
    min_release=(0, 11, 0),
    program="kueue",
    namespace="kueue-system",
)
_GATEWAY_API = Product(
    name="Gateway API",
    group="gateway.networking.k8s.io",
    install=f"{_GATEWAY}/standard-install.yaml",
    min_release=(1, 0, 0),
)
_INFERENCE_EXTENSION = Product(
    name="Gateway API Inference Extension",
    group="inference.networking.k8s.io",
    install=(
        "https://github.com/kubernetes-sigs/gateway-api-inference-extension"
        "/releases/download/v1.5.0/manifests.yaml"
    ),
    min_release=(1, 0, 0),
)
# The bundle v1.6.0 no longer has this group.
_INFERENCE_X = replace(
    _INFERENCE_EXTENSION, group="inference.networking.x-k8s.io", last_release=(1, 5, 0)
)
_LLM_D = Product(
    name="llm-d router",
    group="llm-d.ai",
    install=(
        "https://raw.githubusercontent.com/llm-d/llm-d-router/v0.10.0"
        "/config/crd/bases/llm-d.ai_inferencemodelrewrites.yaml"
    ),
)
_PROMETHEUS = Product(
    name="Prometheus operator",
    group="monitoring.coreos.com",
    install="https://github.com/prometheus-operator/prometheus-operator/releases/download/v0.85.0/bundle.yaml",
    min_release=(0, 31, 0),
)
_DRA = Product("Dynamic resource allocation", "resource.k8s.io", _KUBERNETES)
_METRICS = Product(
    name="Pod metrics",
    group="custom.metrics.k8s.io",
    install="an adapter such as prometheus-adapter",
    field="HorizontalPodAutoscaler spec.metrics[*].pods",
)
# The API server serves this API only if the feature gate is on (storage_scheduling.go, v1.37.1).
NATIVE_GANGS = Product(
    name="Kubernetes gangs",
    group="scheduling.k8s.io",
    install=(
        "Kubernetes v1.37 with --runtime-config=scheduling.k8s.io/v1beta1=true and the feature "
        "gate GenericWorkload in API server, controller manager and scheduler; or "
        "gangPolicy.backend Volcano or Kueue"
    ),
    kind="PodGroup",
)

#: If several rows apply to an API and kind, the last one counts.
PRODUCTS = (
    LEADER_WORKER_SET,
    VOLCANO,
    # v1.14.0 has the field, but honours it only with networkTopology (volcano#4871).
    replace(VOLCANO, field="PodGroup spec.subGroupPolicy", min_release=(1, 14, 1), broken=()),
    KUEUE,
    _GATEWAY_API,
    replace(
        _GATEWAY_API,
        name="Gateway API (experimental channel)",
        install=f"{_GATEWAY}/experimental-install.yaml",
        field="HTTPRoute spec.useDefaultGateways",
        min_release=(1, 4, 0),
    ),
    _INFERENCE_EXTENSION,
    _INFERENCE_X,
    # In v1.2 the kind's targets are in another field.
    replace(_INFERENCE_X, kind="InferenceModelRewrite", min_release=(1, 3, 0)),
    _LLM_D,
    replace(
        _LLM_D,
        kind="InferenceObjective",
        install=_LLM_D.install.replace("modelrewrites", "objectives"),
    ),
    _PROMETHEUS,
    # The CRD has portNumber in v0.79.2, not in v0.76.0.
    replace(
        _PROMETHEUS, field="PodMonitor spec.podMetricsEndpoints[*].portNumber", min_release=None
    ),
    Product(
        name="KEDA",
        group="keda.sh",
        install="https://github.com/kedacore/keda/releases/download/v2.17.2/keda-2.17.2.yaml",
    ),
    # The kind is v1 since Istio 1.22 (its release notes).
    Product("Istio v1.22.0 or later", "networking.istio.io", "istioctl install"),
    Product(
        name="GKE Gateway",
        group="networking.gke.io",
        install="gcloud container clusters update CLUSTER --gateway-api=standard",
    ),
    _DRA,
    replace(
        _DRA,
        field="Pod spec.resourceClaims",
        install=f"{_KUBERNETES}, or v1.32 with its feature gate",
    ),
    _METRICS,
    replace(
        _METRICS,
        name="External metrics",
        group="external.metrics.k8s.io",
        install="an adapter such as prometheus-adapter, or KEDA",
        field="HorizontalPodAutoscaler spec.metrics[*].external",
    ),
    NATIVE_GANGS,
)

# MaxUnavailableStatefulSet was on by default from 1.35.0 to 1.35.3 (kubernetes#133153, #137926).
# With it a StatefulSet never replaces a pod that was already broken (kubernetes#137409, fixed in
# 1.37 by #137666). The leaders of a LeaderWorkerSet are pods of a StatefulSet.
RELEASES_WITH_STALLED_STATEFULSETS = ((1, 35, 0), (1, 35, 3))

#: Fields with the name of another object, by its API and kind.
REFERENCES: Mapping[tuple[str, str], Sequence[str]] = {
    ("v1", "Secret"): (
        "Pod spec.imagePullSecrets[*].name",
        "Pod spec.volumes[*].secret.secretName",
        "Pod spec.volumes[*].projected.sources[*].secret.name",
        "Pod spec.initContainers[*].envFrom[*].secretRef.name",
        "Pod spec.initContainers[*].env[*].valueFrom.secretKeyRef.name",
        "Pod spec.containers[*].envFrom[*].secretRef.name",
        "Pod spec.containers[*].env[*].valueFrom.secretKeyRef.name",
        "Gateway spec.listeners[*].tls.certificateRefs[*].name",
    ),
    ("v1", "ConfigMap"): (
        "Pod spec.volumes[*].configMap.name",
        "Pod spec.volumes[*].projected.sources[*].configMap.name",
        "Pod spec.initContainers[*].envFrom[*].configMapRef.name",
        "Pod spec.initContainers[*].env[*].valueFrom.configMapKeyRef.name",
        "Pod spec.containers[*].envFrom[*].configMapRef.name",
        "Pod spec.containers[*].env[*].valueFrom.configMapKeyRef.name",
    ),
    ("v1", "PersistentVolumeClaim"): ("Pod spec.volumes[*].persistentVolumeClaim.claimName",),
    ("v1", "ServiceAccount"): ("Pod spec.serviceAccountName",),
    ("storage.k8s.io", "StorageClass"): (
        "PersistentVolumeClaim spec.storageClassName",
        "LeaderWorkerSet spec.leaderWorkerTemplate.volumeClaimTemplates[*].spec.storageClassName",
        "Pod spec.volumes[*].ephemeral.volumeClaimTemplate.spec.storageClassName",
    ),
    ("scheduling.k8s.io", "PriorityClass"): (
        "PodGroup spec.priorityClassName",
        "Pod spec.priorityClassName",
    ),
    ("node.k8s.io", "RuntimeClass"): ("Pod spec.runtimeClassName",),
    ("resource.k8s.io", "ResourceClaim"): ("Pod spec.resourceClaims[*].resourceClaimName",),
    ("resource.k8s.io", "ResourceClaimTemplate"): (
        "Pod spec.resourceClaims[*].resourceClaimTemplateName",
    ),
    ("resource.k8s.io", "DeviceClass"): (
        "ResourceClaimTemplate spec.spec.devices.requests[*].exactly.deviceClassName",
        "ResourceClaimTemplate spec.spec.devices.requests[*].firstAvailable[*].deviceClassName",
    ),
    ("scheduling.volcano.sh", "Queue"): (
        "PodGroup spec.queue",
        "Pod metadata.annotations[scheduling.volcano.sh/queue-name]",
    ),
    ("kueue.x-k8s.io", "LocalQueue"): (
        "LeaderWorkerSet metadata.labels[kueue.x-k8s.io/queue-name]",
    ),
}
#: Kinds in `REFERENCES` that are not namespaced.
CLUSTER_SCOPED = {
    "StorageClass", "PriorityClass", "RuntimeClass", "DeviceClass", "Queue",
}  # fmt: skip


#: API and kind that a cluster must serve; an empty kind stands for the whole API.
Kind = tuple[str, str]


def find_products(manifest: Mapping[str, Any]) -> Iterator[tuple[Product, Kind]]:
    """Yield the rows of `PRODUCTS` that apply to an object, each with the needed API and kind."""
    api, kind = manifest["apiVersion"], manifest["kind"]
    for product in PRODUCTS:
        same_group = product.group == api.rpartition("/")[0]
        if product.field:
            applies = any(True for _ in iterate_field(product.field, manifest))
        else:
            applies = same_group and product.kind in ("", kind)
        if applies:
            yield product, ((api, kind) if same_group else (product.group, ""))


def iterate_field(
    field: str, manifest: Mapping[str, Any]
) -> Iterator[tuple[tuple[str | int, ...], Any, Mapping[str, Any]]]:
    """Yield location, value and enclosing mapping of each value of a field in an object."""
    kind, _, path = field.partition(" ")
    if manifest["kind"] == kind:
        parts = tuple(index or key for index, key in _PART.findall(path))
        yield from _values(parts, (), manifest, {})


def _values(
    parts: tuple[str, ...], at: tuple[str | int, ...], value: Any, parent: Mapping[str, Any]
) -> Iterator[tuple[tuple[str | int, ...], Any, Mapping[str, Any]]]:
    if not parts:
        yield at, value, parent
    elif parts[0] == "*":
        items = value.items() if isinstance(value, Mapping) else enumerate(value or ())
        for key, item in items:
            yield from _values(parts[1:], (*at, key), item, parent)
    elif isinstance(value, Mapping) and value.get(parts[0]) is not None:
        yield from _values(parts[1:], (*at, parts[0]), value[parts[0]], value)


def parse_product_release(text: str) -> Release | None:
    """Parse a product's release such as `v1.2.3-rc.1`, None for other texts such as `latest`."""
    match = _RELEASE.fullmatch(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def format_release(release: Release) -> str:
    """Return the tag of a release, such as `v1.2.3`."""
    return "v" + ".".join(map(str, release))
