"""Credentials in a template: found by their name and by their look, never repeated."""

from __future__ import annotations

from typing import Any

import pytest
from samples import container, role, service, template, warnings

HUB = "hf_" + "a" * 34
AT = "roles[0].template.spec.containers[0]"

LITERAL: list[tuple[dict[str, Any], str]] = [
    ({"env": [{"name": "HF_TOKEN", "value": "x"}]}, "env[0].value"),
    ({"env": [{"name": "HUGGING_FACE_HUB_TOKEN", "value": "x"}]}, "env[0].value"),
    ({"env": [{"name": "HUGGINGFACE_TOKEN", "value": "x"}]}, "env[0].value"),
    ({"env": [{"name": "AWS_SECRET_ACCESS_KEY", "value": "x"}]}, "env[0].value"),
    ({"env": [{"name": "AWS_SESSION_TOKEN", "value": "x"}]}, "env[0].value"),
    ({"env": [{"name": "VLLM_API_KEY", "value": "x"}]}, "env[0].value"),
    ({"env": [{"name": "AZURE_CLIENT_SECRET", "value": "x"}]}, "env[0].value"),
    ({"env": [{"name": "GITHUB_TOKEN", "value": "x"}]}, "env[0].value"),
    ({"env": [{"name": "MODELSCOPE_SDK_TOKEN", "value": "x"}]}, "env[0].value"),
    ({"env": [{"name": "AZURE_STORAGE_SAS_TOKEN", "value": "x"}]}, "env[0].value"),
    ({"env": [{"name": "AUTH_TOKEN", "value": "x"}]}, "env[0].value"),
    ({"env": [{"name": "DB_PASSWORD", "value": "x"}]}, "env[0].value"),
    ({"env": [{"name": "PGPASSWORD", "value": "x"}]}, "env[0].value"),
    ({"env": [{"name": "DATABASE_URL", "value": "postgres://u:x@db/d"}]}, "env[0].value"),
    ({"env": [{"name": "HEADERS", "value": "Authorization: Bearer x"}]}, "env[0].value"),
    ({"args": ["--model", "m", "--served-model-name", "https://u:x@h"]}, "args[3]"),
    ({"env": [{"name": "PLAIN", "value": "a"}, {"name": "MY_VAR", "value": HUB}]}, "env[1].value"),
    ({"args": ["--model", "m", "--api-key", "x"]}, "args[2]"),
    ({"args": ["--model", "m", "--hf-token=x"]}, "args[2]"),
    ({"args": ["--model", "m", "--api-key", HUB]}, "args[2]"),
    ({"command": ["sh", "-c", f"HF_TOKEN={HUB} vllm serve m"], "args": []}, "command[2]"),
]

FINE: list[dict[str, Any]] = [
    {"env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "t"}}}]},
    {"env": [{"name": "HF_TOKEN", "value": ""}]},
    {"env": [{"name": "HF_TOKEN", "value": "$(OTHER)"}]},
    {"env": [{"name": "HF_TOKEN_PATH", "value": "/var/run/token"}]},
    {"env": [{"name": "PAD_TOKEN", "value": "<pad>"}, {"name": "MAX_TOKENS", "value": "5"}]},
    {"env": [{"name": "PROXY", "value": "http://proxy:3128"}, {"name": "AT", "value": "a:b@c"}]},
    {"env": [{"name": "DATABASE_URL", "value": "postgres://u:$(KEY)@db/d"}]},
    {"args": ["--model", "m", "--api-key", "$(KEY)"]},
    {"args": ["--model", "m", "--api-key=$(KEY)"]},
    {"command": ["sh", "-c", "vllm serve m --api-key $KEY"], "args": []},
]


@pytest.mark.parametrize(("more", "place"), LITERAL)
def test_literal_credential_is_a_warning(more: dict[str, Any], place: str) -> None:
    (text,) = warnings(service(role(template=template(container(**more)))))
    assert text.startswith(f"warning: {AT}.{place}: ")
    assert "secretKeyRef" in text
    assert HUB not in text


@pytest.mark.parametrize("more", FINE)
def test_other_variables_give_no_credential_warning(more: dict[str, Any]) -> None:
    # Where KEY comes from is not what is asked here.
    env = [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "k", "key": "k"}}}]
    held = {**more, "env": [*more.get("env", ()), *env]}
    assert warnings(service(role(template=template(container(**held))))) == []


def test_every_container_of_every_template_is_looked_at() -> None:
    env = [{"name": "HF_TOKEN", "value": "x"}]
    own = template(container(), container("side", env=env))
    own["spec"]["initContainers"] = [container("init", env=env)]
    found = warnings(service(role(template=own)))
    assert [text.partition(": is ")[0].split(": ")[1] for text in found] == [
        "roles[0].template.spec.initContainers[0].env[0].value",
        "roles[0].template.spec.containers[1].env[0].value",
    ]


def test_output_is_not_read_as_credential(output: Any) -> None:
    env = [{"name": "HF_TOKEN", "value": output("x", secret=True)}, {"name": "A", "value": "b"}]
    assert warnings(service(role(template=template(container(env=env))))) == []
