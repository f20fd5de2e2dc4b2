"""What a cluster must have: kinds, APIs, features and releases, each with its evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

Release = tuple[int, int, int]


@dataclass(frozen=True)
class Minimum:
    """One kind that has to be there.

    Attributes:
        product: What brings the kind.
        served: API version that our objects have, None where we make none.
        least: First release that works, None where the product has no releases to choose from.
        field: A field of the kind that our objects need, None where any release has them.
        field_since_least: Whether no release before `least` has that field.
        broken: Releases after `least` that do not work.
        last: Last release whose bundle has the kind, None where none dropped it.
        install: What installs it: a file to apply, or a command.
    """

    product: str
    definition: str
    served: str | None
    least: Release | None
    install: str
    field: str | None = None
    field_since_least: bool = False
    broken: tuple[Release, ...] = ()
    last: Release | None = None


@dataclass(frozen=True)
class Served:
    """An API of Kubernetes itself, or of an adapter; one of `versions` has to be served."""

    product: str
    group: str
    versions: tuple[str, ...]
    install: str


@dataclass(frozen=True)
class Feature:
    """A feature of Kubernetes that shows in no API, but by the release of the API server.

    `least` is the first release that knows its gate, `on` the first that has it on by default.
    """

    product: str
    gate: str
    least: Release
    on: Release


@dataclass(frozen=True)
class NamedKind:
    """A kind whose objects services name.

    Attributes:
        versions: Versions of the group that have it, the latest first.
        plural: Its name in paths of the API.
        way_out: What brings an object of it.
        beside_services: Whether programs commonly create it beside their services, so that one
            that does not exist yet may be no fault.
    """

    kind: str
    group: str
    versions: tuple[str, ...]
    plural: str
    product: str
    way_out: str
    beside_services: bool = True


class NamedObject(NamedTuple):
    """An object that services name; `namespace` is None for a kind without namespaces."""

    kind: NamedKind
    namespace: str | None
    name: str


def release_text(release: Release) -> str:
    """A release as its product writes it."""
    return "v" + ".".join(str(part) for part in release)


_LWS = "https://github.com/kubernetes-sigs/lws/releases/download/v0.9.0/manifests.yaml"
_VOLCANO = "https://raw.githubusercontent.com/volcano-sh/volcano/v1.14.1/installer/volcano-development.yaml"
_GATEWAY = "https://github.com/kubernetes-sigs/gateway-api/releases/download/v1.4.1"
_INFERENCE = (
    "https://github.com/kubernetes-sigs/gateway-api-inference-extension"
    "/releases/download/v1.5.0/manifests.yaml"
)

# 0.9.0 brought status.observedGeneration, without which "Available" may speak of an older spec, and
# the restart policy RecreateGroupAfterStart (v0.9.0 api/leaderworkerset/v1, not in v0.8).
LEADER_WORKER_SET = Minimum(
    product="LeaderWorkerSet",
    definition="leaderworkersets.leaderworkerset.x-k8s.io",
    served="v1",
    least=(0, 9, 0),
    field="status.observedGeneration",
    field_since_least=True,
    install=_LWS,
)

# minTaskMember of a replica that is gone used to stay and to hold the gang back (fixed in v1.12.3
# and v1.13.1, gang plugin). The definition shows none of this.
ALL_OR_NOTHING = Minimum(
    product="Volcano",
    definition="podgroups.scheduling.volcano.sh",
    served="v1beta1",
    least=(1, 12, 3),
    field="spec.minTaskMember",
    broken=((1, 13, 0),),
    install=_VOLCANO,
)

# subGroupPolicy came with v1.14.0 (not in v1.13.3), which schedules it only with networkTopology
# (volcano#4871, fixed in v1.14.1). The definitions of the two are alike.
PARTIAL_GANG = replace(ALL_OR_NOTHING, least=(1, 14, 1), field="spec.subGroupPolicy", broken=())

# Kueue manages LeaderWorkerSets since v0.11.0 (its changelog); services are in no field of it.
KUEUE = Minimum(
    product="Kueue",
    definition="localqueues.kueue.x-k8s.io",
    served=None,
    least=(0, 11, 0),
    install="https://github.com/kubernetes-sigs/kueue/releases/download/v0.15.2/manifests.yaml",
)

# Gateway and HTTPRoute are v1 since v1.0.0.
GATEWAY = Minimum(
    product="Gateway API",
    definition="gateways.gateway.networking.k8s.io",
    served="v1",
    least=(1, 0, 0),
    install=f"{_GATEWAY}/standard-install.yaml",
)
ROUTE = replace(GATEWAY, definition="httproutes.gateway.networking.k8s.io")
# Timeouts are in the standard channel since v1.2.0 (GEP-1742; its release notes); the experimental
# channel had them before, so it is the field that counts.
ROUTE_TIMEOUTS = replace(ROUTE, field="spec.rules.timeouts")
# Only in the experimental channel, since v1.4.0; v1.4.1's standard channel has it not.
DEFAULT_GATEWAYS = replace(
    ROUTE,
    product="Gateway API (experimental channel)",
    least=(1, 4, 0),
    field="spec.useDefaultGateways",
    install=f"{_GATEWAY}/experimental-install.yaml",
)
REFERENCE_GRANT = replace(
    GATEWAY, definition="referencegrants.gateway.networking.k8s.io", served="v1beta1"
)

# The pool is v1 since v1.0.0, and so is what endpoint pickers look for by default (--pool-group).
INFERENCE_POOL = Minimum(
    product="Gateway API Inference Extension",
    definition="inferencepools.inference.networking.k8s.io",
    served="v1",
    least=(1, 0, 0),
    install=_INFERENCE,
)
# Endpoint pickers up to v1.2 exit without it; bundles up to v1.5.0 have it, v1.6.0 does not.
INFERENCE_OBJECTIVE = replace(
    INFERENCE_POOL,
    definition="inferenceobjectives.inference.networking.x-k8s.io",
    served="v1alpha2",
    last=(1, 5, 0),
)

# Endpoint pickers look for the kind when they start. v1.2 has it with another field for targets.
MODEL_REWRITE = replace(
    INFERENCE_POOL,
    definition="inferencemodelrewrites.inference.networking.x-k8s.io",
    served="v1alpha2",
    least=(1, 3, 0),
    field="spec.rules.targets",
    field_since_least=True,
    last=(1, 5, 0),
)
LLM_D_MODEL_REWRITE = Minimum(
    product="llm-d router",
    definition="inferencemodelrewrites.llm-d.ai",
    served="v1alpha2",
    least=None,
    field="spec.rules.targets",
    install=(
        "https://raw.githubusercontent.com/llm-d/llm-d-router/v0.10.0"
        "/config/crd/bases/llm-d.ai_inferencemodelrewrites.yaml"
    ),
)

# Kind and group are v1 since the PodMonitor came with 0.31.0 (its changelog). The number of a port
# without a name is in the definition of v0.79.2, not in that of v0.76.0.
POD_MONITOR = Minimum(
    product="Prometheus operator",
    definition="podmonitors.monitoring.coreos.com",
    served="v1",
    least=(0, 31, 0),
    install="https://github.com/prometheus-operator/prometheus-operator/releases/download/v0.85.0/bundle.yaml",
)
POD_MONITOR_NUMBER = replace(
    POD_MONITOR, field="spec.podMetricsEndpoints.portNumber", field_since_least=True
)
SERVICE_MONITOR = replace(POD_MONITOR, definition="servicemonitors.monitoring.coreos.com")
PROMETHEUS_RULE = replace(POD_MONITOR, definition="prometheusrules.monitoring.coreos.com")

# The kind is v1alpha1 since KEDA 2.0, whose group it came with.
SCALED_OBJECT = Minimum(
    product="KEDA",
    definition="scaledobjects.keda.sh",
    served="v1alpha1",
    least=(2, 0, 0),
    field_since_least=True,
    install="https://github.com/kedacore/keda/releases/download/v2.17.2/keda-2.17.2.yaml",
)
# The kind is v1 since Istio 1.22 (its release notes), where it was v1beta1 and v1alpha3 before.
DESTINATION_RULE = Minimum(
    product="Istio",
    definition="destinationrules.networking.istio.io",
    served="v1",
    least=(1, 22, 0),
    field_since_least=True,
    install="istioctl install",
)
# GKE installs its policies, in releases of its own, where the Gateway API is switched on.
HEALTH_CHECK_POLICY = Minimum(
    product="GKE Gateway",
    definition="healthcheckpolicies.networking.gke.io",
    served="v1",
    least=None,
    field_since_least=True,
    install="gcloud container clusters update CLUSTER --gateway-api=standard",
)
BACKEND_POLICY = replace(HEALTH_CHECK_POLICY, definition="gcpbackendpolicies.networking.gke.io")

#: What gateways need beside the route, by kind.
GATEWAY_EXTRAS = {
    "DestinationRule": DESTINATION_RULE,
    "HealthCheckPolicy": HEALTH_CHECK_POLICY,
    "GCPBackendPolicy": BACKEND_POLICY,
}

#: Rows of one definition, the more demanding one last.
ROWS = (
    LEADER_WORKER_SET,
    ALL_OR_NOTHING,
    PARTIAL_GANG,
    KUEUE,
    GATEWAY,
    ROUTE,
    ROUTE_TIMEOUTS,
    DEFAULT_GATEWAYS,
    REFERENCE_GRANT,
    INFERENCE_POOL,
    INFERENCE_OBJECTIVE,
    MODEL_REWRITE,
    LLM_D_MODEL_REWRITE,
    POD_MONITOR,
    POD_MONITOR_NUMBER,
    SERVICE_MONITOR,
    PROMETHEUS_RULE,
    SCALED_OBJECT,
    *GATEWAY_EXTRAS.values(),
)

# What we make is v1, which is served since Kubernetes 1.34; pods may name what others made with the
# beta versions of 1.32 and 1.33 (behind a gate there).
CLAIM_TEMPLATES = Served(
    "Dynamic resource allocation", "resource.k8s.io", ("v1",), "Kubernetes v1.34 or later"
)
CLAIMS = Served(
    "Dynamic resource allocation",
    "resource.k8s.io",
    ("v1", "v1beta2", "v1beta1"),
    "Kubernetes v1.34 or later, or v1.32 with its feature gate",
)

# What a HorizontalPodAutoscaler asks (k8s.io/metrics); Kubernetes serves neither by itself.
POD_METRICS = Served(
    "Metrics of pods",
    "custom.metrics.k8s.io",
    ("v1beta2", "v1beta1"),
    "an adapter such as prometheus-adapter",
)
EXTERNAL_METRICS = Served(
    "External metrics",
    "external.metrics.k8s.io",
    ("v1beta1",),
    "an adapter such as prometheus-adapter, or KEDA",
)

# The API server serves it only with its own gate on (storage_scheduling.go of v1.37.1); nothing
# shows whether the scheduler has the gate, too.
NATIVE_GANGS = Served(
    "Gangs of Kubernetes",
    "scheduling.k8s.io",
    ("v1beta1",),
    "Kubernetes v1.37 with --runtime-config=scheduling.k8s.io/v1beta1=true and the feature gate "
    "GenericWorkload in API server, controller manager and scheduler; or gangPolicy.backend "
    "Volcano or Kueue",
)

#: APIs; of one group the most demanding row first.
SERVED = (CLAIM_TEMPLATES, CLAIMS, POD_METRICS, EXTERNAL_METRICS, NATIVE_GANGS)

DEVICE_CLASS = NamedKind(
    kind="DeviceClass",
    group=CLAIMS.group,
    versions=CLAIMS.versions,
    plural="deviceclasses",
    product=CLAIMS.product,
    way_out="install the driver of the devices, which brings it",
    beside_services=False,
)
# Admission refuses pods whose class is not there (plugin Priority), and so a set stays without.
PRIORITY_CLASS = NamedKind(
    kind="PriorityClass",
    group="scheduling.k8s.io",
    versions=("v1",),
    plural="priorityclasses",
    product="Priority",
    way_out="no pod is admitted without it; create it, unless this program does first",
)
# Volcano's webhook refuses a PodGroup without its queue (validate_podgroup.go of v1.14.1), and its
# scheduler leaves the job out (cache.go).
QUEUE = NamedKind(
    kind="Queue",
    group="scheduling.volcano.sh",
    versions=("v1beta1",),
    plural="queues",
    product="Volcano",
    way_out="no pod is scheduled without it; create it, unless this program does first",
)

LOCAL_QUEUE = NamedKind(
    kind="LocalQueue",
    group="kueue.x-k8s.io",
    versions=("v1beta2", "v1beta1"),
    plural="localqueues",
    product=KUEUE.product,
    way_out="no replica is admitted without it; create it, unless this program does first",
)

# Releases as in Kubernetes' pkg/features/kube_features.go (read in v1.35.4).
IMAGE_VOLUMES = Feature("Image volumes", "ImageVolume", least=(1, 31, 0), on=(1, 35, 0))
SIDECARS = Feature("Sidecar containers", "SidecarContainers", least=(1, 28, 0), on=(1, 29, 0))
# The endpoint picker's preStop hook.
SLEEP = Feature("Sleeping hooks", "PodLifecycleSleepAction", least=(1, 29, 0), on=(1, 30, 0))

TOLERANCES = Feature(
    "Tolerances of autoscalers", "HPAConfigurableTolerance", least=(1, 33, 0), on=(1, 35, 0)
)

# MaxUnavailableStatefulSet was on by default from 1.35.0 to 1.35.3 (kubernetes#133153, #137926);
# with it a StatefulSet never replaces a pod that was broken before (kubernetes#137409, fixed in
# 1.37 by #137666). Each replica of LeaderWorkerSet is led by such a pod.
STALLED = ((1, 35, 0), (1, 35, 3))

FEATURES = (IMAGE_VOLUMES, SIDECARS, SLEEP, TOLERANCES)

#: Images whose tag is the release of a product that does not write it on its definitions.
PROGRAMS = {"LeaderWorkerSet": "lws", "Volcano": "vc-scheduler", "Kueue": "kueue"}
