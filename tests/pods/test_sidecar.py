"""The sidecar: its pods, release, arguments and conflicts."""

from __future__ import annotations

from typing import Any

import pytest
from pd import decode_sidecar, engine, leader, pair, serving, sidecar, transfer, worker
from rows import each_row
from samples import nodes, problems, rendered, warnings

from fusioninfer_pulumi.endpoint_pickers.picker_families import FAMILIES

NIXL = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
IMAGES = {
    "llm-d-0.9": "ghcr.io/llm-d/llm-d-router-disagg-sidecar:v0.9.0",
    "llm-d-0.10": "ghcr.io/llm-d/llm-d-router-disagg-sidecar:v0.10.0",
}


def test_only_decode_leaders_have_a_sidecar() -> None:
    manifest = pair(decode_role={"multinode": nodes(2)}, prefill_role={"multinode": nodes(2)})
    assert sidecar(leader(manifest)) is not None
    assert sidecar(worker(manifest)) is None
    assert sidecar(leader(manifest, "prefill")) is None
    assert sidecar(worker(manifest, "prefill")) is None


@pytest.mark.parametrize("family", IMAGES)
def test_sidecar_has_the_release_of_the_picker(family: str) -> None:
    newest = family == "llm-d-0.10"
    port = "model-server-port" if newest else "vllm-port"
    guarded = ["--enable-ssrf-protection=true", "--inference-pool=$(NAMESPACE)/svc-pool"]
    picker = {"endpointPicker": {"image": FAMILIES[family].image}}
    result = decode_sidecar(pair(router=picker))
    assert result["image"] == IMAGES[family]
    assert result["args"] == [
        "--port=8000",
        f"--{port}=8001",
        "--kv-connector=nixlv2",
        "--secure-proxy=false",
        *(guarded if newest else ()),
    ]


@pytest.mark.parametrize(
    "router",
    [
        {"strategy": "prefix-cache"},
        {"endpointPickerConfig": "plugins: []\nschedulingProfiles: [{name: default}]\n"},
    ],
)
def test_picker_without_pairing_does_not_change_pods(router: dict[str, Any]) -> None:
    with_router, without = pair(router=router), pair(paired=False)
    for name in ("prefill", "decode"):
        assert leader(with_router, name) == leader(without, name)


def test_sidecar_is_the_last_restartable_init_container() -> None:
    fields = {"name": "model", "image": "registry.example.com/loader:1"}
    spec = leader(pair(pod={"initContainers": [fields]}))["spec"]
    assert [container["name"] for container in spec["initContainers"]] == ["model", "pd-sidecar"]
    assert spec["initContainers"][1]["restartPolicy"] == "Always"


def test_sidecar_requests_count_for_the_gang() -> None:
    gang = {"gangPolicy": {"minResources": True}}
    manifest = pair()
    manifest["spec"]["schedulingStrategy"] = gang
    group = rendered(manifest)[0]
    assert group["spec"]["minResources"]["cpu"] == "100m"


@each_row(
    ("connector", "protocol"),
    [
        ("NixlConnector", "nixlv2"),
        ("SharedStorageConnector", "shared-storage"),
        ("MooncakeConnector", "mooncake"),
        ("OffloadingConnector", "offloading"),
    ],
)
def test_sidecar_protocol_fits_the_connector(connector: str, protocol: str) -> None:
    user_engine = engine("--model=m", "--kv-transfer-config", f'{{"kv_connector":"{connector}"}}')
    assert f"--kv-connector={protocol}" in decode_sidecar(pair(user_engine, user_engine))["args"]


def test_sidecar_protocol_fits_the_first_known_connector() -> None:
    text = (
        '{"kv_connector":"MultiConnector","kv_connector_extra_config":{"connectors":'
        '[{"kv_connector":"LMCacheConnectorV1"},{"kv_connector":"NixlConnector"}]}}'
    )
    user_engine = engine("--model=m", "--kv-transfer-config", text)
    manifest = pair(user_engine, user_engine)
    assert "--kv-connector=nixlv2" in decode_sidecar(manifest)["args"]
    env = {item["name"] for item in serving(leader(manifest))["env"]}
    assert "VLLM_NIXL_SIDE_CHANNEL_HOST" in env


def test_sglang_sidecar_uses_its_protocol() -> None:
    image = {"name": "sglang", "image": "lmsysorg/sglang:v0.5.3"}
    command = ["python3", "-m", "sglang.launch_server", "--model-path", "m"]
    more = {**image, "command": command}
    args = ["--disaggregation-mode", "prefill"], ["--disaggregation-mode", "decode"]
    manifest = pair({**more, "args": args[0]}, {**more, "args": args[1]})
    assert problems(manifest) == []
    assert "--kv-connector=sglang" in decode_sidecar(manifest)["args"]


def test_unknown_connector_is_a_warning() -> None:
    user_engine = engine("--model=m", "--kv-transfer-config", '{"kv_connector":"MyConnector"}')
    assert warnings(pair(user_engine, user_engine)) == [
        (
            "warning: roles[2].kvTransfer.sidecar.connector: the protocol of connector "
            '"MyConnector" is unknown, so nixlv2 is used; set it to one of nixlv2, shared-storage, '
            "sglang, mooncake, offloading"
        )
    ]
    chosen = pair(
        user_engine, user_engine, decode_role=transfer(sidecar={"connector": "shared-storage"})
    )
    assert warnings(chosen) == []
    assert "--kv-connector=shared-storage" in decode_sidecar(chosen)["args"]


REJECTED: list[tuple[dict[str, Any], str]] = [
    (
        {"sidecar": {"args": ["--vllm-port=1"]}},
        "sidecar.args[0]: --vllm-port is set by kvTransfer.enginePort; remove it here",
    ),
    (
        {"sidecar": {"args": ["--connector=nixlv2"]}},
        "sidecar.args[0]: --connector is set by kvTransfer.sidecar.connector; remove it here",
    ),
    (
        {"sidecar": {"family": "gaie-1.5"}},
        'sidecar.family: must be one of llm-d-0.9, llm-d-0.10, llm-d-1.0, got "gaie-1.5"',
    ),
    (
        {"sidecar": {"image": "mirror.example/llm-d-routing-sidecar:v0.8.0"}},
        ('sidecar.image: "mirror.example/llm-d-routing-sidecar:v0.8.0" is too old; the oldest '
        "supported release is v0.9.0"),
    ),
    (
        {"sidecar": {"enabled": False, "args": []}},
        "sidecar.args: has no effect because enabled is false; remove it",
    ),
    ({"enginePort": 8000}, ("enginePort: must differ from the pool's port 8000, on which the "
                           "sidecar listens")),
    ({"sharedMemory": "much"}, ("sharedMemory: must be a Kubernetes quantity such as 8, 500m or "
                               '16Gi, got "much"')),
]  # fmt: skip


@each_row(("fields", "message"), REJECTED)
def test_invalid_sidecar_is_rejected(fields: dict[str, Any], message: str) -> None:
    assert problems(pair(decode_role=transfer(**fields))) == [f"roles[2].kvTransfer.{message}"]


def test_custom_sidecar_image_may_have_other_flags() -> None:
    mirror = {"image": "registry.example.com/mirror/llm-d-router-disagg-sidecar:v0.9.0"}
    assert "--vllm-port=8001" in decode_sidecar(pair(decode_role=transfer(sidecar=mirror)))["args"]
    fields = {"image": "registry.example.com/my/sidecar:1", "args": ["--mine=1"]}
    manifest = pair(decode_role=transfer(sidecar=fields))
    assert problems(manifest) == []
    assert decode_sidecar(manifest)["args"][-1] == "--mine=1"


def test_user_may_enable_secure_proxy() -> None:
    manifest = pair(decode_role=transfer(sidecar={"args": ["--secure-proxy=true"]}))
    result = decode_sidecar(manifest)
    assert [item for item in result["args"] if "secure" in item] == ["--secure-proxy=true"]
    assert result["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"


OWN: list[dict[str, Any]] = [
    {"containers": [engine("--model=m", "--kv-transfer-config", NIXL, "--port=8200"),
                    {"name": "proxy", "image": "ghcr.io/llm-d/llm-d-routing-sidecar:v0.6.0"}]},
    {"containers": [engine("--model=m", "--kv-transfer-config", NIXL, "--port=8200")],
     "initContainers": [{"name": "routing-proxy", "image": "mine:1", "restartPolicy": "Always"}]},
    {"containers": [engine("--model=m", "--kv-transfer-config", NIXL, "--port=8200"),
                    {"name": "proxy", "image": "mine:1", "ports": [{"containerPort": 8000}]}]},
    {"containers": [engine("--model=m", "--kv-transfer-config", NIXL, "--port=8200"),
                    {"name": "proxy", "image": "mine:1", "args": ["--port", "8000"]}]},
]  # fmt: skip


@each_row("spec", OWN)
def test_user_sidecar_is_kept(spec: dict[str, Any]) -> None:
    manifest = pair(decode_role={"template": {"spec": spec}})
    made_spec = leader(manifest)["spec"]
    assert "pd-sidecar" not in str(made_spec)
    assert made_spec["containers"][0]["args"] == spec["containers"][0]["args"]
    assert made_spec["containers"][0]["readinessProbe"]["httpGet"]["port"] == 8200
    assert problems(manifest) == []


def test_user_sidecar_on_engine_port_is_a_warning() -> None:
    proxy = {"name": "proxy", "image": "ghcr.io/llm-d/llm-d-routing-sidecar:v0.6.0"}
    spec = {"containers": [engine("--model=m", "--kv-transfer-config", NIXL), proxy]}
    (text,) = warnings(pair(decode_role={"template": {"spec": spec}}))
    assert text.startswith("warning: roles[2]: container proxy listens on port 8000, which is also")


def test_every_family_with_a_sidecar_has_a_release() -> None:
    assert [name for name, row in FAMILIES.items() if row.sidecar_flags] == [
        name for name, row in FAMILIES.items() if row.sidecar_image is not None
    ]
