"""Support, description and configuration of each strategy in each endpoint picker family."""

from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, strategies as st
from picker_configs import document
from rows import each_row
from yaml_files import Dumper, read

from fusioninfer_pulumi.api.role import Strategy
from fusioninfer_pulumi.api.router import ServiceLevelsArgs
from fusioninfer_pulumi.checks.routing_checks import check_config, check_settings
from fusioninfer_pulumi.endpoint_pickers.picker_config import (
    SCORERS,
    EppSettings,
    build_epp_config,
    describe_strategy,
    dump_epp_config,
)
from fusioninfer_pulumi.endpoint_pickers.picker_families import FAMILIES
from fusioninfer_pulumi.engines.metric_names import VLLM_METRICS, LoadMetrics
from fusioninfer_pulumi.findings import filter_errors, format_with_rule

TABLE = Path(__file__).with_name("requests.yaml")


def config(family: str, strategy: str, **request: Any) -> dict[str, Any]:
    return build_epp_config(FAMILIES[family], EppSettings(Strategy(strategy), **request))


def complete(row: dict[str, Any]) -> dict[str, Any]:
    """Add the current findings, description and configuration to a row."""
    fields = dict(row["request"])
    metrics = fields.pop("engine_metrics", None)
    request = EppSettings(
        Strategy(fields.pop("strategy")),
        engine_metrics=None if metrics is None else LoadMetrics(*metrics),
        **fields,
    )
    family = FAMILIES[row["family"]]
    findings = list(check_settings(family, request))
    result = {key: row[key] for key in ("name", "family", "request") if key in row}
    result["findings"] = [format_with_rule(finding) for finding in findings]
    if not filter_errors(findings):
        result["words"] = describe_strategy(request)
        result["config"] = build_epp_config(family, request)
    return result


def test_findings_and_config_equal_the_recorded_ones(regenerate: bool) -> None:
    rows = read(TABLE)
    result = [complete(row) for row in rows]
    if regenerate:
        TABLE.write_text(dump(result), encoding="utf-8")
    assert dump(result) == TABLE.read_text(encoding="utf-8")


def dump(rows: list[dict[str, Any]]) -> str:
    return yaml.dump(rows, Dumper=Dumper, default_flow_style=None, sort_keys=False, width=100)


def test_metrics_of_vllm_need_no_plugin() -> None:
    for family in FAMILIES:
        unchanged = config(family, "queue-size", engine_metrics=VLLM_METRICS)
        assert unchanged == config(family, "queue-size")


@each_row(
    ("strategy", "scorers"),
    [
        ("prefix-cache", {"prefix-cache": 100}),
        ("lora-affinity", {"lora": 100}),
        ("kv-cache-utilization", None),
        ("queue-size", None),
    ],
)
def test_documented_configuration_is_generated(strategy: str, scorers: Any) -> None:
    assert config("gaie-1.2", strategy, scorers=scorers) == yaml.safe_load(document(strategy))


def test_config_has_no_yaml_anchors() -> None:
    text = dump_epp_config(config("llm-d-0.10", "pd-disaggregation"))
    assert text.startswith("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n")
    assert "&id" not in text
    assert yaml.safe_load(text) == config("llm-d-0.10", "pd-disaggregation")


@each_row("strategy", Strategy)
@each_row("levels", [None, ServiceLevelsArgs(levels=[{"name": "a", "priority": 1}])])
def test_llm_d_1_0_changes_only_the_api_version_of_the_config(
    strategy: Strategy, levels: Any
) -> None:
    request = EppSettings(strategy, flow_control=True, service_levels=levels)
    old, new = (build_epp_config(FAMILIES[name], request) for name in ("llm-d-0.10", "llm-d-1.0"))
    assert new == {**old, "apiVersion": "llm-d.ai/v1"}
    # The conversion from v1alpha1 copies these keys; others move, or do not exist in v1.
    copied = ("featureGates", "plugins", "schedulingProfiles", "flowControl", "requestHandler")
    assert new.keys() <= {"apiVersion", "kind", *copied}


requests = st.builds(
    EppSettings,
    strategy=st.sampled_from(Strategy),
    scorers=st.none() | st.dictionaries(st.sampled_from(list(SCORERS)), st.integers(1, 9)),
    block_size=st.none() | st.integers(1, 512),
    threshold=st.integers(0, 5000),
)


@given(family=st.sampled_from(list(FAMILIES.values())), request=requests)
def test_every_generated_config_passes_its_own_check(family: Any, request: EppSettings) -> None:
    if filter_errors(check_settings(family, request)):
        return
    result = build_epp_config(family, request)
    expected = check_config(dump_epp_config(result), family)
    assert {finding.rule for finding in expected} <= {"scorers-without-load"}
    for profile in result["schedulingProfiles"]:
        unweighted = [plugin for plugin in profile["plugins"] if "weight" not in plugin]
        assert {item["pluginRef"] for item in unweighted} <= {
            "max-score-picker",
            "prefill-pods",
            "decode-pods",
        }
