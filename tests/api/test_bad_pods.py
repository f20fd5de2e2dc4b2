"""Pod templates with values that are not JSON are rejected."""

from __future__ import annotations

from samples import pod, problems

POD = "roles[0].template.spec"


def test_passed_through_value_must_be_json() -> None:
    manifest = pod(
        volumes=[{"name": "v", 1: "a", "b": float("nan")}],
        affinity={"x": {1, 2}},
        hostname="\ud800",
        dnsConfig={"options": [{"value": float("inf")}]},
    )
    assert problems(manifest) == [
        f"{POD}.volumes[0].b: unknown key; Kubernetes has no such field",
        f"{POD}.affinity.x: unknown key; allowed: nodeAffinity, podAffinity, podAntiAffinity",
        f"{POD}.volumes[0]: keys must be strings, got 1; quote it in YAML",
        f"{POD}.volumes[0].b: must be a JSON value, got NaN",
        f"{POD}.affinity.x: must be a JSON value, got a set",
        f'{POD}.hostname: must be a JSON value, got "\\ud800"',
        f"{POD}.dnsConfig.options[0].value: must be a JSON value, got Infinity",
    ]
