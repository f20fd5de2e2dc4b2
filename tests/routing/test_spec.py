"""What a router role may say: every refusal, with field, value and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest
from routed import ROUTE, routed, router
from samples import Manifest, problems, role, service

PICKER = "roles[0].endpointPicker"
REF = {"name": "g"}
HTTP = {"name": "http", "port": 80, "protocol": "HTTP"}


def rules(*fields: Any) -> Manifest:
    return routed(httproute={**ROUTE, "rules": list(fields)})


def listeners(*fields: Any) -> Manifest:
    return routed(httproute={"hostnames": ["a.example.com"]}, gateway={"listeners": list(fields)})


CASES: dict[str, tuple[Manifest, list[str]]] = {
    "a strategy beside a configuration": (
        routed(strategy="queue-size", scorers={"queue": 1}, endpointPickerConfig="plugins: []"),
        [
            "roles[0].strategy: conflicts with endpointPickerConfig; remove one of them",
            "roles[0].scorers: conflicts with endpointPickerConfig; remove one of them",
        ],
    ),
    "an unknown strategy": (
        routed(strategy="round-robin"),
        [
            ("roles[0].strategy: must be one of prefix-cache, kv-cache-utilization, queue-size, "
            'lora-affinity, pd-disaggregation, session-affinity, got "round-robin"')
        ],
    ),
    "no scorer": (
        routed(scorers={}),
        ["roles[0].scorers: must contain at least 1 item, got none"],
    ),
    "a weight that is not a number": (
        routed(scorers={"prefix-cache": "2"}),
        ['roles[0].scorers.prefix-cache: must be a number, got "2"'],
    ),
    "router fields on a role that serves": (
        service(role(endpointPicker={}, pool={}, networkPolicy={"gateway": [{"podSelector": {}}]},
                     referenceGrants=False, scorers={"queue": 1})),
        [
            f"roles[0].{field}: belongs to a role of componentType router (this role is a worker)"
            for field in ("scorers", "endpointPicker", "pool", "networkPolicy", "referenceGrants")
        ],
    ),
    "an image with a space": (
        routed(endpointPicker={"image": "epp latest"}),
        [f'{PICKER}.image: must be an image reference, got "epp latest"'],
    ),
    "no replicas": (
        routed(endpointPicker={"replicas": 0}),
        [f"{PICKER}.replicas: must be at least 1, got 0"],
    ),
    "values out of range": (
        routed(endpointPicker={"logVerbosity": 11, "threshold": -1, "failureMode": "Open",
                               "metrics": "on"}),
        [
            f"{PICKER}.logVerbosity: must be at most 10, got 11",
            (f'{PICKER}.failureMode: must be one of FailOpen, FailClose, got "Open"; did you mean '
             "FailOpen?"),
            f'{PICKER}.metrics: must be one of Off, Authenticated, Unauthenticated, got "on"',
            f"{PICKER}.threshold: must be at least 0, got -1",
        ],
    ),
    "a threshold of another strategy": (
        routed(strategy="queue-size", endpointPicker={"threshold": 4}),
        [
            (f"{PICKER}.threshold: has no effect: requires strategy pd-disaggregation; remove "
             "it, or set the strategy")
        ],
    ),
    "a certificate without TLS": (
        routed(endpointPicker={"tls": {"enabled": False, "secretName": "s"}}),
        [f"{PICKER}.tls.secretName: has no effect with enabled: false; remove it"],
    ),
    "wrong resources": (
        routed(endpointPicker={"resources": {"requests": {"cpu": "much"}}}),
        [
            (f"{PICKER}.resources.requests.cpu: must be a Kubernetes quantity such as 8, 500m or "
            '16Gi, got "much"')
        ],
    ),
    "a template that reaches for what is fixed": (
        routed(endpointPicker={"template": {
            "metadata": {"labels": {"app": "x", "fusioninfer.io/service": "svc"}},
            "spec": {"containers": [
                {"name": "epp", "image": "x", "args": [], "ports": [], "resources": {}},
                {"name": "side"},
            ]},
        }}),
        [
            f"{PICKER}.template.spec.containers[0].ports: the picker's ports are fixed; remove it",
            (f"{PICKER}.template.spec.containers[0].args: conflicts with "
             "endpointPicker.args; remove it here"),
            (f"{PICKER}.template.spec.containers[0].image: conflicts with "
             "endpointPicker.image; remove it here"),
            (f"{PICKER}.template.spec.containers[0].resources: conflicts with "
             "endpointPicker.resources; remove it here"),
            (f"{PICKER}.template.metadata.labels.app: is set by fusioninfer-pulumi or "
            "LeaderWorkerSet; remove it"),
            (f"{PICKER}.template.metadata.labels[fusioninfer.io/service]: is set by "
            "fusioninfer-pulumi or LeaderWorkerSet; remove it"),
        ],
    ),
    "a template of another shape": (
        routed(endpointPicker={"template": {"containers": [], "spec": 3}}),
        [
            f"{PICKER}.template.containers: unknown key; allowed: metadata, spec",
            f"{PICKER}.template.spec: must be a mapping, got 3",
        ],
    ),
    "a route that is not a mapping": (
        routed(httproute=[]),
        ["roles[0].httproute: must be a mapping, got []"],
    ),
    "misspelt keys": (
        routed(httproute={"parentRef": [], "hostname": [], "parentRefs": [{"nam": "g"}]},
               gateway={"className": "istio"}),
        [
            "roles[0].httproute.parentRef: unknown key, did you mean parentRefs?",
            "roles[0].httproute.hostname: unknown key, did you mean hostnames?",
            "roles[0].gateway.className: unknown key, did you mean gatewayClassName?",
        ],
    ),
    "host names that are none": (
        routed(httproute={"parentRefs": [REF],
                          "hostnames": ["https://a", "a:80", "A.com", "*.a.com"]}),
        [
            *(
                f"roles[0].httproute.hostnames[{index}]: must be a host name such as "
                "api.example.com or *.example.com, without scheme and port, got " + f'"{host}"'
                for index, host in enumerate(("https://a", "a:80", "A.com"))
            ),
        ],
    ),
    "a host name that is not text": (
        routed(httproute={"parentRefs": [{}], "hostnames": ["a.com", 3]}),
        [
            "roles[0].httproute.hostnames[1]: must be a string, got 3",
        ],
    ),
    "wrong rules": (
        rules(
            {"backendRef": [], "matches": {}, "filters": [1]},
            {"backendRefs": [{"kind": "Service"}, 3], "timeouts": {"request": 90, "total": "1s"}},
            {"timeouts": "90s", "filters": [{"requestMirror": {}}]},
        ),
        [
            "roles[0].httproute.rules[0].backendRef: unknown key, did you mean backendRefs?",
            "roles[0].httproute.rules[0].matches: must be a list, got {}",
            "roles[0].httproute.rules[0].filters[0]: must be a mapping, got 1",
            "roles[0].httproute.rules[1].backendRefs[0].name: is required: a string",
            "roles[0].httproute.rules[1].backendRefs[1]: must be a mapping, got 3",
            ("roles[0].httproute.rules[1].timeouts.request: must be a duration such as 0s, 90s or "
            "1h30m, got 90; quote it in YAML"),
            ("roles[0].httproute.rules[1].timeouts.total: unknown key; allowed: backendRequest, "
            "request"),
            'roles[0].httproute.rules[2].timeouts: must be a mapping, got "90s"',
            ("roles[0].httproute.rules[2].filters[0].requestMirror.backendRef: is required: a "
            "mapping"),
            "roles[0].httproute.rules[2].filters[0].type: is required: a string",
        ],
    ),
    "a value that JSON has not": (
        rules({"matches": [{"path": float("nan")}]}),
        ["roles[0].httproute.rules[0].matches[0].path: must be a finite number, got nan"],
    ),
    "references that name nothing": (
        routed(
            httproute={
                "parentRefs": [{"name": "", "namespace": None, "port": 0, "sectionName": 3}],
                "rules": [{"backendRefs": [{"name": "x", "kind": None, "namespace": "A"}]}],
            }
        ),
        [
            "roles[0].httproute.parentRefs[0].name: must not be empty",
            "roles[0].httproute.parentRefs[0].port: must be at least 1, got 0",
            ("roles[0].httproute.parentRefs[0].sectionName: must be a name (a-z 0-9 - .), got 3; "
            "quote it in YAML"),
            (
                "roles[0].httproute.rules[0].backendRefs[0].namespace: must be a DNS label "
                '(a-z 0-9 -, at most 63), got "A"'
            ),
        ],
    ),
    "references beside a spec": (
        routed(httproute=None, gateway={"refs": [REF], "gatewayClassName": "istio",
                                        "listeners": [HTTP]}),
        [
            f"roles[0].gateway.{field}: belongs to a Gateway that is created here, but refs name "
            "existing ones; remove one of them"
            for field in ("gatewayClassName", "listeners")
        ],
    ),
    "references beside parentRefs": (
        routed(gateway={"refs": [REF]}),
        ["roles[0].httproute.parentRefs: conflicts with gateway.refs; remove one of them"],
    ),
    "no references": (
        routed(httproute=None, gateway={"refs": []}),
        ["roles[0].gateway.refs: must contain at least 1 item, got none"],
    ),
    "wrong listeners": (
        listeners(
            {"name": "a", "port": "80", "protocol": "HTTP"},
            {"name": "a", "port": 70000, "hostName": "x"},
            {"port": 80, "protocol": "HTTP", "hostname": 3, "tls": [], "allowedRoutes": 1},
            {**HTTP, "tls": {"certificateRefs": [{}]}, "allowedRoutes": {"kinds": {}}},
        ),
        [
            "roles[0].gateway.listeners[0].port: must be an integer, got \"80\"",
            ('roles[0].gateway.listeners[1].name: "a" is in listeners[0], too; remove one of '
            "them"),
            "roles[0].gateway.listeners[1].port: must be at most 65535, got 70000",
            "roles[0].gateway.listeners[1].hostName: unknown key, did you mean hostname?",
            "roles[0].gateway.listeners[1].protocol: is required: a string",
            ("roles[0].gateway.listeners[2].hostname: must be a host name such as api.example.com "
            "or *.example.com, without scheme and port, got 3; quote it in YAML"),
            "roles[0].gateway.listeners[2].tls: must be a mapping, got []",
            "roles[0].gateway.listeners[2].allowedRoutes: must be a mapping, got 1",
            "roles[0].gateway.listeners[2].name: is required: a name (a-z 0-9 - .)",
            "roles[0].gateway.listeners[3].tls.certificateRefs[0].name: is required: a string",
            "roles[0].gateway.listeners[3].allowedRoutes.kinds: must be a list, got {}",
        ],
    ),
    "peers that match nobody": (
        routed(networkPolicy={"gateway": [{"podSelector": {}}, {"pods": {}}]}),
        [
            ("roles[0].networkPolicy.gateway[1].pods: unknown key; allowed: ipBlock, "
            "namespaceSelector, podSelector"),
        ],
    ),
    "a policy without the gateway": (
        routed(networkPolicy={"gateway": []}),
        ["roles[0].networkPolicy.gateway: must contain at least 1 item, got none"],
    ),
    "two routers": (
        service(router(), router(name="second"), role()),
        ["roles[1].componentType: a service has one router; remove this one or roles[0]"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_spec_that_cannot_work_is_rejected(case: str) -> None:
    manifest, expected = CASES[case]
    assert sorted(problems(manifest)) == sorted(expected)


def test_all_findings_of_all_roles_are_reported_together() -> None:
    manifest = service(
        router(strategy="pd-disaggregation", httproute={**ROUTE, "hostnames": ["a:80"]}),
        role(replicas=-1),
    )
    expected = [line.split(": ")[0] for line in problems(manifest)]
    assert expected == ["roles[1].replicas", "roles[0].httproute.hostnames[0]"]


@pytest.mark.parametrize(
    "override",
    [
        {"livenessProbe": {"grpc": {"service": "inference-extension"}}},
        {"volumeMounts": [{"name": "plugins-config-volume", "readOnly": True}]},
    ],
)
def test_picker_template_may_be_partial(override: Any) -> None:
    template = {"spec": {"containers": [{"name": "epp", **override}]}}
    assert problems(routed(endpointPicker={"template": template})) == []
