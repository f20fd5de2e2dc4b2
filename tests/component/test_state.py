"""LeaderWorkerSets and outputs of a service in the stack's state."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from samples import nodes, plan_of, role, service
from state_entries import LWS, lws_entry, urn

from fusioninfer_pulumi import InferenceService
from fusioninfer_pulumi.component.stack_state import find_stack_lws, read_observed

SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}


def entries(
    *indices: int, logical: str = "svc", name: str = "svc", namespace: str = "default"
) -> dict[str, Any]:
    result = {}
    for index in indices:
        lws_name = f"{name}-inference-{index}"
        one = lws_entry(lws_name, index=str(index), owner=name, namespace=namespace)
        result[urn(f"{logical}-inference-{index}")] = one
    return result


def component(name: str) -> str:
    return f"urn:pulumi:dev::app::fusioninfer:index:InferenceService::{name}"


def find_replicas(engine: Any, state: Any, *, preview: bool = False) -> Any:
    """Return the indices of a service's three replicas that are in the state."""
    engine.state = state
    seen: list[Any] = []

    def program() -> None:
        plan = plan_of(service(role(replicas=3)))
        seen.append(find_stack_lws("svc", plan))

    engine.run(program, preview=preview)
    return seen[0] if seen[0] is None else {int(name[-1]) for name in seen[0]}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (None, None),
        (entries(0, 1, 2), {0, 1, 2}),
        ({}, set()),
        (entries(0, 2), {0, 2}),
        # A different logical or Kubernetes name, and resources moved into the component.
        (entries(0, 1, 2, logical="old"), {0, 1, 2}),
        (entries(0, 1, 2, name="old"), {0, 1, 2}),
        (
            {f"urn:pulumi:dev::app::{LWS}::any": lws_entry("svc-inference-2"), **entries(0, 1)},
            {0, 1, 2},
        ),
        # Another namespace, another service, or another component that still exists.
        (entries(0, 1, 2, logical="old", namespace="other"), set()),
        ({urn("x"): lws_entry("svc-inference-0", owner="other"), **entries(1, 2)}, {1, 2}),
        (
            {
                component("svc"): {},
                component("west"): {},
                **entries(0, logical="west"),
                **entries(1, 2),
            },
            {1, 2},
        ),
        # A rename interrupted after the component, and a LeaderWorkerSet without our labels.
        ({component("svc"): {}, **entries(0, 1, 2, logical="old")}, {0, 1, 2}),
        ({urn("x"): lws_entry("svc-inference-0", owner=None), **entries(1, 2)}, {0, 1, 2}),
        # Unknown and secret outputs.
        ({urn("svc-inference-2"): {"type": LWS, "outputs": {}}, **entries(0, 1)}, {0, 1, 2}),
        ({**entries(0, 1), urn("x"): lws_entry({**SECRET, "value": "svc-inference-2"})}, {0, 1, 2}),
        (
            {urn("x"): {"outputs": {"metadata": {**SECRET, "value": {"name": "svc-inference-0"}}}}},
            {0},
        ),
    ],
)
@pytest.mark.parametrize("preview", [False, True])
def test_stack_state_finds_lws_of_service(
    engine: Any, state: Any, expected: Any, *, preview: bool
) -> None:
    assert find_replicas(engine, state, preview=preview) == expected


OBSERVED = {"objects": {"svc-inference-0": {"status": {}}}, "served": {"svc-inference-0": "r"}}


@pytest.mark.parametrize(
    ("outputs", "objects", "served"),
    [
        ({"name": "svc", "observed": OBSERVED}, OBSERVED["objects"], OBSERVED["served"]),
        # A different version of this library, and an update that did not finish.
        ({"name": "svc"}, {}, None),
        ({}, {}, {}),
        (None, {}, None),
    ],
)
def test_observed_output_of_last_update_is_read(
    engine: Any, outputs: Any, objects: Any, served: Any
) -> None:
    engine.state = {} if outputs is None else {component("svc"): {"outputs": outputs}}
    seen: list[Any] = []
    engine.run(lambda: seen.append(read_observed("svc")))
    assert (seen[0].objects, seen[0].last_available) == (objects, served)


def test_stack_state_is_read_once_per_program(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.state = {}
    calls = []
    answered = engine.call

    def call(args: Any) -> Any:
        calls.append(args.token)
        return answered(args)

    monkeypatch.setattr(engine, "call", call)

    def program() -> None:
        for name in ("svc", "other"):
            InferenceService(name, {"roles": [role()]})

    engine.run(program)
    assert calls.count("pulumi:pulumi:readStackResourceOutputs") == 1


GROUPED: dict[str, Any] = {"multinode": nodes(4, launcher="none"), "replicas": 3}


@pytest.mark.parametrize(
    ("namespace", "order"),
    [
        ("team-a", ("east", "west")),
        ("team-a", ("west", "east")),
        # The same namespace in two clusters: known once the other component is registered.
        ("team-b", ("east", "west")),
    ],
)
def test_components_with_same_service_name_keep_their_own_lws(
    engine: Any, namespace: str, order: tuple[str, ...]
) -> None:
    """A new component ignores LeaderWorkerSets in another namespace or cluster."""
    engine.state = entries(0, 1, 2, logical="east", namespace=namespace)
    for one in engine.state.values():
        template = {"size": 4, "workerTemplate": {"spec": {}}}
        one["outputs"]["spec"] = {"leaderWorkerTemplate": template}
    off = {"schedulingStrategy": {"gangPolicy": {"mode": "Off"}}}
    policies = {"east": {}, "west": {"subGroupPolicy": {"subGroupSize": 2}}}
    where = {"east": namespace, "west": "team-b"}

    def program() -> None:
        for name in order:
            wide = role(**GROUPED, **policies[name])
            cluster = pulumi.ProviderResource("kubernetes", name, {})
            options = pulumi.ResourceOptions(provider=cluster)
            spec = service(wide, metadata={"namespace": where[name]}, **off)
            InferenceService(name, spec, options)

    deployment = engine.run(program)
    lws = [deployment[f"west-inference-{index}"] for index in range(3)]
    urns = {item.urn for item in lws}
    assert not any(urns & set(item.request.dependencies) for item in lws)
