"""`--kv-transfer-config`, `kvTransfer` and `kvEvents`: stated, generated, missing, in conflict."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pd import NIXL, NIXL_ARGS, engine, leader, pair, serving, words
from samples import problems, role, service, template, warnings

PLAIN = engine("--model=m")
FLAG = "--kv-transfer-config"


def config(**settings: Any) -> list[str]:
    return [FLAG, json.dumps({"kv_connector": "SharedStorageConnector", **settings})]


def test_joined_argument_is_split() -> None:
    joined = engine("--model=m", f"{FLAG} '{NIXL}'")
    manifest = pair(joined, joined)
    assert words(leader(manifest, "prefill")) == ["--model=m", *NIXL_ARGS]


def test_joined_argument_is_split_without_a_pair() -> None:
    joined = [f"{FLAG} '{NIXL}'", "--max-model-len 4096"]
    alone = service(role("a", template=template(engine("--model=m", *joined))))
    assert words(leader(alone, "a")) == ["--model=m", *NIXL_ARGS, "--max-model-len", "4096"]
    by_hand = {"nodeCount": 2, "launcher": "none"}
    several = service(role("a", template=template(engine("--model=m", *joined)), multinode=by_hand))
    assert words(leader(several, "a")) == ["--model=m", *joined]


@pytest.mark.parametrize("name", ["prefill", "decode"])
def test_empty_block_generates_what_nixl_needs(name: str) -> None:
    block = {"kvTransfer": {}}
    manifest = pair(PLAIN, PLAIN, prefill_role=block, decode_role=block)
    assert problems(manifest) == []
    assert words(leader(manifest, name))[:3] == ["--model=m", *NIXL_ARGS]
    assert len(serving(leader(manifest, name))["env"]) == 2


def test_kv_transfer_fields_become_arguments() -> None:
    block = {
        "kvTransfer": {
            "connector": "MultiConnector",
            "role": "kv_producer",
            "extraConfig": {"connectors": [{"kv_connector": "NixlConnector"}]},
            "sideChannelPort": 5700,
            "sharedMemory": "8Gi",
        }
    }
    manifest = pair(PLAIN, PLAIN, prefill_role=block, decode_role={"kvTransfer": {
        **block["kvTransfer"], "role": "kv_consumer"}})  # fmt: skip
    result = leader(manifest, "prefill")
    assert json.loads(words(result)[2]) == {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_producer",
        "kv_connector_extra_config": {"connectors": [{"kv_connector": "NixlConnector"}]},
    }
    assert serving(result)["env"][1]["value"] == "5700"
    assert result["spec"]["volumes"][0]["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Gi"}
    assert warnings(manifest) == []


def test_sglang_gets_its_own_flags() -> None:
    fields = {"name": "sglang", "image": "lmsysorg/sglang:v0.5.3", "args": ["--model-path", "m"]}
    fields["command"] = ["python3", "-m", "sglang.launch_server"]
    block = {"kvTransfer": {}}
    manifest = pair(fields, fields, prefill_role=block, decode_role=block)
    assert problems(manifest) == []
    tail = ["--disaggregation-mode", "prefill", "--disaggregation-transfer-backend", "nixl"]
    assert words(leader(manifest, "prefill"))[-4:] == tail
    assert words(leader(manifest))[-6:-4] == ["--disaggregation-mode", "decode"]


AT = "template.spec.containers[0].args"
MISSING = (
    f"{FLAG} is missing, so no KV cache is transferred from prefill to decode; add it, or let "
    "kvTransfer: {} generate it for NixlConnector"
)
STATED = "conflicts with the engine's arguments, which set it; remove one of them"
# Decode engine, decode role, what is said against it.
REFUSED: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    (PLAIN, {}, [f"roles[2].{AT}: {MISSING}"]),
    (
        engine("--model=m", FLAG, "no json"),
        {},
        [f"roles[2].{AT}: {FLAG} is not a JSON object"],
    ),
    (engine("--model=m", FLAG, "{}"), {}, [f"roles[2].{AT}: {FLAG} names no kv_connector"]),
    (engine("--model=m", FLAG), {}, [f"roles[2].{AT}: {FLAG} has no value"]),
    (
        engine("--model=m", *NIXL_ARGS),
        {"kvTransfer": {"connector": "NixlConnector", "role": "kv_both"}},
        [f"roles[2].kvTransfer.connector: {STATED}", f"roles[2].kvTransfer.role: {STATED}"],
    ),
    (
        engine("--model=m", *NIXL_ARGS),
        {"kvTransfer": {"extraConfig": {}}},
        [f"roles[2].kvTransfer.extraConfig: {STATED}"],
    ),
    (
        engine("--model=m", *config(kv_role="kv_both")),
        {},
        [
            (
                "roles[2]: transfers its KV cache with SharedStorageConnector (vllm), role prefill "
                "with NixlConnector (vllm); use the same in all prefillers and decoders"
            )
        ],
    ),
]


@pytest.mark.parametrize(("decode", "more", "wanted"), REFUSED)
def test_invalid_kv_transfer_is_rejected(
    decode: dict[str, Any], more: dict[str, Any], wanted: list[str]
) -> None:
    assert problems(pair(decode=decode, decode_role=more)) == wanted


def test_reversed_kv_roles_are_rejected() -> None:
    prefill, decode = config(kv_role="kv_consumer"), config(kv_role="kv_producer")
    assert problems(pair(engine("m", *prefill), engine("m", *decode))) == [
        (
            "roles[1]: kv_role kv_consumer conflicts with componentType prefiller: the KV cache is "
            "transferred from prefillers to decoders"
        ),
        (
            "roles[2]: kv_role kv_producer conflicts with componentType decoder: the KV cache is "
            "transferred from prefillers to decoders"
        ),
    ]


def test_nixl_accepts_any_role() -> None:
    text = '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}'
    assert problems(pair(decode=engine("m", FLAG, text))) == []


def test_arguments_that_cannot_be_read_are_a_warning() -> None:
    decode = engine(command=["sh", "-c", "vllm serve m $ARGS"])
    del decode["args"]
    (text,) = warnings(pair(decode=decode))
    assert "cannot tell whether the engine transfers its KV cache" in text


def test_difference_without_router_is_a_warning() -> None:
    manifest = pair(decode=engine("m", *config(kv_role="kv_both")), paired=False)
    assert problems(manifest) == []
    assert len([text for text in warnings(manifest) if "transfers its KV cache" in text]) == 1


def test_removed_connector_is_a_warning() -> None:
    user_engine = engine("m", FLAG, '{"kv_connector":"PyNcclConnector"}')
    result = [
        text
        for text in warnings(pair(user_engine, user_engine))
        if "has no PyNcclConnector" in text
    ]
    assert len(result) == 2


def test_kv_transfer_outside_prefill_decode_is_rejected() -> None:
    manifest = service(role("inference", kvTransfer={}))
    assert problems(manifest) == [
        "roles[0].kvTransfer: belongs to a prefiller or a decoder (this role is a worker)"
    ]
    only_decode = {"kvTransfer": {"enginePort": 9000, "sidecar": {}}}
    wrong = "belongs to a decoder: only decode pods have a sidecar"
    assert problems(pair(prefill_role=only_decode)) == [
        f"roles[1].kvTransfer.enginePort: {wrong}",
        f"roles[1].kvTransfer.sidecar: {wrong}",
    ]


def events(**more: Any) -> dict[str, Any]:
    return {"kvEvents": more}


TOPIC = "kv@$(POD_IP):8000@m"
SETTINGS = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": "tcp://*:5557"}


def test_events_are_published_on_the_pods_own_address() -> None:
    container = serving(leader(pair(decode_role=events())))
    at = container["args"].index("--kv-events-config")
    assert json.loads(container["args"][at + 1]) == {**SETTINGS, "topic": TOPIC}
    assert container["env"][-1] == {
        "name": "POD_IP",
        "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
    }
    assert {"name": "kv-events", "containerPort": 5557} in container["ports"]


def test_events_go_to_one_address_as_in_kserves_document() -> None:
    more = events(endpoint="tcp://scheduler:5557", topic="kv@$(POD_IP)@model")
    container = serving(leader(pair(decode_role=more)))
    at = container["args"].index("--kv-events-config")
    assert json.loads(container["args"][at + 1]) == {
        **SETTINGS,
        "endpoint": "tcp://scheduler:5557",
        "topic": "kv@$(POD_IP)@model",
    }
    assert all(port.get("name") != "kv-events" for port in container["ports"])


def test_events_need_no_pair() -> None:
    manifest = service(role("inference", template=template(PLAIN), **events()))
    container = serving(leader(manifest, "inference"))
    assert container["args"][:2] == ["--model=m", "--kv-events-config"]
    assert "volumeMounts" not in container


@pytest.mark.parametrize(
    ("decode", "more", "wanted"),
    [
        (
            engine("m", *NIXL_ARGS, "--kv-events-config={}"),
            {},
            ".kvEvents: conflicts with --kv-events-config in the arguments; remove one of them",
        ),
        (
            engine("--model=$MODEL", *NIXL_ARGS),
            {},
            ".kvEvents.topic: is required: the arguments do not name the model",
        ),
        (
            engine("--model=m", *NIXL_ARGS, "--config=/etc/vllm.yaml"),
            {},
            ".kvEvents.topic: is required: the arguments do not name the model",
        ),
    ],
)
def test_events_that_cannot_work_are_rejected(
    decode: dict[str, Any], more: dict[str, Any], wanted: str
) -> None:
    assert problems(pair(decode=decode, decode_role=events(**more))) == [f"roles[2]{wanted}"]


def test_kv_events_topic_names_one_model() -> None:
    manifest = pair(
        decode=engine("--model=m", *NIXL_ARGS, "--served-model-name", "one", "two"),
        decode_role=events(),
    )
    line = words(leader(manifest))
    explicit = json.loads(line[line.index("--kv-events-config") + 1])
    assert explicit["topic"] == "kv@$(POD_IP):8000@one"
