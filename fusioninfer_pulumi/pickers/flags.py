"""The picker's command line: what we give it, and what a user adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fusioninfer_pulumi.findings import Finding, error, join, shown, warning
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.pickers.family import PickerFamily

GRPC_PORT = 9002
HEALTH_PORT = 9003
METRICS_PORT = 9090

# vLLM's name since the metric was renamed; v1.2.1 still asks for vllm:gpu_cache_usage_perc, and
# without an answer scores every pod 1.0 (pkg/epp/server/runserver.go:81).
_KV_METRIC = "vllm:kv_cache_usage_perc"


# Another value would part the picker from the pool, the probes or the configuration around it.
_OWNED = frozenset(
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
class PickerFlags:
    """What the command line says beyond the family.

    Attributes:
        pool: Name of the InferencePool.
        namespace: Namespace of the InferencePool.
        config_file: Path of the configuration inside the container.
        replicas: Pods of the picker; several of them elect a leader.
        verbosity: Log level, klog style.
        metrics_auth: Whether reading metrics needs a token that the API server accepts.
        secure_serving: Whether the picker serves TLS to the gateway.
        tracing: Whether the picker sends traces.
        cert_path: Directory with `tls.crt` and `tls.key`; None for a self-signed certificate.
        experimental: Whether its configuration has alpha plugins.
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


def picker_flags(family: PickerFamily, wanted: PickerFlags) -> list[str]:
    """Arguments of the picker's container.

    Every flag but those for the KV-cache metric is accepted from v1.2.1 to v0.10.0. Booleans are
    written out with `=`, which Go's flag packages need; tracing is on by default and would print
    spans, or send them to localhost, for nothing; profiling is on by default and is nobody's
    business.

    Args:
        family: The picker.
        wanted: What to say.
    """
    arguments = [
        f"--pool-name={wanted.pool}",
        f"--pool-namespace={wanted.namespace}",
        f"--pool-group={names.POOL_GROUP}",
        f"--config-file={wanted.config_file}",
        f"--grpc-port={GRPC_PORT}",
        f"--grpc-health-port={HEALTH_PORT}",
        f"--metrics-port={METRICS_PORT}",
        f"--secure-serving={_text(value=wanted.secure_serving)}",
        f"--metrics-endpoint-auth={_text(value=wanted.metrics_auth)}",
        "--enable-pprof=false",
        f"--tracing={_text(value=wanted.tracing)}",
        f"--v={wanted.verbosity}",
        "--zap-encoder=json",
    ]
    if wanted.secure_serving and wanted.cert_path is not None:
        arguments.append(f"--cert-path={wanted.cert_path}")
    if family.kv_metric_flag is not None:
        # Whatever the strategy: the metric also decides which pods count as saturated.
        arguments.append(f"--{family.kv_metric_flag}={_KV_METRIC}")
    if wanted.experimental:
        arguments.append("--allow-experimental-plugins=true")
    if wanted.replicas > 1:
        # Only the leader is Ready then; with one replica it would need leases for nothing.
        arguments.append("--ha-enable-leader-election")
    return arguments


def check_args(args: Sequence[str], family: PickerFamily) -> list[Finding]:
    """What a picker has against a user's own arguments.

    Args:
        args: Arguments as in `endpointPicker.args`; values may follow as words of their own.
        family: The picker.

    Returns:
        Findings with paths relative to the list (`[0]`).
    """
    findings = []
    for index, argument in enumerate(args):
        if not argument.startswith("-") or argument in {"-", "--"}:
            continue
        name = argument.lstrip("-").partition("=")[0]
        path = join(index)
        reason = family.refused_flags.get(name)
        if name in _OWNED:
            findings.append(error(path, f"--{name} is set by the library, leave it out"))
        elif reason is not None:
            findings.append(error(path, f"{family.name} refuses --{name}: {reason}"))
        elif name not in family.flags:
            message = f"{family.name} has no flag {shown(argument)} and exits on an unknown one"
            findings.append(warning(path, message))
    return findings


def _text(*, value: bool) -> str:
    return "true" if value else "false"
