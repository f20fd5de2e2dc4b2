"""The command line as a process: exit status, streams, usage, startup."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from profiles import slow_unless
from rows import each_row

from fusioninfer_pulumi import __version__
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.loading import file_set

INPUTS = Path(__file__).parent.parent / "fixtures" / "inputs"
STORY_1 = str(INPUTS / "fusioninfer-story-1-monolithic.yaml")
STORY_4 = str(INPUTS / "fusioninfer-story-4-disaggregated-multinode.yaml")
PROGRAM = f"{sys.executable} -m fusioninfer_pulumi"


def shell(script: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash; `$cli` is the program."""
    return subprocess.run(
        ["bash", "-c", f"cli='{PROGRAM}'; {script}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environ},
        cwd=INPUTS,
    )


@each_row(
    ("arguments", "printed"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["render"], "the following arguments are required: SOURCE"),
        (["check"], "the following arguments are required: SOURCE"),
        (["diff"], "the following arguments are required: OLD"),
        (["convert"], "the following arguments are required: SOURCE"),
        (["render", STORY_1, "--output", "toml"], "invalid choice: 'toml'"),
        (["plan", STORY_1, "--output", "yaml"], "invalid choice: 'yaml'"),
        (["plan", STORY_1, "--gpus", "x"], "expected numbers such as 80,64,48, got 'x'"),
        (["plan", STORY_1, "--gpus", ""], "expected numbers such as 80,64,48, got ''"),
        (["plan", STORY_1, "--gpus", "-8"], "--gpus"),
        (["plan", STORY_1, "--gpus", "8,"], "expected numbers"),
        (["plan", STORY_1, "--gpus", "1.5"], "expected numbers"),
        (["plan", STORY_1, "--gpus", "9" * 10], "expected numbers"),
        (["plan", STORY_1, "--gpus", "९"], "expected numbers"),
        (
            ["plan", STORY_1, "--nodes", "8"],
            "expected count x accelerators such as 8x8,4x4, got '8'",
        ),
        (["plan", STORY_1, "--nodes", "8x8,"], "expected count x accelerators"),
        (["plan", STORY_1, "--gpus", "8", "--nodes", "1x8"], "not allowed with argument"),
        (["check", STORY_1, "--unknown"], "unrecognized arguments: --unknown"),
        (["chek", STORY_1], "invalid choice: 'chek'"),
    ],
)
def test_wrong_usage_ends_with_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], printed: str
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "usage: fusioninfer-pulumi" in err
    assert printed in err.splitlines()[-1]


@pytest.mark.parametrize("arguments", [["--help"], ["plan", "--help"], ["--version"]])
def test_help_and_version_end_with_0(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert "fusioninfer-pulumi" in out
    assert err == ""
    if arguments == ["--version"]:
        assert out == f"fusioninfer-pulumi {__version__}\n"


@pytest.mark.parametrize("command", ["render", "plan", "check"])
def test_valid_manifest_ends_with_0(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main([command, STORY_1]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert (out == "") == (command == "check")


def test_diff_ends_with_0_or_1(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fusioninfer_pulumi.cli.diff")
    assert main(["diff", STORY_1, STORY_1]) == 0
    assert capsys.readouterr().out == ""
    assert main(["diff", STORY_1, STORY_4]) == 1


def test_diff_reads_each_source_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    parse = file_set.parse_yaml

    def counted(text: str) -> Iterator[Any]:
        read.append(text)
        return parse(text)

    monkeypatch.setattr(file_set, "parse_yaml", counted)
    assert main(["diff", STORY_1, STORY_4]) == 1
    assert len(read) == 2


def test_closed_output_is_not_success(tmp_path: Path) -> None:
    # Otherwise `diff OLD NEW | head` would report no changes.
    text = Path(STORY_1).read_text(encoding="utf-8").replace("replicas: 1", "replicas: 200")
    (tmp_path / "many.yaml").write_text(text, encoding="utf-8")
    done = shell(f"$cli render {tmp_path}/many.yaml | true; echo ${{PIPESTATUS[0]}}")
    # Without output, like a program killed by SIGPIPE.
    assert (done.stdout, done.stderr) == ("141\n", "")


STREAMS = {
    "standard input is closed": (
        "$cli check - <&-",
        "<stdin>: cannot be read: standard input is closed [unreadable-file]\n",
        2,
    ),
    "standard output is closed": (
        "$cli render *monolithic.yaml >&-",
        "<stdout>: cannot be written: it is closed\n",
        2,
    ),
    "both are closed, and not needed": ("$cli check *monolithic.yaml >&- 2>&-", "", 0),
    "the disk is full": (
        "$cli render *monolithic.yaml > /dev/full",
        "<stdout>: cannot be written: No space left on device\n",
        2,
    ),
    "input without an end": (
        "cat /dev/zero | $cli check -",
        "<stdin>: larger than 16 MiB [input-too-large]\n",
        2,
    ),
}


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's devices")
@pytest.mark.parametrize("case", slow_unless("standard output is closed".__eq__, STREAMS))
def test_failing_stream_sets_exit_status(case: str) -> None:
    script, printed, status = STREAMS[case]
    done = shell(script)
    assert (done.stdout, done.stderr, done.returncode) == ("", printed, status)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's devices")
def test_endless_device_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "/dev/zero"]) == 2
    assert capsys.readouterr().err == "/dev/zero: larger than 16 MiB [input-too-large]\n"


@pytest.mark.slow
def test_output_is_utf_8_in_any_locale(tmp_path: Path) -> None:
    text = Path(STORY_1).read_text(encoding="utf-8").replace("Qwen3-8B", "Qwen3-é中")
    (tmp_path / "wide.yaml").write_text(text, encoding="utf-8")
    done = shell(f"$cli render {tmp_path}/wide.yaml", PYTHONIOENCODING="latin-1")
    assert done.stderr == ""
    assert "Qwen/Qwen3-é中" in done.stdout


def test_reading_a_manifest_does_not_import_pulumi() -> None:
    script = f"""
import sys
from fusioninfer_pulumi.cli.main import main
heavy = {{"pulumi", "pulumi_kubernetes", "grpc", "google", "jsonschema", "rich"}}
for command in ("render", "check", "plan --output json", "plan --gpus 8"):
    if command == "plan --gpus 8":
        heavy.remove("rich")
    assert main([*command.split(), {STORY_1!r}]) == 0
    assert not heavy & {{name.partition(".")[0] for name in sys.modules}}, command
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)


def test_interrupt_prints_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("fusioninfer_pulumi.cli.commands.check", interrupted)
    assert main(["check", STORY_1]) == 130
