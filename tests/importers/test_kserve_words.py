"""The words of a container's args and of VLLM_ADDITIONAL_ARGS, as KServe's shell reads them."""

from __future__ import annotations

import pytest
from importers.kserve_samples import Manifest, container, llm, pod
from importers.reads import problems, said, spec

POD_IP = {"name": "POD_IP", "value": "1"}


def additional(value: str) -> Manifest:
    return {"name": "VLLM_ADDITIONAL_ARGS", "value": value}


@pytest.mark.parametrize(
    ("given", "args"),
    [
        ({"env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": "--a 1 --b 'x y'"}]}, "--a|1|--b|x y"),
        ({"args": ["--a", "1"]}, "--a|1"),
        # The presets hand args to a shell, which splits them and takes quotes away.
        ({"args": ["--a 1", "--b='x y'"]}, "--a|1|--b=x y"),
        (
            {"env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": "--a 1"}], "args": ["--b"]},
            "--a|1|--b",
        ),
        (
            {
                "env": [
                    {"name": "POD_IP", "value": "1"},
                    {"name": "VLLM_ADDITIONAL_ARGS", "value": "--topic 'kv@${POD_IP}@m'"},
                ]
            },
            "--topic|kv@$(POD_IP)@m",
        ),
    ],
)
def test_the_words_that_the_presets_script_appends(given: Manifest, args: str) -> None:
    (role,) = spec(llm(template=pod(**given)))["roles"]
    assert container(role)["args"] == args.split("|")
    names = [each["name"] for each in container(role).get("env", [])]
    assert "VLLM_ADDITIONAL_ARGS" not in names


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--a", "$POD_IP"], ["--a", "$(POD_IP)"]),
        (["--a", "x${POD_IP}y"], ["--a", "x$(POD_IP)y"]),
        (["--a", "$(POD_IP)"], ["--a", "$(POD_IP)"]),
        (['--a "$(POD_IP)-$POD_IP"'], ["--a", "$(POD_IP)-$(POD_IP)"]),
        # What a shell leaves as it is.
        (["--a", "^b$"], ["--a", "^b$"]),
        ([r"--a \$POD_IP"], ["--a", "$POD_IP"]),
        ([r'--a "\$POD_IP"'], ["--a", "$POD_IP"]),
        (["--a '`b`'"], ["--a", "`b`"]),
    ],
)
def test_variables_in_arguments_are_the_kubelets(args: list[str], words: list[str]) -> None:
    (role,) = spec(llm(template=pod(args=args, env=[POD_IP])))["roles"]
    assert container(role)["args"] == words


PROGRAM = "runs a program to find its words; write what it becomes"


@pytest.mark.parametrize(
    ("args", "at", "why"),
    [
        (["--a", "$HOST"], "args[1]", "names HOST, which the container's env does not define"),
        (["--a", "${HOST}"], "args[1]", "names HOST, which the container's env does not define"),
        (["--a", "$(hostname)"], "args[1]", PROGRAM),
        (["--a", "`hostname`"], "args[1]", PROGRAM),
        (['--a "$(hostname)"'], "args", PROGRAM),
        (["--a", "${POD_IP:-b}"], "args[1]",
         "holds ${POD_IP:-b}, which only a shell in the pod could tell; write what it becomes"),
        (["--a", "$$"], "args[1]",
         "holds $$, which only a shell in the pod could tell; write what it becomes"),
    ],
)  # fmt: skip
def test_what_only_a_shell_could_tell_is_refused_in_arguments(
    args: list[str], at: str, why: str
) -> None:
    document = llm(template=pod(args=args, env=[POD_IP]))
    assert problems(document) == [f"f: template.containers[0].{at}: {why}"]


def test_the_kubelet_knows_variables_in_their_order() -> None:
    env = [POD_IP, additional("--a $(POD_IP)")]
    (role,) = spec(llm(template=pod(env=env)))["roles"]
    assert container(role)["args"] == ["--a", "$(POD_IP)"]
    # Later ones are left to the shell, which would run a program of that name.
    assert problems(llm(template=pod(env=env[::-1]))) == [
        f"f: template.containers[0].env[0].value: {PROGRAM}"
    ]
    document = llm(template=pod(env=[additional("--a $POD_IP"), POD_IP]))
    assert any("its variables are expanded by the kubelet" in each for each in said(document))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("--a $(hostname)", "runs a program to find its words; write what it becomes"),
        ("--a $NOWHERE", "names NOWHERE, which the container's env does not define"),
        ("--a 'b", "cannot be read by a shell: No closing quotation"),
    ],
)
def test_words_that_only_a_shell_in_the_pod_could_tell(value: str, why: str) -> None:
    env = [{"name": "VLLM_ADDITIONAL_ARGS", "value": value}]
    assert problems(llm(template=pod(env=env))) == [
        f"f: template.containers[0].env[0].value: {why}"
    ]
