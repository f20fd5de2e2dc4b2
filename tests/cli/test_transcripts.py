"""Transcripts of the command line: commands, output and exit status.

Each case is a folder of files and some commands; `transcripts/CASE.txt` has their output. After
an intended change run `pytest tests/cli/test_transcripts.py --regenerate`, and read the diff.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli.projects import PROGRAM, PROJECT
from cli.revisions import git
from profiles import slow_unless
from routed import routed
from samples import container, nodes, prefill_decode, rendered, role, service, template

from fusioninfer_pulumi.cli.main import main

Manifest = dict[str, Any]
FOLDER = Path(__file__).parent / "transcripts"

DIFF = ("diff old.yaml new.yaml", "diff old.yaml new.yaml --output markdown")
DIFF_ALL = (*DIFF, "diff old.yaml new.yaml --output json")


@dataclass(frozen=True)
class Case:
    """Files by their path, and commands."""

    commands: Sequence[str]
    files: dict[str, Any] = field(default_factory=dict)
    base: dict[str, Any] | None = None  # files in the git revision `HEAD`
    terminal: bool = False


def edit(old: Any, new: Any, *commands: str) -> Case:
    return Case(commands or DIFF, {"old.yaml": old, "new.yaml": new})


def serving(name: str = "serve", tag: str = "v0.11.0", **more: Any) -> Manifest:
    image = f"vllm/vllm-openai:{tag}"
    pods = template(container(gpus=more.pop("gpus", 1), image=image, **more.pop("own", {})))
    return role(name, **{"replicas": 3, "template": pods, **more})


def pair(tag: str = "v0.11.0", decode: int = 2, **spec: Any) -> Manifest:
    args = ["--model", "m", "--tensor-parallel-size", "16"]
    serving = container(gpus=8, image=f"vllm/vllm-openai:{tag}", args=args)
    pods = template(serving, hostIPC=True)
    wide = {"template": pods, "multinode": nodes(2, launcher="none")}
    return prefill_decode(wide, {**wide, "replicas": decode}, **spec)


def router(**more: Any) -> Manifest:
    route = {"parentRefs": [{"name": "shared"}], "hostnames": ["chat.example.com"]}
    return routed(httproute=route, **more)


def project(token: str, replicas: int = 1) -> dict[str, str]:
    pods = {"spec": {"containers": [{**container(), "env": [{"name": "TOKEN", "value": "T"}]}]}}
    shown = repr({"roles": [role("serve", replicas=replicas, template=pods)]})
    shown = shown.replace("'value': 'T'", f"'value': pulumi.Output.secret({token!r})")
    head = "from fusioninfer_pulumi import InferenceService\n"
    return {
        "Pulumi.yaml": PROJECT,
        "__main__.py": f"{PROGRAM}{head}InferenceService('svc', {shown})\n",
    }


def below(folder: str, files: dict[str, Any]) -> dict[str, Any]:
    return {f"{folder}/{name}": text for name, text in files.items()}


ARGS = {"args": ["--model", "m", "--max-model-len", "8192"]}
INVALID = service(serving(replicas=-1), rollout={"maxUnavailable": 0})
WARNED = pair(schedulingStrategy={"gangPolicy": {"minRoleReplicas": {"prefill": 1, "decode": 1}}})
LOWERED = [service(serving(), rollout={"partition": lowest}, layout="PerRole") for lowest in (2, 0)]

CASES: dict[str, Case] = {
    "diff-nothing": edit(service(serving()), service(serving()), *DIFF_ALL),
    "diff-replicas": edit(service(serving()), service(serving(replicas=5)), *DIFF_ALL),
    "diff-replicas-down": edit(service(serving(replicas=5)), service(serving()), *DIFF_ALL),
    "diff-env-in-the-middle": edit(
        service(serving(own={"env": [{"name": "A", "value": "a"}, {"name": "Z", "value": "z"}]})),
        service(serving(own={"env": [{"name": name, "value": name} for name in "AKZ"]})),
    ),
    "diff-many": edit(service(serving(replicas=20)), service(serving(tag="v0.12.0", replicas=20))),
    "diff-role-removed": edit(service(serving("a"), serving("b")), service(serving("a"))),
    "diff-image": edit(service(serving()), service(serving(tag="v0.12.0")), *DIFF_ALL),
    "diff-template": edit(
        service(serving()),
        service(serving(gpus=2, own={**ARGS, "env": [{"name": "A", "value": "1\n2"}]})),
    ),
    "diff-gang-on": edit(
        pair(schedulingStrategy={"gangPolicy": {"mode": "Off"}}),
        pair(rollout={"strategy": "AllAtOnce"}),
    ),
    "diff-gang-refused": edit(pair(schedulingStrategy={"gangPolicy": {"mode": "Off"}}), pair()),
    "diff-gang-grows": edit(pair(), pair(decode=4), *DIFF_ALL),
    "diff-layout": edit(service(serving()), service(serving(), layout="PerRole")),
    "diff-one-set": edit(
        service(serving(), layout="PerRole"),
        service(serving(tag="v0.12.0"), layout="PerRole", rollout={"maxUnavailable": 2}),
        *DIFF_ALL,
    ),
    "diff-recreate": edit(
        service(serving(), layout="PerRole"),
        service(serving(tag="v0.12.0"), layout="PerRole", rollout={"strategy": "Recreate"}),
    ),
    "diff-groups": edit(
        pair(groups=2), pair("v0.12.0", groups=3, rollout={"level": "Group"}), *DIFF_ALL
    ),
    "diff-partition": edit(
        service(serving()), service(serving(tag="v0.12.0"), rollout={"partition": 1})
    ),
    "diff-partition-lowered": edit(*LOWERED),
    "diff-sequential": edit(
        service(serving("a"), serving("b")),
        service(
            serving("a", tag="v0.12.0"),
            serving("b", tag="v0.12.0"),
            rollout={"roleOrder": "Sequential", "maxUnavailable": 2},
        ),
    ),
    "diff-optional": edit(
        pair(decode=4, schedulingStrategy={"gangPolicy": {"minRoleReplicas": {"decode": 2}}}),
        pair(
            "v0.12.0",
            decode=4,
            schedulingStrategy={"gangPolicy": {"minRoleReplicas": {"decode": 2}}},
        ),
    ),
    "diff-sub-group": edit(
        service(serving(multinode=nodes(4, launcher="none"), subGroupPolicy={"subGroupSize": 2})),
        service(serving(multinode=nodes(4, launcher="none"), subGroupPolicy={"subGroupSize": 4})),
    ),
    "diff-nodes": edit(
        service(serving(multinode=nodes(2, launcher="none"))),
        service(serving(multinode=nodes(4, launcher="none")), rollout={"strategy": "Recreate"}),
    ),
    "diff-role-added": edit(service(serving("a")), service(serving("a"), serving("b")), *DIFF_ALL),
    "diff-roles-reordered": edit(
        service(serving("a"), serving("b")), service(serving("b"), serving("a"))
    ),
    "diff-renamed": edit(service(serving()), service(serving(), name="chat")),
    "diff-metadata": edit(
        service(serving()), service(serving(), metadata={"labels": {"team": "search"}})
    ),
    "diff-router-added": edit(service(serving("inference", "v0.11.0-cpu")), router()),
    "diff-router-strategy": edit(router(), router(strategy="queue-size"), *DIFF_ALL),
    "diff-router-removed": edit(router(), service(role("inference"))),
    "diff-several-services": edit(
        [service(serving()), service(serving(), name="b"), service(serving(), name="c")],
        [
            service(serving(tag="v0.12.0")),
            service(serving(replicas=2), name="b"),
            service(serving(), name="d", metadata={"namespace": "models"}),
        ],
        *DIFF_ALL,
    ),
    "diff-rendered": edit(rendered(service(serving())), rendered(service(serving(tag="v0.12.0")))),
    "diff-other-objects": edit(
        [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}],
        [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": 1}},
            {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r"}},
        ],
    ),
    "diff-secrets": Case(
        ("diff old new", "diff old new --output markdown", "diff old new --show-secrets"),
        {**below("old", project("hunter2")), **below("new", project("opensesame", 2))},
    ),
    "diff-invalid-base": Case(
        ("diff --base HEAD service.yaml", "diff --base HEAD service.yaml --output json"),
        {"service.yaml": service(serving())},
        base={"service.yaml": INVALID},
    ),
    "diff-base": Case(
        ("diff --base HEAD .", "diff --base nowhere ."),
        {"a.yaml": service(serving(replicas=4)), "c.yaml": service(serving(), name="c")},
        base={"a.yaml": service(serving()), "b.yaml": service(serving(), name="b")},
    ),
    "diff-refused": Case(
        ("diff old.yaml new.yaml", "diff old.yaml", "diff old.yaml old.yaml --stack dev"),
        {"old.yaml": service(serving()), "new.yaml": INVALID},
    ),
    "diff-colors": Case(
        ("diff old.yaml new.yaml",),
        {"old.yaml": pair(), "new.yaml": pair("v0.12.0", decode=3)},
        terminal=True,
    ),
    "plan": Case(
        ("plan a.yaml --gpus 8,2", "plan a.yaml --output json", "plan a.yaml --output mermaid"),
        {"a.yaml": service(serving())},
    ),
    "plan-gang": Case(
        ("plan a.yaml --gpus 64,32", "plan a.yaml --nodes 5x8", "plan a.yaml --output json"),
        {"a.yaml": WARNED},
    ),
    "plan-layout-and-groups": Case(
        ("plan a.yaml b.yaml --gpus 48", "plan a.yaml --output json --gpus 48"),
        {
            "a.yaml": pair(groups=2),
            "b.yaml": service(
                serving("a", rollout={"maxSurge": 1}),
                serving("b", rollout={"strategy": "Recreate"}),
                name="b",
                layout="PerRole",
            ),
        },
    ),
    "plan-update": Case(
        (
            "plan new.yaml --update old.yaml",
            "plan new.yaml --update old.yaml --output json",
            "plan new.yaml --update refused.yaml",
            "plan new.yaml --update new.yaml",
            "plan other.yaml --update new.yaml",
            "plan new.yaml --update invalid.yaml",
            "plan new.yaml --update old.yaml --output mermaid",
        ),
        {
            "old.yaml": service(serving("a", replicas=2), serving("b")),
            "new.yaml": service(
                serving("a", "v0.12.0", rollout={"timeout": "10m"}),
                serving("b", "v0.12.0", rollout={"maxUnavailable": 2}),
            ),
            "refused.yaml": service(serving("a"), serving("b"), layout="PerRole"),
            "other.yaml": service(serving("a"), name="other"),
            "invalid.yaml": INVALID,
        },
    ),
    "plan-update-of-a-project": Case(
        ("plan new --update old", "plan new --update new", "plan new b.yaml --update old"),
        {
            **below("old", project("one")),
            **below("new", project("two", 2)),
            "b.yaml": service(serving("b"), name="b"),
        },
    ),
    "plan-router": Case(("plan a.yaml", "plan a.yaml --output mermaid"), {"a.yaml": router()}),
    "plan-refused": Case(("plan a.yaml", "plan a.yaml --output json"), {"a.yaml": INVALID}),
    "plan-terminal": Case(("plan a.yaml --gpus 64,32",), {"a.yaml": WARNED}, terminal=True),
    "check": Case(
        (
            "check a.yaml",
            "check b.yaml c.yaml nowhere.yaml",
            "check b.yaml --strict",
            "check a.yaml --stack dev",
            "check a.yaml --previous p.json",
            "check text empty",
            "convert a.yaml",
        ),
        {"a.yaml": service(serving()), "b.yaml": WARNED, "c.yaml": INVALID, "text": "a: [1"},
    ),
}


#: Run several programs.
SLOW = ("diff-secrets", "plan-update-of-a-project")


@pytest.mark.parametrize("name", slow_unless(lambda name: name not in SLOW, CASES))
def test_command_prints_its_transcript(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, regenerate: bool
) -> None:
    case = CASES[name]
    monkeypatch.chdir(tmp_path)
    if case.base is not None:
        git(tmp_path, "init", "-q")
        lay_out(case.base)
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-q", "-m", "base")
        for path in case.base:
            Path(path).unlink()
    (tmp_path / "empty").mkdir()
    lay_out(case.files)
    messages = "\n".join(
        transcript(command, monkeypatch, terminal=case.terminal) for command in case.commands
    )
    expected = FOLDER / f"{name}.txt"
    if regenerate:
        expected.write_text(messages, encoding="utf-8")
    assert messages == expected.read_text(encoding="utf-8")


def test_every_transcript_file_has_a_test() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(CASES)


def lay_out(files: dict[str, Any]) -> None:
    for path, stream in files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        text = stream
        if not isinstance(stream, str):
            text = yaml.safe_dump_all(
                list(stream) if isinstance(stream, list | tuple) else [stream]
            )
        Path(path).write_text(text, encoding="utf-8")


class _Stream(io.TextIOWrapper):
    """Collects output, as a terminal or as a pipe."""

    def __init__(self, *, terminal: bool) -> None:
        self.held = io.BytesIO()
        self.terminal = terminal
        super().__init__(self.held, encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return self.terminal

    def text(self) -> str:
        """Return the output; escape sequences of a terminal become `<33m>`."""
        return re.sub(r"\x1b\[([0-9;]*m)", r"<\1>", self.held.getvalue().decode())


def transcript(command: str, monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> str:
    out, err = (_Stream(terminal=terminal) for _ in range(2))
    with monkeypatch.context() as patch:
        for key in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "LINES"):
            patch.delenv(key, raising=False)
        patch.setenv("COLUMNS", "80")
        patch.setenv("TERM", "xterm-256color")
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        status = main(shlex.split(command))
    blocks = [f"$ fusioninfer-pulumi {command}\n", out.text()]
    if err.text():
        blocks.append(f"--- standard error\n{err.text()}")
    return "".join([*blocks, f"--- exit status {status}\n"])
