"""A role is reached on the port that its engine listens on."""

from __future__ import annotations

from typing import Any

import pytest
from samples import container, nodes, problems, role, service, template, warnings

CONTAINER = "roles[0].template.spec.containers[0]"
SGLANG = ["python3", "-m", "sglang.launch_server"]
LOST = "probes, Service and pool would use a port on which nothing listens"
CONTRADICTS = (
    f"9000 conflicts with --port 8000 of the engine ({CONTAINER}.args): {LOST}; remove one"
)


def engine(*args: str, port: Any = 9000, beside: Any = (), **more: Any) -> Any:
    serving = container(**{"args": ["--model", "m", *args], **more})
    return service(role(template=template(serving, *beside), port=port))


@pytest.mark.parametrize("args", [["--port=8000"], ["--port", "8000"], ["--port 8000"]])
def test_port_that_contradicts_arguments_is_rejected(args: list[str]) -> None:
    assert problems(engine(*args)) == [f"roles[0].port: {CONTRADICTS} of them"]


def test_script_and_several_nodes_are_checked() -> None:
    script = engine(command=["sh", "-c"], args=["exec vllm serve m --port 8000"])
    assert problems(script) == [f"roles[0].port: {CONTRADICTS} of them"]
    serving = container(args=["--model", "m", "-pp=2", "--port=8000"])
    wide = service(role(template=template(serving), port=9000, multinode=nodes(2)))
    assert problems(wide) == [f"roles[0].port: {CONTRADICTS} of them"]


@pytest.mark.parametrize(
    ("more", "name", "listens"),
    [
        ({}, "vllm", 8000),
        ({"ports": [{"containerPort": 8000}]}, "vllm", 8000),
        ({"ports": [{"containerPort": 9000}]}, "vllm", 8000),
        ({"image": "own:1", "command": SGLANG}, "sglang", 30000),
    ],
)
def test_engine_listens_on_its_default_port_without_an_argument(
    more: Any, name: str, listens: int
) -> None:
    assert problems(engine(**more)) == [
        (
            f"roles[0].port: 9000 is not where the engine listens: {name} listens on {listens} "
            f"without --port: {LOST}; add --port=9000 to its arguments"
        )
    ]


def test_missing_port_is_a_warning() -> None:
    for manifest, port, listens in (
        (engine(port=None, ports=[{"containerPort": 9000}]), 9000, "vllm listens on 8000"),
        (engine(port=None, command=SGLANG), 8000, "sglang listens on 30000"),
    ):
        assert warnings(manifest) == [
            (
                f"warning: {CONTAINER}.args: the role is reached on port {port}, but {listens} "
                f"without --port: {LOST}; add --port={port} to its arguments"
            )
        ]


def test_user_entrypoint_may_choose_a_port() -> None:
    own = engine(image="registry.example.com/my-vllm:1")
    assert problems(own) == []
    (said,) = warnings(own)
    assert said.startswith("warning: roles[0].port: 9000 is not where the engine listens: vllm")


@pytest.mark.parametrize(
    "manifest",
    [
        engine("--port=9000"),
        engine("--port=8000", "--port=9000"),
        engine("--port=$(LWS_GROUP_SIZE)"),
        engine("--port $(LWS_GROUP_SIZE)"),
        engine("--config=/root/vllm.yaml"),
        engine("--port=8000", port=None),
        engine("--port=8000", port=None, ports=[{"containerPort": 9000}]),
        engine(port=8000),
        engine(image="registry.example.com/own:1"),
        engine(command=["sh", "-c"], args=["vllm serve m $EXTRA"]),
        engine(beside=[container("proxy", image="p", args=None, ports=[{"containerPort": 9000}])]),
    ],
)
def test_port_that_a_process_may_use_is_accepted(manifest: Any) -> None:
    assert problems(manifest) == warnings(manifest) == []


def test_port_is_declared_once_for_a_protocol() -> None:
    declared = [
        {"containerPort": 8000}, {"containerPort": 8000, "protocol": "UDP"},
        {"containerPort": 8000, "protocol": "TCP", "name": "again"},
    ]  # fmt: skip
    given = service(role(template=template(container(ports=declared))))
    assert problems(given) == [
        (
            f'{CONTAINER}.ports[2]: containerPort 8000 and protocol "TCP" are in ports[0], too; '
            "remove one of them"
        )
    ]
