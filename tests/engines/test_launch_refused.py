"""Every refusal of the launchers, word by word."""

from __future__ import annotations

from typing import Any

import pytest

from fusioninfer_pulumi.engines.launch import LaunchError, leader_launch, worker_launch

OUTPUT: Any = type("Output", (), {"__module__": "pulumi.output"})()
STOCK = "vllm/vllm-openai:v0.11.0"
NEWER = "vllm/vllm-openai:v0.12.0"
SGLANG = ["python3", "-m", "sglang.launch_server"]
BY_HAND = "or set launcher: none and write the leader's and the workers' commands yourself"


def shell(script: str) -> dict[str, Any]:
    return {"image": STOCK, "command": ["/bin/sh", "-c", script]}


UNQUOTED = (
    "is a pulumi Output, but a shell script is written from it, so it must be quoted and therefore "
    "be a plain string: read the value from pulumi.Config instead (building the InferenceService "
    "inside Output.apply would hide it from preview), or pass it in an environment variable and "
    "write $(NAME)"
)
UNREAD = (
    "which is not understood, so arguments cannot be added to the engine in it: write the command "
    f"as a list, {BY_HAND}"
)
NO_ENGINE = (
    "the container's shell script starts no known engine (vllm serve, python3 -m "
    "sglang.launch_server), so the place for the engine's arguments is not known: write the "
    f"command as a list, {BY_HAND}"
)
RAY_TWICE = (
    "the container's shell script starts ray itself, and a second ray start would fail: leave it "
    f"out, {BY_HAND}"
)
NOT_RAY = (
    "SGLang does not use launcher: ray; use launcher: multiprocessing, which gives every node "
    f"SGLang's own --nnodes, --node-rank and --dist-init-addr, {BY_HAND}"
)
OWN = (
    "cannot be used with launcher: multiprocessing, where the leader alone serves and vLLM gives "
    f"every node its data parallel ranks by --node-rank: leave it out, {BY_HAND}"
)


@pytest.mark.parametrize(
    ("container", "launcher", "message"),
    [
        (
            {"image": "me/model:1", "args": ["m"]}, "ray",
            ("the container has no command, and the program that image 'me/model:1' starts is not "
             "known, so launcher: ray cannot run it after ray: give the container a command (for "
             f"example [vllm, serve]), {BY_HAND}"),
        ),
        ({"image": STOCK, "args": ["m", OUTPUT]}, "ray", f"args[1] {UNQUOTED}"),
        ({"command": ["vllm", OUTPUT]}, "ray", f"command[1] {UNQUOTED}"),
        ({"command": ["vllm", "serve"], "args": OUTPUT}, "ray", f"args {UNQUOTED}"),
        ({"command": OUTPUT}, "ray", f"command {UNQUOTED}"),
        ({"command": ["sh", "-c", OUTPUT]}, "ray",
         f"the script of the container's shell {UNQUOTED}"),
        ({"image": STOCK, "args": ["m", 8]}, "ray", "args[1] must be a string, got 8"),
        (shell("cat <<X\nX\nvllm serve m"), "ray",
         f"the container's shell script has a here-document (<<), {UNREAD}"),
        (shell("vllm serve 'm"), "ray",
         f"the container's shell script has an unclosed ', {UNREAD}"),
        (shell("./start.sh"), "ray", NO_ENGINE),
        (shell("bash -c 'vllm serve m'"), "ray", NO_ENGINE),
        (shell("vllm serve m & sglang serve x"), "ray",
         ("the container's shell script starts sglang as well, which does not use launcher: ray: "
          f"start one engine, {BY_HAND}")),
        (shell("ray start --head; vllm serve m"), "ray", RAY_TWICE),
        (shell("bash /v/multi-node-serving.sh leader; vllm serve m"), "ray", RAY_TWICE),
        ({"command": SGLANG}, "ray", NOT_RAY),
        (shell("sglang serve m"), "ray", NOT_RAY),
        ({"command": ["/start"]}, "multiprocessing",
         ("launcher: multiprocessing adds the engine's own arguments, but the container's command "
          "and image name neither vLLM nor SGLang: give it a command (for example [vllm, serve]), "
          f"{BY_HAND}")),
        ({"command": ["vllm", "serve"], "args": OUTPUT}, "multiprocessing",
         ("args is a pulumi Output as a whole, so the engine's arguments cannot be added to it: "
          f"give a list, whose elements may be Outputs, {BY_HAND}")),
        ({"command": ["sh", "-c", OUTPUT]}, "multiprocessing",
         f"the script of the container's shell {UNQUOTED}"),
        (shell("./start.sh"), "multiprocessing", NO_ENGINE),
        ({"command": ["python3", "-m", "vllm.entrypoints.openai.api_server"]}, "multiprocessing",
         ("launcher: multiprocessing starts workers with --headless, which only `vllm serve` "
          f"obeys: start the engine with `vllm serve`, {BY_HAND}")),
        ({"image": NEWER, "args": ["m", "--headless"]}, "multiprocessing",
         ("--headless would keep the leader from serving: leave it out, the workers get it from "
          f"launcher: multiprocessing, {BY_HAND}")),
        ({"image": NEWER, "args": ["m", "-dp", "2", "-dpr", "1"]}, "multiprocessing",
         f"--data-parallel-start-rank {OWN}"),
        ({"image": NEWER, "args": ["m", "-dp", "2", "--data-parallel-hybrid-lb"]},
         "multiprocessing", f"--data-parallel-hybrid-lb {OWN}"),
        ({"image": NEWER, "args": ["m", "-dp", "2", "-dpb", "ray"]}, "multiprocessing",
         ("--data-parallel-backend ray cannot be used with launcher: multiprocessing: leave it "
          f"out, use launcher: ray, {BY_HAND}")),
        ({"image": NEWER, "args": ["m", "-dp", "16", "-dpl", "4"]}, "multiprocessing",
         ("--data-parallel-size-local 4 does not fit --data-parallel-size 16 on 2 nodes, where "
          f"each runs 8: leave it out, {BY_HAND}")),
        ({"image": STOCK}, "slurm",
         "launcher must be one of ray, multiprocessing, data-parallel, none, got 'slurm'"),
    ],
)  # fmt: skip
def test_refused(container: dict[str, Any], launcher: str, message: str) -> None:
    with pytest.raises(LaunchError) as raised:
        leader_launch(container, launcher, 2)
    assert str(raised.value) == message


@pytest.mark.parametrize("launcher", ["slurm", "ray"])
def test_workers_are_refused_as_well(launcher: str) -> None:
    with pytest.raises(LaunchError):
        worker_launch({"command": SGLANG}, launcher, 2)
