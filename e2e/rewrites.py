"""llm-d's InferenceModelRewrite, for the tests of rewritten names."""

from __future__ import annotations

import copy
import re
from collections import Counter

from e2e.harness import Cluster
from e2e.harness.components import custom_resource_definitions

KIND = "InferenceModelRewrite"
DECISIONS = "llm_d_epp_model_rewrite_decisions_total"
"""What llm-d's picker counts; it has the metric of the inference extension, too."""
DEFINITIONS = "apiextensions.k8s.io/v1/CustomResourceDefinition"


def with_llm_d_rewrites(cluster: Cluster) -> str:
    """Installs llm-d's kind and returns its definition's name.

    llm-d's module is not among the tools. Its definition (v0.10.0 `config/crd/bases`) differs from
    the inference extension's, which is, by its group alone.
    """
    (definition,) = [
        each
        for each in custom_resource_definitions("lws-0.9")
        if each["spec"]["names"]["kind"] == KIND
    ]
    llm_d = {key: copy.deepcopy(definition[key]) for key in ("apiVersion", "kind", "spec")}
    llm_d["spec"]["group"] = "llm-d.ai"
    name = f"{definition['spec']['names']['plural']}.llm-d.ai"
    llm_d["metadata"] = {"name": name}
    cluster.install_kinds([llm_d])
    return name


def decisions(metrics: str) -> Counter[str]:
    """How often each target was drawn, by a picker's metrics in Prometheus text form."""
    lines = re.findall(rf'^{DECISIONS}{{.*target_model="([^"]*)".*}} (\S+)$', metrics, re.MULTILINE)
    return Counter({target: int(float(count)) for target, count in lines})
