"""What is known about each release of the prefill/decode sidecar: its protocols and its flags.

Read in `pkg/sidecar/proxy/options.go` and `proxy.go` of llm-d-inference-scheduler v0.7.1 and v0.8.0
and of llm-d-router v0.9.0 and v0.10.0. The four were built: each knows exactly these flags, and
starts with what is generated for each of its protocols. An unknown flag ends it with status 2; an
invalid value ends it with status 0 and a line in its log, so neither may get there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.endpoint_pickers.families import FAMILIES
from fusioninfer_pulumi.endpoint_pickers.family import EppFamily, families, names_by_family, rows
from fusioninfer_pulumi.endpoint_pickers.images import family_of_sidecar
from fusioninfer_pulumi.endpoint_pickers.rules import FLAG_UNKNOWN, PICKER_FAMILY_UNKNOWN
from fusioninfer_pulumi.findings import Finding, error, shown, warning
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.rules.common import SET_BY_LIBRARY

#: Names of containers and repositories by which a sidecar of the user's own is known, also of
#: releases that are not in the table (llm-d up to v0.10, KServe, modelplane, llm-d-modelservice).
KNOWN_IMAGES = frozenset(
    {
        "llm-d-routing-sidecar",
        "llm-d-router-disagg-sidecar",
        "llm-d-inference-scheduler-disagg-sidecar",
    }
)
KNOWN_NAMES = frozenset(
    {
        "routing-proxy",
        "routing-sidecar",
        "llm-d-routing-sidecar",
        "pd-sidecar",
        "disagg-sidecar",
    }
)

#: The path that answers 200 as soon as it listens; whether the engine serves it does not know.
HEALTH_PATH = "/health"
#: Numeric user of its image (`Dockerfile.sidecar`, distroless nonroot).
USER = 65532

# The engine's connector, as vLLM names it, and the protocol that fits it.
_PROTOCOLS = {
    "NixlConnector": "nixlv2",
    "SharedStorageConnector": "shared-storage",
    "MooncakeConnector": "mooncake",
    "OffloadingConnector": "offloading",
}

# Protocols that `--kv-connector` takes, the default first.
_CONNECTORS = """
nixlv2          0.7-
shared-storage  0.7-
sglang          0.7-
mooncake        0.9-
offloading      0.10
"""
# `kubeconfig` is controller-runtime's, which the first two bind as well.
_FLAGS = names_by_family("""
0.7-
    port vllm-port data-parallel-size kv-connector ec-connector secure-proxy cert-path
    enable-ssrf-protection enable-prefiller-sampling pool-group enable-tls
    tls-insecure-skip-verify inference-pool
    zap-devel zap-encoder zap-log-level zap-stacktrace-level zap-time-encoding
0.7-0.8  inference-pool-namespace inference-pool-name kubeconfig
0.7-0.9
    connector prefiller-use-tls decoder-use-tls prefiller-tls-insecure-skip-verify
    decoder-tls-insecure-skip-verify
0.8-     max-idle-conns-per-host
0.9-
    mooncake-bootstrap-port decode-chunk-size tracing prefill-max-retries prefill-retry-backoff
    configuration configuration-file moriio-write-mode moriio-decode-notify-port
    moriio-local-pod-ip moriio-decode-handshake-port moriio-parallel-dispatch
    moriio-prefill-handshake-port moriio-prefill-notify-port moriio-tp-size moriio-dp-size
    moriio-remote-hosts moriio-dp-size-local moriio-decode-hosts
0.10
    model-server-port p2p-connector-port enable-p2p-pull metrics-port
    moriio-parallel-decode-wait-timeout
""")

# Set from fields of `kvTransfer`, or from what is generated beside the sidecar.
_OURS = {
    "port": "follows from the pool's port; remove it",
    "vllm-port": "stands in kvTransfer.enginePort; remove it here",
    "model-server-port": "stands in kvTransfer.enginePort; remove it here",
    "kv-connector": "stands in kvTransfer.sidecar.connector; remove it here",
    "connector": "stands in kvTransfer.sidecar.connector; remove it here",
    "enable-ssrf-protection": "stands in kvTransfer.sidecar.ssrfProtection; remove it here",
    "inference-pool": "follows from the service's pool; remove it",
    "enable-tls": "follows from the engines' own arguments; remove it",
}


@dataclass(frozen=True)
class SidecarRelease:
    """One release of the sidecar.

    Attributes:
        port_flag: Flag with the engine's port; its default has changed, so it is always given.
    """

    port_flag: str
    connectors: tuple[str, ...]
    flags: frozenset[str]


_RELEASES = {
    family: SidecarRelease(
        port_flag="model-server-port" if "model-server-port" in flags else "vllm-port",
        connectors=tuple(name for name, where in rows(_CONNECTORS) if family in families(where)),
        flags=flags,
    )
    for family, flags in _FLAGS.items()
    if flags
}


def sidecar_release(family: EppFamily) -> SidecarRelease | None:
    """The release of a family's sidecar, None where the family has none."""
    return _RELEASES.get(family.family)


def sidecar_family(image: Any, explicit: str | None, picker: EppFamily) -> EppFamily | Finding:
    """The family whose flags a sidecar reads, or what is wrong with its field `family`.

    It is the one that the user names (`explicit`), else that of the image, else the endpoint
    picker's. The image is None for the default one, and may be an Output.
    """
    if explicit is not None:
        able = [family.value for family in _RELEASES]
        if explicit not in able:
            message = f"must be one of {', '.join(able)}, got {shown(explicit)}"
            return error(PICKER_FAMILY_UNKNOWN, ("family",), message)
        return FAMILIES[explicit]
    known = None if image is None or is_output(image) else family_of_sidecar(image)
    return known or picker


def is_unknown(image: Any) -> bool:
    """Whether an image may know flags that its family's releases do not."""
    return is_output(image) or family_of_sidecar(image) is None


def protocol(names: Sequence[str]) -> str | None:
    """The protocol for an engine's connectors, the outermost first; None when there is none."""
    return next((_PROTOCOLS[name] for name in names if name in _PROTOCOLS), None)


def check_sidecar_args(
    args: Sequence[str], family: EppFamily, *, own_image: bool
) -> Iterator[Finding]:
    """Findings about a user's own flags, located in the list.

    An `own_image` may know more flags than the family's releases.
    """
    for index, argument in enumerate(args):
        name = argument.partition("=")[0].lstrip("-")
        if not argument.startswith("-"):
            message = f"must be a flag such as --name=value, got {shown(argument)}"
            yield error(FLAG_UNKNOWN, (index,), message)
        elif name in _OURS:
            yield error(SET_BY_LIBRARY, (index,), f"--{name} {_OURS[name]}")
        elif name not in _RELEASES[family.family].flags:
            say = warning if own_image else error
            message = f"the sidecar of {family.name} has no flag --{name} and would not start"
            yield say(FLAG_UNKNOWN, (index,), message)


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Whether a container is a prefill/decode sidecar, by its name or its image."""
    image = container.get("image")
    name = ""
    if isinstance(image, str):
        name = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return container.get("name") in KNOWN_NAMES or name in KNOWN_IMAGES
