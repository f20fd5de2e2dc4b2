"""Decode engines leave their port to the sidecar, and all engines get NIXL's settings."""

from __future__ import annotations

from typing import Any

import pytest
from pd import NIXL, NIXL_ARGS, engine, leader, pair, serving, sidecar, words, worker
from profiles import slow_unless
from samples import nodes, problems, role, service, template

from fusioninfer_pulumi import load, plan_service

MOVED = ["--port", "8001"]


def command(*value: str) -> dict[str, Any]:
    return engine(command=list(value), args=None)


# Fields of the decode container without a sidecar, and its command with a sidecar.
FORMS: list[tuple[dict[str, Any], list[str]]] = [
    (engine("--model=m", *NIXL_ARGS), ["--model=m", *NIXL_ARGS, *MOVED]),
    (engine("--model=m", *NIXL_ARGS, "--port=8000"), ["--model=m", *NIXL_ARGS, "--port=8001"]),
    (engine("--port", "8000", "-tp", "1", *NIXL_ARGS), ["--port", "8001", "-tp", "1", *NIXL_ARGS]),
    (engine("--port 8000", *NIXL_ARGS), [*MOVED, *NIXL_ARGS]),
    (engine(*NIXL_ARGS, "--port=$(PORT)"), [*NIXL_ARGS, "--port=8001"]),
    (engine("m", f"--kv-transfer-config '{NIXL}'"), ["m", "--kv-transfer-config", NIXL, *MOVED]),
    (command("vllm", "serve", "m", *NIXL_ARGS), ["vllm", "serve", "m", *NIXL_ARGS, *MOVED]),
    (
        engine("m", *NIXL_ARGS, command=["vllm", "serve"]),
        ["vllm", "serve", "m", *NIXL_ARGS, *MOVED],
    ),
    (
        engine("vllm", "serve", "m", "--port", "8000", *NIXL_ARGS),
        ["vllm", "serve", "m", "--port", "8001", *NIXL_ARGS],
    ),
    (
        command("sh", "-c", f"exec vllm serve m --port=8000 --kv-transfer-config '{NIXL}'"),
        ["sh", "-c", f"exec vllm serve m --port=8001 --kv-transfer-config '{NIXL}'"],
    ),
    (
        command("sh", "-c", f"vllm serve m --port $PORT --kv-transfer-config '{NIXL}' >log 2>&1"),
        ["sh", "-c", f"vllm serve m --port 8001 --kv-transfer-config '{NIXL}' >log 2>&1"],
    ),
    (
        command("sh", "-c", f"set -e\nvllm serve m --kv-transfer-config '{NIXL}' && echo done"),
        [
            "sh",
            "-c",
            f"set -e\nvllm serve m --kv-transfer-config '{NIXL}' --port 8001 && echo done",
        ],
    ),
]


@pytest.mark.parametrize(("fields", "wanted"), slow_unless(FORMS[::4].__contains__, FORMS))
def test_engine_port_moves_in_every_command_form(fields: dict[str, Any], wanted: list[str]) -> None:
    decode = {key: value for key, value in fields.items() if value is not None}
    manifest = pair(decode=decode)
    assert problems(manifest) == []
    assert words(leader(manifest)) == wanted
    result = sidecar(leader(manifest))
    assert result is not None
    assert result["args"][:2] == ["--port=8000", "--model-server-port=8001"]
    assert serving(leader(manifest))["readinessProbe"]["httpGet"]["port"] == 8001


def test_engine_port_moves_before_ray_wraps_it() -> None:
    decode = engine("--model=m", "--port=8000", f"--kv-transfer-config '{NIXL}'")
    manifest = pair(decode=decode, decode_role={"multinode": nodes(2)})
    assert words(leader(manifest)) == [
        "/bin/sh",
        "-c",
        (
            "ray start --head --port=6379 && exec vllm serve m --port=8001 --kv-transfer-config "
            f"'{NIXL}' --distributed-executor-backend ray"
        ),
    ]
    ports = {port["name"]: port["containerPort"] for port in serving(leader(manifest))["ports"]}
    assert ports == {"nixl": 5600, "ray-head": 6379}


def test_ray_head_port_name_does_not_conflict_with_user_ports() -> None:
    user_ports = [{"name": "ray-head", "containerPort": 7000}]
    template_of_role = template(engine("--model=m", "--port=7000", ports=user_ports))
    (args,) = load(service(role(template=template_of_role, multinode=nodes(2))))
    (planned,) = plan_service(args).roles
    assert planned.pods.leader.container["ports"] == [*user_ports, {"containerPort": 6379}]


def test_every_pod_with_an_engine_transfers_its_kv_cache() -> None:
    image = "vllm/vllm-openai:v0.12.0"
    user_engine = engine("m", image=image, command=["vllm", "serve"])
    manifest = pair(
        user_engine,
        user_engine,
        prefill_role={"kvTransfer": {}},
        decode_role={"kvTransfer": {}, "multinode": nodes(2, launcher="multiprocessing")},
    )
    assert words(leader(manifest))[3:7] == [*NIXL_ARGS, *MOVED]
    assert words(worker(manifest))[3:5] == NIXL_ARGS
    assert "8001" not in words(worker(manifest))
    names = {item["name"] for item in serving(worker(manifest))["env"]}
    assert {"VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT"} <= names


def test_ports_probes_and_hooks_follow_the_engine() -> None:
    http = {"httpGet": {"path": "/health", "port": 8000}}
    decode = engine(
        "--model=m",
        *NIXL_ARGS,
        ports=[{"name": "http", "containerPort": 8000}, {"name": "other", "containerPort": 9}],
        readinessProbe={**http, "failureThreshold": 30},
        livenessProbe={"tcpSocket": {"port": 8000}},
        startupProbe={"httpGet": {"path": "/health", "port": "http"}},
        lifecycle={"preStop": {"httpGet": {"path": "/drain", "port": 8000}}},
    )
    container = serving(leader(pair(decode=decode)))
    assert container["ports"] == [
        {"name": "http", "containerPort": 8001},
        {"name": "other", "containerPort": 9},
        {"name": "nixl", "containerPort": 5600},
    ]
    moved = {"httpGet": {"path": "/health", "port": 8001}}
    assert container["readinessProbe"] == {**moved, "failureThreshold": 30}
    assert container["livenessProbe"] == {"tcpSocket": {"port": 8001}}
    assert container["startupProbe"] == {"httpGet": {"path": "/health", "port": "http"}}
    assert container["lifecycle"] == {"preStop": {"httpGet": {"path": "/drain", "port": 8001}}}


def test_engine_moves_to_explicit_or_first_free_port() -> None:
    explicit = pair(decode_role={"kvTransfer": {"enginePort": 9000}})
    assert words(leader(explicit))[-2:] == ["--port", "9000"]
    decode = engine("--model=m", *NIXL_ARGS, ports=[{"containerPort": 8000}])
    other = {"name": "metrics", "image": "x:1", "ports": [{"containerPort": 8001}]}
    spec = {"template": {"spec": {"containers": [decode, other]}}}
    assert words(leader(pair(decode_role=spec)))[-2:] == ["--port", "8002"]


def test_sidecar_listens_on_port_of_the_prefill_pods() -> None:
    prefill = engine("--model=m", *NIXL_ARGS, "--port=9000")
    manifest = pair(prefill=prefill)
    assert problems(manifest) == []
    result = sidecar(leader(manifest))
    assert result is not None
    # The sidecar uses port 9000, so the decode engine keeps 8000.
    assert result["args"][:2] == ["--port=9000", "--model-server-port=8000"]


OTHER = {"name": "main", "image": "mine:1", "command": ["/serve"]}


def test_port_of_unknown_engine_cannot_be_changed() -> None:
    assert problems(pair(decode=OTHER)) == [
        (
            "roles[2].template.spec.containers[0].command: cannot free port 8000 for the sidecar: "
            "the container runs neither vLLM nor SGLang; configure another port for the engine, "
            "and set kvTransfer.enginePort to it"
        )
    ]


def test_unknown_engine_may_set_its_port() -> None:
    ports = [{"name": "http", "containerPort": 9001}]
    manifest = pair(decode={**OTHER, "ports": ports})
    assert problems(manifest) == []
    result = sidecar(leader(manifest))
    assert result is not None
    assert result["args"][1] == "--model-server-port=9001"


def test_scripts_that_cannot_be_read_are_rejected() -> None:
    decode = engine(command=["sh", "-c", "cat <<E\nx\nE\nvllm serve m"])
    del decode["args"]
    assert problems(pair(decode=decode)) == [
        (
            "roles[2].template.spec.containers[0].command: cannot free port 8000 for the sidecar: "
            "no vLLM or SGLang command is found in the container's shell script; configure another "
            "port for the engine, and set kvTransfer.enginePort to it"
        )
    ]


def test_existing_fields_of_the_template_are_kept() -> None:
    user_engine = engine(
        "--model=m",
        *NIXL_ARGS,
        env=[{"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": "7000"}],
        ports=[{"name": "nixl", "containerPort": 7000}],
        volumeMounts=[{"name": "memory", "mountPath": "/dev/shm/"}],
    )
    volumes = [{"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]
    template = leader(pair(decode=user_engine, pod={"volumes": volumes}))
    container = serving(template)
    assert [item["name"] for item in container["env"]] == [
        "VLLM_NIXL_SIDE_CHANNEL_PORT",
        "VLLM_NIXL_SIDE_CHANNEL_HOST",
    ]
    assert container["ports"] == user_engine["ports"]
    assert container["volumeMounts"] == user_engine["volumeMounts"]
    assert [volume["name"] for volume in template["spec"]["volumes"]] == ["memory", "sidecar-token"]


def test_only_nixl_connectors_get_the_side_channel_address() -> None:
    user_engine = engine(
        "--model=m", "--kv-transfer-config", '{"kv_connector":"SharedStorageConnector"}'
    )
    assert "env" not in serving(leader(pair(user_engine, user_engine)))
