"""A program runs in its own process, which may exit, hang or print."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pulumi
import pytest
import yaml

from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.cli.program import parent_process
from fusioninfer_pulumi.cli.program.parent_process import run_program
from fusioninfer_pulumi.findings import InvalidServiceError


def project(folder: Path, program: str, **modules: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "Pulumi.yaml").write_text("name: app\nruntime: python\n")
    head = "import pulumi\nimport pulumi_kubernetes as k8s\n"
    (folder / "__main__.py").write_text(head + program)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_modules_of_one_name_do_not_mix(tmp_path: Path) -> None:
    program = "import settings\nk8s.core.v1.ConfigMap('a', metadata={'name': settings.NAME})\n"
    old = project(tmp_path / "old", program, settings="NAME = 'old'\n")
    new = project(tmp_path / "new", program, settings="NAME = 'new'\n")
    names = [run_program(folder).objects[0]["metadata"]["name"] for folder in (old, new, old)]
    assert names == ["old", "new", "old"]
    assert "settings" not in sys.modules


@pytest.mark.parametrize("way", ["beside", "linked"])
def test_modules_of_two_revisions_do_not_mix(tmp_path: Path, way: str) -> None:
    names = []
    for revision in ("old", "new"):
        tree = tmp_path / revision
        (tree / "lib" / "held").mkdir(parents=True)
        (tree / "lib" / "held" / "names.py").write_text(f"NAME = {revision!r}\n")
        program = "import sys\nsys.path.append('../lib')\n" if way == "beside" else ""
        program += "from held import names\n"
        program += "k8s.core.v1.ConfigMap('a', metadata={'name': names.NAME})\n"
        folder = project(tree / "project", program)
        if way == "linked":
            (folder / "held").symlink_to("../lib/held")
        names.append(run_program(folder).objects[0]["metadata"]["name"])
    assert names == ["old", "new"]
    assert not any(name.partition(".")[0] == "held" for name in sys.modules)


@pytest.mark.parametrize("end", ["", "raise RuntimeError('x')\n", "sys.exit(1)\n"])
def test_run_leaves_the_process_unchanged(tmp_path: Path, end: str) -> None:
    program = (
        "import os, sys\n"
        "assert os.getcwd() == sys.path[0] == os.path.dirname(__file__)\n"
        "assert sys.argv == [__file__] and __name__ == '__main__'\n"
        "os.environ['ADDED'] = '1'\n"
        "os.chdir('/')\n"
        "sys.path.append('/nowhere')\n"
        "import settings\n" + end
    )
    folder = project(tmp_path / "one", program, settings="")

    def state() -> tuple[object, ...]:
        return (Path.cwd(), list(sys.path), list(sys.argv), dict(os.environ), pulumi.Output.apply)

    before = state()
    if end:
        with pytest.raises(InvalidServiceError):
            run_program(folder)
    else:
        run_program(folder)
    assert state() == before
    assert "settings" not in sys.modules


def test_output_of_the_program_goes_to_stderr(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = project(
        tmp_path / "one",
        "import atexit, os, subprocess, sys\n"
        "print('printed')\n"
        "sys.stdout.write('written\\n')\n"
        "subprocess.run(['echo', 'child'], check=True)\n"
        "pulumi.Output.from_input('applied').apply(print)\n"
        "atexit.register(lambda: os.write(1, b'--- late'))\n"
        "k8s.core.v1.ConfigMap('a', metadata={'name': 'a'})\n",
    )
    assert main(["render", str(folder)]) == 0
    out, err = capfd.readouterr()
    (manifest,) = yaml.safe_load_all(out)
    assert manifest["kind"] == "ConfigMap"
    assert {"printed", "written", "child", "applied"} <= set(err.split())


@pytest.mark.parametrize(
    ("program", "rule", "text"),
    [
        ("import os; os._exit(0)", "program-ended", "os._exit"),
        ("import os; os._exit(3)", "program-ended", "status 3"),
        ("import os; os.abort()", "program-ended", "status -6"),
        ("raise GeneratorExit", "program-failed", "GeneratorExit"),
        ("raise KeyboardInterrupt('x')", "program-failed", "KeyboardInterrupt: x"),
        (
            "import os, threading\nthreading.Thread(target=os._exit, args=(0,)).run()",
            "program-ended",
            "status 0",
        ),
    ],
)
def test_program_that_ends_its_process_is_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], program: str, rule: str, text: str
) -> None:
    folder = project(tmp_path / "one", f"k8s.core.v1.ConfigMap('a')\n{program}\n")
    with pytest.raises(InvalidServiceError, match=text) as caught:
        run_program(folder)
    assert [finding.rule for finding in caught.value.findings] == [rule]
    assert "Traceback" not in "".join(capfd.readouterr())


WAITING = {
    "sleep": ("import time\ndef sleep():\n    time.sleep(60)\nsleep()", "line 5 in sleep"),
    "loop": ("while True:\n    pass", "__main__.py"),
    "thread": (
        "import threading, time\ndef run():\n    time.sleep(60)\n\
threading.Thread(target=run).start()",
        "line 5 in run",
    ),
}


@pytest.mark.parametrize("way", WAITING)
def test_program_that_does_not_end_prints_where_its_threads_are(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], way: str
) -> None:
    program, place = WAITING[way]
    with pytest.raises(InvalidServiceError, match="did not end within 1 s") as caught:
        run_program(project(tmp_path / "one", program), timeout=1)
    assert [finding.rule for finding in caught.value.findings] == ["program-ended"]
    assert place in capfd.readouterr().err


@pytest.mark.slow
def test_spawned_process_has_same_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "from fusioninfer_pulumi import InferenceService\n"
        "InferenceService('svc', {'roles': [{'name': 'a', 'componentType': 'worker', 'template': {"
        "'spec': {'containers': [{'name': 'vllm', 'image': 'vllm/vllm-openai:v0.11.0', 'env': ["
        "{'name': 'A', 'value': pulumi.Output.secret('hunter2')}]}]}}}]})\n"
    )
    folder = project(tmp_path / "one", program)
    forked = run_program(folder)
    monkeypatch.setattr(parent_process, "_START_METHOD", "spawn")
    assert run_program(folder).objects == forked.objects
