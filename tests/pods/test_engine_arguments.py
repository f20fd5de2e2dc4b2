"""Engine arguments of roles: where findings stand, and adapters that contradict."""

from __future__ import annotations

from typing import Any

import pytest
from samples import plan_of, role, service, template

VLLM = "vllm/vllm-openai:v0.11.0"
SGLANG = "lmsysorg/sglang:v0.5.10"
AT = "roles[0].template.spec.containers[0]"


def engine(*args: str, image: str = VLLM, **more: Any) -> dict[str, Any]:
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    start = ["python3", "-m", "sglang.launch_server"] if "sglang" in image else ["vllm", "serve"]
    words = ["--model-path=m", "--port=8000"] if "sglang" in image else ["m"]
    held = {"name": "vllm", "image": image, "command": start, "args": [*words, *args]}
    return {**held, "resources": limits, **more}


def told(*roles: Any, **spec: Any) -> list[str]:
    prefixes = ("argument-", "batch-", "lora-", "out-of-range", "release-without")
    found = plan_of(service(*roles, **spec)).findings
    return [
        f"{each.severity.value} {each.rule} {each.path}"
        for each in found
        if each.rule.startswith(prefixes)
    ]


def of(*args: str, **more: Any) -> list[str]:
    return told(role(template=template(engine(*args, **more))))


def test_finding_names_the_word() -> None:
    assert of("--max-nm-seqs=8") == [f"error argument-unknown {AT}.args[1]"]
    assert of("--max-nm-seqs=8", image="me/vllm:1") == [f"warning argument-unknown {AT}.args[1]"]
    whole = ["vllm", "serve", "m", "--max-nm-seqs=8"]
    assert of(command=whole, args=None) == [f"error argument-unknown {AT}.command[3]"]
    script = ["sh", "-c", "exec vllm serve m --max-nm-seqs=8"]
    assert of(command=script, args=None) == [f"error argument-unknown {AT}.command"]


def test_variables_of_the_container_are_read() -> None:
    env = [{"name": "SEQS", "value": "many"}]
    assert of("--max-num-seqs=$(SEQS)", env=env) == [f"error argument-value-invalid {AT}.args[1]"]


def test_every_user_template_is_read() -> None:
    by_hand = {"nodeCount": 2, "launcher": "none"}
    both = role(
        template=None,
        leaderTemplate=template(engine("--foo")),
        workerTemplate=template(engine("--headless", "--bar")),
        multinode=by_hand,
    )
    assert told(both) == [
        "error argument-unknown roles[0].leaderTemplate.spec.containers[0].args[1]",
        "error argument-unknown roles[0].workerTemplate.spec.containers[0].args[2]",
    ]
    # What a launcher adds is not the user's.
    started = role(template=template(engine("--foo")), multinode={"nodeCount": 2})
    assert told(started) == [f"error argument-unknown {AT}.args[1]"]


@pytest.mark.parametrize(
    ("image", "args", "expected"),
    [
        (VLLM, "--enable-lora --lora-modules a=/a b=/b", []),
        # vLLM writes the pairs out itself.
        (VLLM, "--collect-detailed-traces=model,worker", []),
        (
            VLLM,
            "--collect-detailed-traces=model,all,worker",
            ["error argument-value-invalid args[1]"],
        ),
        (VLLM, "--enable-lora --max-lora-rank=48", ["error argument-value-invalid args[2]"]),
        (VLLM, "--enable-lora --max-lora-rank=1", ["error argument-value-invalid args[2]"]),
        ("vllm/vllm-openai:v0.12.0", "--enable-lora --max-lora-rank=1", []),
        ("vllm/vllm-openai:latest", "--enable-lora --max-lora-rank=1", []),
        (SGLANG, "--lora-paths a=/a b=/b", []),
    ],
)
def test_adapters(image: str, args: str, expected: list[str]) -> None:
    found = of(*args.split(), image=image)
    assert [each.replace(f"{AT}.", "") for each in found] == expected


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"maxRank": 48}, [f"error argument-value-invalid roles[{each}]" for each in (0, 1)]),
        ({"maxRank": 64}, []),
        ({"maxAdapters": 2, "maxCpuAdapters": 4}, []),
    ],
)
def test_rank_of_adapters_is_checked_against_the_release(limits: Any, expected: list[str]) -> None:
    lora = {"adapters": [{"name": "a", "uri": "hf://org/a"}], **limits}
    start = engine(args=["--port=8000"])
    roles = [role(name, template=template(start)) for name in ("a", "b")]
    assert told(*roles, model={"uri": "hf://org/m", "lora": lora}) == expected


def test_field_without_argument_in_release_is_an_error() -> None:
    sizes = {"parallelism": {"data": 2, "portPerRank": True}}
    for release, found in (("0.21.0", ["error release-without-feature roles[0]"]), ("0.22.0", [])):
        image = f"vllm/vllm-openai:v{release}"
        start = engine(image=image, resources={"limits": {"nvidia.com/gpu": "2"}})
        assert told(role(template=template(start), **sizes)) == found
