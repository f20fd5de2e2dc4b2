"""Invalid input of the command line: clear messages, exit status 2, no traceback."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from printed_findings import without_rules
from samples import container as engine, role, service, template

from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.loading.file_set import NO_MANIFESTS

GOOD = service(role(template=template(engine(gpus="1"))))
ROLE = GOOD["spec"]["roles"][0]


def good(**role: Any) -> str:
    changed = {**ROLE, **role}
    return yaml.safe_dump({**GOOD, "spec": {"roles": [changed]}}, sort_keys=False)


def container(**more: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{**ROLE["template"]["spec"]["containers"][0], **more}]}}


def gang(**minima: int) -> str:
    strategy = {"gangPolicy": {"minRoleReplicas": minima}}
    spec = {"roles": [{**ROLE, "multinode": {"nodeCount": 2}}], "schedulingStrategy": strategy}
    return yaml.safe_dump({**GOOD, "spec": spec})


def roles(*names: str) -> str:
    return yaml.safe_dump({**GOOD, "spec": {"roles": [{**ROLE, "name": n} for n in names]}})


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join(['*' + old] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
UNKNOWN_KEY = good(replcas=2)

BAD: dict[str, tuple[str | bytes, list[str]]] = {
    "empty": ("", ["F: is empty; expected an InferenceService"]),
    "only a comment": ("# nothing\n---\n", ["F: is empty; expected an InferenceService"]),
    "binary": (b"\x7fELF\x02\x01\xff\xfe", ["F: the file is not UTF-8 text; convert it to UTF-8"]),
    "UTF-16": (good().encode("utf-16"), ["F: the file is not UTF-8 text; convert it to UTF-8"]),
    "not YAML": ("a: [1\n", ["F: invalid YAML: "]),
    "a control character": ("a: \x01\n", ["F: invalid YAML: "]),
    "a tag that runs code": (
        "!!python/object/apply:os.system [ls]\n",
        ["F: line 1, column 1: unsupported tag 'tag:yaml.org,2002:python/object/apply:os.system'"],
    ),
    "text": ("hello\n", ['F: must be a mapping, got "hello"']),
    "a list": ("- a\n", ['F: must be a mapping, got ["a"]']),
    "wrong kind": (
        yaml.safe_dump({**GOOD, "kind": "Deployment"}),
        ['F: kind: must be InferenceService, got "Deployment"'],
    ),
    "wrong apiVersion": (
        yaml.safe_dump({**GOOD, "apiVersion": "v1"}),
        ['F: apiVersion: must be fusioninfer.io/v1alpha1, got "v1"'],
    ),
    "no roles": (yaml.safe_dump({**GOOD, "spec": {"roles": []}}), ["F: roles: must contain "]),
    "roles missing": (yaml.safe_dump({**GOOD, "spec": {}}), ["F: roles: is required"]),
    "a role's name twice": (roles("a", "a"), ["F: roles[1].name: "]),
    "an ill-formed role name": (roles("Bad_Name"), ["F: roles[0].name: must be a name of"]),
    "zero nodes": (
        good(multinode={"nodeCount": 0}),
        ["F: roles[0].multinode.nodeCount: must be at least 1, got 0"],
    ),
    "negative replicas": (good(replicas=-1), ["F: roles[0].replicas: must be at least 0, got -1"]),
    "true replicas": (good(replicas=True), ["F: roles[0].replicas: must be an integer, got true"]),
    "quoted replicas": (good(replicas="2"), ['F: roles[0].replicas: must be an integer, got "2"']),
    "half a replica": (good(replicas=1.5), ["F: roles[0].replicas: must be an integer, got 1.5"]),
    "absurdly many replicas": (
        good(replicas=10**9),
        ["F: roles[0].replicas: must be at most 10000, got 1000000000"],
    ),
    "no template": (
        yaml.safe_dump({**GOOD, "spec": {"roles": [{"name": "a", "componentType": "worker"}]}}),
        ["F: roles[0].template: is required"],
    ),
    "no containers": (
        good(template={"spec": {"containers": []}}),
        ["F: roles[0].template.spec.containers: must contain at least one container"],
    ),
    "half a GPU": (
        good(template=container(resources={"limits": {"nvidia.com/gpu": "0.5"}})),
        ["F: roles[0].template.spec.containers[0].resources.limits[nvidia.com/gpu]: must be a"],
    ),
    "an unknown key": (UNKNOWN_KEY, ["F: roles[0].replcas: unknown key, did you mean replicas?"]),
    "a reserved label": (
        good(template={**container(), "metadata": {"labels": {"fusioninfer.io/service": "x"}}}),
        ["F: roles[0].template.metadata.labels[fusioninfer.io/service]: is set by fusion"],
    ),
    "a gang minimum above the replicas": (
        gang(inference=2),
        ["F: schedulingStrategy.gangPolicy.minRoleReplicas.inference: must be at most"],
    ),
    "a gang minimum of an unknown role": (
        gang(other=1),
        ["F: schedulingStrategy.gangPolicy.minRoleReplicas.other: no role of that name"],
    ),
    "a name that is too long": (
        yaml.safe_dump({**GOOD, "metadata": {"name": "s" * 50}}),
        ["F: roles[0].name: "],
    ),
    "two documents with one name": (
        good() + "---\n" + good(),
        ['F: metadata.name: another service in this namespace has the name "svc"; rename one'],
    ),
    "two documents, both wrong": (
        good(replicas=-1) + "---\n" + good(replicas=-2),
        [
            "F: roles[0].replicas: must be at least 0, got -1",
            "F: roles[0].replicas: must be at least 0, got -2",
        ],
    ),
    "a good document and a broken one": (good() + "---\na: [\n", ["F: invalid YAML: "]),
    "an alias bomb": (BOMB, ["F: more than 500000 values with all aliases expanded"]),
    "an alias to itself": ("&a [*a]\n", ["F: line 1, column 1: an alias refers to itself"]),
    "absurdly deep": ("[" * 5000, ["F: nested deeper than"]),
    "a key twice": (
        good() + "kind: InferenceService\n",
        ['F: line 20, column 1: key "kind" is duplicated'],
    ),
    "several problems": (
        good(replicas=-1, port=0, multinode={"nodeCount": 0}),
        [
            "F: roles[0].replicas: must be at least 0, got -1",
            "F: roles[0].port: must be at least 1, got 0",
            "F: roles[0].multinode.nodeCount: must be at least 1, got 0",
        ],
    ),
}


@pytest.fixture
def rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[str]]:
    """Return a function that returns the errors of a command that rejects the file `F`."""
    monkeypatch.chdir(tmp_path)

    def run(content: str | bytes | None, *arguments: str) -> list[str]:
        if content is not None:
            data = content if isinstance(content, bytes) else content.encode()
            Path("F").write_bytes(data)
        assert main(arguments or ("check", "F")) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "Traceback" not in err
        return without_rules(err).splitlines()

    return run


def matches(lines: list[str], wanted: list[str]) -> bool:
    return len(lines) == len(wanted) and all(map(str.startswith, lines, wanted))


@pytest.mark.parametrize("case", BAD)
def test_invalid_manifest_is_rejected(rejected: Callable[..., list[str]], case: str) -> None:
    content, wanted = BAD[case]
    lines = rejected(content)
    assert matches(lines, wanted), lines


@pytest.mark.parametrize("command", ["render", "plan", "diff"])
def test_commands_reject_invalid_manifests_alike(
    rejected: Callable[..., list[str]], command: str
) -> None:
    if command == "diff":
        pytest.importorskip("fusioninfer_pulumi.cli.diff")
    more = ["F"] if command == "diff" else []
    wanted = BAD["an unknown key"][1]
    assert rejected(UNKNOWN_KEY, command, "F", *more) == wanted * (1 + len(more))


def test_dash_reads_standard_input(
    rejected: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO((good() + "---\n" + UNKNOWN_KEY).encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert rejected(None, "check", "-") == [
        "<stdin>: roles[0].replcas: unknown key, did you mean replicas?"
    ]


def test_unreadable_source_is_rejected(rejected: Callable[..., list[str]], tmp_path: Path) -> None:
    Path("folder").mkdir()
    Path("loop").symlink_to("loop")
    long = "x" * 300
    for name, printed in {
        "missing": "missing: cannot be read: No such file or directory",
        "missing/F": "missing/F: cannot be read: No such file or directory",
        "": ": cannot be read: No such file or directory",
        "a\0b": "a\\x00b: cannot be read: No such file or directory",
        "loop": "loop: cannot be read: Too many levels of symbolic links",
        long: f"{long}: cannot be read: File name too long",
        "folder": f"folder: no Pulumi.yaml and {NO_MANIFESTS}",
        str(tmp_path): f"{tmp_path}: no Pulumi.yaml and {NO_MANIFESTS}",
    }.items():
        assert rejected(None, "check", name) == [printed]


def test_file_without_permission_is_rejected(
    rejected: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(self: Path, *_args: object) -> Any:
        raise PermissionError(13, "Permission denied", str(self))

    Path("F").write_text(good())
    monkeypatch.setattr(Path, "open", denied)
    assert rejected(None) == ["F: cannot be read: Permission denied"]


def test_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbf" + good().encode())
    assert main(["check", str(tmp_path / "bom.yaml")]) == 0


def test_findings_of_all_sources_are_printed(rejected: Callable[..., list[str]]) -> None:
    Path("G").write_text(good(replicas=-1))
    Path("H").write_text(good())
    assert rejected(UNKNOWN_KEY, "check", "F", "H", "G", "nowhere") == [
        "F: roles[0].replcas: unknown key, did you mean replicas?",
        "G: roles[0].replicas: must be at least 0, got -1",
        "nowhere: cannot be read: No such file or directory",
    ]


IDLE = good(template=container(resources={"limits": {"nvidia.com/gpu": "4"}}))


def test_strict_rejects_warnings(
    rejected: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = rejected(IDLE, "check", "--strict", "F")
    assert len(lines) == 1
    assert lines[0].startswith("F: warning: roles[0].template.spec.containers[0].args: ")
    for command in ("check", "render", "plan"):
        assert main([command, "F"]) == 0
        assert without_rules(capsys.readouterr().err).splitlines() == lines
        assert rejected(None, command, "F", "--strict") == lines


def test_infos_are_not_printed_to_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = container(args=["--model", "m", "-tp", "2"], ports=[{"containerPort": 8000}])
    (tmp_path / "F").write_text(good(multinode={"nodeCount": 2}, template=template))
    assert main(["check", "--strict", str(tmp_path / "F")]) == 0
    assert capsys.readouterr().err == ""
