"""Access rules of the how-to pages on security: API keys, tokens, rate limits and certificates.

Envoy Gateway needs Envoy AI Gateway for InferencePools, whose controller is not on the Go module
proxy. So the route leads to a service without a router. Its rendered pod has certificate and
probes, but runs a program that returns the request headers instead of an engine.
"""

from __future__ import annotations

import base64
import copy
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from e2e.catalog import tool
from e2e.harness import Object
from e2e.harness.certificates import create_certificates
from e2e.harness.processes import LOOPBACK, Lifetime, find_ports
from e2e.inputs import read_page_objects
from e2e.serve.deploy import wait_serving
from e2e.serve.envoy_gateway import BACKEND_REFERENCE, EnvoyGateway, replace_pool
from e2e.serve.services import secret
from e2e.serve.serving import Serving
from fusioninfer_pulumi import load, plan_service, render

pytestmark = [
    pytest.mark.serve,
    pytest.mark.skipif(
        not tool("envoy-gateway").is_built,
        reason="not built: python -m e2e.build_tools --only envoy-gateway",
    ),
]

HOST = "qwen.example.com"
NAMESPACE = "models"
NAME = "direct.models.svc"
KEYS = {"team-a": "the-key-of-a", "team-b": "the-key-of-b"}
ENGINE = """
import http.server, json, ssl
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.answer({})
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.answer({name.lower(): value for name, value in self.headers.items()})
    def answer(self, headers):
        data = json.dumps(headers).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
server = http.server.ThreadingHTTPServer(("", 8000), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
server.serve_forever()
"""
FORGED = {"x-client-id": "team-z", "x-prefiller-host-port": "192.0.2.1:80"}


def render_route() -> Object:
    """Return the HTTPRoute of the page's service."""
    (args,) = load(read_page_objects("qwen.yaml")[0])
    (route,) = [item for item in render(plan_service(args)) if item["kind"] == "HTTPRoute"]
    return dict(route)


@dataclass(frozen=True)
class Engine:
    """A service without a router; `authorities` are its certificate authority and another one."""

    address: str
    authorities: tuple[str, str]


class GuardedEngine(Lifetime):
    """The engine behind Envoy Gateway, with the objects on the pages."""

    def __init__(
        self,
        running: Serving,
        directory: Path,
        engine: Engine,
        *,
        clients: Object,
        requests: int = 1000,
        name: str = NAME,
        authority: int = 0,
    ) -> None:
        (self._port,) = find_ports(1)
        limits = copy.deepcopy(read_page_objects("limits.yaml"))
        (rule,) = limits[0]["spec"]["rateLimit"]["local"]["rules"]
        rule["limit"]["requests"] = requests
        verify = [*_make_verification(name, engine.authorities[authority])]
        keys = secret(NAMESPACE, "qwen-clients", **KEYS)
        routing = replace_pool(render_route(), self._port, [engine.address])
        objects = [*routing, *verify, *limits, clients, keys]
        self._gateway = EnvoyGateway(running.cluster, directory, objects)

    def close(self) -> None:
        self._gateway.close()

    def send_request(self, prompt: str = "the quick brown fox", **headers: str) -> Any:
        return urllib3.request(
            "POST",
            f"http://{LOOPBACK}:{self._port}/v1/completions",
            json={"model": "Qwen/Qwen3-8B", "prompt": prompt},
            headers={"Host": HOST, **headers},
            timeout=20,
            retries=False,
        )

    def wait_response(self, **headers: str) -> Any:
        """Return the first response, after waiting until the gateway listens."""
        deadline = time.monotonic() + 60
        while True:
            try:
                return self.send_request(**headers)
            except urllib3.exceptions.HTTPError:
                assert time.monotonic() < deadline, "the gateway does not listen"
                time.sleep(0.5)


@pytest.fixture(scope="module")
def engine(running: Serving, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    directory = tmp_path_factory.mktemp("certificates")
    certificates = create_certificates(directory / "own", hosts=[NAME])
    other = create_certificates(directory / "other", hosts=[NAME])
    running.cluster.create({"apiVersion": "v1", "kind": "Namespace",
                            "metadata": {"name": NAMESPACE}})  # fmt: skip
    running.cluster.create(secret(NAMESPACE, "direct-tls", **certificates.texts))
    (args,) = load(read_page_objects("direct.yaml")[0])
    objects = list(render(plan_service(args)))
    (lws,) = [manifest for manifest in objects if manifest["kind"] == "LeaderWorkerSet"]
    template = lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    (container,) = template["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    container |= {"image": "python:3", "args": ["-c", ENGINE]}
    running.apply(objects)
    wait_serving(running, objects, NAMESPACE)
    address = running.cluster.get("v1/Service", "direct", NAMESPACE)["spec"]["clusterIP"]
    yield Engine(address, (certificates.authority.read_text(), other.authority.read_text()))
    running.cluster.delete_namespace(NAMESPACE)


def _make_verification(name: str, authority: str) -> Iterator[Object]:
    (policy,) = copy.deepcopy(read_page_objects("verify.yaml"))
    policy["spec"]["targetRefs"] = [BACKEND_REFERENCE]
    policy["spec"]["validation"]["hostname"] = name
    yield policy
    meta = {"name": "direct-ca", "namespace": NAMESPACE}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta,
           "data": {"ca.crt": authority}}  # fmt: skip


@pytest.mark.verifies("Envoy Gateway enforces API keys, rate limits and body size as documented")
def test_keys_rate_limits_and_sizes_are_enforced(
    running: Serving, tmp_path: Path, engine: Engine
) -> None:
    first, second = ({"Authorization": f"Bearer {key}"} for key in KEYS.values())
    (clients,) = read_page_objects("clients.yaml")
    with GuardedEngine(running, tmp_path, engine, clients=clients, requests=3) as guarded:
        assert guarded.wait_response().status == 401
        assert guarded.send_request(Authorization="Bearer something").status == 401
        answer = guarded.send_request(**first, **FORGED)
        assert answer.status == 200, answer.data
        output = answer.json()
        assert output["x-client-id"] == "team-a"
        assert output.keys() & {"authorization", "x-prefiller-host-port"} == set()
        # Limits ignore a client ID that the client sets.
        assert [guarded.send_request(**first, **FORGED).status for _ in range(3)] == [200, 200, 429]
        assert guarded.send_request(**second, **FORGED).status == 200
        assert guarded.send_request("x" * 2_000_000, **second).status == 413


@pytest.mark.verifies("Envoy Gateway rejects engine certificates of another authority or name")
@pytest.mark.parametrize(
    ("name", "authority", "status"),
    [(NAME, 0, 200), (NAME, 1, 503), ("other.models.svc", 0, 503)],
    ids=["right", "authority", "name"],
)
def test_engine_with_other_certificate_gets_no_requests(
    running: Serving, tmp_path: Path, engine: Engine, name: str, authority: int, status: int
) -> None:
    (clients,) = read_page_objects("clients.yaml")
    key = {"Authorization": f"Bearer {KEYS['team-b']}"}
    more: dict[str, Any] = {"clients": clients, "name": name, "authority": authority}
    with GuardedEngine(running, tmp_path, engine, **more) as guarded:
        assert guarded.wait_response(**key).status == status


@pytest.mark.verifies("Envoy Gateway accepts only tokens of the identity provider")
def test_only_valid_tokens_are_answered(running: Serving, tmp_path: Path, engine: Engine) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (policy,) = copy.deepcopy(read_page_objects("tokens.yaml"))
    (provider,) = policy["spec"]["jwt"]["providers"]
    # Without an identity provider, the policy contains its keys.
    provider["localJWKS"] = {"type": "Inline", "inline": json.dumps(_make_key_set(key))}
    del provider["remoteJWKS"]
    issuer, (audience,) = provider["issuer"], provider["audiences"]

    def bearer(signer: rsa.RSAPrivateKey, intended: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {_make_token(signer, issuer, intended)}"}

    with GuardedEngine(running, tmp_path, engine, clients=policy) as guarded:
        assert guarded.wait_response().status == 401
        answer = guarded.send_request(**bearer(key, audience), **FORGED)
        assert answer.status == 200, answer.data
        assert answer.json()["x-client-id"] == "team-a"
        assert guarded.send_request(**bearer(stranger, audience)).status == 401
        assert guarded.send_request(**bearer(key, "another")).status == 403


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _make_key_set(key: rsa.RSAPrivateKey) -> Object:
    numbers = key.public_key().public_numbers()
    parts = {"n": numbers.n, "e": numbers.e}
    encoded = {name: _encode(n.to_bytes((n.bit_length() + 7) // 8, "big"))
               for name, n in parts.items()}  # fmt: skip
    return {"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one", **encoded}]}


def _make_token(key: rsa.RSAPrivateKey, issuer: str, audience: str) -> str:
    claims = {"iss": issuer, "aud": audience, "sub": "team-a", "exp": int(time.time()) + 600}
    header = {"alg": "RS256", "kid": "one", "typ": "JWT"}
    signed = ".".join(_encode(json.dumps(part).encode()) for part in (header, claims))
    signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{signed}.{_encode(signature)}"
