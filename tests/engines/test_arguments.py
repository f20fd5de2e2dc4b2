"""Checks of engine arguments with the tables of releases."""

from __future__ import annotations

from typing import Any

import pytest
from rows import each_row

from fusioninfer_pulumi.engines.argument_checks import (
    check_arguments,
    compare_arguments,
    explain_invalid_value,
    find_known_release,
)
from fusioninfer_pulumi.engines.argument_tables import (
    UNKNOWN_DEFAULT,
    ArgumentDefinition,
    load_argument_table,
)
from fusioninfer_pulumi.engines.command_flags import get_plain_variables
from fusioninfer_pulumi.engines.engine_commands import parse_command
from fusioninfer_pulumi.findings import Finding

VLLM = "vllm/vllm-openai:v"
SGLANG = "lmsysorg/sglang:v"
SERVE = ["vllm", "serve", "m"]
LAUNCH = ["python3", "-m", "sglang.launch_server", "--model-path", "m"]


def check(image: str, words: str | list[str], **more: Any) -> list[Finding]:
    container = {"image": image, "command": LAUNCH if "sglang" in image else SERVE, **more}
    container["args"] = words.split() if isinstance(words, str) else words
    return list(check_arguments(parse_command(container), get_plain_variables(container)))


def list_findings(image: str, words: str | list[str], **more: Any) -> list[str]:
    """Return severity, rule and location of each finding."""
    findings = check(image, words, **more)
    return [
        f"{finding.severity.value} {finding.rule} {'.'.join(map(str, finding.location))}"
        for finding in findings
    ]


# Looked up in `arg_utils.py`, the configuration classes and `server_args.py` of these releases.
@each_row(
    ("engine", "release", "name", "expected"),
    [
        ("vllm", "0.11.0", "--max-lora-rank", {"choices": (8, 16, 32, 64, 128, 256, 320, 512)}),
        ("vllm", "0.11.1", "--max-lora-rank", {"choices": (1, 8, 16, 32, 64, 128, 256, 320, 512)}),
        ("vllm", "0.11.0", "--served-model-name", {"kind": "str", "nargs": "+", "default": None}),
        ("vllm", "0.12.0", "--cuda-graph-sizes", {"deprecated": "--cudagraph-capture-sizes"}),
        ("vllm", "0.17.0", "-n", {"name": "--nnodes", "kind": "int", "default": 1}),
        ("vllm", "0.21.0", "--ignore-patterns", {"default": ["original/**/*"]}),
        ("vllm", "0.22.0", "--offload-prefetch-step", {"kind": "int", "limits": {"ge": 0}}),
        ("vllm", "0.33.0", "--max-model-len", {"kind": "size", "limits": {"ge": -1}}),
        ("vllm", "0.33.0", "--kv-transfer-config", {"kind": "json", "default": None}),
        (
            "vllm",
            "0.33.0",
            "--gpu-memory-utilization",
            {"default": 0.92, "limits": {"gt": 0, "le": 1}},
        ),
        ("sglang", "0.5.3", "--disaggregation-mode", {"choices": ("decode", "null", "prefill")}),
        ("sglang", "0.5.5.post3", "--speculative-ngram-branch-length", {"default": 18}),
        ("sglang", "0.5.23", "--tensor-parallel-size", {"name": "--tp-size", "default": 1}),
        ("sglang", "0.5.23", "--enable-lora", {"kind": "switch", "default": None}),
        ("sglang", "0.5.23", "--lora-paths", {"kind": "str", "nargs": "*"}),
        ("sglang", "0.5.23", "--enable-dp-attention", {"deprecated": "--attn-dp-size <dp-size>"}),
    ],
)
def test_tables_match_the_sources(
    engine: str, release: str, name: str, expected: dict[str, Any]
) -> None:
    definition = load_argument_table(engine).get_definitions(release)[name]
    assert {key: getattr(definition, key) for key in expected} == expected


@pytest.mark.parametrize(
    ("engine", "releases", "arguments"),
    [
        ("vllm", {"0.11.0": 183, "0.33.0": 320}, "--model --port --dtype"),
        ("sglang", {"0.5.3": 246, "0.5.23": 531}, "--model-path --port --dtype"),
    ],
)
def test_tables_contain_whole_releases(
    engine: str, releases: dict[str, int], arguments: str
) -> None:
    table = load_argument_table(engine)
    for release, count in releases.items():
        definitions = table.get_definitions(release)
        assert len({definitions[word].name for word in definitions}) == count
    for release in table.releases:
        assert set(arguments.split()) <= set(table.get_definitions(release))


@each_row(
    ("image", "release"),
    [
        (VLLM + "0.11.0", "0.11.0"),
        (VLLM + "0.11.0-x86_64", "0.11.0"),
        (VLLM + "0.11.0@sha256:ab", "0.11.0"),
        ("registry.local/hub/" + VLLM + "0.11.0", "0.11.0"),
        (SGLANG + "0.5.10.post1-cu129", "0.5.10.post1"),
        (VLLM + "0.11.0-patched", None),
        (VLLM + "0.11.0rc1", None),
        (VLLM + "0.99.0", None),
        ("vllm/vllm-openai:latest", None),
        ("vllm/vllm-openai@sha256:ab", None),
        ("me/vllm:v0.11.0", None),
        ("nvcr.io/nvidia/vllm:25.09-py3", None),
    ],
)
def test_only_upstream_tags_determine_a_release(image: str, release: str | None) -> None:
    words = LAUNCH if "sglang" in image else SERVE
    assert find_known_release(parse_command({"image": image, "command": words})) == release


def test_script_that_installs_a_release_makes_it_unknown() -> None:
    script = "pip install vllm==0.33.0 && exec vllm serve m --kv-offloading-size 4"
    container = {"image": VLLM + "0.11.0", "command": ["sh", "-c", script]}
    assert find_known_release(parse_command(container)) is None
    assert list(check_arguments(parse_command(container), {})) == []


ACCEPTED = [
    (VLLM + "0.11.0", "--tensor_parallel_size 4 --max_num_seqs=8"),
    (VLLM + "0.11.0", "-tp 4 -dp=2 --tensor-parallel 4"),
    (VLLM + "0.11.0", "--max-num-seq 4"),
    (VLLM + "0.11.0", "-O3"),
    (VLLM + "0.11.0", "-O 3 --seed 1"),
    (VLLM + "0.33.0", "-O3 --no-enable-prefix-caching"),
    (VLLM + "0.33.0", "--compilation-config.mode 3 -cc.level=3"),
    (VLLM + "0.11.0", "--kv-transfer-config.kv_role kv_both --kv_transfer_config.kv_port 1"),
    (VLLM + "0.11.0", ["--kv-transfer-config", '{"kv_role": "kv_both"}']),
    (VLLM + "0.11.0", "--served-model-name a b c --port 8000"),
    (VLLM + "0.11.0", "--max-model-len 8k --max-num-batched-tokens 16K"),
    (VLLM + "0.33.0", "--max-model-len -1"),
    (VLLM + "0.33.0", "--max-model-len auto"),
    (VLLM + "0.11.0", "--max-logprobs -1"),
    (VLLM + "0.11.0", "--hf-token"),
    (VLLM + "0.11.0", "--config /etc/vllm.yaml"),
    (VLLM + "0.11.0", "--quantization None"),
    (VLLM + "0.11.0", "-q fp8"),
    (VLLM + "0.11.0", "-qfp8"),
    (VLLM + "0.11.0", "--port $(PORT)"),
    (VLLM + "0.11.0", "--headless --api-server-count 2"),
    (SGLANG + "0.5.3", "--tp 8 --mem-fraction-static 0.8 --trust-remote-code"),
    (SGLANG + "0.5.3", "--cuda-graph-bs 1 2 4 --tp-size=2"),
    (SGLANG + "0.5.10", "--context-length 8k"),
    (VLLM + "0.7.0", "--unknown-in-those-days 1"),
    (VLLM + "0.11.0", "--task embed"),
    (SGLANG + "0.5.23", "--enable-dp-attention"),
    ("vllm/vllm-openai:latest", "--dtype fp16"),
    ("me/vllm:v1", "--swap-space 4 --max-num-seqs 8"),
    ("vllm/vllm-openai:latest", "--swap-space 4 --kv-offloading-size 4"),
]


@each_row(("image", "words"), ACCEPTED)
def test_arguments_of_release_are_accepted(image: str, words: str | list[str]) -> None:
    assert list_findings(image, words) == []


REJECTED = [
    # Names.
    (VLLM + "0.11.0", "--max-nm-seqs 8", ["error argument-unknown args.0"]),
    (VLLM + "0.11.0", "--max-nm-seqs=8", ["error argument-unknown args.0"]),
    (VLLM + "0.11.0", "-tp8", ["error argument-unknown args.0"]),
    (VLLM + "0.11.0", "-tensor-parallel-size 8", ["error argument-unknown args.0"]),
    (VLLM + "0.11.0", "--max-num 8", ["error argument-unknown args.0"]),
    (VLLM + "0.11.0", "--kv-transfr-config.kv_role x", ["error argument-unknown args.0"]),
    (SGLANG + "0.5.3", "--mem_fraction_static 0.8", ["error argument-unknown args.0"]),
    # Releases.
    (VLLM + "0.33.0", "--swap-space 4", ["error argument-removed args.0"]),
    (VLLM + "0.33.0", "--no-enable-lora-bias", ["error argument-removed args.0"]),
    (VLLM + "0.11.0", "--kv-offloading-size 4", ["error release-without-feature args.0"]),
    (SGLANG + "0.5.20", "--stream-output", ["error argument-removed args.0"]),
    (SGLANG + "0.5.20", "--cuda-graph-bs 1 2", ["error argument-removed args.0"]),
    # Values.
    (VLLM + "0.11.0", "--max-num-seqs", ["error argument-value-invalid args.0"]),
    (VLLM + "0.11.0", "--max-num-seqs --port 1", ["error argument-value-invalid args.0"]),
    (VLLM + "0.11.0", "--max-num-seqs many", ["error argument-value-invalid args.0"]),
    (VLLM + "0.11.0", "--max-num-seqs 1.5", ["error argument-value-invalid args.0"]),
    (VLLM + "0.11.0", "--gpu-memory-utilization 90%", ["error argument-value-invalid args.0"]),
    (VLLM + "0.11.0", "--gpu-memory-utilization 90", ["error argument-value-invalid args.0"]),
    (VLLM + "0.33.0", "--gpu-memory-utilization=0", ["error argument-value-invalid args.0"]),
    (VLLM + "0.33.0", "-tp 0", ["error argument-value-invalid args.0"]),
    (VLLM + "0.11.0", "--dtype fp16", ["error argument-value-invalid args.0"]),
    (VLLM + "0.11.0", "--max-lora-rank 48", ["error argument-value-invalid args.0"]),
    (VLLM + "0.11.0", ["--kv-transfer-config", "{kv"], ["error argument-value-invalid args.0"]),
    (VLLM + "0.11.0", "--enforce-eager=true", ["error argument-value-invalid args.0"]),
    (VLLM + "0.11.0", "--enforce-eager true", ["error argument-unknown args.1"]),
    (VLLM + "0.11.0", "--port 1 one", ["error argument-unknown args.2"]),
    (SGLANG + "0.5.3", "--port 1 one", ["error argument-unknown args.2"]),
    (SGLANG + "0.5.3", "--context-length 8k", ["error argument-value-invalid args.0"]),
    (SGLANG + "0.5.3", "--attention-backend flash", ["error argument-value-invalid args.0"]),
    # Unknown releases.
    ("vllm/vllm-openai:latest", "--max-nm-seqs 8", ["warning argument-unknown args.0"]),
    ("vllm/vllm-openai:latest", "--sharded-all-of-it 1", []),
    ("vllm/vllm-openai:latest", "--max-num-seqs", ["warning argument-value-invalid args.0"]),
    ("me/vllm:v1", "--max-nm-seqs 8", ["warning argument-unknown args.0"]),
    (VLLM + "0.99.0", "--max-nm-seqs 8", ["warning argument-unknown args.0"]),
]


@each_row(("image", "words", "expected"), REJECTED)
def test_arguments_the_release_lacks_are_reported(
    image: str, words: str | list[str], expected: list[str]
) -> None:
    # `command` has the positional model, so another word belongs to no argument.
    assert list_findings(image, words) == expected


@each_row(
    ("image", "words", "text"),
    [
        (VLLM + "0.11.0", "--max-nm-seqs 8", "did you mean --max-num-seqs?"),
        (SGLANG + "0.5.3", "--mem_fraction_static 1", "did you mean --mem-fraction-static?"),
        (VLLM + "0.33.0", "--task embed", "remove or replace it"),
        (
            VLLM + "0.33.0",
            "--swap-space 4",
            "was removed in vLLM v0.18.0, but the image has v0.33.0",
        ),
        (VLLM + "0.11.0", "--kv-offloading-size 4", "needs vLLM v0.11.1 or later"),
        (SGLANG + "0.5.20", "--nsa-decode-backend x", "use --dsa-decode-backend instead"),
    ],
)
def test_message_names_the_fix(image: str, words: str, text: str) -> None:
    (finding,) = check(image, words)
    assert text in finding.message
    assert len(finding.message) < 161


@each_row(
    ("words", "variables", "expected"),
    [
        ("--port $(PORT)", {"PORT": "http"}, ["error argument-value-invalid args.0"]),
        ("--port=$(PORT)", {"PORT": "http"}, ["error argument-value-invalid args.0"]),
        ("--port $(PORT)", {"PORT": "8080"}, []),
        ("--$(NAME) 1", {"NAME": "prt"}, ["error argument-unknown args.0"]),
        ("--port $$(PORT)", {"PORT": "http"}, []),
        ("--port $(OTHER)", {"PORT": "http"}, []),
        ("--enforce-eager $(MORE)", {}, []),
    ],
)
def test_literal_variables_are_read(
    words: str, variables: dict[str, str], expected: list[str]
) -> None:
    env = [{"name": name, "value": value} for name, value in variables.items()]
    assert list_findings(VLLM + "0.11.0", words, env=env) == expected


def test_only_literal_single_word_variables_are_read() -> None:
    key = {"secretKeyRef": {"name": "a", "key": "b"}}
    env = [
        {"name": "A", "value": "1"},
        {"name": "A", "valueFrom": key},
        {"name": "B", "value": "$(A)"},
        {"name": "C", "value": "two words"},
        {"name": "D", "value": "d"},
    ]
    assert get_plain_variables({"env": env}) == {"D": "d"}


@each_row(
    ("script", "expected"),
    [
        ("exec vllm serve m --max-nm-seqs 8", ["error argument-unknown command"]),
        ('exec vllm serve m --port "${PORT}"', ["error argument-value-invalid command"]),
        ('exec vllm serve m --port "$PORT"', ["error argument-value-invalid command"]),
        ("exec vllm serve m $ARGS more", []),
        ("exec vllm serve m --max-nm-seqs 8 $ARGS", ["error argument-unknown command"]),
    ],
)
def test_arguments_in_scripts_are_checked(script: str, expected: list[str]) -> None:
    env = [{"name": "PORT", "value": "http"}]
    findings = list_findings(VLLM + "0.11.0", [], command=["sh", "-c", script], env=env)
    assert findings == expected


@each_row(
    ("command", "args", "expected"),
    [
        (["sglang", "serve"], "m --tp 2", []),
        (["sglang", "serve"], "m --model-type llm --tp 2", []),
        # `sglang serve` also starts diffusion models, which have other arguments.
        (["sglang", "serve"], "m --num-gpus-of-it 2", ["warning argument-unknown args.1"]),
        (["sglang", "serve"], "m n", ["warning argument-unknown args.1"]),
        (["python3", "-m", "sglang.launch_server"], "m", ["error argument-unknown args.0"]),
    ],
)
def test_sglang_programs_accept_their_arguments(
    command: list[str], args: str, expected: list[str]
) -> None:
    assert list_findings(SGLANG + "0.5.20", args, command=command) == expected


API_SERVER = ["python3", "-m", "vllm.entrypoints.openai.api_server"]


@each_row(
    ("release", "command", "args", "expected"),
    [
        ("0.11.1", ["vllm", "serve"], "--model m --headless", []),
        ("0.11.0", None, "m", []),
        ("0.11.0", API_SERVER, "--model m --config /c.yaml --headless", []),
        # The older program ignores a positional model.
        ("0.33.0", API_SERVER, "m", ["error argument-unknown args.0"]),
    ],
)
def test_vllm_programs_accept_their_arguments(
    release: str, command: list[str] | None, args: str, expected: list[str]
) -> None:
    assert list_findings(VLLM + release, args, command=command) == expected


def test_other_programs_are_not_checked() -> None:
    assert list_findings(VLLM + "0.11.0", "--foo", command=["my-proxy"]) == []
    assert list_findings(VLLM + "0.11.0", "vllm serve m --foo", command=[]) == []


def test_element_with_flag_and_value_is_split() -> None:
    assert list_findings(VLLM + "0.11.0", ["--port 8000", "--max-num-seqs x"]) == [
        "error argument-value-invalid args.1"
    ]


@each_row(
    ("definition", "value", "problem"),
    [
        (ArgumentDefinition("--a", ("--a",), "int"), "8", None),
        (ArgumentDefinition("--a", ("--a",), "int"), "", "must be "),
        (ArgumentDefinition("--a", ("--a",), "int", default=None), "", None),
        (ArgumentDefinition("--a", ("--a",), "int", limits={"ge": 1}), "0", "must be "),
        (ArgumentDefinition("--a", ("--a",), "float", limits={"lt": 1}), "1e0", "must be "),
        (ArgumentDefinition("--a", ("--a",), "float"), "one", "must be "),
        (ArgumentDefinition("--a", ("--a",), "size"), "1.5k", None),
        (ArgumentDefinition("--a", ("--a",), "size"), "8kb", "must be "),
        (ArgumentDefinition("--a", ("--a",), "json"), "[1", "must be "),
        (ArgumentDefinition("--a", ("--a",), "json"), '{"a": 80m}', None),
        (ArgumentDefinition("--a", ("--a",), "str", choices=("x", "y")), "z", "must be "),
        (ArgumentDefinition("--a", ("--a",), "any", choices=("x", "y")), "X", None),
    ],
)
def test_values_of_wrong_kind_are_reported(
    definition: ArgumentDefinition, value: str, problem: str | None
) -> None:
    result = explain_invalid_value(definition, value)
    assert (result is None) == (problem is None)
    assert (result or "").startswith(problem or "")


def changes(before: str, after: str, old: str, new: str | None = None) -> Any:
    first, second = (
        parse_command({"image": image, "command": SERVE, "args": words.split()})
        for image, words in ((before, old), (after, old if new is None else new))
    )
    return compare_arguments(first, second)


def test_compare_lists_removed_and_renamed_arguments() -> None:
    result = changes(VLLM + "0.11.0", VLLM + "0.33.0", "--task embed --swap-space 4 --port 1")
    assert [(item.name, item.instead) for item in result.removed] == [
        ("--task", None),
        ("--swap-space", None),
    ]
    assert (result.engine, result.before, result.after) == ("vLLM", "0.11.0", "0.33.0")


def test_compare_lists_only_defaults_of_unset_arguments() -> None:
    result = changes(VLLM + "0.11.0", VLLM + "0.33.0", "--max-num-seqs 8")
    by_name = {default.name: (default.before, default.after) for default in result.defaults}
    assert by_name["--gpu-memory-utilization"] == (0.9, 0.92)
    assert UNKNOWN_DEFAULT not in [value for pair in by_name.values() for value in pair]
    explicit = changes(VLLM + "0.11.0", VLLM + "0.33.0", "--gpu-memory-util 0.9")
    assert "--gpu-memory-utilization" not in {default.name for default in explicit.defaults}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (VLLM + "0.11.0", VLLM + "0.11.0-x86_64"),
        (VLLM + "0.11.0", "vllm/vllm-openai:latest"),
        ("me/vllm:1", VLLM + "0.11.0"),
    ],
)
def test_compare_needs_two_known_releases(before: str, after: str) -> None:
    assert changes(before, after, "--swap-space 4") is None
