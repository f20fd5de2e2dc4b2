"""`docs/operations.md`: its manifests are right, and it names every field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel
from samples import problems, rendered, warnings

from fusioninfer_pulumi.api.autoscaling import (
    AutoscalingArgs,
    AutoscalingMetricArgs,
    PrefillDecodeRatioArgs,
)
from fusioninfer_pulumi.api.availability import (
    DisruptionBudgetArgs,
    StartupArgs,
    TopologySpreadArgs,
)
from fusioninfer_pulumi.api.monitoring import MonitoringArgs, TokenSecretArgs, TracingArgs

TEXT = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
MANIFESTS = re.findall(
    r"^```yaml title=[^\n]*\n(apiVersion.*?)^```", TEXT, re.DOTALL | re.MULTILINE
)
MODELS = [
    AutoscalingArgs,
    AutoscalingMetricArgs,
    DisruptionBudgetArgs,
    MonitoringArgs,
    PrefillDecodeRatioArgs,
    StartupArgs,
    TokenSecretArgs,
    TopologySpreadArgs,
    TracingArgs,
]


@pytest.mark.parametrize("text", MANIFESTS)
def test_a_manifest_of_the_docs_works(text: str) -> None:
    manifest = yaml.safe_load(text)
    assert problems(manifest) == []
    assert warnings(manifest) == []
    assert rendered(manifest)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_is_told_of(model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        assert re.search(
            rf"`(metrics\[\]\.|\.)?{field.alias or name}\b|[{{ ,]{field.alias or name}[,:}}]", TEXT
        ), name
