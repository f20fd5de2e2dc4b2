"""Missing prerequisites of a cluster."""

from __future__ import annotations

from typing import Any

import pytest
import samples
from clusters import KINDS, FakeCluster, plural, stored
from rows import each_row

from fusioninfer_pulumi import plan_service, render
from fusioninfer_pulumi.api import InferenceServiceArgs
from fusioninfer_pulumi.checks.cluster_checks import list_prerequisites
from fusioninfer_pulumi.checks.live_cluster import KUEUE_FRAMEWORK, LiveCluster
from fusioninfer_pulumi.checks.prerequisite_checks import find_product_needs
from fusioninfer_pulumi.kube.supported_products import (
    LEADER_WORKER_SET,
    PRODUCTS,
    parse_product_release,
)

LWS, VOLCANO = "leaderworkerset.x-k8s.io", "scheduling.volcano.sh"
CLAIM = {"name": "gpus", "deviceClassName": "gpu.nvidia.com", "count": 8}
METRIC = {"name": "vllm_num_requests_waiting", "target": 5}
QUEUED = {"queue": "team", "gangPolicy": {"backend": "Kueue"}}
NATIVE = {"gangPolicy": {"backend": "Native"}}
MINIMUM = {"gangPolicy": {"minRoleReplicas": {"serve": 1}}}
V1_5 = "registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0"


def plan(
    name: str = "qwen",
    *routers: dict[str, Any],
    nodes: int = 1,
    gpus: Any = 1,
    pod: Any = None,
    scheduling: Any = None,
    spec: Any = None,
    **role: Any,
) -> Any:
    template = samples.template(samples.container(gpus=gpus), **(pod or {}))
    multinode = {"multinode": {"nodeCount": nodes}} if nodes > 1 else {}
    serve = samples.role("serve", "worker", template=template, **multinode, **role)
    whole = {"roles": [serve, *routers], "schedulingStrategy": scheduling or {}, **(spec or {})}
    if "autoscaling" in role:
        whole["layout"] = "PerRole"
    return plan_service(InferenceServiceArgs.model_validate(whole), name)


def router(image: str | None = None, **more: Any) -> dict[str, Any]:
    picker = {"endpointPicker": {"image": image}} if image else {}
    return {"name": "router", "componentType": "router", **picker, **more}


GATEWAY = router(gateway={"gatewayClassName": "g"}, httproute={"hostnames": ["a.example.com"]})


def definition(api: str, kind: str, release: str = "") -> dict[str, Any]:
    """Return the definition of a kind, annotated with a release."""
    group, _, version = api.rpartition("/")
    key = f"{group.replace('.x-k8s.', '.k8s.')}/bundle-version"
    if "monitoring" in group:
        key = "operator.prometheus.io/version"
    served = {"name": version, "served": True}
    return stored(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        f"{plural(kind)}.{group}",
        metadata={"annotations": {key: release} if release else {}},
        spec={"group": group, "versions": [served]},
    )


def manager(namespace: str, image: str) -> dict[str, Any]:
    spec = {"template": {"spec": {"containers": [{"image": f"registry.example.com/{image}"}]}}}
    return stored("apps/v1", "Deployment", "manager", namespace, spec=spec)


def configuration(namespace: str, group: str, text: str = "") -> dict[str, Any]:
    data = {"config.yaml": f"apiVersion: config.{group}/v1\nkind: Configuration\n{text}"}
    return stored("v1", "ConfigMap", "manager-config", namespace, data=data)


def cluster(
    lws: str = "v0.9.0", volcano: str = "v1.14.1", provider: str = "", **more: Any
) -> FakeCluster:
    """Return a cluster with all prerequisites; releases are image tags."""
    gang = f"gangSchedulingManagement: {{schedulerProvider: {provider}}}" if provider else ""
    objects = [
        manager("lws-system", f"lws/lws:{lws}"),
        manager("volcano-system", f"volcanosh/vc-scheduler:{volcano}"),
        manager("kueue-system", "kueue/kueue:v0.15.2@sha256:0"),
        configuration("lws-system", "lws.x-k8s.io", gang),
        configuration(
            "kueue-system", "kueue.x-k8s.io", f"integrations: {{frameworks: [{KUEUE_FRAMEWORK}]}}"
        ),
        stored("v1", "Namespace", "default"),
        stored("kueue.x-k8s.io/v1beta2", "LocalQueue", "team", "default", spec={}),
        stored("resource.k8s.io/v1", "DeviceClass", "gpu.nvidia.com"),
        definition(f"{LWS}/v1", "LeaderWorkerSet"),
        *(
            definition(api, kind.rstrip("/"), "v1.4.1" if "gateway" in api else "v1.3.0")
            for api, kinds in KINDS.items()
            for kind in kinds.split()
            if "x-k8s" not in api or "inference" in api
        ),
    ]  # fmt: skip
    return FakeCluster(*objects, *more.pop("objects", ()), **more)


def findings(*plans: Any, at: FakeCluster | None = None, **namespaces: str) -> list[str]:
    live = LiveCluster(at or cluster(), plans, product_namespaces=namespaces)
    return [str(finding) for finding in list_prerequisites(live)]


EVERYTHING = plan("every", GATEWAY, nodes=2, scheduling=MINIMUM)


@pytest.mark.parametrize(
    ("service", "kinds"),
    [
        (plan(), ["LeaderWorkerSet"]),
        (plan(nodes=2), ["LeaderWorkerSet", "PodGroup"]),
        (plan("a", router()), ["InferenceObjective", "InferencePool", "LeaderWorkerSet"]),
        (plan("a", router(V1_5)), ["InferencePool", "LeaderWorkerSet"]),
        (
            plan("a", GATEWAY),
            ["Gateway", "HTTPRoute", "InferenceObjective", "InferencePool", "LeaderWorkerSet"],
        ),
        (plan(nodes=2, scheduling=QUEUED), ["", "LeaderWorkerSet"]),
        (plan(nodes=2, scheduling=NATIVE), ["LeaderWorkerSet", "PodGroup"]),
        (plan(podLabels={"external": "yes", "portNumber": "1"}), ["LeaderWorkerSet"]),
    ],
    ids=["pods", "gang", "router", "newer picker", "gateway", "kueue", "native", "labels"],
)
def test_needed_kinds_follow_from_rendered_objects(service: Any, kinds: list[str]) -> None:
    assert sorted(kind for _, kind in find_product_needs(service)) == kinds
    messages = findings(service, at=cluster(more=[("scheduling.k8s.io/v1beta1", "PodGroup")]))
    assert all("GenericWorkload" in text for text in messages)


def test_every_custom_kind_of_rendered_objects_has_a_product() -> None:
    for implementation in ("istio", "gke", "agentgateway"):
        service = plan("a", router(gateway={"implementation": implementation}))
        groups = {api.rpartition("/")[0] for api, _ in find_product_needs(service)}
        rendered = {item["apiVersion"].rpartition("/")[0] for item in render(service)}
        built_in = {"", "apps", "networking.k8s.io", "rbac.authorization.k8s.io"}
        assert rendered - built_in <= groups


def test_strictest_release_applies_to_a_kind() -> None:
    needs = find_product_needs(plan(nodes=2, scheduling=MINIMUM))
    assert needs[f"{VOLCANO}/v1beta1", "PodGroup"][0].min_release == (1, 14, 1)


def test_services_with_same_problem_share_a_finding() -> None:
    (finding,) = findings(plan("a"), plan("b"), at=cluster(lws="v0.8.0"))
    assert finding.startswith("a, b: LeaderWorkerSet: v0.8.0 is installed; install v0.9.0 or later")


APPLY = f"install v0.9.0 or later: kubectl apply --server-side -f {LEADER_WORKER_SET.install}"
NATIVE_TEXT = "scheduling.k8s.io/v1beta1) is not served (only v1); install it: Kubernetes v1.37"


ISTIO = plan("a", router(gateway={"implementation": "istio"}))
CLAIMING = plan(resourceClaims=[CLAIM], gpus=None)
NAMED_CLAIM = plan(gpus=None, resourceClaims=[{"name": "a", "claimName": "b"}])
OLD_CLAIMS = {
    "without": ["resource.k8s.io"],
    "more": [("resource.k8s.io/v1beta1", "ResourceClaim")],
    "objects": [stored("resource.k8s.io/v1beta1", "ResourceClaim", "b", "default")],
}
SCALED = plan(autoscaling={"maxReplicas": 3, "metrics": [METRIC]})
SCALED_EXTERNALLY = plan(
    autoscaling={"maxReplicas": 3, "metrics": [{**METRIC, "source": "External"}]}
)
NATIVE_SERVED = {"more": [("scheduling.k8s.io/v1beta1", "PodGroup")]}


@each_row(
    ("service", "changed", "expected"),
    [
        (plan(), {"without": [LWS]},
         [f"qwen: roles[0]: LeaderWorkerSet: LeaderWorkerSet ({LWS}/v1) is not served; {APPLY}"]),
        (plan(), {"without": [LWS], "more": [(f"{LWS}/v2", "LeaderWorkerSet")]},
         [f"LeaderWorkerSet: LeaderWorkerSet ({LWS}/v1) is not served (only v2); {APPLY}"]),
        (plan(), {"lws": "v0.8.0"}, [f"LeaderWorkerSet: v0.8.0 is installed; {APPLY}"]),
        (plan(), {"lws": "latest"},
         ["warning: qwen: LeaderWorkerSet: cannot determine the installed release"]),
        (plan(nodes=2), {"volcano": "v1.12.2"}, ["Volcano: v1.12.2 is installed; install v1.12.3"]),
        (plan(nodes=2), {"volcano": "v1.12.3"}, []),
        (plan(nodes=2), {"volcano": "v1.13.0"}, ["v1.12.3 or later (not v1.13.0): kubectl apply"]),
        (plan(nodes=2, scheduling=MINIMUM), {"volcano": "v1.14.0"}, ["v1.14.1 or later: kubectl"]),
        (plan(nodes=2), {"volcano": "latest"},
         ["warning: qwen: Volcano: cannot determine the installed release"]),
        (plan(nodes=2), {"without": [VOLCANO]},
         [f"Volcano: PodGroup ({VOLCANO}/v1beta1) is not served; install v1.12.3",
          "not have Volcano; install it, or use backend Kueue"]),
        (plan(nodes=2, scheduling=QUEUED), {"without": ["kueue.x-k8s.io"]},
         ["Kueue: kueue.x-k8s.io is not served; install v0.11.0",
          "does not have Kueue; install it, or use backend Volcano"]),
        (plan(nodes=2), {"provider": "volcano"}, ["qwen: LeaderWorkerSet: its own gang provider"]),
        (plan(), {"provider": "volcano"}, []),
        (plan("a", router()), {"without": ["InferenceObjective"]},
         ["is not served (only v1alpha2); install it: kubectl apply"]),
        (plan("a", router(V1_5)), {"without": ["InferenceObjective"]}, []),
        (ISTIO, {"without": ["networking.istio.io"]},
         ["Istio v1.22.0 or later: DestinationRule (networking.istio.io/v1) is not served"]),
        (CLAIMING, {}, []),
        (CLAIMING, {"without": ["resource.k8s.io"]},
         ["ResourceClaimTemplate (resource.k8s.io/v1) is not served; install it: Kub",
          "resource allocation: resource.k8s.io is not served; install it"]),
        (NAMED_CLAIM, OLD_CLAIMS, []),
        (SCALED, {"without": ["custom.metrics.k8s.io"]},
         ["Pod metrics: custom.metrics.k8s.io is not served; install it: an adapter"]),
        (SCALED_EXTERNALLY, {"without": ["external.metrics.k8s.io"]},
         ["External metrics: external.metrics.k8s.io is not served; install it"]),
        (plan(nodes=2, scheduling=NATIVE), {},
         [NATIVE_TEXT, "install it, or use backend Volcano or Kueue"]),
        (plan(nodes=2, scheduling=NATIVE), NATIVE_SERVED,
         ["warning: qwen: Kubernetes gangs also need the feature gate GenericWorkload"]),
    ],
)  # fmt: skip
def test_missing_product_names_its_installation(
    service: Any, changed: Any, expected: list[str]
) -> None:
    messages = findings(service, at=cluster(**changed))
    assert len(messages) == len(expected), messages
    assert all(part in text for part, text in zip(expected, messages, strict=True)), messages


@pytest.mark.parametrize(
    ("field", "words", "expected"),
    [
        ("PodGroup", ".spec.subGroupPolicy: field not declared in schema",
         "Volcano: PodGroup has no field spec.subGroupPolicy; install v1.14.1 or later: kub"),
        ("HTTPRoute", ".spec.rules[0].timeouts: field not declared in schema",
         "Gateway API: HTTPRoute has no field spec.rules[0].timeouts; install v1.0.0 or"),
    ],
)  # fmt: skip
def test_dry_run_finds_unknown_field(field: str, words: str, expected: str) -> None:
    message = f"failed to create typed patch object (default/x; y, Kind={field}): {words}"

    def reject(manifest: Any) -> Any:
        return (500, {"message": message}) if manifest["kind"] == field else None

    (finding,) = findings(EVERYTHING, at=cluster(reject=reject))
    assert expected in finding


@each_row(
    ("release", "expected"),
    [
        ("v1.34.9", None),
        ("v1.35.0", "warning: Kubernetes: v1.35.0 does not replace broken pods"),
        ("v1.35.3", "warning: Kubernetes: v1.35.3 does not replace broken pods"),
        ("v1.35.4", None),
    ],
)
def test_kubernetes_with_stalled_updates_is_reported(release: str, expected: str | None) -> None:
    messages = findings(plan(), at=cluster(version=release))
    assert len(messages) == (expected is not None), messages
    assert expected is None or messages[0].startswith(expected)


@each_row(
    ("texts", "expected"),
    [
        (["gangSchedulingManagement: {schedulerProvider: volcano}"], "provider is on"),
        (["gangSchedulingManagement: {}"], None),
        (["gangSchedulingManagement: volcano"], "its configuration was not found"),
        ([], "its configuration was not found"),
        # Invalid YAML does not hide the other documents.
        (["gangSchedulingManagement: {schedulerProvider: volcano}", "own: !Ref x"], "is on"),
    ],
)
def test_gang_provider_of_manager_is_reported(texts: list[str], expected: str | None) -> None:
    maps = [configuration("lws", "lws.x-k8s.io", text) for text in texts]
    at = cluster(objects=[manager("lws", "lws:v0.9.0"), *maps])
    messages = findings(plan(nodes=2), at=at, LeaderWorkerSet="lws")
    assert len(messages) == (expected is not None), messages
    assert expected is None or expected in messages[0]


def test_kueue_without_leader_worker_sets_is_reported() -> None:
    other = configuration("k", "kueue.x-k8s.io", "integrations: {frameworks: [batch/job]}")
    at = cluster(objects=[other, manager("k", "kueue:v0.15.2")])
    (finding,) = findings(plan(nodes=2, scheduling=QUEUED), at=at, Kueue="k")
    assert "Kueue does not manage LeaderWorkerSets here" in finding
    assert "backend: Kueue" not in str(
        findings(plan(nodes=2), at=cluster(objects=[other], without=[VOLCANO]), Kueue="k")
    )
    at = cluster(objects=[manager("none", "kueue:v0.15.2")])
    (finding,) = findings(plan(nodes=2, scheduling=QUEUED), at=at, Kueue="none")
    assert finding.startswith("warning: Kueue: its configuration was not found in namespace none")


def test_missing_object_and_quota_name_the_service() -> None:
    quota = stored("v1", "ResourceQuota", "gpus", "default",
                   spec={"hard": {"requests.nvidia.com/gpu": "0"}})  # fmt: skip
    service = plan(pod={"priorityClassName": "high"})
    over, missing = findings(service, at=cluster(objects=[quota]))
    assert over.startswith("warning: qwen: metadata.namespace: ResourceQuota gpus in default")
    assert missing.startswith(
        "warning: qwen: roles[0].template.spec.priorityClassName: the cluster has no PriorityClass"
    )


def test_all_problems_are_reported_together() -> None:
    messages = findings(EVERYTHING, at=FakeCluster(without={api for api in KINDS if "." in api}))
    errors = [text for text in messages if not text.startswith("warning")]
    assert len(errors) == 6
    assert all("every" in text for text in errors)


def test_denied_read_is_a_warning() -> None:
    at = cluster(denied=["customresourcedefinitions", "deployments", "configmaps"])
    messages = findings(plan(nodes=2), at=at)
    assert all(text.startswith("warning: ") for text in messages)
    assert any("deployments in lws-system: 403 Forbidden" in m for m in messages)


def test_findings_have_rules() -> None:
    at = cluster(without=[LWS], volcano="v1.13.0", provider="volcano", version="v1.35.1",
                 denied=["secrets"])  # fmt: skip
    pod = {"imagePullSecrets": [{"name": "s"}]}
    rules = {
        finding.rule for finding in list_prerequisites(LiveCluster(at, [plan(nodes=2, pod=pod)]))
    }
    assert rules == {
        "cluster-not-checked",
        "crd-not-installed",
        "release-not-supported",
        "lws-gang-provider-on",
        "statefulset-keeps-broken-pods",
    }


def test_installed_releases_are_read() -> None:
    checked = LiveCluster(cluster(), [EVERYTHING])
    assert list_prerequisites(checked) == []
    assert checked.releases == {
        "LeaderWorkerSet": (0, 9, 0),
        "Volcano": (1, 14, 1),
        "Gateway API": (1, 4, 1),
        "Gateway API Inference Extension": (1, 3, 0),
    }


@each_row(
    ("text", "release"),
    [("v1.2.3", (1, 2, 3)), ("0.9.0", (0, 9, 0)), ("v1.5.0-rc.1", (1, 5, 0)), ("latest", None),
     ("v1.2", None), ("", None)],
)  # fmt: skip
def test_product_release_is_parsed_from_tag(text: str, release: Any) -> None:
    assert parse_product_release(text) == release


def test_every_product_has_an_installation() -> None:
    for row in PRODUCTS:
        assert row.requirement.rpartition(": ")[2]
