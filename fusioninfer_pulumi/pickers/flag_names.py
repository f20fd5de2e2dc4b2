"""Flags of the pickers' command lines, by release.

Sources: `--help` of the pickers, `cmd/epp/runner/runner.go` of v1.2.1, and
`pkg/epp/server/options.go` of the later ones.
"""

from __future__ import annotations

_ALWAYS = """
cert-path config-file config-text enable-pprof endpoint-selector endpoint-target-ports
grpc-health-port grpc-port ha-enable-leader-election health-checking metrics-endpoint-auth
metrics-port metrics-staleness-threshold pool-group pool-name pool-namespace
refresh-metrics-interval refresh-prometheus-metrics-interval secure-serving tracing v
zap-devel zap-encoder zap-log-level zap-stacktrace-level zap-time-encoding
"""
_METRIC_NAMES = """
cache-info-metric kv-cache-usage-percentage-metric lora-info-metric total-queued-requests-metric
"""
_MODEL_SERVER = """
model-server-metrics-https-insecure-skip-verify model-server-metrics-path
model-server-metrics-port model-server-metrics-scheme
"""
_RUNNING = " total-running-requests-metric"
_SINCE_1_3 = " disable-endpoint-subset-filter enable-cert-reload"
_SINCE_0_9 = " enable-grpc-stream-metrics grpc-max-recv-msg-size grpc-max-send-msg-size"
_SINCE_0_10 = """
allow-experimental-plugins drain-timeout emit-endpoint-scores metrics-cert-dir
metrics-client-ca-file tls-cipher-suites tls-min-version
"""

_ENGINE_CONFIGS = "set engineConfigs of the metrics extractor in the configuration instead"
_DATA_SOURCE = "it was removed; set it on a metrics-data-source plugin in the configuration instead"

GAIE_1_2 = frozenset(f"{_ALWAYS}{_METRIC_NAMES}{_MODEL_SERVER} kubeconfig".split())
GAIE_1_3 = frozenset(f"{_ALWAYS}{_METRIC_NAMES}{_MODEL_SERVER}{_RUNNING}{_SINCE_1_3}".split())
GAIE_1_4 = frozenset(f"{_ALWAYS}{_MODEL_SERVER}{_SINCE_1_3}".split())
LLM_D_0_9 = GAIE_1_4 | frozenset(_SINCE_0_9.split())
LLM_D_0_10 = (LLM_D_0_9 - frozenset(_MODEL_SERVER.split())) | frozenset(_SINCE_0_10.split())

#: Flags that a release knows, or knew, and at which it stops; with what to do instead.
REFUSED_SINCE_1_4 = dict.fromkeys(f"{_METRIC_NAMES}{_RUNNING}".split(), _ENGINE_CONFIGS)
REFUSED_SINCE_0_10 = REFUSED_SINCE_1_4 | dict.fromkeys(_MODEL_SERVER.split(), _DATA_SOURCE)
