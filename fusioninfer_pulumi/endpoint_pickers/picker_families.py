"""The families of endpoint picker and sidecar releases, and the differences between them.

`FAMILIES` is the table. Its facts are from the source of each release (`tools/picker_plugins.go`
names the files). For each family with `is_tested`, end-to-end tests start the family's endpoint
picker with a configuration that `picker_config` generates.

These releases are not supported: v1.0 and v1.1 of the inference extension (GAIE), which have other
parameters; GAIE v1.6, which has no endpoint picker with plugins; and llm-d before v0.9.

llm-d v1.0 is not released yet; its row describes the repository after v0.10.0
(`tools/picker_plugins.yaml`).

An image is recognized by its tag and the last part of its repository, so that mirrors
(`registry.example/mirror/epp`) match too. For a digest without a tag, `latest`, a development
build or any other name, the user must set the family.

Sidecars v0.9.0 and v0.10.0 of llm-d-router, built from source, accept exactly the flags in
`generated/endpoint_pickers`, and start with the generated flags for each of their protocols. They
exit with status 2 on an unknown flag, and with status 0 and a log line on an invalid value.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

from fusioninfer_pulumi.engines.engine_images import ReleaseNumber, format_release
from fusioninfer_pulumi.engines.metric_names import VLLM_METRICS, LoadMetrics
from fusioninfer_pulumi.findings import Finding, Rule, error, quote_value
from fusioninfer_pulumi.generated import DIRECTORY
from fusioninfer_pulumi.kube.pulumi_outputs import is_output

PICKER_FAMILY_UNKNOWN = Rule("picker-family-unknown")

X_K8S_API = "inference.networking.x-k8s.io/v1alpha1"
LLM_D_API, LLM_D_V1_API = "llm-d.ai/v1alpha1", "llm-d.ai/v1"
EPP_CONFIG_KIND = "EndpointPickerConfig"


@cache
def load_release_data(family: str) -> dict[str, Any]:
    """Return the plugins and flags of a family's newest release (`tools/picker_plugins.py`)."""
    path = DIRECTORY / "endpoint_pickers" / f"{family}.json"
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


class PrefixBlockParameter(str, enum.Enum):
    """The parameter for the block size of the approximate prefix index."""

    CHARACTERS = "characters"  #: `blockSize` of prefix-cache-scorer, in characters
    TOKENS = "tokens"  #: `blockSizeTokens` of prefix-cache-scorer
    PRODUCER = "producer"  #: `blockSizeTokens` of approx-prefix-cache-producer, at least 64


class FlowControlMetrics(NamedTuple):
    """Names of an endpoint picker's flow control metrics, which it serves even if no pod is ready.

    Attributes:
        queued: Gauge of the requests in the endpoint picker's queue.
        running: Gauge of the requests that pods are processing.
        ttft: Histogram of the time to first token, which includes the time in the queue; empty if
            it also counts requests that are not streamed.
    """

    queued: str
    running: str
    ttft: str = ""


@dataclass(frozen=True)
class EppFamily:
    """A family of endpoint picker releases, whose images accept the same configuration.

    In the attributes, "the picker" is an endpoint picker of the family.

    Attributes:
        name: The family's name in `endpointPicker.family`.
        versions: First and last supported version of the images.
        sidecar_repository: Repository of the prefill/decode sidecar, whose images also have
            `versions`; None if the family has no sidecar.
        api_versions: Supported apiVersions of EndpointPickerConfig; the first is generated.
        integer_weights: Whether the weights of scorers must be integers.
        prefix_block_parameter: The parameter for the block size of the prefix index.
        engine_metrics: Engine metrics that the picker reads by default. GAIE v1.2.1 reads a KV
            cache metric that current vLLM does not have, and then gives all pods the same score,
            1.0 (`pkg/epp/server/runserver.go`).
        averages_saturation: Whether flow control compares the pods' mean saturation with the limit
            (since GAIE v1.4.0, `utilizationdetector/detector.go`), so that one long queue outweighs
            idle pods. If False, flow control forwards requests as long as any pod has capacity.
        needs_inference_objective_crd: Whether the picker exits if the CRD of InferenceObjective is
            missing.
        objective_api: apiVersion of the picker's InferenceObjectives; None if the library supports
            neither service levels nor session IDs with this family: llm-d v0.9 lacks eviction and
            session IDs, and GAIE reads different headers.
        rewrite_api: apiVersion of the InferenceModelRewrites that the picker supports, or None.
            GAIE v1.2 defines the kind but ignores its objects.
        flow_control_metrics: Metrics of flow control; None if it cannot hold requests while no pod
            is ready, and answers 503 instead (GAIE v1.2.1 `requestcontrol/director.go`).
        limits_waiting: Whether flow control by default rejects a request that has waited for 60 s
            (llm-d v0.10.0 `flowcontrol/controller/config.go`). Other families have no limit.
        sidecar_reads_pool: Whether the sidecar's SSRF protection supports v1 InferencePools. In
            llm-d v0.9.0 the sidecar selects pods by a label named `matchLabels`, which no pod has,
            and so rejects every prefill pod (`pkg/sidecar/proxy/allowlist.go`).
        is_tested: Whether end-to-end tests run the picker with generated configurations. Messages
            recommend only images of tested families.
    """

    name: str
    repository: str
    versions: tuple[ReleaseNumber, ReleaseNumber]
    sidecar_repository: str | None = None
    api_versions: tuple[str, ...] = (X_K8S_API,)
    integer_weights: bool = False
    prefix_block_parameter: PrefixBlockParameter = PrefixBlockParameter.TOKENS
    engine_metrics: LoadMetrics = VLLM_METRICS
    averages_saturation: bool = True
    needs_inference_objective_crd: bool = False
    objective_api: str | None = None
    rewrite_api: str | None = None
    flow_control_metrics: FlowControlMetrics | None = None
    limits_waiting: bool = False
    sidecar_reads_pool: bool = False
    is_tested: bool = True

    @cached_property
    def plugins(self) -> frozenset[str]:
        """Types of the picker's plugins."""
        return frozenset(load_release_data(self.name)["plugins"])

    @cached_property
    def flags(self) -> frozenset[str]:
        """Flags that the picker accepts."""
        return frozenset(load_release_data(self.name)["flags"])

    @property
    def image(self) -> str:
        """The family's newest image."""
        return f"{self.repository}:{format_release(self.versions[1])}"

    @property
    def sidecar_image(self) -> str | None:
        """The family's newest sidecar image, or None if the family has no sidecar."""
        if self.sidecar_repository is None:
            return None
        return f"{self.sidecar_repository}:{format_release(self.versions[1])}"

    @cached_property
    def sidecar_flags(self) -> frozenset[str]:
        """Flags that the sidecar accepts, or empty if there is no sidecar."""
        return frozenset(load_release_data(self.name).get("sidecarFlags", ()))

    @property
    def sidecar_port_flag(self) -> str:
        """Flag for the engine's port; always generated, because its default differs by release."""
        has_new_name = "model-server-port" in self.sidecar_flags
        return "model-server-port" if has_new_name else "vllm-port"

    @cached_property
    def sidecar_connectors(self) -> tuple[str, ...]:
        """Protocols that the sidecar's `--kv-connector` accepts, the default first."""
        return tuple(load_release_data(self.name)["sidecarConnectors"])

    @property
    def supports_pd(self) -> bool:
        """Whether the picker supports disaggregated serving."""
        return self.has_plugin("disagg-profile-handler")

    def has_plugin(self, plugin: str) -> bool:
        """Return whether the picker has a plugin of this type."""
        return plugin in self.plugins

    def has_image(self, image: str, repository: str) -> bool:
        """Return whether an image is from the repository or a mirror, with a supported version."""
        name, version = split_image(image)
        first, last = self.versions
        return repository.rpartition("/")[2] == name and first <= version <= last


_GAIE_1_3 = EppFamily(
    "gaie-1.3",
    "registry.k8s.io/gateway-api-inference-extension/epp",
    ((1, 3, 0), (1, 3, 1)),
    integer_weights=True,
    prefix_block_parameter=PrefixBlockParameter.CHARACTERS,
    averages_saturation=False,
    flow_control_metrics=FlowControlMetrics(
        "inference_extension_flow_control_queue_size", "inference_objective_running_requests"
    ),
    rewrite_api="inference.networking.x-k8s.io/v1alpha2",
)
_GAIE_1_2 = replace(
    _GAIE_1_3,
    name="gaie-1.2",
    versions=((1, 2, 0), (1, 2, 1)),
    engine_metrics=VLLM_METRICS._replace(kv_cache="vllm:gpu_cache_usage_perc"),
    needs_inference_objective_crd=True,
    flow_control_metrics=None,
    rewrite_api=None,
)
_GAIE_1_4 = replace(
    _GAIE_1_3,
    name="gaie-1.4",
    versions=((1, 4, 0), (1, 4, 0)),
    integer_weights=False,
    prefix_block_parameter=PrefixBlockParameter.TOKENS,
    averages_saturation=True,
)
_LLM_D_0_9 = EppFamily(
    "llm-d-0.9",
    "ghcr.io/llm-d/llm-d-router-endpoint-picker",
    ((0, 9, 0), (0, 9, 0)),
    sidecar_repository="ghcr.io/llm-d/llm-d-router-disagg-sidecar",
    api_versions=(LLM_D_API, X_K8S_API),
    prefix_block_parameter=PrefixBlockParameter.PRODUCER,
    # If the cluster has the kind in both API groups, the endpoint picker ignores the older group.
    rewrite_api="llm-d.ai/v1alpha2",
    flow_control_metrics=FlowControlMetrics(
        "llm_d_epp_flow_control_queue_size",
        "llm_d_epp_request_running",
        "llm_d_epp_request_ttft_seconds",
    ),
)
_LLM_D_0_10 = replace(
    _LLM_D_0_9,
    name="llm-d-0.10",
    versions=((0, 10, 0), (0, 10, 0)),
    limits_waiting=True,
    sidecar_reads_pool=True,
    objective_api="llm-d.ai/v1alpha2",
)

#: Families by their name in `endpointPicker.family`, oldest first.
FAMILIES = {
    row.name: row
    for row in (
        _GAIE_1_2,
        _GAIE_1_3,
        _GAIE_1_4,
        replace(_GAIE_1_4, name="gaie-1.5", versions=((1, 5, 0), (1, 5, 0))),
        _LLM_D_0_9,
        _LLM_D_0_10,
        # v1.0 converts v1alpha1 to v1 (they differ only below `dataLayer`; `pkg/epp/config/loader/
        # conversion.go`). It no longer accepts the inference extension's apiVersion.
        replace(
            _LLM_D_0_10,
            name="llm-d-1.0",
            versions=((1, 0, 0), (1, 0, 0)),
            api_versions=(LLM_D_V1_API, LLM_D_API),
            objective_api=LLM_D_V1_API,
            is_tested=False,
        ),
    )
}

_TAG = re.compile(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})")


def find_family(image: str) -> EppFamily | None:
    """Return the family of an endpoint picker's image, or None if the image is not recognized."""
    families = (
        family for family in FAMILIES.values() if family.has_image(image, family.repository)
    )
    return next(families, None)


def find_sidecar_image_family(image: str) -> EppFamily | None:
    """Return the family of a sidecar's image, or None if the image is not recognized."""
    families = (
        family
        for family in FAMILIES.values()
        if family.has_image(image, family.sidecar_repository or "")
    )
    return next(families, None)


def find_closest_image(family: EppFamily, is_suitable: Callable[[EppFamily], bool]) -> str:
    """Return the newest suitable image, preferably one from the family's repository."""
    suitable = [item for item in FAMILIES.values() if item.is_tested and is_suitable(item)]
    same_repository = [item for item in suitable if item.repository == family.repository]
    return max(same_repository or suitable, key=lambda item: item.versions).image


def explain_unknown_image(image: str) -> str:
    """Return why `find_family` does not recognize an endpoint picker's image, and the fix."""
    versions: dict[str, list[ReleaseNumber]] = {}
    for family in FAMILIES.values():
        versions.setdefault(family.repository, []).extend(family.versions)
    supported = " and ".join(
        f"{format_release(min(numbers))} to {format_release(max(numbers))} of {repository}"
        for repository, numbers in versions.items()
    )
    return (
        f"{quote_value(image)} is not a supported endpoint picker; supported are {supported}. For "
        f"your own build set endpointPicker.family ({', '.join(FAMILIES)})"
    )


def split_image(image: str) -> tuple[str, ReleaseNumber]:
    """Split an image into the last part of its repository and the version in its tag.

    `registry.example/mirror/epp:v1.5.0@sha256:...` -> `("epp", (1, 5, 0))`. The version is empty if
    the tag is not a version.
    """
    without_digest = image.strip().partition("@")[0]
    name, _, tag = without_digest.rpartition("/")[2].partition(":")
    match = _TAG.fullmatch(tag)
    return name, () if match is None else tuple(map(int, match.groups()))


#: Names by which a sidecar in a user's template is recognized: image repositories and containers of
#: llm-d up to v0.10, KServe, Modelplane and llm-d-modelservice.
SIDECAR_IMAGES = (
    "llm-d-routing-sidecar",
    "llm-d-router-disagg-sidecar",
    "llm-d-inference-scheduler-disagg-sidecar",
)
SIDECAR_NAMES = (
    "routing-proxy", "routing-sidecar", "llm-d-routing-sidecar", "pd-sidecar", "disagg-sidecar",
)  # fmt: skip

#: Path that returns 200 once the sidecar listens, even if the engine does not serve yet.
SIDECAR_HEALTH_PATH = "/health"
#: User ID of the sidecar's image (`Dockerfile.sidecar`, distroless nonroot).
SIDECAR_USER = 65532

#: The sidecar's protocol for each vLLM connector.
PROTOCOLS = {
    "NixlConnector": "nixlv2",
    "SharedStorageConnector": "shared-storage",
    "MooncakeConnector": "mooncake",
    "OffloadingConnector": "offloading",
}

#: Flags of the sidecar that the library sets, mapped to messages for users who set them. A message
#: is preceded by the flag's name.
SIDECAR_FLAGS = {
    "port": "follows from the pool's port; remove it",
    "vllm-port": "is set by kvTransfer.enginePort; remove it here",
    "model-server-port": "is set by kvTransfer.enginePort; remove it here",
    "kv-connector": "is set by kvTransfer.sidecar.connector; remove it here",
    "connector": "is set by kvTransfer.sidecar.connector; remove it here",
    "enable-ssrf-protection": "is set by kvTransfer.sidecar.ssrfProtection; remove it here",
    "inference-pool": "follows from the service's pool; remove it",
    "enable-tls": "follows from the engines' own arguments; remove it",
}


def choose_sidecar_family(
    image: Any, user_family: str | None, picker: EppFamily
) -> EppFamily | Finding:
    """Return the family whose flags a sidecar accepts, or an error about its family or image.

    The family is the first of: `user_family`; the image's family; the endpoint picker's family.
    The image may be an Output, or None for the default image.
    """
    if user_family is not None:
        allowed = [name for name, item in FAMILIES.items() if item.sidecar_repository is not None]
        if user_family not in allowed:
            message = f"must be one of {', '.join(allowed)}, got {quote_value(user_family)}"
            return error(PICKER_FAMILY_UNKNOWN, ("family",), message)
        return FAMILIES[user_family]
    if image is None or is_output(image):
        return picker
    name, version = split_image(image)
    oldest = _LLM_D_0_9.versions[0]
    has_old_name = name == "llm-d-routing-sidecar"
    has_old_version = name == "llm-d-router-disagg-sidecar" and bool(version) and version < oldest
    if has_old_name or has_old_version:
        needed = format_release(oldest)
        message = f"{quote_value(image)} is too old; the oldest supported release is {needed}"
        return error(PICKER_FAMILY_UNKNOWN, ("image",), message)
    return find_sidecar_image_family(image) or picker


def find_sidecar_protocol(connectors: Sequence[str]) -> str | None:
    """Return the sidecar protocol of the first connector that has one, or None if none has."""
    return next((PROTOCOLS[name] for name in connectors if name in PROTOCOLS), None)


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Return whether a container is a prefill/decode sidecar, by its name or its image."""
    image = container.get("image")
    name = split_image(image)[0] if isinstance(image, str) else ""
    return container.get("name") in SIDECAR_NAMES or name in SIDECAR_IMAGES
