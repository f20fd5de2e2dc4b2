"""Engines that nothing reaches, and probes that nothing answers."""

from __future__ import annotations

from typing import Any

import pytest
from samples import Manifest, container, nodes, role, rules, service, template

from fusioninfer_pulumi.findings import Severity

SERVING = "roles[0].template.spec.containers[0]"
SGLANG = {"image": "lmsysorg/sglang:v0.5.3", "command": ["python3", "-m", "sglang.launch_server"]}


def engine(*args: str, **more: Any) -> Manifest:
    return container(gpus=8, **{"args": ["--model", "m", *args], **more})


def one(*containers: Any, metadata: Any = None, **fields: Any) -> Manifest:
    spec = fields.pop("spec", {})
    given = template(*(containers or (engine(),)), metadata=metadata, **spec)
    return service(role(template=given, **fields))


def of(rule: str, manifest: Manifest, *severities: Severity) -> list[str]:
    return [at for found, at in rules(manifest, *severities) if found == rule]


def side(name: str = "side", *ports: int, **more: Any) -> Manifest:
    listed = [{"containerPort": port} for port in ports]
    return {"name": name, "image": "side:1", "ports": listed, **more}


# Servers that nothing reaches.


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1", "[::1]"])
def test_engine_on_loopback_is_rejected(host: str) -> None:
    for manifest in (
        one(engine("--host", host)),
        one(engine(f"--host={host}", "--port", "9000")),
        one(engine(**{**SGLANG, "args": ["--model-path", "m", "--host", host]})),
        one(engine(command=["sh", "-c"], args=[f"exec vllm serve m --host '{host}'"])),
    ):
        (at,) = of("engine-on-loopback", manifest, Severity.ERROR)
        assert at.startswith(SERVING)


def test_sglang_listens_on_loopback_without_an_argument() -> None:
    words = {**SGLANG, "args": ["--model-path", "m"]}
    assert of("engine-on-loopback", one(engine(**words)), Severity.WARNING) == [f"{SERVING}.args"]
    words["args"] = ["--model-path", "m", "--config", "/etc/sglang.yaml"]
    assert of("engine-on-loopback", one(engine(**words))) == []


@pytest.mark.parametrize(
    "args", [[], ["--host", "0.0.0.0"], ["--host=::"], ["--host=$(POD_IP)"], ["--host=10.0.0.1"]]
)
def test_any_other_address_is_reached(args: list[str]) -> None:
    assert of("engine-on-loopback", one(engine(*args))) == []


def test_proxy_in_the_pod_reaches_loopback() -> None:
    proxy = side("proxy", 9000)
    behind = engine("--host=127.0.0.1", "--port=8001")
    assert of("engine-on-loopback", one(behind, proxy, port=9000)) == []


# Probes.


def probed(
    port: Any, *args: str, kind: str = "tcpSocket", name: str = "readinessProbe"
) -> Manifest:
    return engine(*args, **{name: {kind: {"port": port}}})


@pytest.mark.parametrize("name", ["readinessProbe", "livenessProbe", "startupProbe"])
@pytest.mark.parametrize("kind", ["httpGet", "tcpSocket", "grpc"])
def test_probe_of_an_unused_port_is_rejected(name: str, kind: str) -> None:
    at = [f"{SERVING}.{name}.{kind}.port"]
    rule = "probe-not-answered"
    assert of(rule, one(probed(9000, kind=kind, name=name)), Severity.ERROR) == at
    assert of(rule, one(probed(8000, "--port=9000", kind=kind, name=name)), Severity.ERROR) == at
    for fine in (
        probed(9000, "--port=9000", kind=kind, name=name),
        probed(8000, kind=kind, name=name),
    ):
        assert not set(of(rule, one(fine))) & set(at)  # the engine answers no gRPC, and no path ""


def test_hook_on_unused_port_is_rejected() -> None:
    hook = {"lifecycle": {"preStop": {"httpGet": {"path": "/", "port": 9000}}}}
    at = f"{SERVING}.lifecycle.preStop.httpGet.port"
    assert of("probe-not-answered", one(engine(**hook)), Severity.ERROR) == [at]


ANSWERED: dict[str, Manifest] = {
    "a container beside it": one(probed(9000), side("side", 9000)),
    "a restartable init container": one(
        probed(9000), spec={"initContainers": [side("side", 9000, restartPolicy="Always")]}),
    "the role's port": one(probed(9000, "--port=$(PORT)"), port=9000),
    "arguments that cannot be read": one(probed(9000, "--config", "/etc/vllm.yaml")),
    "another program": one(probed(9000) | {"image": "own:1", "command": ["/x"]}),
    "a script that declares it": one({**probed(9000), "command": ["sh", "-c"], "args": [
        "exporter & exec vllm serve m"], "ports": [{"containerPort": 9000}]}),
    "another host": one(engine(readinessProbe={"httpGet": {"host": "10.0.0.1", "port": 9000}})),
    "a command": one(engine(readinessProbe={"exec": {"command": ["true"]}})),
}  # fmt: skip


KEY = {"env": [{"name": "VLLM_API_KEY", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]}
BEARER = {"httpHeaders": [{"name": "authorization", "value": "Bearer $(KEY)"}]}


@pytest.mark.parametrize("probe", ["readinessProbe", "startupProbe", "livenessProbe"])
@pytest.mark.parametrize(
    ("container", "path", "more", "fails"),
    [
        (engine("--api-key", "$(KEY)"), "/v1/models", {}, True),
        (engine(**KEY), "/v1/models", {}, True),
        (engine(**KEY), "/v1/models", BEARER, False),
        (engine(**KEY), "/health", {}, False),
        (engine(), "/v1/models", {}, False),
        (engine(**{**SGLANG, "args": ["--api-key=k"]}), "/get_model_info", {}, True),
        (engine(**{**SGLANG, "args": ["--api-key=k"]}), "/health_generate", {}, False),
    ],
)
def test_probe_without_the_api_key_that_the_engine_asks_for(
    container: Manifest, path: str, more: Manifest, fails: bool, probe: str
) -> None:
    port = 30000 if "command" in container else 8000
    probed = {**container, probe: {"httpGet": {"path": path, "port": port, **more}}}
    at = [f"{SERVING}.{probe}.httpGet.path"] if fails else []
    assert of("probe-not-answered", one(probed), Severity.ERROR) == at


@pytest.mark.parametrize("case", ANSWERED)
def test_probe_that_another_process_may_answer_is_accepted(case: str) -> None:
    assert of("probe-not-answered", ANSWERED[case]) == []


def test_probe_of_undeclared_port_is_a_warning() -> None:
    rule = "probe-not-answered"
    beside = one(probed(9000), side())
    declared = one({**probed(9000), "ports": [{"containerPort": 8000}, {"containerPort": 9000}]})
    script = one({**probed(9000), "command": ["sh", "-c"], "args": ["exec vllm serve m"]})
    for manifest in (beside, declared, script):
        assert len(of(rule, manifest, Severity.WARNING)) == 1
        assert of(rule, manifest, Severity.ERROR) == []


def test_named_probe_port_must_be_declared() -> None:
    rule = "probe-not-answered"
    ports = [{"name": "http", "containerPort": 8000}]
    assert of(rule, one(probed("http"))) == [f"{SERVING}.readinessProbe.tcpSocket.port"]
    assert of(rule, one({**probed("https"), "ports": ports})) != []
    assert of(rule, one({**probed("http"), "ports": ports})) == []
    # Another container's ports do not count, and other containers are looked at, too.
    other = {"name": "side", "image": "side:1", "livenessProbe": {"tcpSocket": {"port": "http"}}}
    assert of(rule, one({**engine(), "ports": ports}, other)) == [
        "roles[0].template.spec.containers[1].livenessProbe.tcpSocket.port"
    ]


def test_probe_of_a_worker_without_a_server_is_rejected() -> None:
    rule = "probe-not-answered"

    def wide(launcher: str, *args: str, **worker: Any) -> Manifest:
        serving = {"command": ["vllm", "serve"], "args": ["m", "-tp", "16"], **worker}
        probe = {"readinessProbe": {"httpGet": {"path": "/health", "port": 8000}}}
        own = None if launcher == "ray" else [*serving["args"], *args]
        run = {} if launcher == "ray" else {"command": serving["command"]}
        return service(
            role(
                template=None,
                leaderTemplate=template(engine(command=["vllm", "serve"], args=["m", "-tp", "16"])),
                workerTemplate=template({**engine(**probe), **run, "args": own}),
                multinode=nodes(2, launcher=launcher),
            )
        )

    at = "roles[0].workerTemplate.spec.containers[0].readinessProbe.httpGet.port"
    assert of(rule, wide("ray"), Severity.ERROR) == [at]
    assert of(rule, wide("multiprocessing"), Severity.ERROR) == [at]
    assert of(rule, wide("none", "--headless"), Severity.ERROR) == [at]
    assert of(rule, wide("none")) == []
