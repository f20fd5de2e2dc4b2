"""The picker's command line."""

import pytest
from rows import each_row

from fusioninfer_pulumi.api.router import EndpointPickerArgs
from fusioninfer_pulumi.endpoint_pickers.picker_config import build_epp_flags, can_read_metrics
from fusioninfer_pulumi.endpoint_pickers.picker_families import FAMILIES, EppFamily
from fusioninfer_pulumi.engines.metric_names import VLLM_METRICS, LoadMetrics

PORTABLE = [
    "--pool-name=s-pool",
    "--pool-namespace=ml",
    "--pool-group=inference.networking.k8s.io",
    "--config-file=/config/config.yaml",
    "--grpc-port=9002",
    "--grpc-health-port=9003",
    "--metrics-port=9090",
    "--secure-serving=true",
    "--metrics-endpoint-auth=true",
    "--enable-pprof=false",
    "--tracing=false",
    "--v=2",
    "--zap-encoder=json",
]
KV_METRIC = "--kv-cache-usage-percentage-metric=vllm:kv_cache_usage_perc"
WANTED = (EndpointPickerArgs(), "s-pool", "ml")


@each_row("family", FAMILIES)
def test_flags_are_the_same_for_all_families(family: str) -> None:
    fields = [KV_METRIC] if family == "gaie-1.2" else []
    assert build_epp_flags(FAMILIES[family], *WANTED) == PORTABLE + fields


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("replicas", [1, 3])
def test_generated_flags_are_accepted_by_their_family(family: EppFamily, replicas: int) -> None:
    args = EndpointPickerArgs(replicas=replicas, tls={"secret_name": "certs"})
    flags = build_epp_flags(family, args, "p", "n")
    names = {flag.removeprefix("--").partition("=")[0] for flag in flags}
    assert names <= family.flags


def test_options_set_their_flags() -> None:
    args = EndpointPickerArgs(log_verbosity=5, metrics="Unauthenticated", tls={"enabled": False})
    changed = {
        "--pool-name": "p",
        "--pool-namespace": "n",
        "--metrics-endpoint-auth": "false",
        "--secure-serving": "false",
        "--v": "5",
    }
    want = []
    for flag in PORTABLE:
        name, _, value = flag.partition("=")
        want.append(f"{name}={changed.get(name, value)}")
    assert build_epp_flags(FAMILIES["gaie-1.5"], args, "p", "n", elects_leader=True) == [
        *want,
        "--ha-enable-leader-election",
    ]


def test_tls_secret_adds_the_certificate_path() -> None:
    args = EndpointPickerArgs(tls={"secret_name": "certs"})
    assert "--cert-path=/certificate" in build_epp_flags(FAMILIES["gaie-1.5"], args, "p", "n")


SGLANG_METRICS = LoadMetrics(
    "sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage"
)
OF_SGLANG = [
    "--total-queued-requests-metric=sglang:num_queue_reqs",
    "--kv-cache-usage-percentage-metric=sglang:token_usage",
    "--lora-info-metric=",
    "--cache-info-metric=",
]


@each_row(
    ("family", "metrics", "want"),
    [
        ("gaie-1.2", None, [KV_METRIC]),
        ("gaie-1.2", VLLM_METRICS, [KV_METRIC]),
        ("gaie-1.2", SGLANG_METRICS, OF_SGLANG),
        ("gaie-1.3", VLLM_METRICS, []),
        (
            "gaie-1.3",
            SGLANG_METRICS,
            [OF_SGLANG[0], "--total-running-requests-metric=sglang:num_running_reqs",
             *OF_SGLANG[1:]],
        ),
        ("gaie-1.4", SGLANG_METRICS, []),
        ("gaie-1.5", SGLANG_METRICS, []),
        ("llm-d-0.10", SGLANG_METRICS, []),
    ],
)  # fmt: skip
def test_flags_name_metrics_that_the_release_does_not_read(
    family: str, metrics: LoadMetrics | None, want: list[str]
) -> None:
    flags = build_epp_flags(FAMILIES[family], *WANTED, metrics)
    assert flags == PORTABLE + want


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_all_releases_except_gaie_1_4_read_sglang_metrics(family: EppFamily) -> None:
    assert can_read_metrics(family, VLLM_METRICS)
    assert can_read_metrics(family, SGLANG_METRICS) is (family.name != "gaie-1.4")
