"""Incompatible prefill and decode roles."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pd import engine, leader, pair
from rows import each_row
from samples import plan_of, role, service, template

VLLM = "vllm/vllm-openai:v"
SGLANG = "lmsysorg/sglang:v"


def vllm(
    *args: str, release: str = "0.18.0", connector: str = "NixlConnector", **extra: Any
) -> Any:
    settings = {"kv_connector": connector, "kv_role": "kv_both", **extra}
    words = ["m", "--port=8000", "--kv-transfer-config", json.dumps(settings), *args]
    if args and not args[0].startswith("-"):
        words = [args[0], *words[1:4], *args[1:]]
    image = release if "/" in release else VLLM + release
    return engine(*words, image=image, command=["vllm", "serve"])


def sglang(*args: str, mode: str, release: str = "0.5.10") -> Any:
    words = ["--model-path=m", f"--disaggregation-mode={mode}", *args]
    command = ["python3", "-m", "sglang.launch_server"]
    return engine(*words, image=SGLANG + release, command=command)


def list_findings(prefill: Any, decode: Any, *, paired: bool = True) -> list[str]:
    findings = plan_of(pair(prefill, decode, paired=paired)).findings
    return [
        f"{finding.severity.value} {finding.rule} {finding.path}"
        for finding in findings
        if finding.rule.startswith(("paired-", "block-sizes"))
    ]


AT = "roles[2]"


@each_row(
    ("prefill", "decode", "expected"),
    [
        (vllm(), vllm(), []),
        (vllm("--dtype=half"), vllm("--dtype=float16"), []),
        (vllm("--kv-cache-dtype=fp8"), vllm("--kv-cache-dtype=fp8_e4m3"), []),
        (vllm("--dtype=$(DTYPE)"), vllm("--dtype=half"), []),
        (vllm("--config=/c.yaml"), vllm("--dtype=half"), []),
        # The model: in NIXL's hash from 0.13.0 on.
        (
            vllm("n", "--served-model-name=s"),
            vllm("--served-model-name=s"),
            ["error paired-settings-differ"],
        ),
        (
            vllm("n", "--served-model-name=s", release="0.12.0"),
            vllm("--served-model-name=s", release="0.12.0"),
            ["warning paired-settings-differ"],
        ),
        (
            vllm("n", "--served-model-name=s", connector="MooncakeConnector"),
            vllm("--served-model-name=s", connector="MooncakeConnector"),
            ["warning paired-settings-differ"],
        ),
        # Its names.
        (
            vllm("--served-model-name=a"),
            vllm("--served-model-name=b"),
            ["error paired-settings-differ"],
        ),
        (
            vllm("--served-model-name", "a"),
            vllm("--served-model-name", "a", "b"),
            ["warning paired-settings-differ"],
        ),
        (vllm("--served-model-name", "a", "b"), vllm("--served-model-name", "a"), []),
        # Releases.
        (vllm(release="0.18.0"), vllm(release="0.18.1"), ["error paired-settings-differ"]),
        (vllm(release="0.11.0"), vllm(release="0.12.0"), ["warning paired-settings-differ"]),
        (vllm(release="vllm/vllm-openai:latest"), vllm(), []),
        (
            vllm(release="0.18.0", kv_connector_extra_config={"enforce_handshake_compat": False}),
            vllm(release="0.18.1", kv_connector_extra_config={"enforce_handshake_compat": False}),
            ["warning paired-settings-differ"],
        ),
        # Types.
        (vllm("--dtype=half"), vllm("--dtype=bfloat16"), ["error paired-settings-differ"]),
        (vllm("--dtype=half"), vllm(), ["warning paired-settings-differ"]),
        (
            vllm("--kv-cache-dtype=fp8"),
            vllm("--kv-cache-dtype=bfloat16"),
            ["error paired-settings-differ"],
        ),
        (
            vllm("--kv-cache-dtype=fp8", release="0.11.0"),
            vllm("--kv-cache-dtype=fp8_e5m2", release="0.11.0"),
            ["error paired-settings-differ"],
        ),
        (vllm("--kv-cache-dtype=fp8"), vllm(), ["warning paired-settings-differ"]),
        (vllm("-q=fp8"), vllm("--quantization=awq"), ["warning paired-settings-differ"]),
        (vllm("-q=fp8"), vllm(), ["warning paired-settings-differ"]),
        # Block sizes: the decoder's may be a multiple of the prefiller's.
        (vllm("--block-size=16"), vllm(), []),
        (vllm("--block-size=16"), vllm("--block-size=64"), ["warning paired-settings-differ"]),
        (vllm("--block-size=64"), vllm("--block-size=16"), ["error paired-settings-differ"]),
        (
            vllm("--block-size=64", release="0.33.0"),
            vllm("--block-size=16", release="0.33.0"),
            ["warning paired-settings-differ"],
        ),
        # Tensor parallel sizes, which NIXL maps to each other.
        (vllm("-tp=2"), vllm("-tp=4"), []),
        (vllm("-tp=4"), vllm("-tp=2"), []),
        (vllm("-tp=2"), vllm("-tp=3"), ["error paired-sizes-unsupported"]),
        (
            vllm("-tp=2", connector="LMCacheConnectorV1"),
            vllm("-tp=3", connector="LMCacheConnectorV1"),
            [],
        ),
        # SGLang.
        (sglang(mode="prefill"), sglang(mode="decode"), []),
        (
            sglang("--served-model-name=a", mode="prefill"),
            sglang("--served-model-name=b", mode="decode"),
            [],
        ),
        (
            sglang("--page-size=16", mode="prefill"),
            sglang("--page-size=64", mode="decode"),
            ["error paired-settings-differ"],
        ),
        (
            sglang("--page-size=16", mode="prefill", release="0.5.7"),
            sglang("--page-size=64", mode="decode", release="0.5.7"),
            ["warning paired-settings-differ"],
        ),
        (
            sglang("--kv-cache-dtype=fp8_e5m2", mode="prefill"),
            sglang("--kv-cache-dtype=fp8_e4m3", mode="decode"),
            ["error paired-settings-differ"],
        ),
        (
            sglang("--kv-cache-dtype=fp8_e5m2", mode="prefill", release="0.5.9"),
            sglang("--kv-cache-dtype=fp8_e4m3", mode="decode", release="0.5.9"),
            ["warning paired-settings-differ"],
        ),
    ],
)
def test_differing_settings_are_reported(prefill: Any, decode: Any, expected: list[str]) -> None:
    assert list_findings(prefill, decode) == [f"{item} {AT}" for item in expected]


def test_unpaired_roles_are_not_rejected() -> None:
    findings = list_findings(vllm("--dtype=half"), vllm("--dtype=bfloat16"), paired=False)
    assert findings == ["warning paired-settings-differ roles[1]"]


def test_every_pair_is_compared() -> None:
    roles = [
        role("p", "prefiller", template=template(vllm("--dtype=half"))),
        role("d", "decoder", template=template(vllm("--dtype=half"))),
        role("e", "decoder", template=template(vllm("--dtype=float32"))),
    ]
    findings = plan_of(service(*roles)).findings
    result = [finding for finding in findings if finding.rule == "paired-settings-differ"]
    assert [item.path for item in result] == ["roles[2]"]
    assert 'role "p"' in result[0].message


@each_row(
    ("release", "connector", "expected"),
    [
        ("0.22.1", None, ["kv_both", "kv_both"]),
        # From this release on, the engine warns that `kv_both` is deprecated.
        ("0.23.0", None, ["kv_producer", "kv_consumer"]),
        ("0.32.0", None, ["kv_producer", "kv_consumer"]),
        ("0.32.0", "MooncakeConnector", ["kv_both", "kv_both"]),
        ("nightly", None, ["kv_both", "kv_both"]),
    ],
)
def test_nixl_gets_kv_role_in_supporting_releases(
    release: str, connector: str | None, expected: list[str]
) -> None:
    whole = engine("--model=m", image=VLLM.removesuffix("v") + release.replace("0.", "v0.", 1))
    transfer = {"kvTransfer": {"connector": connector} if connector else {}}
    manifest = pair(whole, whole, prefill_role=transfer, decode_role=transfer)
    assert [settings_of(manifest, name)["kv_role"] for name in ("prefill", "decode")] == expected


@pytest.mark.parametrize(
    ("release", "policy"), [("0.16.0", None), ("0.17.0", "recompute"), ("0.32.0", "recompute")]
)
def test_decode_engine_recomputes_prompts_whose_transfer_failed(
    release: str, policy: str | None
) -> None:
    whole = engine("--model=m", image=VLLM + release)
    offloading = {"kvTransfer": {}, "kvCacheOffloading": {"cpu": "8Gi"}}
    for field in ({"kvTransfer": {}}, offloading):
        manifest = pair(whole, whole, prefill_role={"kvTransfer": {}}, decode_role=field)
        assert settings_of(manifest, "decode").get("kv_load_failure_policy") == policy
        assert "kv_load_failure_policy" not in settings_of(manifest, "prefill")


def settings_of(manifest: Any, name: str) -> Any:
    (container,) = leader(manifest, name)["spec"]["containers"]
    words = container["args"]
    return json.loads(words[words.index("--kv-transfer-config") + 1])
