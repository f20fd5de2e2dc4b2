"""Invalid texts and files are rejected with one line, in bounded time and memory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from printed_findings import without_rules
from rows import each_row
from samples import role, service, template

from fusioninfer_pulumi.findings import InvalidServiceError
from fusioninfer_pulumi.loading import load, loads
from fusioninfer_pulumi.loading.file_set import load_texts, parse
from fusioninfer_pulumi.loading.yaml_text import parse_yaml

TEXT = """\
apiVersion: fusioninfer.io/v1alpha1
kind: InferenceService
metadata: {name: svc}
spec:
  roles:
    - name: inference
      componentType: worker
      template:
        spec:
          containers: [{name: vllm, image: vllm/vllm-openai:v0.11.0}]
"""
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)
)
MERGE_BOMB = "a0: &a0 {k0: v}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}], k{n}: v}}\n" for n in range(1, 30)
)
CHAIN = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 900))


def rejection(text: str) -> str:
    with pytest.raises(InvalidServiceError) as caught:
        loads(text)
    return without_rules(str(caught.value))


@each_row(
    ("text", "expected"),
    [
        ("", "is empty; expected an InferenceService"),
        ("# nothing but a comment\n", "is empty; expected an InferenceService"),
        ("---\n---\n", "is empty; expected an InferenceService"),
        ("null", "is empty; expected an InferenceService"),
        ("just text", 'must be a mapping, got "just text"'),
        ("[", "invalid YAML: did not find expected node content (line 2, column 1)"),
        ("a: b: c", ("invalid YAML: mapping values are not allowed in this context "
                     "(line 1, column 5)")),
        ("a:\n\tb: 1", ("invalid YAML: a tab cannot start a value; indent with spaces "
                        "(line 2, column 1)")),
        ("*nowhere", "invalid YAML: found undefined alias (line 1, column 1)"),
        ("a: !!python/object:os.system {}", ("line 1, column 4: unsupported tag "
         "'tag:yaml.org,2002:python/object:os.system'")),
        ("!!python/name:os.system", ("line 1, column 1: unsupported tag "
         "'tag:yaml.org,2002:python/name:os.system'")),
        ("a: !mine x", "line 1, column 4: unsupported tag '!mine'"),
        ("a: !!binary aGk=", "line 1, column 4: unsupported tag 'tag:yaml.org,2002:binary'"),
        ("a: !!set {b, c}", "line 1, column 4: unsupported tag 'tag:yaml.org,2002:set'"),
        ("a: !!timestamp 2024-01-01", ("line 1, column 4: unsupported tag "
         "'tag:yaml.org,2002:timestamp'")),
        ("a: !!bool maybe", "invalid YAML: 'maybe'"),
        ("a: !!int ''", "invalid YAML: string index out of range"),
        ("a: !!int x", "invalid YAML: invalid literal for int() with base 10: 'x'"),
        ("? [a]\n: b", "line 1, column 3: a key must be a string, not a list or mapping"),
        ("{a: 1, a: 2}", 'line 1, column 8: key "a" is duplicated'),
        ("a: &x [*x]", "line 1, column 4: an alias refers to itself"),
        ("a\0b", ("invalid YAML: unacceptable character #x0000: control characters are not allowed "
         'in "<unicode string>", position 1')),
        ("a: \ud800", ("invalid YAML: 'utf-8' codec can't encode character '\\ud800' in "
                        "position 3: surrogates not allowed")),
    ],
)  # fmt: skip
def test_text_that_is_not_a_manifest_has_a_one_line_error(text: str, expected: str) -> None:
    assert rejection(text) == expected


TOO_MANY = "more than 500000 values with all aliases expanded"
TOO_DEEP = "nested deeper than 100 levels"


def absurd_texts() -> dict[str, tuple[str, str]]:
    return {
        "aliases": (BOMB, TOO_MANY),
        "merges": (MERGE_BOMB, TOO_MANY),
        "chained aliases": (CHAIN, TOO_DEEP),
        "brackets": ("[" * 1_000_000, TOO_DEEP),
        "balanced brackets": ("[" * 101 + "]" * 101, TOO_DEEP),
        "braces": ("{a: " * 1_000_000, TOO_DEEP),
        "dashes": ("- " * 1_000_000, TOO_DEEP),
        "question marks": ("? " * 1_000_000, TOO_DEEP),
        "values": ("[" + "a," * 8_000_000 + "]", TOO_MANY),
        "lines": ("- a\n" * 4_000_000, TOO_MANY),
        "keys": ("".join(f"k{n}:\n" for n in range(600_000)), TOO_MANY),
        "characters": ("x" * (16 * 1024 * 1024 + 1), "larger than 16 MiB"),
        "second document": (TEXT + "---\n" + "[" * 1_000_000, TOO_DEEP),
    }  # fmt: skip


MEGABYTES = 300


@pytest.mark.slow
def test_absurd_texts_are_rejected_in_bounded_time_and_memory() -> None:
    # In its own process, because parsing a deeply nested text can end the process.
    before = os.times()
    done = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    after = os.times()
    assert done.returncode == 0, done.stderr
    messages = json.loads(done.stdout)
    peak = messages.pop("megabytes")
    assert messages.pop("endless file") == "/dev/zero: larger than 16 MiB"
    assert messages == {name: expected for name, (_, expected) in absurd_texts().items()}
    assert peak < MEGABYTES
    # CPU time, because wall-clock time depends on the load of the machine.
    assert after.children_user - before.children_user < 30


def _peak() -> int:
    """Return the peak memory in megabytes; `ru_maxrss` would include the parent's."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (peak,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(peak) // 1024


def _main() -> None:
    limit = 4 * MEGABYTES * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    messages: dict[str, Any] = {name: rejection(text) for name, (text, _) in absurd_texts().items()}
    with pytest.raises(InvalidServiceError) as caught:
        load("/dev/zero")
    messages["endless file"] = without_rules(str(caught.value))
    messages["megabytes"] = _peak()
    sys.stdout.write(json.dumps(messages))


def test_alias_bomb_in_template_is_rejected_before_validation() -> None:
    start = time.process_time()
    assert "all aliases expanded" in rejection(TEXT + BOMB.replace("a0:", "x:", 1))
    assert time.process_time() - start < 2


def test_binary_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "image.yaml"
    path.write_bytes(b"\xff\xfe\x00binary")
    with pytest.raises(InvalidServiceError) as caught:
        load(path)
    assert (
        str(caught.value)
        == f"{path}: the file is not UTF-8 text; convert it to UTF-8 [unreadable-file]"
    )


@each_row("path", ["missing.yaml", "a\0b", "apiVersion: v1\nkind: Pod", "a" * 5_000])
def test_missing_path_is_an_os_error(path: str) -> None:
    with pytest.raises(OSError, match=r"No such file|File name too long"):
        load(path)


def test_folder_without_manifests_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidServiceError, match=r"no manifest .* in this directory"):
        load(tmp_path)


def test_error_names_file_and_document(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(f"{TEXT}---\nkind: Pod\n")
    read = load_texts([parse("two.yaml", path.read_text())])
    assert [str(item.origin) for item in read] == ["two.yaml", "two.yaml#2"]
    with pytest.raises(InvalidServiceError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}#2: apiVersion: is required")


def test_documents_before_a_syntax_error_are_checked() -> None:
    text = TEXT.replace("worker", "trainer") + "---\n["
    lines = rejection(text).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["roles[0].componentType", "invalid YAML"]


def test_empty_documents_between_services_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "services.yaml"
    path.write_text(f"---\n{TEXT}---\n---\n# nothing\n---\n{TEXT.replace('svc', 'other')}...\n")
    assert [args.name for args in load(path)] == ["svc", "other"]
    assert [args.name for args in load(str(path))] == ["svc", "other"]


@pytest.mark.parametrize(
    "text",
    [TEXT, "\ufeff" + TEXT, TEXT.replace("\n", "\r\n"), json.dumps(yaml.safe_load(TEXT), indent=2)],
    ids=["yaml", "byte-order-mark", "windows", "json"],
)
def test_equivalent_yaml_and_json_give_equal_services(text: str) -> None:
    assert loads(text) == load(yaml.safe_load(TEXT))


@each_row(
    ("text", "value"),
    [
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T10:00:00Z", "2024-01-01T10:00:00Z"),
        ("0x10", 16),
        ("010", 8),
        ("0o10", 8),
        ("1_000", 1000),
        ("-5", -5),
        ("09", "09"),
        ("1.5", 1.5),
        ("yes", True),
        ("~", None),
        ('"5"', "5"),
        ("5", 5),
    ],
)
def test_scalars_are_parsed_as_in_kubernetes(text: str, value: Any) -> None:
    (read,) = parse_yaml(f"a: {text}")
    assert read == {"a": value}
    assert type(read["a"]) is type(value)


def test_anchors_and_merge_keys_are_expanded() -> None:
    text = TEXT.replace("spec:\n  roles", "spec: &s\n  roles")
    text = text.replace("[{name: vllm,", "[{<<: {name: vllm},")
    assert loads(text) == loads(TEXT)


def test_ten_thousand_replicas_load(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_text(yaml.safe_dump(service(role(replicas=10_000))))
    assert load(path)[0].roles[0].replicas == 10_000


@pytest.mark.slow
def test_thousand_roles_load_in_bounded_time() -> None:
    manifest = service(*(role(f"r{index}") for index in range(1_000)))
    start = time.process_time()
    assert len(loads(json.dumps(manifest))[0].roles) == 1_000
    assert time.process_time() - start < 10


def test_deeply_nested_python_structure_is_rejected() -> None:
    deep: list[Any] = []
    for _ in range(150):
        deep = [deep]
    with pytest.raises(InvalidServiceError, match="nested deeper than 100 levels"):
        load(service(role(template=template(affinity=deep))))


CHARACTERS = "\N{GRINNING FACE} \N{LATIN SMALL LETTER E WITH ACUTE}"


def test_escaped_surrogate_pairs_in_json_are_joined() -> None:
    written = json.dumps({"a": CHARACTERS})
    assert "\\ud83d" in written

    assert list(parse_yaml(written)) == [{"a": CHARACTERS}]


if __name__ == "__main__":
    _main()
