"""Handshake of prefill and decode engines: compared settings, and effects of differences."""

from __future__ import annotations

from typing import Any

import pytest
from rows import each_row

from fusioninfer_pulumi.engines.engine import Compatibility
from fusioninfer_pulumi.engines.engine_commands import parse_command
from fusioninfer_pulumi.engines.pair_compatibility import compare_pair, compute_pair_revision

MODEL = "Qwen/Qwen3-32B"
NIXL = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
RECOMPUTE = NIXL[:-1] + ',"kv_load_failure_policy":"recompute"}'
FAIL = NIXL[:-1] + ',"kv_load_failure_policy":"fail"}'
UNENFORCED = NIXL[:-1] + ',"kv_connector_extra_config":{"enforce_handshake_compat":false}}'


def vllm(release: str, *arguments: str, config: str = NIXL) -> Any:
    return parse_command({
        "image": f"vllm/vllm-openai:v{release}",
        "command": ["vllm", "serve", MODEL],
        "args": ["--kv-transfer-config", config, *arguments],
    })  # fmt: skip


def sglang(release: str, mode: str, *arguments: str) -> Any:
    return parse_command({
        "image": f"lmsysorg/sglang:v{release}",
        "command": ["python3", "-m", "sglang.launch_server", "--model-path", MODEL],
        "args": ["--disaggregation-mode", mode, *arguments],
    })  # fmt: skip


@each_row(
    ("prefill", "decode", "state", "difference"),
    [
        (vllm("0.32.0"), vllm("0.32.0"), "compatible", ""),
        (vllm("0.12.0"), vllm("0.12.0"), "compatible", ""),
        # Measured: all 4 requests fail without the policy, and succeed with it.
        (vllm("0.31.0"), vllm("0.32.0"), "broken", "release 0.31.0 -> 0.32.0"),
        (vllm("0.31.0"), vllm("0.32.0", config=RECOMPUTE), "degraded", "release 0.31.0 -> 0.32.0"),
        # Up to 0.21 the decode engine exits, even with the policy.
        (vllm("0.13.0"), vllm("0.17.0", config=RECOMPUTE), "broken", "release 0.13.0 -> 0.17.0"),
        (vllm("0.17.0"), vllm("0.16.0"), "broken", "release 0.17.0 -> 0.16.0"),
        (vllm("0.22.0"), vllm("0.21.0", config=RECOMPUTE), "broken", "release 0.22.0 -> 0.21.0"),
        (vllm("0.21.0"), vllm("0.22.0", config=RECOMPUTE), "degraded", "release 0.21.0 -> 0.22.0"),
        (vllm("0.21.0"), vllm("0.22.0", config=FAIL), "broken", "release 0.21.0 -> 0.22.0"),
        # The message with the hash is new in 0.13.
        (vllm("0.12.0"), vllm("0.13.0"), "broken", "release 0.12.0 -> 0.13.0"),
        (vllm("0.13.0"), vllm("0.12.0"), "broken", "release 0.13.0 -> 0.12.0"),
        (vllm("0.13.0"), vllm("0.11.0"), "unknown", "release 0.13.0 -> 0.11.0"),
        (vllm("0.11.2"), vllm("0.12.0"), "unknown", ""),
        (vllm("0.31.0"), vllm("0.32.0", config=UNENFORCED), "unknown", ""),
        (vllm("0.32.0"), vllm("0.32.0", "--dtype", "half"), "unknown", "dtype auto -> float16"),
        (vllm("0.32.0", "--dtype", "bf16"), vllm("0.32.0", "--dtype", "half"), "broken",
         "dtype bfloat16 -> float16"),
        (vllm("0.32.0", "--attention-backend", "FLASHINFER"),
         vllm("0.32.0", "--attention-backend", "FLASH_ATTN"), "broken",
         "attention backend FLASHINFER -> FLASH_ATTN"),
        (vllm("0.32.0"), vllm("0.32.0", "--disable-hybrid-kv-cache-manager"), "unknown",
         "hybrid cache auto -> set"),
        (vllm("0.17.0"), vllm("0.17.0", "--disable-hybrid-kv-cache-manager"), "compatible", ""),
        (vllm("0.32.0", "-tp", "3"), vllm("0.32.0", "-tp", "2"), "broken",
         "--tensor-parallel-size: 3 is not a multiple of 2"),
        (vllm("0.32.0"), sglang("0.5.23", "decode"), "unknown", ""),
        (sglang("0.5.23", "prefill"), sglang("0.5.23", "decode"), "compatible", ""),
        (sglang("0.5.22", "prefill"), sglang("0.5.23", "decode"), "unknown", ""),
    ],
)  # fmt: skip
def test_handshake_state_of_pairs(prefill: Any, decode: Any, state: str, difference: str) -> None:
    pair = compare_pair(prefill, decode)
    assert (pair.state.value, ", ".join(pair.differences)) == (state, difference)
    assert bool(pair.client_effect) is (state in ("degraded", "broken"))
    assert bool(pair.source) is (pair.state is not Compatibility.UNKNOWN)


@pytest.mark.parametrize("decode", ["0.13.0", "0.32.0"])
def test_prefill_without_request_ids_gets_no_answer_from_decode(decode: str) -> None:
    pair = compare_pair(vllm("0.12.0"), vllm(decode, config=RECOMPUTE))
    assert pair.state is Compatibility.BROKEN
    assert "no answer" in pair.client_effect
    other = NIXL.replace("Nixl", "Mooncake")
    assert compare_pair(vllm("0.12.0", config=other), vllm(decode, config=other)).state is (
        Compatibility.UNKNOWN
    )


@pytest.mark.parametrize(
    ("prefill", "decode", "state", "ends"),
    [
        ("0.25.0", "0.26.0", Compatibility.BROKEN, True),
        ("0.26.0", "0.25.0", Compatibility.DEGRADED, True),
        ("0.26.0", "0.17.0", Compatibility.BROKEN, True),
        ("0.24.0", "0.25.0", Compatibility.DEGRADED, False),
        ("0.26.0", "0.27.0", Compatibility.DEGRADED, False),
    ],
)
def test_handshake_with_other_message_ends_listener(
    prefill: str, decode: str, state: Compatibility, *, ends: bool
) -> None:
    pair = compare_pair(vllm(prefill), vllm(decode, config=RECOMPUTE))
    assert pair.state is state
    assert ("no decode engine until it restarts" in pair.client_effect) is ends


def test_pair_revision_is_stable() -> None:
    # The value is a pod label, so a new value restarts pods.
    assert compute_pair_revision([vllm("0.32.0"), vllm("0.32.0")]) == "217ae809a0"


@each_row(
    ("other", "is_same"),
    [
        (vllm("0.32.0", config=RECOMPUTE), True),
        (vllm("0.32.0", "--max-num-seqs", "8", "--served-model-name", "x"), True),
        (vllm("0.32.0", "--dtype", "auto"), True),
        (vllm("0.31.0"), False),
        (vllm("0.32.0", "--dtype", "half"), False),
        (vllm("0.32.0", "--kv-cache-dtype", "fp8"), False),
        (vllm("0.32.0", "--block-size", "32"), False),
        (vllm("0.32.0", "--attention-backend", "FLASHINFER"), False),
        (vllm("0.32.0", config=NIXL.replace("Nixl", "Mooncake")), False),
    ],
)
def test_pair_revision_changes_with_compared_settings(other: Any, *, is_same: bool) -> None:
    first = vllm("0.32.0")
    assert (
        compute_pair_revision([first, first]) == compute_pair_revision([first, other])
    ) is is_same
    assert compute_pair_revision([first, other]) == compute_pair_revision([other, first])


def test_pair_revision_is_the_same_for_mirrors() -> None:
    mirrored = parse_command({
        "image": "registry.example/m/vllm/vllm-openai:v0.32.0",
        "command": ["vllm", "serve", MODEL],
        "args": ["--kv-transfer-config", NIXL],
    })  # fmt: skip
    assert compute_pair_revision([mirrored]) == compute_pair_revision([vllm("0.32.0")])


@each_row(
    "command",
    [
        parse_command({"image": "vllm/vllm-openai:v0.32.0", "args": [MODEL]}),
        parse_command({"command": ["vllm", "serve", MODEL, "--kv-transfer-config", NIXL]}),
        vllm("0.32.0", "--config", "/file.yaml"),
        parse_command({"image": "x:1", "command": ["/start"]}),
    ],
)
def test_pair_revision_of_unknown_engine_is_none(command: Any) -> None:
    assert compute_pair_revision([vllm("0.32.0"), command]) is None
