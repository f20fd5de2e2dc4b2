"""Comparisons, and their notes about running pods."""

from __future__ import annotations

from typing import Any

import pytest
from cli.printed import to_text
from rows import each_row

from fusioninfer_pulumi.cli.diff import Difference, FieldChange, RoleEffect, compare
from fusioninfer_pulumi.cli.diff._records import BeforeAfter

Manifest = dict[str, Any]


def lws(name: str = "qwen-decode-0", *, role: str = "decode", **spec: Any) -> Manifest:
    """Return a replica; keywords go into the spec, `template` into its leaderWorkerTemplate."""
    template = {
        "size": 2,
        "workerTemplate": {
            "metadata": {"labels": {"fusioninfer.io/revision": "aaaa"}},
            "spec": {"containers": [{"name": "vllm", "image": "a"}]},
        },
        **spec.pop("template", {}),
    }
    labels = {"fusioninfer.io/service": "qwen", "fusioninfer.io/role-name": role}
    if spec.pop("indexed", True):
        labels["fusioninfer.io/replica-index"] = name.rpartition("-")[2]
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "labels": labels},
        "spec": {"replicas": 1, "leaderWorkerTemplate": template, **spec},
    }


def pods(revision: str = "bbbb", **spec: Any) -> Manifest:
    """Return a changed worker template."""
    return {
        "workerTemplate": {
            "metadata": {"labels": {"fusioninfer.io/revision": revision}},
            "spec": {
                "containers": [{"name": "vllm", "image": "a", **spec.pop("vllm", {})}],
                **spec,
            },
        }
    }


def pod_group(least: int, **spec: Any) -> Manifest:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "qwen", "labels": {"fusioninfer.io/service": "qwen"}},
        "spec": {"minMember": least, **spec},
    }


def deployment(name: str = "web", image: str = "a", **metadata: Any) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, **metadata},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {"spec": {"containers": [{"name": "c", "image": image}]}},
        },
    }


def effect(difference: Difference, role: str = "decode") -> RoleEffect:
    (actual,) = (entry for entry in difference.effects if entry.role == role)
    return actual


IMAGE = {"template": pods(vllm={"image": "b"})}
RESTARTS = [
    (IMAGE, "image changed"),
    ({"template": pods()}, "revision changed"),
    (
        {"template": pods(vllm={"args": ["x"], "env": [{"name": "A"}]}, volumes=[{"name": "v"}])},
        "arguments, environment, volumes changed",
    ),
    (
        {"template": pods(vllm={"image": "b", "args": [], "env": [], "ports": []})},
        "image, arguments, environment, ports changed",
    ),
    ({"template": pods(initContainers=[{"name": "i", "image": "b"}])}, "containers changed"),
    ({"template": {"size": 4}}, "nodes per replica 2 -> 4"),
    ({"template": pods(vllm={"readinessProbe": {}})}, "probes changed"),
    ({"template": pods(nodeSelector={"a": "b"})}, "scheduling changed"),
    ({"template": pods(hostNetwork=True)}, "pod template changed"),
    ({"template": {"restartPolicy": "None"}}, "restart policy changed"),
    ({"networkConfig": {"subdomainPolicy": "UniquePerReplica"}}, "network configuration changed"),
    ({"rolloutStrategy": {"type": "RollingUpdate"}}, ""),
    ({"startupPolicy": "LeaderReady"}, ""),
    # What LeaderWorkerSet's webhook fills in itself makes no new revision.
    ({"networkConfig": {"subdomainPolicy": "Shared"}}, ""),
    ({"template": {"restartPolicy": "RecreateGroupOnPodRestart"}}, ""),
]


@each_row(("spec", "reason"), RESTARTS)
def test_change_restarts_replicas(spec: Manifest, reason: str) -> None:
    difference = compare([lws()], [lws(**spec)])
    only = effect(difference)
    assert only.reason == reason
    assert (only.restarts if reason else only.kept) == ("decode-0",)
    note = f"{reason}: restarts decode-0" if reason else "nothing restarts"
    assert difference.notes == (note,)


def test_revision_is_hidden_if_another_field_changed() -> None:
    (change,) = compare([lws()], [lws(**IMAGE)]).objects
    path = "spec.leaderWorkerTemplate.workerTemplate.spec.containers[vllm].image"
    assert change.fields == (FieldChange(path, "changed", "a", "b"),)


CLAIM = {"metadata": {"name": "cache"}}
REJECTED: list[tuple[str, Manifest, Manifest]] = [
    ("subGroupPolicy", {}, {"template": {"subGroupPolicy": {"subGroupSize": 2}}}),
    (
        "subGroupPolicy",
        {"template": {"subGroupPolicy": {"subGroupSize": 1}}},
        {"template": {"subGroupPolicy": {"subGroupSize": 2}}},
    ),
    ("volumeClaimTemplates", {}, {"template": {"volumeClaimTemplates": [CLAIM]}}),
]


@each_row(("field", "before", "after"), REJECTED)
def test_change_of_an_immutable_field_is_a_replacement(
    field: str, before: Manifest, after: Manifest
) -> None:
    difference = compare([lws(**before)], [lws(**after)])
    assert [change.action for change in difference.objects] == ["replaced"]
    assert effect(difference).restarts == ("decode-0",)
    assert difference.notes[0] == (f"{field} is immutable: replaces LeaderWorkerSet qwen-decode-0")


def per_role_lws(replicas: int, **more: Any) -> Manifest:
    """Return a LeaderWorkerSet with all replicas of a role."""
    return lws("qwen-decode", indexed=False, replicas=replicas, **more)


def ganged() -> Manifest:
    result = lws(template=pods())
    template = result["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    template["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "qwen"}
    return result


def unlabeled(**spec: Any) -> Manifest:
    bare = lws("mine", **spec)
    return {**bare, "metadata": {"name": "mine"}}


def lws_in_models(**spec: Any) -> Manifest:
    result = lws(**spec)
    return {**result, "metadata": {**result["metadata"], "namespace": "models"}}


def gang(least: int, tasks: bool = True) -> Manifest:
    return pod_group(least, **({"minTaskMember": {"a": least}} if tasks else {}))


def ray(spec: int) -> Manifest:
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": spec}


OTHER_SELECTOR = {**deployment(), "spec": {**deployment()["spec"], "selector": {}}}
NOTES = [
    ([per_role_lws(2)], [per_role_lws(4)], ["role decode: replicas 2 -> 4, nothing restarts"]),
    (
        [per_role_lws(4)],
        [per_role_lws(3, **IMAGE)],
        [
            "image changed: restarts decode-0..decode-2",
            "role decode: replicas 4 -> 3, stops decode-3",
        ],
    ),
    # A replica under another number is another one.
    ([lws("qwen-decode-0")], [lws("qwen-decode-7")], ["nothing restarts"]),
    (
        [pod_group(2), ganged()],
        [lws(**IMAGE)],
        ["gang scheduling switched off, image changed: restarts decode-0"],
    ),
    ([unlabeled()], [unlabeled(**IMAGE)], ["image changed: restarts mine-0"]),
    (
        [gang(10)],
        [gang(14)],
        [
            (
                "PodGroup minMember 10 -> 14: the gang is all-or-nothing; unless all 14 "
                "pods fit, replacement pods of running replicas stay pending"
            )
        ],
    ),
    ([gang(14)], [gang(10)], ["nothing restarts"]),
    ([gang(10, False)], [gang(14, False)], ["nothing restarts"]),
    ([deployment()], [deployment(image="b")], ["image changed: restarts Deployment web"]),
    (
        [deployment("qwen-epp")],
        [deployment("qwen-epp", "b")],
        ["image changed: restarts Deployment qwen-epp"],
    ),
    (
        [deployment()],
        [OTHER_SELECTOR],
        [
            "selector is immutable: replaces Deployment web",
            "selector changed: restarts Deployment web",
        ],
    ),
    # Nothing is claimed of objects outside of services.
    ([ray(1)], [ray(2)], []),
    (
        [lws(), lws_in_models()],
        [lws(template={"size": 3}), lws_in_models(startupPolicy="LeaderReady")],
        [
            "qwen: nodes per replica 2 -> 3: restarts decode-0",
            "models/qwen: objects: 1 changed; nothing restarts",
        ],
    ),
]


def object_of(kind: str, api: str, **spec: Any) -> Manifest:
    metadata = {"name": "x", "labels": {"fusioninfer.io/service": "qwen"}}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}


def claim(size: str) -> Manifest:
    return object_of("PersistentVolumeClaim", "v1", resources={"requests": {"storage": size}})


def pool(port: int) -> Manifest:
    api = "inference.networking.k8s.io/v1"
    return object_of("InferencePool", api, targetPorts=[{"number": port}])


SCALER = object_of(
    "HorizontalPodAutoscaler", "autoscaling/v2", scaleTargetRef={"name": "qwen-decode-0"}
)


@each_row(
    ("old", "new", "note"),
    [
        ([claim("100Gi")], [claim("50Gi")],
         "error: a claim cannot shrink: the API server rejects x 100Gi -> 50Gi"),
        ([claim("50Gi")], [claim("100Gi")], None),
        ([pool(8000)], [pool(9000)], "InferencePool x: target port 8000 -> 9000 changes "),
        ([lws(), SCALER], [lws()], "HorizontalPodAutoscaler x removed: the role may"),
        ([lws(), SCALER], [], None),
    ],
)  # fmt: skip
def test_effect_on_live_objects_is_noted(
    old: list[Manifest], new: list[Manifest], note: str | None
) -> None:
    effects = ("cannot shrink", "target port", "may scale down")
    notes = [text for text in compare(old, new).notes if any(part in text for part in effects)]
    assert len(notes) == (note is not None), notes
    assert note is None or notes[0].startswith(note)


@each_row(("old", "new", "notes"), NOTES)
def test_diff_prints_notes(old: list[Manifest], new: list[Manifest], notes: list[str]) -> None:
    assert list(compare(old, new).notes) == notes


def test_replicas_of_absurd_counts_are_not_listed() -> None:
    difference = compare([per_role_lws(3)], [per_role_lws(10**12)])
    assert effect(difference).role_change == f"replicas 3 -> {10**12}"
    assert "decode-3..decode-9999" in to_text(difference)


def test_diff_prints_totals() -> None:
    gpus = {"resources": {"limits": {"nvidia.com/gpu": 4}}}
    (totals,) = compare([lws(**IMAGE)], [per_role_lws(4, template=pods(vllm=gpus))]).totals
    assert (totals.pods, totals.accelerators) == (BeforeAfter(2, 8), BeforeAfter(0, 32))
    ill = lws(template=pods(vllm={"resources": {"limits": {"nvidia.com/gpu": "<unknown>"}}}))
    assert compare([lws()], [ill]).totals[0].accelerators.after == 0


@pytest.mark.parametrize("where", ["spec", "template", "workerTemplate"])
def test_pod_template_that_is_secret_as_a_whole_may_restart(where: str) -> None:
    def hidden(text: str) -> Manifest:
        manifest = lws()
        template = {**manifest["spec"]["leaderWorkerTemplate"], "workerTemplate": text}
        changed = text if where == "template" else template
        spec = {**manifest["spec"], "leaderWorkerTemplate": changed}
        return {**manifest, "spec": text if where == "spec" else spec}

    difference = compare([hidden("<secret\0a>")], [hidden("<secret\0b>")])
    assert [effect.restarts for effect in difference.effects] == [("decode-0",)]
    assert "replicas: 1 of 1 restart" in to_text(difference)
    assert not compare([hidden("<secret\0a>")], [hidden("<secret\0a>")])


def test_secret_pod_template_of_a_deployment_restarts_it() -> None:
    old, new = ({**deployment(), "spec": {"template": f"<secret\0{n}>"}} for n in (1, 2))
    assert "restarts" in to_text(compare([old], [new]))
