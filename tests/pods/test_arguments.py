"""Arguments that `kvTransfer` and `kvEvents` generate; `findings/pods` has their errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pd import NIXL, NIXL_ARGS, engine, leader, pair, serving, words
from samples import problems, role, service, template, warnings

PLAIN = engine("--model=m")
FLAG = "--kv-transfer-config"


def test_joined_argument_is_split() -> None:
    joined = engine("--model=m", f"{FLAG} '{NIXL}'")
    manifest = pair(joined, joined)
    assert words(leader(manifest, "prefill")) == ["--model=m", *NIXL_ARGS]


def test_joined_argument_of_a_single_pod_worker_is_split() -> None:
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


def test_kv_events_topic_names_one_model() -> None:
    manifest = pair(
        decode=engine("--model=m", *NIXL_ARGS, "--served-model-name", "one", "two"),
        decode_role=events(),
    )
    line = words(leader(manifest))
    explicit = json.loads(line[line.index("--kv-events-config") + 1])
    assert explicit["topic"] == "kv@$(POD_IP):8000@one"
