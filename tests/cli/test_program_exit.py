"""Exits of programs, their child processes, and their printed text."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import pytest
from cli.projects import PROGRAM, Folder
from profiles import slow_unless
from samples import role

from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.cli.program.recording import Recording
from fusioninfer_pulumi.findings import InvalidServiceError

Run = Callable[..., Recording]

SERVICE = f"""
from fusioninfer_pulumi import InferenceService
ROLE = {role()!r}
"""


def printed(folder: Folder, program: str, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Standard error of `check` for a program."""
    folder.write("__main__.py", PROGRAM + program)
    main(["check", str(folder.root), *words])
    return capsys.readouterr().err.replace(f"{folder.root}", "project")


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("k8s.core.v1.ConfigMap('a')\n", "the program creates no InferenceService ["),
        (
            f"import sys\nsys.exit(0)\n{SERVICE}InferenceService('a', {{'roles': [ROLE]}})\n",
            "the program creates no InferenceService [",
        ),
    ],
)
def test_program_without_a_service_is_a_warning(
    folder: Folder, capsys: pytest.CaptureFixture[str], program: str, message: str
) -> None:
    assert printed(folder, program, capsys).startswith(f"project: warning: {message}")
    assert main(["check", str(folder.root), "--strict"]) == 2
    # `render` prints the objects of programs without a service.
    capsys.readouterr()
    main(["render", str(folder.root)])
    assert capsys.readouterr().err == ""


def test_killed_program_has_a_message(folder: Folder) -> None:
    folder.write("__main__.py", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with pytest.raises(InvalidServiceError, match="exit status -9: it crashed") as caught:
        folder.run()
    assert [finding.rule for finding in caught.value.findings] == ["program-ended"]


@pytest.mark.parametrize("end", slow_unless(bool, ["", "os._exit(3)"]))
def test_child_processes_of_a_program_are_killed(folder: Folder, end: str) -> None:
    folder.write(
        "__main__.py",
        f"""
        import os, subprocess, time
        subprocess.Popen(['sleep', '300'])
        subprocess.Popen(['sh', '-c', 'while :; do echo again; sleep 0.1; done'])
        os.fork() or time.sleep(300)
        {end}
        """,
    )
    script = (
        "import pathlib\n"
        "from fusioninfer_pulumi.cli.program.parent_process import run_program\n"
        "from fusioninfer_pulumi.findings import InvalidServiceError\n"
        "try:\n"
        f"    run_program(pathlib.Path({str(folder.root)!r}), timeout=40)\n"
        "except InvalidServiceError as problem:\n"
        "    print(problem)\n"
    )
    begin = time.monotonic()
    # Its pipes are closed too, because no other process has them open.
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert time.monotonic() - begin < 200
    assert (b"status 3" in done.stdout) is bool(end)


def test_secrets_are_masked_in_what_other_processes_print(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    run(
        """
        import subprocess
        pulumi.Output.secret("hunter2-long")
        subprocess.run(["echo", "token hunter2-long"], check=True)
        subprocess.run("printf hunter2-; sleep 0.2; printf 'long\\n'", shell=True, check=True)
        """
    )
    assert capfd.readouterr().err.splitlines() == ["token <secret>", "<secret>"]


def test_stack_warning_precedes_a_failure(folder: Folder) -> None:
    folder.write("__main__.py", f'{PROGRAM}config.require("key")\n')
    for stack in ("prod", "staging"):
        folder.write(f"Pulumi.{stack}.yaml", "config: {key: p}\n")
    first, second, *_ = folder.fails().splitlines()
    assert first == (
        "warning: no stack selected, running without config (stacks: prod, staging); "
        "select one with --stack"
    )
    assert second.startswith("Missing required configuration variable 'app:key'")


def test_findings_of_each_service_name_its_line(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = "{**ROLE, 'replicas': 2, 'rollout': {'maxUnavailable': 2}}"
    program = (
        f"{SERVICE}WRONG = {wrong}\n"
        "InferenceService('one', {'roles': [WRONG]})\n"
        "InferenceService('two',\n"
        "                 {'roles': [WRONG]})\n"
    )
    folder.write("__main__.py", PROGRAM + program)
    main(["check", str(folder.root), "--output", "json", "--verbose"])
    actual = json.loads(capsys.readouterr().out)
    lines = {entry["line"] for entry in actual}
    assert {entry["file"] for entry in actual} == {f"{folder.root}/__main__.py"}
    assert lines == {10, 11}
    text = printed(folder, program, capsys, "--verbose")
    assert {line.partition(": ")[0] for line in text.splitlines()} == {
        "project/__main__.py:10",
        "project/__main__.py:11",
    }


def test_secret_that_is_printed_first_is_masked(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    run("print('hunter2-long')\npulumi.Output.secret('hunter2-long')\n")
    assert capfd.readouterr().err == "<secret>\n"


def test_no_file_keeps_what_a_program_prints(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    temporary = folder.root / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    # Not even while the program runs, because the command may be killed.
    folder.write("__main__.py", f"import os\nprint(os.listdir({str(temporary)!r}))\n")
    folder.run()
    assert capfd.readouterr().err == "[]\n"
    assert list(temporary.iterdir()) == []


def test_update_of_a_project_runs_it_once(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = "'env': [{'name': 'A', 'value': pulumi.Output.secret('hunter2-long')}]"
    program = f"ROLE['template']['spec']['containers'][0].update({{{secret}}})\nprint('runs')\n"
    program += "InferenceService('a', {'roles': [ROLE]})\n"
    folder.write("__main__.py", f"{PROGRAM}{SERVICE}{program}")
    assert main(["plan", "--update", str(folder.root), str(folder.root)]) == 0
    out, err = capfd.readouterr()
    assert err.count("runs") == 2  # the old and the new side
    assert "\0" not in out
