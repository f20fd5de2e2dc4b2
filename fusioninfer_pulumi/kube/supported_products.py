"""Products that must be installed in a cluster, with their supported releases.

Also lists the fields that name other objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

Release = tuple[int, int, int]
_RELEASE = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:[-+].*)?")


@dataclass(frozen=True)
class Product:
    """A product that provides an API group, or a feature that a field uses.

    Attributes:
        name: Name of the product in messages.
        group: API group whose objects need the product; with `field`, the API behind the field.
        install: URL of a manifest to apply, a command, or the name of what to install.
        kind: Kind of the objects that need the product; empty for all kinds.
        field: If not empty, objects of any group need the product if they have a field with this
            key, at any depth.
        min_release: First supported release, or None if every release that serves the API version
            works.
        broken: Later releases that do not work.
        program: Name of the image whose tag is the release; empty if the CRDs' annotations have
            the release.
        namespace: Namespace in which the program usually runs.
    """

    name: str
    group: str
    install: str
    kind: str = ""
    field: str = ""
    min_release: Release | None = None
    broken: tuple[Release, ...] = ()
    program: str = ""
    namespace: str = ""

    @property
    def requirement(self) -> str:
        """Supported releases and a command, which follow the word `install` in messages."""
        apply = "kubectl apply --server-side -f " if self.install.startswith("https:") else ""
        if self.min_release is None:
            return f"it: {apply}{self.install}"
        broken = ", ".join(map(format_release, self.broken))
        exceptions = f" (not {broken})" if broken else ""
        return f"{format_release(self.min_release)} or later{exceptions}: {apply}{self.install}"


_GATEWAY_URL = "https://github.com/kubernetes-sigs/gateway-api/releases/download/v1.4.1"
_KUBERNETES = "Kubernetes v1.34 or later"

# v0.9.0 added the restart policy RecreateGroupAfterStart and status.observedGeneration, without
# which "Available" may refer to an older spec (api/leaderworkerset/v1).
LEADER_WORKER_SET = Product(
    name="LeaderWorkerSet",
    group="leaderworkerset.x-k8s.io",
    install="https://github.com/kubernetes-sigs/lws/releases/download/v0.9.0/manifests.yaml",
    min_release=(0, 9, 0),
    program="lws",
    namespace="lws-system",
)
# Up to v1.12.2, and in v1.13.0, the gang plugin waited for the pods of removed replicas.
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
    field="kueue.x-k8s.io/queue-name",
    min_release=(0, 11, 0),
    program="kueue",
    namespace="kueue-system",
)
_GATEWAY_API = Product(
    name="Gateway API",
    group="gateway.networking.k8s.io",
    install=f"{_GATEWAY_URL}/standard-install.yaml",
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
_LLM_D_URL_PREFIX = (
    "https://raw.githubusercontent.com/llm-d/llm-d-router/v0.10.0"
    "/config/crd/bases/llm-d.ai_inference"
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
    kind="HorizontalPodAutoscaler",
    field="pods",
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
    replace(VOLCANO, kind="PodGroup", field="subGroupPolicy", min_release=(1, 14, 1), broken=()),
    KUEUE,
    _GATEWAY_API,
    replace(
        _GATEWAY_API,
        name="Gateway API (experimental channel)",
        install=f"{_GATEWAY_URL}/experimental-install.yaml",
        kind="HTTPRoute",
        field="useDefaultGateways",
        min_release=(1, 4, 0),
    ),
    _INFERENCE_EXTENSION,
    # v1.6.0 no longer has this group. All releases that have it work.
    replace(_INFERENCE_EXTENSION, group="inference.networking.x-k8s.io", min_release=None),
    Product(
        name="llm-d router",
        group="llm-d.ai",
        install=f"{_LLM_D_URL_PREFIX}objectives.yaml -f {_LLM_D_URL_PREFIX}modelrewrites.yaml",
    ),
    _PROMETHEUS,
    # The CRD has portNumber in v0.79.2, not in v0.76.0.
    replace(_PROMETHEUS, kind="PodMonitor", field="portNumber", min_release=(0, 79, 0)),
    Product(
        name="KEDA",
        group="keda.sh",
        install="https://github.com/kedacore/keda/releases/download/v2.17.2/keda-2.17.2.yaml",
    ),
    # DestinationRule is v1 since Istio 1.22 (its release notes).
    Product("Istio v1.22.0 or later", "networking.istio.io", "istioctl install"),
    Product(
        name="GKE Gateway",
        group="networking.gke.io",
        install="gcloud container clusters update CLUSTER --gateway-api=standard",
    ),
    _DRA,
    replace(_DRA, field="resourceClaims", install=f"{_KUBERNETES}, or v1.32 with its feature gate"),
    _METRICS,
    replace(
        _METRICS,
        name="External metrics",
        group="external.metrics.k8s.io",
        install="an adapter such as prometheus-adapter, or KEDA",
        kind="HorizontalPodAutoscaler",
        field="external",
    ),
    NATIVE_GANGS,
)

# MaxUnavailableStatefulSet was on by default from 1.35.0 to 1.35.3 (kubernetes#133153, #137926).
# With it a StatefulSet never replaces a pod that was already broken (kubernetes#137409, fixed in
# 1.37 by #137666). The leaders of a LeaderWorkerSet are pods of a StatefulSet.
RELEASES_WITH_STALLED_STATEFULSETS = ((1, 35, 0), (1, 35, 3))

_SECRET, _CONFIG_MAP = ("v1", "Secret"), ("v1", "ConfigMap")
_QUEUE = ("scheduling.volcano.sh", "Queue")
#: Fields that name another object, and the object's `apiVersion` (or group) and kind. A field is
#: its key, or the enclosing key and its key.
REFERENCES: Mapping[str, tuple[str, str]] = {
    "imagePullSecrets.name": _SECRET,
    "secret.secretName": _SECRET,
    "secret.name": _SECRET,
    "secretRef.name": _SECRET,
    "secretKeyRef.name": _SECRET,
    "certificateRefs.name": _SECRET,
    "configMap.name": _CONFIG_MAP,
    "configMapRef.name": _CONFIG_MAP,
    "configMapKeyRef.name": _CONFIG_MAP,
    "persistentVolumeClaim.claimName": ("v1", "PersistentVolumeClaim"),
    "serviceAccountName": ("v1", "ServiceAccount"),
    "storageClassName": ("storage.k8s.io", "StorageClass"),
    "priorityClassName": ("scheduling.k8s.io", "PriorityClass"),
    "runtimeClassName": ("node.k8s.io", "RuntimeClass"),
    "resourceClaimName": ("resource.k8s.io", "ResourceClaim"),
    "resourceClaimTemplateName": ("resource.k8s.io", "ResourceClaimTemplate"),
    "deviceClassName": ("resource.k8s.io", "DeviceClass"),
    "spec.queue": _QUEUE,
    "scheduling.volcano.sh/queue-name": _QUEUE,
    "kueue.x-k8s.io/queue-name": ("kueue.x-k8s.io", "LocalQueue"),
}
#: Kinds in `REFERENCES` that are not namespaced.
CLUSTER_SCOPED = {"StorageClass", "PriorityClass", "RuntimeClass", "DeviceClass", "Queue"}

#: API and kind that a cluster must serve; an empty kind stands for the whole API.
Kind = tuple[str, str]


def find_products(manifest: Mapping[str, Any]) -> Iterator[tuple[Product, Kind]]:
    """Yield the rows of `PRODUCTS` that apply to an object, each with the needed API and kind."""
    api, kind = manifest["apiVersion"], manifest["kind"]
    fields = {location[-1] for location, _, _ in walk(manifest)}
    for product in PRODUCTS:
        same_group = product.group == api.rpartition("/")[0]
        applies = product.field in fields if product.field else same_group
        if applies and product.kind in ("", kind):
            yield product, ((api, kind) if same_group else (product.group, ""))


def walk(
    value: Any, location: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any, Mapping[str, Any]]]:
    """Yield location, value and enclosing mapping of each field of an object at any depth."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield (*location, key), item, value
            yield from walk(item, (*location, key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from walk(item, (*location, index))


def parse_product_release(text: str) -> Release | None:
    """Parse a release such as `v1.2.3-rc.1`; return None for other texts such as `latest`."""
    match = _RELEASE.fullmatch(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def format_release(release: Release) -> str:
    """Return the tag of a release, such as `v1.2.3`."""
    return "v" + ".".join(map(str, release))
