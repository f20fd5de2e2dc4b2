"""Sets that the stack's state holds form a chain; those that it does not hold form none."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from recorded import LWS, recorded, urn
from samples import nodes, role, service

from fusioninfer_pulumi import InferenceService

CHAIN = {2: [], 1: [2], 0: [1]}
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}


def held(
    *indices: int, logical: str = "svc", name: str = "svc", namespace: str = "default"
) -> dict[str, Any]:
    found = {}
    for index in indices:
        lws_name = f"{name}-inference-{index}"
        one = recorded(lws_name, index=str(index), owner=name, namespace=namespace)
        found[urn(f"{logical}-inference-{index}")] = one
    return found


def component(name: str) -> str:
    return f"urn:pulumi:dev::app::fusioninfer:index:InferenceService::{name}"


def deployed(engine: Any, *, preview: bool = False) -> Any:
    def program() -> None:
        InferenceService("svc", service(role(replicas=3)))

    return engine.run(program, preview=preview)


def after(deployment: Any, suffix: str = "") -> dict[int, list[int]]:
    """Replicas whose sets each one's set, or patch, depends on."""
    lws = {deployment[f"svc-inference-{index}"].urn: index for index in range(3)}
    found = {}
    for index in range(3):
        request = deployment[f"svc-inference-{index}{suffix}"].request
        found[index] = sorted(lws[each] for each in request.dependencies)
    return found


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (None, CHAIN),
        (held(0, 1, 2), CHAIN),
        ({}, {2: [], 1: [], 0: []}),
        (held(0, 1), {2: [], 1: [2], 0: [1]}),
        (held(0, 2), {1: [], 2: [1], 0: [2]}),
        # Another name in the program or in the cluster, and what moved into the component.
        (held(0, 1, 2, logical="old"), CHAIN),
        (held(0, 1, 2, name="old"), CHAIN),
        (
            {
                f"urn:pulumi:dev::app::{LWS}::any": recorded("svc-inference-2"),
                **held(0, 1),
            },
            CHAIN,
        ),
        # Of another namespace, another service, another component that is there beside this one:
        # nothing of ours.
        (held(0, 1, 2, logical="old", namespace="other"), {2: [], 1: [], 0: []}),
        (
            {urn("x"): recorded("svc-inference-0", owner="other"), **held(1, 2)},
            {0: [], 2: [0], 1: [2]},
        ),
        (
            {component("svc"): {}, component("west"): {}, **held(0, logical="west"), **held(1, 2)},
            {0: [], 2: [0], 1: [2]},
        ),
        # A rename that was interrupted after its component, and a set that had no label of ours.
        ({component("svc"): {}, **held(0, 1, 2, logical="old")}, CHAIN),
        ({urn("x"): recorded("svc-inference-0", owner=None), **held(1, 2)}, CHAIN),
        # What the engine does not know yet, and what it keeps secret.
        ({urn("svc-inference-2"): {"type": LWS, "outputs": {}}, **held(0, 1)}, CHAIN),
        ({**held(0, 1), urn("x"): recorded({**SECRET, "value": "svc-inference-2"})}, CHAIN),
        ({urn("x"): {"outputs": {"metadata": {**SECRET, "value": {"name": "svc-inference-0"}}}}},
         {2: [], 1: [], 0: [1, 2]}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("preview", [False, True])
def test_only_sets_that_there_are_take_turns(
    engine: Any, state: Any, expected: dict[int, list[int]], *, preview: bool
) -> None:
    engine.state = state
    deployment = deployed(engine, preview=preview)
    assert after(deployment) == expected
    # The last of every chain: what waits comes after all sets.
    followed = {each for others in expected.values() for each in others}
    ends = {0, 1, 2} - followed
    assert after(deployment, "-wait") == {each: sorted({each, *ends}) for each in range(3)}


def test_what_the_provider_may_take_over_keeps_its_turn(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.state = {}
    monkeypatch.setenv("PULUMI_K8S_UPSERT_EXISTING_OBJECTS", "true")
    assert after(deployed(engine)) == CHAIN
    monkeypatch.setenv("PULUMI_K8S_UPSERT_EXISTING_OBJECTS", "false")
    assert after(deployed(engine)) != CHAIN
    monkeypatch.setenv("PULUMI_CONFIG", '{"kubernetes:upsertExistingObjects": "true"}')
    assert after(deployed(engine)) == CHAIN


def test_the_state_is_read_once_in_a_program(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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

    assert len(engine.run(program).patches) == 2
    assert calls.count("pulumi:pulumi:readStackResourceOutputs") == 1


GROUPED: dict[str, Any] = {"multinode": nodes(4, launcher="none"), "replicas": 3}


@pytest.mark.parametrize(
    ("namespace", "order"),
    [
        ("team-a", ("east", "west")),
        ("team-a", ("west", "east")),
        # In the same namespace of two clusters: known when the other one has been made.
        ("team-b", ("east", "west")),
    ],
)
def test_two_components_of_one_service_name(
    engine: Any, namespace: str, order: tuple[str, ...]
) -> None:
    """In two namespaces, or in two clusters: what is new is not taken for the other's sets."""
    engine.state = held(0, 1, 2, logical="east", namespace=namespace)
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
    urns = {each.urn for each in lws}
    assert not any(urns & set(each.request.dependencies) for each in lws)
