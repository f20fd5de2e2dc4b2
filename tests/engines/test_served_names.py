"""The names under which an engine serves its model."""

from __future__ import annotations

import pytest

from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.model_arguments import served_names
from tests.samples import container

CASES = [
    (["--model", "a/b"], ("a/b",)),
    (["--model", "a/b", "--served-model-name", "x"], ("x",)),
    (["--served-model-name", "y", "x", "--model", "m"], ("y", "x")),
    (["--served_model_name", "x", "--served-model-name=z"], ("z",)),
    (["--served-model-name", "x", "$Y"], None),
    (["--served-model-name"], None),
    (["--model", "$MODEL"], None),
    (["--model", "m", "--config", "/etc/vllm.yaml"], None),
    # The command line comes before the file, in vLLM and in SGLang.
    (["--model", "m", "--served-model-name", "x", "--config", "/etc/vllm.yaml"], ("x",)),
    ([], None),
]


@pytest.mark.parametrize(("arguments", "names"), CASES)
def test_names_of_a_model(arguments: list[str], names: tuple[str, ...] | None) -> None:
    assert served_names(read_command(container(args=arguments))) == names


def test_programs_that_are_not_known_tell_nothing() -> None:
    other = container(image="example.com/server:1", args=["--model", "m"])
    assert served_names(read_command(other)) is None
    sglang = container(image="lmsysorg/sglang:v0.5.3", args=["--model-path", "m"])
    assert served_names(read_command(sglang)) == ("m",)
    assert served_names(
        read_command({**sglang, "command": ["python3", "-m", "sglang.launch_server"]})
    ) == ("m",)
