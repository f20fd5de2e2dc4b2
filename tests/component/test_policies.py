"""The example policy pack, run on the resources of a program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pulumi_policy import (
    PolicyResource,
    PolicyResourceOptions,
    ResourceValidationArgs,
    StackValidationArgs,
    StackValidationPolicy,
)

from fusioninfer_pulumi import InferenceService, model_service

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "policies"))

from policies import POLICIES

OPTIONS = PolicyResourceOptions(
    protect=False,
    ignore_changes=[],
    delete_before_replace=None,
    aliases=[],
    custom_timeouts=None,
    additional_secret_outputs=[],
)


def violations(engine: Any, model: str, **fields: Any) -> dict[str, list[str]]:
    """Return what each policy reports for a service in a production stack."""
    args = model_service(model, **fields)
    deployment = engine.run(lambda: InferenceService("qwen", args) and None)
    registered = [
        (
            resource.request.type,
            resource.inputs,
            resource.urn.replace("urn:pulumi:dev", "urn:pulumi:prod"),
            resource.request.name,
            OPTIONS,
            None,
        )
        for resource in deployment.registered
    ]
    stack = StackValidationArgs([PolicyResource(*entry, None, [], {}) for entry in registered])
    reported: dict[str, list[str]] = {}
    for policy in POLICIES:

        def report(message: str, _urn: str | None = None, policy: str = policy.name) -> None:
            reported.setdefault(policy, []).append(message)

        if isinstance(policy, StackValidationPolicy):
            policy.validate(stack, report)
        else:
            for item in registered:
                policy.validate(ResourceValidationArgs(*item), report)
    return reported


SERVICE = {"accelerator": "H100", "replicas": 2, "disruption_budget": {}}


@pytest.mark.parametrize(
    ("model", "fields", "violation"),
    [
        ("Qwen/Qwen3-32B", {}, {}),
        ("Qwen/Qwen3-32B", {"replicas": 40}, {"gpu-budget": "the stack uses 80 GPUs, allowed: 64"}),
        (
            "meta-llama/Llama-3.1-8B-Instruct",
            {},
            {"approved-models": "hf://meta-llama/Llama-3.1-8B-Instruct is not an approved model"},
        ),
        (
            "Qwen/Qwen3-32B",
            {"image_registry": "registry.internal"},
            {"images": "registry.internal/vllm/vllm-openai:v0.32.0 is not from an allowed"},
        ),
        (
            "Qwen/Qwen3-32B",
            {"replicas": 1},
            {"production-replicas": "role serve needs at least 2 replicas"},
        ),
        (
            "Qwen/Qwen3-32B",
            {"router": {"gateway": {"gatewayClassName": "eg"}}},
            {"authenticated-routes": "the route is public"},
        ),
    ],
)
def test_policy_pack_reports_violation(
    engine: Any, model: str, fields: dict[str, Any], violation: dict[str, str]
) -> None:
    result = violations(engine, model, **{**SERVICE, **fields})
    assert result.keys() == violation.keys()
    for policy, message in violation.items():
        assert result[policy][0].startswith(message)
