"""Everything that is refused while reading: which field, which value, what is allowed."""

from __future__ import annotations

from typing import Any

import pytest
from samples import container, nodes, prefill_decode, problems, role, service, template

from fusioninfer_pulumi.findings import InvalidServiceError
from fusioninfer_pulumi.reading import load, loads
from fusioninfer_pulumi.spec import RoleArgs

NAME = "must be a name of a-z, 0-9 and - that starts with a letter and ends with a letter or digit"
POD = "roles[0].template.spec"
SERVING = f"{POD}.containers[0]"
GPU = f"{SERVING}.resources.limits[nvidia.com/gpu]"
KEYS = ", ".join(sorted(field.alias or name for name, field in RoleArgs.model_fields.items()))
ROUTER = {"name": "router", "componentType": "router"}


def without(manifest: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in manifest.items() if name != key}


def pod_template(name: str) -> dict[str, Any]:
    return template(container(name))


def pod(*containers: Any, metadata: Any = None, **spec: Any) -> dict[str, Any]:
    return service(role(template=template(*containers, metadata=metadata, **spec)))


def gpus(amount: Any) -> dict[str, Any]:
    return pod(container(resources={"limits": {"nvidia.com/gpu": amount}}))


def gang(**policy: Any) -> dict[str, Any]:
    return prefill_decode(schedulingStrategy={"gangPolicy": policy})


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ([1], ["must be a mapping, got [1]"]),
        ("text", ['must be a mapping, got "text"']),
        ({**service(), "kind": "Deployment"}, ['kind: must be InferenceService, got "Deployment"']),
        (
            {**service(), "apiVersion": "v1"},
            ['apiVersion: must be fusioninfer.io/v1alpha1, got "v1"'],
        ),
        (
            {"metadata": {}},
            [
                "apiVersion: is required, must be fusioninfer.io/v1alpha1",
                "kind: is required, must be InferenceService",
            ],
        ),
        (without(service(), "metadata"), ["metadata: is required"]),
        (without(service(), "spec"), ["spec: is required"]),
        ({**service(), "metadata": {}}, ["metadata.name: is required"]),
        (service(name="My_Service"), [f'metadata.name: {NAME}, got "My_Service"']),
        (
            service(metadata={"namespace": "Team A"}),
            ['metadata.namespace: must be a DNS label (a-z 0-9 -, at most 63), got "Team A"'],
        ),
        (
            service(metadata={"namespace": ""}),
            ['metadata.namespace: must be a DNS label (a-z 0-9 -, at most 63), got ""'],
        ),
        (
            service(metadata={"labels": {"fusioninfer.io/anything": "x"}}),
            [
                "metadata.labels[fusioninfer.io/anything]: is set by fusioninfer-pulumi; remove it",
            ],
        ),
        (
            service(metadata={"labels": {"bad key": "x"}}),
            ['metadata.labels: "bad key" is no valid Kubernetes label or annotation key'],
        ),
        (service(metadata={"labels": {"a": 1}}), ["metadata.labels: a: must be a string, got 1"]),
        (
            service(metadata={"annotations": {"bad key": "x"}}),
            ['metadata.annotations: "bad key" is no valid Kubernetes label or annotation key'],
        ),
        (
            service(metadata={"annotations": {"a": 1}}),
            ["metadata.annotations.a: must be a string, got 1"],
        ),
    ],
)
def test_the_envelope_names_the_service(manifest: Any, expected: list[str]) -> None:
    assert problems(manifest) == expected


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ({**service(), "spec": {}}, ["roles: is required"]),
        ({**service(), "spec": {"roles": []}}, ["roles: must hold at least 1 item, got none"]),
        ({**service(), "spec": {"roles": None}}, ["roles: must be a list, got null"]),
        ({**service(), "spec": {"roles": {"a": 1}}}, ['roles: must be a list, got {"a": 1}']),
        (service("x"), ['roles[0]: must be a mapping, got "x"']),
        (
            service(role(), role()),
            ['roles[1].name: "inference" is also the name of roles[0]'],
        ),
        (service(role(None)), ["roles[0].name: is required"]),
        (service(role("Decode")), [f'roles[0].name: {NAME}, got "Decode"']),
        (service(role("1st")), [f'roles[0].name: {NAME}, got "1st"']),
        (service(role("a-")), [f'roles[0].name: {NAME}, got "a-"']),
        (service(role("a_b")), [f'roles[0].name: {NAME}, got "a_b"']),
        (service(role("decode\n")), [f'roles[0].name: {NAME}, got "decode\\n"']),
        (service(role("")), ["roles[0].name: must not be empty"]),
        (service(role(5)), ["roles[0].name: must be a string, got 5"]),
        (service(role("a" * 64)), ["roles[0].name: must have at most 63 characters, got 64"]),
        (service(role(component_type=None)), ["roles[0].componentType: is required"]),
        (
            service(role(component_type="trainer")),
            [
                (
                    "roles[0].componentType: must be one of router, prefiller, decoder, worker, "
                    'got "trainer"'
                )
            ],
        ),
        (
            service({**ROUTER, "strategy": "prefix-cache"}),
            ["roles: no role serves a model; add a role of worker, prefiller or decoder"],
        ),
        (
            service(ROUTER, {**ROUTER, "name": "b"}, role()),
            ["roles[1].componentType: a service has one router, roles[0] is one already"],
        ),
        (
            service({**ROUTER, "template": template(), "replicas": 2}, role()),
            [
                "roles[0].replicas: a router runs no model; remove it (this role is a router)",
                "roles[0].template: a router runs no model; remove it (this role is a router)",
            ],
        ),
        (
            service({**ROUTER, "strategy": "random"}, role()),
            [
                (
                    "roles[0].strategy: must be one of prefix-cache, kv-cache-utilization, "
                    'queue-size, lora-affinity, pd-disaggregation, got "random"'
                )
            ],
        ),
        (
            service(role(strategy="prefix-cache", httproute={})),
            [
                (
                    "roles[0].strategy: belongs to a role of componentType router (this role is a "
                    "worker)"
                ),
                (
                    "roles[0].httproute: belongs to a role of componentType router (this role is a "
                    "worker)"
                ),
            ],
        ),
    ],
)
def test_roles_are_named_typed_and_serve(manifest: Any, expected: list[str]) -> None:
    assert problems(manifest) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, "must be at least {least}, got -1"),
        (True, "must be an integer, got true"),
        ("2", 'must be an integer, got "2"'),
        (1.5, "must be an integer, got 1.5"),
        (2.0, "must be an integer, got 2.0"),
        ([1], "must be an integer, got [1]"),
        (10_001, "must be at most 10000, got 10001"),
        (10**9, "must be at most 10000, got 1000000000"),
        (10**30, "must be at most 10000, got 1000000000000000000000000000000"),
    ],
)
def test_counts_are_whole_numbers(value: Any, message: str) -> None:
    assert problems(service(role(replicas=value))) == [
        f"roles[0].replicas: {message.format(least=0)}"
    ]
    assert problems(service(role(multinode=nodes(value)))) == [
        f"roles[0].multinode.nodeCount: {message.format(least=1)}"
    ]
    minima = {"gangPolicy": {"minRoleReplicas": {"decode": value}}}
    assert problems(prefill_decode(schedulingStrategy=minima)) == [
        f"schedulingStrategy.gangPolicy.minRoleReplicas.decode: {message.format(least=0)}"
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"multinode": nodes(0)}, ["roles[0].multinode.nodeCount: must be at least 1, got 0"]),
        ({"multinode": {}}, ["roles[0].multinode.nodeCount: is required"]),
        (
            {"multinode": nodes(2, launcher="mpi")},
            [
                (
                    "roles[0].multinode.launcher: must be one of ray, multiprocessing, "
                    'data-parallel, none, got "mpi"'
                )
            ],
        ),
        ({"port": 0}, ["roles[0].port: must be at least 1, got 0"]),
        ({"port": 65536}, ["roles[0].port: must be at most 65535, got 65536"]),
        ({"port": "http"}, ['roles[0].port: must be an integer, got "http"']),
        (
            {"container": "sglang"},
            ["roles[0].container: no container of that name in template; allowed: vllm"],
        ),
        (
            {"restartPolicy": "Always"},
            [
                (
                    "roles[0].restartPolicy: must be one of RecreateGroupOnPodRestart, "
                    'RecreateGroupAfterStart, None, got "Always"'
                )
            ],
        ),
        (
            {"startupPolicy": "Ready"},
            ['roles[0].startupPolicy: must be one of LeaderCreated, LeaderReady, got "Ready"'],
        ),
        (
            {"networkConfig": {"subdomainPolicy": "None"}},
            [
                (
                    "roles[0].networkConfig.subdomainPolicy: must be one of Shared, "
                    'UniquePerReplica, got "None"'
                )
            ],
        ),
        ({"networkConfig": {}}, ["roles[0].networkConfig.subdomainPolicy: is required"]),
        (
            {"multinode": nodes(2), "subGroupPolicy": {"subGroupSize": 3}},
            ["roles[0].subGroupPolicy.subGroupSize: must be at most nodeCount (2), got 3"],
        ),
        (
            {"multinode": nodes(6), "subGroupPolicy": {"subGroupSize": 4}},
            [
                (
                    "roles[0].subGroupPolicy.subGroupSize: must divide nodeCount (6) or "
                    "nodeCount - 1, got 4"
                )
            ],
        ),
        (
            {
                "multinode": nodes(4),
                "subGroupPolicy": {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"},
            },
            [
                (
                    "roles[0].subGroupPolicy.subGroupSize: must divide nodeCount - 1 (3) when the "
                    "leader is excluded, got 2"
                )
            ],
        ),
        (
            {
                "multinode": nodes(5),
                "subGroupPolicy": {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"},
            },
            [],
        ),
        ({"multinode": nodes(5), "subGroupPolicy": {"subGroupSize": 2}}, []),
        ({"template": None}, ["roles[0].template: is required: the pods that serve the model"]),
        (
            {"leaderTemplate": template()},
            ["roles[0].leaderTemplate: stands in place of template; give one or the other"],
        ),
        (
            {"template": None, "multinode": nodes(2), "leaderTemplate": template()},
            ["roles[0].workerTemplate: is required beside leaderTemplate"],
        ),
        (
            {"template": None, "leaderTemplate": template(), "workerTemplate": template()},
            [
                "roles[0].leaderTemplate: needs multinode.nodeCount of at least 2; use template",
                "roles[0].workerTemplate: needs multinode.nodeCount of at least 2; use template",
            ],
        ),
    ],
)
def test_fields_of_a_role_hold_what_their_controllers_take(
    fields: dict[str, Any], expected: list[str]
) -> None:
    assert problems(service(role(**fields))) == expected


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (service(role(template="x")), ['roles[0].template: must be a mapping, got "x"']),
        (service(role(template={})), ["roles[0].template.spec: is required: a mapping"]),
        (
            service(role(template={**template(), "kind": "Pod"})),
            ["roles[0].template.kind: unknown key; a pod template has metadata and spec"],
        ),
        (service(role(template={"spec": {}})), [f"{POD}.containers: is required: a list"]),
        (
            service(role(template={"spec": {"containers": []}})),
            [f"{POD}.containers: must hold at least one container"],
        ),
        (pod("a"), [f'{SERVING}: must be a mapping, got "a"']),
        (
            pod({}),
            [
                f"{SERVING}.name: is required: a DNS label (a-z 0-9 -, at most 63)",
                f"{SERVING}.image: is required: an image reference",
            ],
        ),
        (pod(container(image="a b")), [f'{SERVING}.image: must be an image reference, got "a b"']),
        (
            pod(container(), container()),
            [f'{POD}.containers[1].name: "vllm" names two containers of the pod'],
        ),
        (
            pod(container(), initContainers=[container()]),
            [f'{POD}.initContainers[0].name: "vllm" names two containers of the pod'],
        ),
        (
            pod(container(args="--model m")),
            [f'{SERVING}.args: must be a list of strings, got "--model m"'],
        ),
        (
            pod(container(args=["--tp", 8])),
            [f"{SERVING}.args[1]: must be a string, got 8; quote it in YAML"],
        ),
        (
            pod(container(env=[{"name": "A", "value": 1}, {"value": "x"}])),
            [
                f"{SERVING}.env[0].value: must be a string, got 1; quote it in YAML",
                f"{SERVING}.env[1]: must be a mapping with a name",
            ],
        ),
        (
            pod(container(ports=[{"containerPort": "80"}, {"containerPort": 0}, {"name": "x"}])),
            [
                f'{SERVING}.ports[0].containerPort: must be an integer from 1 to 65535, got "80"',
                f"{SERVING}.ports[1].containerPort: must be an integer from 1 to 65535, got 0",
                f"{SERVING}.ports[2].containerPort: is required: an integer from 1 to 65535",
            ],
        ),
        (
            pod(restartPolicy="OnFailure"),
            [f'{POD}.restartPolicy: must be Always for pods of a LeaderWorkerSet, got "OnFailure"'],
        ),
        (
            pod(metadata={"name": "x"}),
            [
                (
                    "roles[0].template.metadata.name: has no effect on pods; allowed: labels, "
                    "annotations"
                )
            ],
        ),
        (
            pod(metadata={"labels": {"fusioninfer.io/service": "x", "fusioninfer.io/own": "x"}}),
            [
                (
                    "roles[0].template.metadata.labels[fusioninfer.io/service]: is set by "
                    "fusioninfer-pulumi; remove it"
                )
            ],
        ),
        (
            pod(metadata={"labels": {"leaderworkerset.sigs.k8s.io/worker-index": "0"}}),
            [
                (
                    "roles[0].template.metadata.labels[leaderworkerset.sigs.k8s.io/worker-index]: "
                    "is set by LeaderWorkerSet; remove it"
                )
            ],
        ),
        (
            pod(metadata={"labels": {"a": "has space"}, "annotations": {"b": 1}}),
            [
                (
                    'roles[0].template.metadata.labels.a: a: "has space" is no valid label value '
                    "(at most 63 of A-Z a-z 0-9 - _ .)"
                ),
                "roles[0].template.metadata.annotations.b: must be a string, got 1",
            ],
        ),
    ],
)
def test_pod_templates_hold_what_kubernetes_takes(manifest: Any, expected: list[str]) -> None:
    assert problems(manifest) == expected


@pytest.mark.parametrize(
    ("amount", "message"),
    [
        ("0.5", 'must be a whole number of devices, got "0.5"'),
        (1.5, "must be a whole number of devices, got 1.5"),
        ("1500m", 'must be a whole number of devices, got "1500m"'),
        ("-1", 'must be at least 0, got "-1"'),
        ("many", 'must be a Kubernetes quantity such as 8, 500m or 16Gi, got "many"'),
        (True, "must be a Kubernetes quantity, got true"),
        (None, "is required: a Kubernetes quantity"),
    ],
)
def test_devices_are_counted_in_whole_numbers(amount: Any, message: str) -> None:
    assert problems(gpus(amount)) == [f"{GPU}: {message}"]


@pytest.mark.parametrize("amount", [1, "1", 1.0, "1000m", "1e0"])
def test_a_whole_device_may_be_written_in_any_way(amount: Any) -> None:
    assert problems(gpus(amount)) == []


def test_processors_and_memory_may_be_fractions() -> None:
    assert problems(pod(container(resources={"requests": {"cpu": "0.5", "memory": "1.5Gi"}}))) == []


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, ["needs the same amount in limits"]),
        ({"nvidia.com/gpu": 2}, ['must equal limits[nvidia.com/gpu] (2), got "1k"']),
        ({"nvidia.com/gpu": "1000"}, []),
    ],
)
def test_requests_of_a_device_equal_its_limits(limits: Any, expected: list[str]) -> None:
    resources = {"limits": limits, "requests": {"nvidia.com/gpu": "1k"}}
    args = ["--model", "m", "-tp", "1000"]
    at = f"{SERVING}.resources.requests[nvidia.com/gpu]"
    assert problems(pod(container(args=args, resources=resources))) == [
        f"{at}: {each}" for each in expected
    ]


def test_amounts_of_the_whole_pod_are_quantities_too() -> None:
    manifest = pod(
        overhead={"cpu": "abc"}, resources={"limits": {"memory": "lots"}, "requests": [1]}
    )
    quantity = "must be a Kubernetes quantity such as 8, 500m or 16Gi"
    assert problems(manifest) == [
        f'{POD}.overhead.cpu: {quantity}, got "abc"',
        f'{POD}.resources.limits.memory: {quantity}, got "lots"',
        f"{POD}.resources.requests: must be a mapping, got [1]",
    ]


def test_what_is_passed_through_can_be_written_as_json() -> None:
    manifest = pod(
        volumes=[{1: "a", "b": float("nan")}],
        affinity={"x": {1, 2}},
        hostname="\ud800",
        tolerations=[{"tolerationSeconds": float("inf")}],
    )
    assert problems(manifest) == [
        f"{POD}.volumes[0]: keys must be strings, got 1; quote it in YAML",
        f"{POD}.volumes[0].b: must be a finite number, got nan",
        f"{POD}.affinity.x: must be plain data, got a set",
        f"{POD}.hostname: holds half of a surrogate pair, which is no text",
        f"{POD}.tolerations[0].tolerationSeconds: must be a finite number, got inf",
    ]


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (service(rolls=[]), ["rolls: unknown key, did you mean roles?"]),
        (service(role(replica=2)), ["roles[0].replica: unknown key, did you mean replicas?"]),
        (service(role(zebra=2)), [f"roles[0].zebra: unknown key; allowed: {KEYS}"]),
        (
            service(role(startup_polcy="LeaderReady")),
            ["roles[0].startup_polcy: unknown key, did you mean startup_policy?"],
        ),
        (service(role(HTTPRoute={})), ["roles[0].HTTPRoute: unknown key, did you mean httproute?"]),
        (
            service(metadata={"lables": {}}),
            ["metadata.lables: unknown key, did you mean labels?"],
        ),
        (
            service(role(multinode=nodes(2, nodes=2))),
            ["roles[0].multinode.nodes: unknown key; allowed: launcher, nodeCount"],
        ),
        (
            service(schedulingStrategy={"scheduler": "volcano", "gangPolicy": {"minReplicas": {}}}),
            [
                (
                    "schedulingStrategy.gangPolicy.minReplicas: unknown key, did you mean "
                    "minRoleReplicas?"
                ),
                "schedulingStrategy.scheduler: unknown key, did you mean schedulerName?",
            ],
        ),
        (
            {**service(), "status": {}},
            ["status: unknown key; allowed: apiVersion, kind, metadata, spec"],
        ),
        ({**service(), 1: {}}, ["[1]: keys must be strings, got 1"]),
    ],
)
def test_unknown_keys_are_refused_with_the_nearest_known_one(
    manifest: Any, expected: list[str]
) -> None:
    assert problems(manifest) == expected


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (
            service({**role(), "component_type": "worker"}),
            ["roles[0]: componentType and component_type are the same field; give it once"],
        ),
        (
            service(role(multinode={"nodeCount": 2, "node_count": 2})),
            ["roles[0].multinode: nodeCount and node_count are the same field; give it once"],
        ),
    ],
)
def test_a_field_has_one_definition(manifest: Any, expected: list[str]) -> None:
    assert problems(manifest) == expected


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (
            gang(minRoleReplicas={"decode": 3}),
            ["minRoleReplicas.decode: must be at most the role's replicas (2), got 3"],
        ),
        (
            gang(minRoleReplicas={"decoder": 1}),
            ["minRoleReplicas.decoder: no role of that name; allowed: decode, prefill"],
        ),
        (
            service(
                ROUTER,
                role(multinode=nodes(2)),
                schedulingStrategy={"gangPolicy": {"minRoleReplicas": {"router": 1}}},
            ),
            ["minRoleReplicas.router: a router has no share in a gang; remove it"],
        ),
        (
            gang(minRoleReplicas={"prefill": 0, "decode": 0}),
            ["minRoleReplicas: must be above 0 for at least one role, got 0 for all"],
        ),
        (gang(minRoleReplicas=[1]), ["minRoleReplicas: must be a mapping, got [1]"]),
        (gang(mode="On"), ['mode: must be one of Auto, Off, got "On"']),
        (gang(minResources="yes"), ['minResources: must be true or false, got "yes"']),
    ],
)
def test_a_gang_policy_fits_its_roles(manifest: Any, expected: list[str]) -> None:
    assert problems(manifest) == [f"schedulingStrategy.gangPolicy.{each}" for each in expected]


def test_names_of_other_objects_are_not_empty() -> None:
    strategy = {"schedulerName": "", "queue": "", "priorityClassName": ""}
    assert problems(service(schedulingStrategy=strategy)) == [
        f"schedulingStrategy.{field}: must not be empty" for field in strategy
    ]


def test_all_problems_of_a_service_are_found_at_once() -> None:
    broken = service(
        role("Bad", "trainer", replicas=-1, template=template(container(args="x"))),
        role("dup", port=0),
        role("dup", template=None),
        role("epp"),
        role("wide", template=template(container(gpus=8, args=["--model", "m", "-tp", "16"]))),
        metadata={"namespace": "Bad"},
    )
    assert problems(broken) == [
        'metadata.namespace: must be a DNS label (a-z 0-9 -, at most 63), got "Bad"',
        f'roles[0].name: {NAME}, got "Bad"',
        'roles[0].componentType: must be one of router, prefiller, decoder, worker, got "trainer"',
        "roles[0].replicas: must be at least 0, got -1",
        "roles[1].port: must be at least 1, got 0",
        'roles[2].name: "dup" is also the name of roles[1]',
        f'{SERVING}.args: must be a list of strings, got "x"',
        "roles[2].template: is required: the pods that serve the model",
        (
            "roles[4].template.spec.containers[0].args: --tensor-parallel-size 16 needs 16 "
            "accelerators, but the pod has 8"
        ),
        (
            'roles[3].name: "epp" is taken by the router\'s objects; '
            "not allowed: epp, epp-config, gateway, httproute, pool"
        ),
    ]


def test_a_problem_is_one_line_whatever_the_names_hold() -> None:
    odd = service(role(container="sglang", template=pod_template("a\nb\x1b[31m")))
    assert problems(odd) == [
        (f'{SERVING}.name: must be a DNS label (a-z 0-9 -, at most 63), got "a\\nb\\u001b[31m"'),
        "roles[0].container: no container of that name in template; allowed: a\\nb\\x1b[31m",
    ]
    assert problems(service(role(**{"a\nb": 1})))[0].startswith("roles[0].a\\nb: unknown key")


def test_a_guess_about_a_broken_field_is_never_reported() -> None:
    # Both names are unreadable; that the stand-ins of the two roles are alike says nothing.
    minima = {"gangPolicy": {"minRoleReplicas": {"decode": 1}}}
    broken = service(role(1), role(2), schedulingStrategy=minima)
    assert problems(broken) == [
        "roles[0].name: must be a string, got 1",
        "roles[1].name: must be a string, got 2",
    ]


def test_all_problems_of_all_documents_are_raised_in_one_error() -> None:
    with pytest.raises(InvalidServiceError) as caught:
        loads(
            "{apiVersion: fusioninfer.io/v1alpha1, kind: InferenceService, metadata: {name: a}, "
            "spec: {roles: 1}}\n---\n{apiVersion: v1, kind: Pod}\n"
        )
    assert str(caught.value).splitlines() == [
        "roles: must be a list, got 1",
        'apiVersion: must be fusioninfer.io/v1alpha1, got "v1"',
        'kind: must be InferenceService, got "Pod"',
    ]
    assert len(caught.value.findings) == 3


def test_a_mapping_is_refused_like_a_file() -> None:
    with pytest.raises(InvalidServiceError, match=r"^roles\[0\]\.replicas: must be at least 0"):
        load(service(role(replicas=-1)))
