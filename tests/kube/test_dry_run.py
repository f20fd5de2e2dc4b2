"""Dry runs: requests to the API server, and parsed responses."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from fusioninfer_pulumi.kube.client import KubernetesApi, Response, UnreadableError, send_dry_runs

Reply = tuple[int, dict[str, Any]]
KINDS = {
    "/api/v1": [
        {"name": "pods", "kind": "Pod", "namespaced": True},
        {"name": "configmaps", "kind": "ConfigMap", "namespaced": True},
        {"name": "pods/eviction", "kind": "Eviction", "namespaced": True},
    ],
    "/apis/rbac.authorization.k8s.io/v1": [
        {"name": "clusterroles", "kind": "ClusterRole", "namespaced": False}
    ],
}


@dataclass
class Server:
    """A fake API server with `KINDS`; `replies` answers all other requests.

    Attributes:
        received: Method, path, query and body of each request except discovery.
    """

    replies: Callable[[str, str], Reply] = lambda *_: (201, {})
    received: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    port: int = 0

    def reply(self, method: str, target: str, body: bytes) -> Reply:
        split = urlsplit(target)
        if split.path in KINDS:
            return 200, {"resources": KINDS[split.path]}
        if split.path.count("/") < 4 and "namespaces" not in split.path and method == "GET":
            return 404, {"message": "the server could not find the requested resource"}
        self.bodies.append(body)
        query = {key: values[0] for key, values in parse_qs(split.query).items()}
        self.received.append((method, split.path, query, json.loads(body) if body else None))
        return self.replies(method, split.path)

    @property
    def api(self) -> KubernetesApi:
        return KubernetesApi(kubeconfig(self.port), None)


def kubeconfig(port: int) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    return yaml.safe_dump(config)


@pytest.fixture
def server() -> Iterator[Server]:
    """Run a fake API server on this machine."""
    known = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            known.headers.append({key.lower(): text for key, text in self.headers.items()})
            length = int(self.headers.get("Content-Length") or 0)
            code, content = known.reply(self.command, self.path, self.rfile.read(length))
            data = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = _answer  # noqa: N815  # names of the library

        def log_message(self, *_: Any) -> None:
            """Print nothing to standard error."""

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    known.port = running.server_port
    threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
    yield known
    running.shutdown()
    running.server_close()


def pod(name: str = "a", api_version: str = "v1", kind: str = "Pod") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def config_map(name: str = "a") -> dict[str, Any]:
    """Return an object that dry runs apply; pods are created instead."""
    return pod(name, kind="ConfigMap")


def send(
    server: Server,
    *trials: dict[str, Any],
    next_request: Callable[[Any, Response], Any] = lambda *_: None,
    seconds: float = 20.0,
) -> list[list[Response] | None]:
    return send_dry_runs(server.api, trials, next_request, seconds)


def test_existing_object_is_applied_by_its_manager(server: Server) -> None:
    entries = [
        {"manager": "old", "operation": "Apply", "time": "2026-01-01T00:00:00Z"},
        {"manager": "pulumi-kubernetes-1", "operation": "Apply", "time": "2026-02-01T00:00:00Z"},
        {"manager": "kubelet", "operation": "Update", "time": "2026-03-01T00:00:00Z"},
        {"manager": "scaler", "operation": "Apply", "subresource": "scale", "time": "2026-04-01"},
    ]
    server.replies = lambda *_: (200, {"metadata": {"managedFields": entries}})
    assert send(server, config_map()) == [[Response(200)]]
    (read, path, _, _), (method, also, query, body) = server.received
    assert (read, method) == ("GET", "PATCH")
    assert path == also == "/api/v1/namespaces/ns/configmaps/a"
    assert query == {
        "dryRun": "All",
        "fieldValidation": "Strict",
        "fieldManager": "pulumi-kubernetes-1",
        "force": "true",
    }
    assert body == config_map()
    assert server.headers[-1]["content-type"] == "application/apply-patch+yaml"
    assert server.headers[-1]["authorization"] == "Bearer secret"


def test_request_body_is_yaml(server: Server) -> None:
    """The API server parses applied objects as YAML, which does not combine surrogates."""
    text = 'a \U0001f600 \x7f \x85 \ufeff \u2028 \t " é'
    annotated = {
        **config_map(),
        "metadata": {"name": "a", "namespace": "ns", "annotations": {"a": text}},
    }
    send(server, annotated)
    assert yaml.safe_load(server.bodies[-1].decode()) == annotated
    assert json.loads(server.bodies[-1]) == annotated


def test_new_object_is_applied_by_default_manager(server: Server) -> None:
    server.replies = lambda method, _: (404, {}) if method == "GET" else (201, {})
    assert send(server, config_map()) == [[Response(201)]]
    assert server.received[-1][2]["fieldManager"] == "fusioninfer-pulumi"


def test_object_is_created(server: Server) -> None:
    assert send(server, pod()) == [[Response(201)]]
    ((method, path, query, _),) = server.received
    assert (method, path) == ("POST", "/api/v1/namespaces/ns/pods")
    assert query == {"dryRun": "All", "fieldValidation": "Strict"}


def test_existing_name_is_not_a_rejection(server: Server) -> None:
    server.replies = lambda *_: (409, {"message": 'pods "a" already exists'})
    ((answer,),) = filter(None, send(server, pod()))
    assert answer.is_accepted
    assert not Response(409, "object is being deleted").is_accepted


def test_cluster_scoped_object_has_no_namespace_in_path(server: Server) -> None:
    role = pod("r", "rbac.authorization.k8s.io/v1", "ClusterRole")
    send(server, role)
    assert server.received[0][1] == "/apis/rbac.authorization.k8s.io/v1/clusterroles/r"


@pytest.mark.parametrize(
    ("api_version", "kind"), [("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"), ("v1", "Job")]
)
def test_unknown_kinds_are_not_sent(server: Server, api_version: str, kind: str) -> None:
    assert send(server, pod("a", api_version, kind)) == [[Response(0)]]
    assert server.received == []


def test_rejection_has_its_causes(server: Server) -> None:
    status = {
        "message": 'Pod "a" is invalid: spec:\n wrong',
        "details": {"kind": "Pod", "causes": [{"field": "spec", "message": "wrong", "reason": ""}]},
    }
    server.replies = lambda *_: (422, status)
    wanted = Response(422, 'Pod "a" is invalid: spec: wrong', (("spec", "wrong"),), "Pod")
    assert send(server, pod()) == [[wanted]]


def test_rejected_request_is_followed_by_next_request(server: Server) -> None:
    missing = {"message": "no", "details": {"kind": "namespaces"}}
    server.replies = lambda _, path: (404, missing) if "/ns/" in path else (201, {})

    def elsewhere(manifest: Any, answer: Response) -> Any:
        return None if answer.is_accepted else {**manifest, "metadata": {"namespace": "b"}}

    answers = send(server, pod(), next_request=elsewhere)
    assert answers == [[Response(404, "no", (), "namespaces"), Response(201)]]


def test_slow_dry_run_times_out(server: Server) -> None:
    is_over = threading.Event()

    def reply(_: str, path: str) -> Reply:
        if path.endswith("/slow"):
            is_over.wait(30)
        return 201, {}

    server.replies = reply
    # Importing the client takes long.
    assert server.api
    started = time.monotonic()
    slow = config_map("slow")
    answers = send(server, pod(), slow, seconds=2)
    took = time.monotonic() - started
    is_over.set()
    assert answers == [[Response(201)], None]
    assert took < 20


def test_eight_dry_runs_are_sent_at_a_time(server: Server) -> None:
    together = threading.Barrier(8, timeout=20)

    def reply(*_: str) -> Reply:
        together.wait()
        return 201, {}

    server.replies = reply
    answers = send(server, *(pod(str(n)) for n in range(8)))
    assert answers == [[Response(201)]] * 8


def test_unreachable_cluster_raises(server: Server) -> None:
    api = KubernetesApi(kubeconfig(1), None)
    with pytest.raises(UnreadableError, match="does not respond"):
        send_dry_runs(api, [pod()], lambda *_: None, 20.0)


def test_rejected_credentials_raise(server: Server) -> None:
    server.replies = lambda *_: (401, {"message": "Unauthorized"})
    with pytest.raises(UnreadableError, match="credentials"):
        send(server, pod())


def test_answer_without_status_has_a_message(server: Server) -> None:
    server.replies = lambda *_: (502, ["bad gateway"])  # type: ignore[return-value]  # a proxy's
    assert send(server, pod()) == [[Response(502, "HTTP status 502")]]
