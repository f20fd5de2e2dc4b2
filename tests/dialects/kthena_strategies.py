"""Hypothesis strategies for Kthena's documents."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Manifest = dict[str, Any]

#: What fields with a closed set of values may hold.
OTHERS = {
    "recoveryPolicy": ("RoleRecreate", "ServingGroupRecreate", "None"),
    "type": ("ServingGroupRollingUpdate", "RoleRollingUpdate"),
    "mode": ("hard", "soft"),
    "partition": (0, 1),
    "maxUnavailable": (1, 2),
}
_counts = st.integers(0, 3)
_words = st.from_regex(r"[a-z]{1,6}", fullmatch=True)


def _some(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Manifest]:
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def pod_templates(draw: st.DrawFn) -> Manifest:
    container = {"name": draw(st.sampled_from(("engine", "leader"))), "image": draw(_words)}
    more = draw(
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
    built: Manifest = {"spec": {"containers": [{**container, **more}], **spec}}
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
    """ModelServings that Kthena's CRD takes."""
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
                "recoveryPolicy": st.sampled_from(OTHERS["recoveryPolicy"]),
                "rolloutStrategy": st.fixed_dictionaries(
                    {"type": st.sampled_from(OTHERS["type"])},
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
