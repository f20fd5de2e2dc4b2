"""Scripts of the workflow files in docs/ci, run with the environment of a CI server."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from printed_findings import without_rules
from yaml_files import read

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs" / "ci"
GITHUB = read(DOCS / "github-actions.yml")
GITLAB = read(DOCS / "gitlab-ci.yml")
MARK = "<!-- fusioninfer-pulumi diff -->"


def step(job: str, name: str) -> str:
    (item,) = [entry for entry in GITHUB["jobs"][job]["steps"] if entry.get("name") == name]
    return str(item["run"])


WRITE = step("diff", "Write the comment")
POST_GITHUB = step("comment", "Post the comment, or update it")
(POST_GITLAB,) = GITLAB["fusioninfer-comment"]["script"]

SERVICE = """\
apiVersion: fusioninfer.io/v1alpha1
kind: InferenceService
metadata: {name: chat}
spec:
  roles:
    - name: serve
      componentType: worker
      replicas: 2
      template:
        spec:
          containers:
            - name: vllm
              image: vllm/vllm-openai:v0.11.0
              args: ["--model", "m"]
              env: [{name: HF_TOKEN, value: hf_abcdefghijklmnopqrstuvwxyz012345}]
              resources: {limits: {nvidia.com/gpu: "1"}}
"""


def shell(script: str, folder: Path, first: Path | None = None, **environment: str) -> Any:
    path = os.pathsep.join([*([str(first)] if first else []), str(Path(sys.executable).parent)])
    value = {**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}", **environment}
    # GitHub's and GitLab's runners both stop at the first failure.
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(
        command, cwd=folder, env=value, capture_output=True, text=True, check=False
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "service.yaml").write_text(SERVICE)
    author = "-c user.name=a -c user.email=a@example.com"
    done = shell(f"git init -q . && git add . && git {author} commit -qm first", folder)
    assert done.returncode == 0, done.stderr
    return folder


def comment(folder: Path, wanted: int) -> str:
    done = shell(WRITE, folder, BASE="HEAD", SOURCE="service.yaml", STACK="")
    assert done.returncode == wanted, done.stderr
    text = (folder / "comment.md").read_text()
    assert text.startswith(f"{MARK}\n")
    return text


def test_github_and_gitlab_write_the_same_comment() -> None:
    assert GITLAB["fusioninfer-diff"]["script"] == [WRITE]


def test_difference_is_commented_and_passes(repository: Path) -> None:
    changed = SERVICE.replace("replicas: 2", "replicas: 3").replace("v0.11.0", "v0.12.0")
    (repository / "service.yaml").write_text(changed)
    done = comment(repository, 0)
    assert "replicas: 2 of 2 restart, 1 start" in done
    assert "| chat | 2 → 3 | 2 → 3 |" in done
    assert "| serve | 2 → 3 | serve-0, serve-1 | serve-2 |" in done
    # The credential in the manifest is a finding, and is not repeated.
    assert "Findings:\n\n    " in done
    assert "hf_abc" not in done


def test_equal_services_pass(repository: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin", "fusioninfer-pulumi", "echo '**no difference**'")
    value = {"BASE": "HEAD", "SOURCE": "service.yaml", "STACK": ""}
    shell(WRITE, repository, tmp_path / "bin", **value).check_returncode()
    assert (repository / "comment.md").read_text() == f"{MARK}\n**no difference**\n"


def test_invalid_service_fails_with_the_reason(repository: Path) -> None:
    (repository / "service.yaml").write_text(SERVICE.replace("replicas: 2", "replicas: -1"))
    done = comment(repository, 1)
    assert "**This cannot be deployed:**\n\nFindings:\n\n    " in done
    assert "\n    service.yaml: roles[0].replicas: must be at least 0, got -1\n" in without_rules(
        done
    )


def test_missing_command_fails_the_job(repository: Path) -> None:
    script = WRITE.replace("fusioninfer-pulumi diff", "no-such-command diff")
    done = shell(script, repository, BASE="HEAD", SOURCE="service.yaml", STACK="")
    assert done.returncode == 1
    assert "cannot be deployed" in (repository / "comment.md").read_text()


def test_stack_name_is_one_argument(repository: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin", "fusioninfer-pulumi", 'printf "%s|" "$@"')
    value = {"BASE": "b", "SOURCE": "a b", "STACK": "x y"}
    shell(WRITE, repository, tmp_path / "bin", **value).check_returncode()
    done = (repository / "comment.md").read_text()
    assert "diff|--base|b|a b|--stack|x y|--output|markdown|" in done


def test_long_comment_omits_details(repository: Path, tmp_path: Path) -> None:
    expected = (
        "echo '**many**'; echo '<details>'; head -c 70000 /dev/zero | tr '\\0' x; echo; "
        "echo '</details>'; echo 'a finding' >&2; exit 1"
    )
    program(tmp_path / "bin", "fusioninfer-pulumi", expected)
    value = {"BASE": "b", "SOURCE": ".", "STACK": ""}
    done = shell(WRITE, repository, tmp_path / "bin", **value)
    assert done.returncode == 0
    assert "xxx" in done.stdout
    assert (repository / "comment.md").read_text() == (
        f"{MARK}\n**many**\n\nFindings:\n\n    a finding\n\n"
        "The details are too long for a comment; the job prints them.\n"
    )


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{script}\n")
    (folder / name).chmod(stat.S_IRWXU)


@pytest.mark.parametrize(("answer", "wanted"), [("17\n23\n", "PATCH u/17"), ("", "POST c")])
def test_github_has_one_comment(tmp_path: Path, answer: str, wanted: str) -> None:
    program(
        tmp_path / "bin", "gh", f'echo "$@" >>calls; [ "$2" != --paginate ] || printf "{answer}"'
    )
    done = shell(POST_GITHUB, tmp_path, tmp_path / "bin", COMMENTS="c", COMMENT="u")
    assert done.returncode == 0, done.stderr
    listing, writing = (tmp_path / "calls").read_text().splitlines()
    assert listing.startswith("api --paginate c --jq .[] | select(")
    assert writing == f"api --method {wanted} --field body=@comment.md --silent"


def note(number: int, body: str, author: int = 7) -> dict[str, Any]:
    return {"id": number, "body": body, "author": {"id": author}}


@pytest.mark.parametrize(
    ("notes", "wanted"),
    [
        ([note(1, "hi"), note(2, f"{MARK}\nx"), note(3, f"{MARK}\nx")], "PUT n/2"),
        ([note(1, f"see {MARK}")], "POST n"),
        ([note(1, f"{MARK}\nx", author=8), note(2, f"{MARK}\nx")], "PUT n/2"),
        ([note(1, f"{MARK}\nx", author=8)], "POST n"),
        ([], "POST n"),
    ],
)
def test_gitlab_has_one_comment(tmp_path: Path, notes: list[Any], wanted: str) -> None:
    (tmp_path / "notes").write_text(json.dumps(notes))
    (tmp_path / "user").write_text(json.dumps({"id": 7, "username": "project_1_bot"}))
    script = """\
        echo "$@" >>calls
        case "$*" in
          *--request*) ;;
          *" v4/user") cat user ;;
          *" n?"*) cat notes ;;
        esac"""
    program(tmp_path / "bin", "curl", script)
    value = {"NOTES": "n", "COMMENT_TOKEN": "t", "CI_API_V4_URL": "v4"}
    done = shell(POST_GITLAB, tmp_path, tmp_path / "bin", **value)
    assert done.returncode == 0, done.stderr
    *_, writing = (tmp_path / "calls").read_text().splitlines()
    method, url = wanted.split()
    assert writing.endswith(f"--request {method} --data-urlencode body@comment.md {url}")


@pytest.mark.parametrize("name", ["gh", "curl"])
def test_api_server_rejection_fails_the_job(tmp_path: Path, name: str) -> None:
    program(tmp_path / "bin", name, "exit 22")
    script = POST_GITHUB if name == "gh" else POST_GITLAB
    value = {"COMMENTS": "c", "COMMENT": "u", "NOTES": "n", "COMMENT_TOKEN": "t"}
    value["CI_API_V4_URL"] = "v4"
    assert shell(script, tmp_path, tmp_path / "bin", **value).returncode != 0


def test_merge_results_are_compared_with_their_target(tmp_path: Path) -> None:
    job = GITLAB["fusioninfer-diff"]
    _, choose = job["before_script"]
    for target, wanted in (("", "began"), ("now", "now")):
        # The variable is empty in other pipelines.
        value = {
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": "began",
            "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": target,
        }
        assert shell(f'{choose}\necho "$BASE"', tmp_path, None, **value).stdout == f"{wanted}\n"
    assert "BASE" not in job["variables"]


def test_merge_requests_of_forks_get_no_comment() -> None:
    (rule,) = GITLAB["fusioninfer-comment"]["rules"]
    condition = rule["if"].split(" && ")
    assert "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_MERGE_REQUEST_PROJECT_ID" in condition
    assert GITLAB["fusioninfer-diff"]["after_script"] == ["cat comment.md"]


def test_workflow_has_minimal_permissions() -> None:
    assert GITHUB["permissions"] == {}
    jobs = GITHUB["jobs"]
    assert jobs["diff"]["permissions"] == {"contents": "read"}
    assert jobs["comment"]["permissions"] == {"pull-requests": "write"}
    # A job with write permissions runs no code of the pull request.
    assert not [item for item in jobs["comment"]["steps"] if "checkout" in item.get("uses", "")]
    assert GITLAB["fusioninfer-comment"]["variables"]["GIT_STRATEGY"] == "none"
    # YAML 1.1 reads `on` as true. `pull_request_target` would run a fork's code with permissions.
    assert list(GITHUB[True]) == ["pull_request"]


def test_pull_request_text_is_not_part_of_scripts() -> None:
    for job in GITHUB["jobs"].values():
        assert not [item for item in job["steps"] if "${{" in item.get("run", "")]


def test_actions_and_images_are_pinned() -> None:
    text = (DOCS / "github-actions.yml").read_text(encoding="utf-8")
    used = re.findall(r"uses: (\S+)", text)
    assert len(used) == 4
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+\.\d+\.\d+", item) for item in used)
    for name in ("fusioninfer-diff", "fusioninfer-comment"):
        assert re.fullmatch(r"python:\d+\.\d+\.\d+-bookworm", GITLAB[name]["image"])


@pytest.mark.slow
def test_job_shows_findings_and_plan(repository: Path) -> None:
    summary = repository / "summary.md"
    value = {"SOURCE": "service.yaml", "STACK": "", "GITHUB_STEP_SUMMARY": str(summary)}
    (repository / "service.yaml").write_text(SERVICE.replace("replicas: 2", "replicas: -1"))
    done = shell(step("diff", "Annotate lines with findings"), repository, **value)
    assert done.returncode == 0, "the next step decides"
    assert done.stdout.startswith("::error file=service.yaml,line=8,title=out-of-range::")
    shell(step("diff", "Plan"), repository, **value).check_returncode()
    assert not summary.exists()
    (repository / "service.yaml").write_text(SERVICE)
    shell(step("diff", "Plan"), repository, **value).check_returncode()
    lines = summary.read_text().splitlines()
    assert lines[0].startswith("    chat  namespace default")
    assert all(not line or line.startswith("    ") for line in lines)


OWN = read(ROOT / ".github/workflows/ci.yml")


def test_project_workflow_runs_existing_targets() -> None:
    steps = [item for job in OWN["jobs"].values() for item in job["steps"]]
    targets = [word for item in steps for word in item.get("run", "").split()[1:]]
    known = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert {"test", "lint", "docs"} <= set(targets) <= set(known)
    assert OWN["permissions"] == {"contents": "read"}
    actions = [item["uses"] for item in steps if "uses" in item]
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+\.\d+\.\d+", action) for action in actions)


def test_project_workflow_runs_every_supported_python() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    explicit = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)
    run = OWN["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert set(run) <= set(explicit)
    assert run[0] == explicit[0]


RELEASE = read(ROOT / ".github/workflows/release.yml")


def test_release_workflow_pins_actions_and_writes_only_where_it_publishes() -> None:
    build, publish = RELEASE["jobs"]["build"], RELEASE["jobs"]["publish"]
    assert RELEASE["permissions"] == {"contents": "read"}
    assert build["permissions"].keys() == {"contents", "id-token", "attestations"}
    assert publish["permissions"] == {"id-token": "write"}
    steps = [*build["steps"], *publish["steps"]]
    actions = [item["uses"] for item in steps if "uses" in item]
    assert all(re.fullmatch(r"[a-z-]+/[a-z-]+@v\d+\.\d+\.\d+", action) for action in actions)
    assert {"run": "make release-files"} in build["steps"]
    assert "release-files:" in (ROOT / "Makefile").read_text(encoding="utf-8")
