"""The endpoint picker's command line: what each release accepts, what we give it, a user's own."""

from __future__ import annotations

from dataclasses import dataclass

from fusioninfer_pulumi.endpoint_pickers.picker_families import EppFamily
from fusioninfer_pulumi.engines.engine import VLLM_METRICS, LoadMetrics
from fusioninfer_pulumi.kube.object_names import POOL_GROUP

GRPC_PORT = 9002
HEALTH_PORT = 9003
METRICS_PORT = 9090

#: Flags that name an engine's metrics.
_METRIC_FLAGS = {
    "total-queued-requests-metric": "waiting",
    "total-running-requests-metric": "running",
    "kv-cache-usage-percentage-metric": "kv_cache",
    "lora-info-metric": "lora",
    "cache-info-metric": "cache",
}

# With another value the endpoint picker would miss its pool, probes or configuration.
OWNED_FLAGS = frozenset(
    {
        "config-file",
        "config-text",
        "endpoint-selector",
        "grpc-health-port",
        "grpc-port",
        "metrics-port",
        "pool-group",
        "pool-name",
        "pool-namespace",
    }
)


@dataclass(frozen=True)
class EppFlags:
    """What the command line says beyond the family.

    Attributes:
        replicas: Pods of the endpoint picker; several of them elect a leader.
        metrics_auth: Whether reading metrics needs a token that the API server accepts.
        secure_serving: Whether it serves TLS to the gateway.
        engine_metrics: Metrics of the engines' load, None where they are not known.
        cert_path: Directory with `tls.crt` and `tls.key`; None for a self-signed certificate.
    """

    pool: str
    namespace: str
    config_file: str = "/config/config.yaml"
    replicas: int = 1
    verbosity: int = 2
    metrics_auth: bool = True
    secure_serving: bool = True
    cert_path: str | None = None
    experimental: bool = False
    tracing: bool = False
    engine_metrics: LoadMetrics | None = None


def build_metric_flags(family: EppFamily, metrics: LoadMetrics | None) -> list[str]:
    """Return flags for the engines' metrics that a family does not read by default."""
    names = (metrics or VLLM_METRICS)._asdict()
    read = family.engine_metrics._asdict()
    return [
        f"--{flag}={names[key]}"
        for flag, key in _METRIC_FLAGS.items()
        if flag in family.flags and names[key] != read[key]
    ]


def build_epp_flags(family: EppFamily, wanted: EppFlags) -> list[str]:
    """Return arguments of the endpoint picker's container.

    Every flag but those for the engines' metrics is accepted from v1.2.1 to v0.10.0. Booleans are
    written out with `=`, which Go's flag packages need; tracing is on by default and would print
    spans, or send them to localhost, for nothing; profiling is on by default and no one's
    business.
    """
    arguments = [
        f"--pool-name={wanted.pool}",
        f"--pool-namespace={wanted.namespace}",
        f"--pool-group={POOL_GROUP}",
        f"--config-file={wanted.config_file}",
        f"--grpc-port={GRPC_PORT}",
        f"--grpc-health-port={HEALTH_PORT}",
        f"--metrics-port={METRICS_PORT}",
        f"--secure-serving={str(wanted.secure_serving).lower()}",
        f"--metrics-endpoint-auth={str(wanted.metrics_auth).lower()}",
        "--enable-pprof=false",
        f"--tracing={str(wanted.tracing).lower()}",
        f"--v={wanted.verbosity}",
        "--zap-encoder=json",
    ]
    if wanted.secure_serving and wanted.cert_path is not None:
        arguments.append(f"--cert-path={wanted.cert_path}")
    # For every strategy: the metrics also decide which pods count as saturated.
    arguments += build_metric_flags(family, wanted.engine_metrics)
    if wanted.experimental:
        arguments.append("--allow-experimental-plugins=true")
    if wanted.replicas > 1:
        # A single replica needs no leases.
        arguments.append("--ha-enable-leader-election")
    return arguments
