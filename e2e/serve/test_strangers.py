"""Serves: who has no key, asks too much or shows the wrong certificate gets no tokens.

The objects are those of docs/how-to/security.md. Envoy Gateway leaves InferencePools to Envoy AI
Gateway, whose controller is not on the Go module proxy: the route leads to the engine's Service.
"""

from __future__ import annotations

import base64
import copy
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import urllib3
import yaml
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from e2e.catalog import tool
from e2e.harness import Object
from e2e.harness.certificates import create_certificates
from e2e.harness.processes import LOOPBACK, free_ports
from e2e.inputs import ROOT
from e2e.serve.deploy import wait_serving
from e2e.serve.envoy_gateway import CLASS, EnvoyGateway, secret
from e2e.serve.services import IMAGE, MODEL, NEED
from e2e.serve.serving import Serving
from fusioninfer_pulumi import load, plan_service, render

pytestmark = [
    pytest.mark.serve,
    pytest.mark.skipif(
        not tool("envoy-gateway").is_built,
        reason="not built: python -m e2e.build_tools --only envoy-gateway",
    ),
]

PAGE = ROOT / "docs" / "how-to" / "security.md"
HOST = "qwen.example.com"
NAMESPACE = "models"
NAME = "direct.models.svc"
KEYS = {"team-a": "the-key-of-a", "team-b": "the-key-of-b"}
FORGED = {"x-client-id": "team-z", "x-prefiller-host-port": "192.0.2.1:80"}


def shown(file: str) -> list[Object]:
    """The objects that the page shows in a file."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f'```yaml title="{file}"\n')
    return list(yaml.safe_load_all(rest.partition("```")[0]))


def our_route() -> Object:
    """The HTTPRoute that the page's service gets."""
    (args,) = load(shown("qwen.yaml")[0])
    (route,) = [each for each in render(plan_service(args)) if each["kind"] == "HTTPRoute"]
    return dict(route)


@dataclass
class Guarded:
    """An engine behind Envoy Gateway.

    Attributes:
        gateway: Envoy Gateway.
        port: Where its Envoy listens.
        authorities: Certificates of the authority that signed the engine's, and of another.
    """

    gateway: EnvoyGateway
    port: int
    authorities: tuple[str, str]

    def ask(self, prompt: str = "the quick brown fox", **headers: str) -> Any:
        """The answer to one prompt."""
        return urllib3.request(
            "POST",
            f"http://{LOOPBACK}:{self.port}/v1/completions",
            json={"model": MODEL, "prompt": prompt, "max_tokens": 8, "temperature": 0},
            headers={"Host": HOST, **headers},
            timeout=120,
            retries=False,
        )

    def wait(self, wanted: int, **headers: str) -> Any:
        """The first answer with that status, within a minute."""
        deadline = time.monotonic() + 60
        while True:
            try:
                answer = self.ask(**headers)
                if answer.status == wanted:
                    return answer
                told = f"{answer.status}: {answer.data!r}"
            except urllib3.exceptions.HTTPError as error:
                told = str(error)
            assert time.monotonic() < deadline, told
            time.sleep(0.5)

    def verify(self, name: str, authority: str) -> None:
        """Have the gateway verify the engine's certificate by this name and authority."""
        (policy,) = copy.deepcopy(shown("verify.yaml"))
        policy["spec"]["targetRefs"] = [BACKEND_REFERENCE]
        policy["spec"]["validation"]["hostname"] = name
        meta = {"name": "direct-ca", "namespace": NAMESPACE}
        trusted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta,
                   "data": {"ca.crt": authority}}  # fmt: skip
        self.gateway.write("verify", [policy, trusted])

    def limit(self, requests: int) -> None:
        """Apply the page's limits with so many requests a minute."""
        objects = copy.deepcopy(shown("limits.yaml"))
        (rule,) = objects[0]["spec"]["rateLimit"]["local"]["rules"]
        rule["limit"]["requests"] = requests
        self.gateway.write("limits", objects)


BACKEND_REFERENCE = {"group": "gateway.envoyproxy.io", "kind": "Backend", "name": "engines"}


@pytest.fixture(scope="module")
def guarded(running: Serving, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("envoy-gateway")
    own = create_certificates(directory / "own", hosts=[NAME])
    other = create_certificates(directory / "other", hosts=[NAME])
    running.cluster.create({"apiVersion": "v1", "kind": "Namespace",
                            "metadata": {"name": NAMESPACE}})  # fmt: skip
    pair = {"tls.crt": own.certificate.read_text(), "tls.key": own.key.read_text()}
    running.cluster.create(secret(NAMESPACE, "direct-tls", **pair))
    (manifest,) = copy.deepcopy(shown("direct.yaml"))
    (container,) = manifest["spec"]["roles"][0]["template"]["spec"]["containers"]
    container["image"] = IMAGE
    container["args"][:2] = ["--model", MODEL, "--max-model-len", "2048"]
    (args,) = load(manifest)
    objects = list(render(plan_service(args)))
    running.apply(objects)
    wait_serving(running, objects, NAMESPACE)
    address = running.cluster.get("v1/Service", "direct", NAMESPACE)["spec"]["clusterIP"]
    (port,) = free_ports(1)
    gateway = EnvoyGateway(running.cluster, directory, [*_entry(port, address), _keys()])
    found = Guarded(gateway, port, (own.authority.read_text(), other.authority.read_text()))
    found.verify(NAME, found.authorities[0])
    gateway.write("clients", shown("clients.yaml"))
    found.limit(1000)
    found.wait(200, Authorization=f"Bearer {KEYS['team-a']}")
    yield found
    gateway.close()
    running.cluster.delete_namespace(NAMESPACE)


def _entry(port: int, address: str) -> list[Object]:
    listener = {"name": "http", "protocol": "HTTP", "port": port,
                "allowedRoutes": {"namespaces": {"from": "All"}}}  # fmt: skip
    gateway = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": "shared", "namespace": "gateways"},
        "spec": {"gatewayClassName": CLASS, "listeners": [listener]},
    }
    backend = {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "Backend",
        "metadata": {"name": "engines", "namespace": NAMESPACE},
        "spec": {"endpoints": [{"ip": {"address": address, "port": 8000}}]},
    }
    route = our_route()
    (rule,) = route["spec"]["rules"]
    rule["backendRefs"] = [BACKEND_REFERENCE]
    return [gateway, backend, route]


def _keys() -> Object:
    return secret(NAMESPACE, "qwen-clients", **KEYS)


@pytest.mark.proves(
    "Envoy Gateway answers a client with a key of the Secret with tokens, and others with 401",
    needs=NEED,
)
def test_who_has_no_key_gets_no_tokens(guarded: Guarded) -> None:
    assert guarded.ask().status == 401
    assert guarded.ask(Authorization="Bearer something").status == 401
    answer = guarded.ask(Authorization=f"Bearer {KEYS['team-a']}", **FORGED)
    assert answer.status == 200
    assert answer.json()["usage"]["completion_tokens"] == 8


@pytest.mark.proves(
    "a client that asks too often gets 429 while another one is answered; a body that is too large "
    "gets 413",
    needs=NEED,
)
def test_one_client_cannot_take_it_all(guarded: Guarded) -> None:
    first, second = ({"Authorization": f"Bearer {key}"} for key in KEYS.values())
    guarded.limit(3)
    guarded.wait(429, **first)
    assert guarded.ask(**second, **FORGED).status == 200
    # A name that the client gives itself does not count.
    assert guarded.ask(**first, **FORGED).status == 429
    guarded.limit(1000)
    guarded.wait(200, **first)
    assert guarded.ask("x" * 2_000_000, **first).status == 413


@pytest.mark.proves(
    "Envoy Gateway sends no request to an engine whose certificate another authority signed, or "
    "that is for another name",
    needs=NEED,
)
def test_an_engine_with_another_certificate_gets_no_requests(guarded: Guarded) -> None:
    key = {"Authorization": f"Bearer {KEYS['team-b']}"}
    own, other = guarded.authorities
    guarded.verify(NAME, other)
    guarded.wait(503, **key)
    guarded.verify("other.models.svc", own)
    time.sleep(5)  # the answer stays 503, so nothing shows that the change has come
    assert guarded.ask(**key).status == 503
    guarded.verify(NAME, own)
    guarded.wait(200, **key)


@pytest.mark.proves(
    "Envoy Gateway answers who shows a token of the identity provider, not who shows one of "
    "another audience or with another signature",
    needs=NEED,
)
def test_who_shows_a_token_is_answered(guarded: Guarded) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (policy,) = copy.deepcopy(shown("tokens.yaml"))
    (provider,) = policy["spec"]["jwt"]["providers"]
    # There is no identity provider here: its keys stand in the policy.
    provider["localJWKS"] = {"type": "Inline", "inline": json.dumps(_key_set(key))}
    del provider["remoteJWKS"]
    guarded.gateway.write("clients", [policy])
    issuer, (audience,) = provider["issuer"], provider["audiences"]

    def bearer(signer: rsa.RSAPrivateKey, intended: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {_token(signer, issuer, intended)}"}

    guarded.wait(200, **bearer(key, audience))
    assert guarded.ask(**bearer(stranger, audience)).status == 401
    assert guarded.ask(**bearer(key, "another")).status == 403
    assert guarded.ask().status == 401
    guarded.gateway.write("clients", shown("clients.yaml"))
    guarded.wait(200, Authorization=f"Bearer {KEYS['team-a']}")


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _key_set(key: rsa.RSAPrivateKey) -> Object:
    numbers = key.public_key().public_numbers()
    parts = {"n": numbers.n, "e": numbers.e}
    encoded = {name: _encoded(n.to_bytes((n.bit_length() + 7) // 8, "big"))
               for name, n in parts.items()}  # fmt: skip
    return {"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one", **encoded}]}


def _token(key: rsa.RSAPrivateKey, issuer: str, audience: str) -> str:
    claims = {"iss": issuer, "aud": audience, "sub": "team-a", "exp": int(time.time()) + 600}
    header = {"alg": "RS256", "kid": "one", "typ": "JWT"}
    signed = ".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))
    signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{signed}.{_encoded(signature)}"
