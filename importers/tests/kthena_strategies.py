"""Hypothesis strategies for Kthena's documents."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Manifest = dict[str, Any]

#: Valid values of fields that do not accept every string or number.
VALID_VALUES: dict[str, tuple[Any, ...]] = {
    "recoveryPolicy": ("RoleRecreate", "ServingGroupRecreate", "None"),
    "type": ("ServingGroupRollingUpdate", "RoleRollingUpdate"),
    "mode": ("hard", "soft"),
    "partition": (0, 1),
    "inferenceEngine": ("vLLM", "SGLang"),
    "protocol": ("http", "https"),
    "modelServerName": ("srv", "other"),
    "maxUnavailable": (1, 2),
}
_counts = st.integers(0, 3)
_words = st.from_regex(r"[a-z]{1,6}", fullmatch=True)


def _some(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Manifest]:
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def pod_templates(draw: st.DrawFn) -> Manifest:
    container = {"name": draw(st.sampled_from(("engine", "leader"))), "image": draw(_words)}
    fields = draw(
        _some(
            {
                "args": st.lists(_words, max_size=2),
                "resources": st.just({"limits": {"nvidia.com/gpu": "1"}}),
                "env": st.just([{"name": "A", "value": "b"}]),
            }
        )
    )
    spec = draw(_some({"nodeSelector": st.just({"pool": "a"}), "hostNetwork": st.booleans()}))
    metadata = draw(st.none() | _some({"labels": st.just({"app": "x"})}))
    built: Manifest = {"spec": {"containers": [{**container, **fields}], **spec}}
    return built if metadata is None else {"metadata": metadata, **built}


@st.composite
def roles(draw: st.DrawFn) -> list[Manifest]:
    names = draw(
        st.lists(
            st.sampled_from(("prefill", "decode", "server", "r2")),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    return [
        {
            "name": name,
            "entryTemplate": draw(pod_templates()),
            **draw(
                _some(
                    {
                        "replicas": _counts,
                        "workerReplicas": _counts,
                        "workerTemplate": pod_templates(),
                        "maxUnavailable": st.sampled_from((1, 2, "10%")),
                        "partition": st.sampled_from((0, 1, "10%")),
                    }
                )
            ),
        }
        for name in names
    ]


@st.composite
def model_servings(draw: st.DrawFn, name: str = "ms") -> Manifest:
    """ModelServings that Kthena's CRD accepts."""
    its_roles = draw(roles())
    names = [role["name"] for role in its_roles]
    policy = _some({"mode": st.sampled_from(("hard", "soft")), "highestTierAllowed": _counts})
    group = draw(
        _some(
            {
                "restartGracePeriodSeconds": st.integers(0, 60),
                draw(st.sampled_from(("gangPolicy", "gangpolicy"))): _some(
                    {"minRoleReplicas": st.dictionaries(st.sampled_from(names), _counts)}
                ),
                "networkTopology": _some({"groupPolicy": policy, "rolePolicy": policy}),
            }
        )
    )
    spec = draw(
        _some(
            {
                "replicas": _counts,
                "schedulerName": st.sampled_from(("volcano", "default-scheduler")),
                "recoveryPolicy": st.sampled_from(VALID_VALUES["recoveryPolicy"]),
                "rolloutStrategy": st.fixed_dictionaries(
                    {"type": st.sampled_from(VALID_VALUES["type"])},
                    optional={
                        "rollingUpdateConfiguration": _some(
                            {
                                "maxUnavailable": st.sampled_from((1, 2)),
                                "partition": st.sampled_from((0, 1)),
                            }
                        )
                    },
                ),
                "plugins": st.just([{"name": "p", "type": "BuiltIn", "config": {"a": 1}}]),
            }
        )
    )
    metadata = draw(
        _some(
            {
                "namespace": _words,
                "labels": st.just({"team": "a"}),
                "annotations": st.sampled_from(
                    ({"scheduling.volcano.sh/queue-name": "q"}, {"note": "x"})
                ),
                "generateName": _words,
                "uid": _words,
            }
        )
    )
    return {
        "apiVersion": "workload.serving.volcano.sh/v1alpha1",
        "kind": "ModelServing",
        "metadata": {"name": name, **metadata},
        "spec": {**spec, "template": {**group, "roles": its_roles}},
    }


@st.composite
def model_servers(draw: st.DrawFn) -> Manifest:
    """ModelServers of the pods of `ms`."""
    group = {
        "groupKey": "modelserving.volcano.sh/group-name",
        "prefillLabels": {"modelserving.volcano.sh/role": "prefill"},
        "decodeLabels": {"modelserving.volcano.sh/role": "decode"},
    }
    selector = {"matchLabels": {"modelserving.volcano.sh/name": "ms"}}
    retry = st.fixed_dictionaries({"attempts": _counts}, optional={"retryInterval": st.just("1s")})
    fields = draw(
        _some(
            {
                "model": _words,
                "trafficPolicy": _some({"timeout": st.just("10s"), "retry": retry}),
                "kvConnector": _some({"type": st.sampled_from(("http", "nixl", "mooncake"))}),
            }
        )
    )
    port = draw(_some({"protocol": st.sampled_from(("http", "https"))}))
    return {
        "apiVersion": "networking.serving.volcano.sh/v1alpha1",
        "kind": "ModelServer",
        "metadata": {"name": "srv", **draw(_some({"labels": st.just({"a": "b"})}))},
        "spec": {
            "inferenceEngine": draw(st.sampled_from(("vLLM", "SGLang"))),
            "workloadSelector": {**selector, **draw(_some({"pdGroup": st.just(group)}))},
            "workloadPort": {"port": draw(st.integers(8000, 8002)), **port},
            **fields,
        },
    }


@st.composite
def model_routes(draw: st.DrawFn) -> Manifest:
    """ModelRoutes that lead to `srv`, and to unknown ModelServers."""
    text = st.sampled_from(("exact", "prefix", "regex")).flatmap(
        lambda kind: st.fixed_dictionaries({kind: st.sampled_from(("/v1", "/v1/", "a"))})
    )
    match = _some(
        {
            "headers": st.dictionaries(_words, text, max_size=2),
            "uri": text,
            "body": _some({"model": st.sampled_from(("m", "l"))}),
        }
    )
    target = st.fixed_dictionaries(
        {"modelServerName": st.sampled_from(("srv", "other"))},
        optional={"weight": st.integers(0, 99)},
    )
    external = st.just({"externalModelProviderName": "p"})
    targets = st.lists(target | external, min_size=1, max_size=2)
    rules = st.fixed_dictionaries(
        {"targetModels": targets}, optional={"name": _words, "modelMatch": match}
    )
    limit = _some({"inputTokensPerUnit": st.just(3), "unit": st.just("minute")})
    fields = draw(
        _some(
            {
                "loraAdapters": st.lists(_words, max_size=2, unique=True),
                "parentRefs": st.just([{"name": "gw"}]),
                "rateLimit": limit,
            }
        )
    )
    return {
        "apiVersion": "networking.serving.volcano.sh/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": "route"},
        "spec": {"modelName": "m", "rules": draw(st.lists(rules, max_size=2)), **fields},
    }


def _stable() -> st.SearchStrategy[Manifest]:
    return _some(
        {
            "instances": _counts,
            "percent": _counts,
            "period": st.sampled_from(("15s", "1m")),
            "selectPolicy": st.sampled_from(("Or", "And")),
            "stabilizationWindow": st.sampled_from(("0s", "5m", "2h")),
        }
    )


@st.composite
def policies(draw: st.DrawFn) -> list[Manifest]:
    """An AutoscalingPolicy of roles of `ms`, or one and a binding of it."""
    names = ("a", "b")
    metric = st.fixed_dictionaries(
        {draw(st.sampled_from(("name", "metricName"))): st.sampled_from(names),
         "targetValue": st.sampled_from((1, "500m"))}
    )  # fmt: skip
    metrics = st.lists(metric, min_size=1, max_size=2)
    labels = st.sampled_from(({"modelserving.volcano.sh/name": "ms"}, {"zone": "a"}))
    pod = _some(
        {
            "name": _words,
            "uri": st.just("/metrics"),
            "port": st.just(8000),
            "labelSelector": st.fixed_dictionaries({"matchLabels": labels}),
        }
    )
    prometheus = st.fixed_dictionaries(
        {"serverURL": st.just("http://p:9090"), "query": _words}, optional={"auth": st.just({})}
    )
    source = st.fixed_dictionaries({"pod": pod}) | st.fixed_dictionaries({"prometheus": prometheus})
    sources = st.dictionaries(st.sampled_from(names), source, max_size=2)
    bounds = {"minReplicas": st.integers(0, 2), "maxReplicas": st.integers(1, 3)}
    ref = st.fixed_dictionaries(
        {"name": st.sampled_from(("ms", "ms", "else"))}, optional={"kind": st.just("ModelServing")}
    )
    roles = st.dictionaries(
        st.sampled_from(("prefill", "decode", "server")),
        st.fixed_dictionaries(bounds, optional={"metrics": metrics, "metricSources": sources}),
        min_size=1,
        max_size=2,
    )
    part = st.fixed_dictionaries({"kind": st.just("Role"), "name": st.just("server")})
    target = st.fixed_dictionaries(
        {"targetRef": ref},
        optional={"subTargets": part, "metricSources": sources, "metricEndpoint": pod},
    )
    one = st.fixed_dictionaries({"target": target, **bounds})
    up = _some({"stablePolicy": _stable(), "panicPolicy": _some({"percent": _counts})})
    spec = draw(
        _some(
            {
                "tolerancePercent": st.integers(5, 15),
                "metrics": metrics,
                "behavior": _some({"scaleUp": up, "scaleDown": _stable()}),
            }
        )
    )
    head = {"apiVersion": "workload.serving.volcano.sh/v1alpha1"}
    kind = draw(st.sampled_from(("roles", "one", "binding", "several")))
    if kind == "roles":
        ratio = {"numeratorRole": "prefill", "denominatorRole": "decode", "minRatio": "500m",
                 "maxRatio": 2}  # fmt: skip
        fields = draw(_some({"ratioConstraint": st.just(ratio)}))
        spec["disaggregatedTarget"] = {"targetRef": draw(ref), "roles": draw(roles), **fields}
    elif kind == "one":
        spec["homogeneousTarget"] = draw(one)
    elif kind == "several":
        spec["heterogeneousTarget"] = {"params": [{"cost": 1}]}
    result = [{**head, "kind": "AutoscalingPolicy", "metadata": {"name": "p"}, "spec": spec}]
    if kind == "binding":
        bound = {"policyRef": {"name": "p"}, "homogeneousTarget": draw(one)}
        result.append(
            {**head, "kind": "AutoscalingPolicyBinding", "metadata": {"name": "b"}, "spec": bound}
        )
    return result
