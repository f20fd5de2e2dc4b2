"""A run leaves the process as it was."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime import settings

from fusioninfer_pulumi.cli.program import ProgramError, run_program


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
    names = [
        run_program(folder).resources[0].manifest["metadata"]["name"] for folder in (old, new, old)
    ]
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
        names.append(run_program(folder).resources[0].manifest["metadata"]["name"])
    assert names == ["old", "new"]
    assert not any(name.partition(".")[0] == "held" for name in sys.modules)


def test_a_loaded_module_does_not_hide_the_programs_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere: Any = type(sys)("settings")
    elsewhere.NAME = "elsewhere"
    monkeypatch.setitem(sys.modules, "settings", elsewhere)
    program = "import settings\nk8s.core.v1.ConfigMap('a', metadata={'name': settings.NAME})\n"
    folder = project(tmp_path / "one", program, settings="NAME = 'own'\n")
    assert run_program(folder).resources[0].manifest["metadata"]["name"] == "own"
    assert sys.modules["settings"] is elsewhere


@pytest.mark.parametrize("end", ["", "raise RuntimeError('x')\n", "sys.exit(1)\n"])
def test_the_process_is_restored(tmp_path: Path, end: str) -> None:
    program = (
        "import logging, os, sys, warnings\n"
        "assert os.getcwd() == sys.path[0] == os.path.dirname(__file__)\n"
        "assert sys.argv == [__file__] and __name__ == '__main__'\n"
        "os.environ['ADDED'] = '1'\n"
        "del os.environ['PATH']\n"
        "os.chdir('/')\n"
        "sys.path.append('/nowhere')\n"
        "sys.argv = ['other']\n"
        "warnings.simplefilter('ignore')\n"
        "logging.basicConfig(level=logging.DEBUG, force=True)\n"
        "import settings\n" + end
    )
    folder = project(tmp_path / "one", program, settings="")

    def state() -> tuple[object, ...]:
        return (
            Path.cwd(),
            list(sys.path),
            list(sys.argv),
            dict(os.environ),
            sys.stdout,
            sys.modules["__main__"],
            logging.getLogger().handlers[:],
            logging.getLogger().level,
            logging.getLogger("asyncio").level,
            settings.SETTINGS.monitor,
            settings.SETTINGS.project,
            settings.ROOT.get(),
            pulumi.Config("app").get("key"),
        )

    before = state()
    if end:
        with pytest.raises(ProgramError):
            run_program(folder)
    else:
        run_program(folder)
    assert state() == before
    assert "settings" not in sys.modules
    assert not any(str(tmp_path) in path for path in sys.path_importer_cache)


def test_settings_do_not_leak_into_other_contexts(tmp_path: Path) -> None:
    run_program(project(tmp_path / "one", ""))
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.append(settings.SETTINGS.monitor))
    thread.start()
    thread.join()
    assert type(seen[0]).__name__ != "Recorder"


def test_no_coroutines_or_loops_are_left(tmp_path: Path) -> None:
    program = (
        "import asyncio\n"
        "async def forever():\n"
        "    await asyncio.Event().wait()\n"
        "task = asyncio.ensure_future(forever())\n"
        "made = k8s.core.v1.ConfigMap('a', metadata={'name': 'a'})\n"
        "made.metadata.apply(lambda m: m.name).apply(lambda n: n.nothing)\n"
        "made.id.apply(print)\n"
    )
    folder = project(tmp_path / "one", program)
    with pytest.raises(ProgramError):
        run_program(folder)
    gc.collect()
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_output_of_the_program_goes_to_stderr(tmp_path: Path) -> None:
    folder = project(
        tmp_path / "one",
        "import os, subprocess, sys\n"
        "print('printed')\n"
        "sys.stdout.write('written\\n')\n"
        "subprocess.run(['echo', 'child'], check=True)\n"
        "pulumi.Output.from_input('applied').apply(print)\n",
    )
    script = (
        "from pathlib import Path\n"
        "from fusioninfer_pulumi.cli.program import run_program\n"
        "print('before')\n"
        f"run_program(Path({str(folder)!r}))\n"
        "print('after')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "before\nafter\n"
    assert {"printed", "written", "child", "applied"} <= set(done.stderr.split())


def test_importing_the_package_does_not_import_pulumi() -> None:
    script = (
        "import sys, fusioninfer_pulumi.cli.program\n"
        "assert 'pulumi' not in sys.modules and 'grpc' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_runs_of_several_threads_wait_for_each_other(tmp_path: Path) -> None:
    program = "import settings\nk8s.core.v1.ConfigMap('a', metadata={'name': settings.NAME})\n"
    folders = [
        project(tmp_path / f"p{index}", program, settings=f"NAME = 'n{index}'\n")
        for index in range(4)
    ]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(run_program, folders))
    assert [recording.resources[0].manifest["metadata"]["name"] for recording in found] == [
        "n0",
        "n1",
        "n2",
        "n3",
    ]
