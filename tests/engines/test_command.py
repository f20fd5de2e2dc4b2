"""Command lines of containers are parsed, and none raises an exception."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st
from rows import each_row

from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.engines.engine_commands import ENGINES, parse_command
from fusioninfer_pulumi.engines.engine_images import Image, parse_image

OUTPUT: Any = type("Output", (), {"__module__": "pulumi.output"})()
STOCK = "vllm/vllm-openai:v0.11.0"
MODEL = ["--model", "Qwen/Qwen3-8B"]


@each_row(
    ("reference", "image"),
    [
        (STOCK, Image(STOCK, "vllm", True, "v0.11.0", (0, 11, 0), "0.11.0")),
        (
            "r.local:5000/hub/vllm/vllm-openai:v0.8.5.post1",
            Image(
                "r.local:5000/hub/vllm/vllm-openai:v0.8.5.post1",
                "vllm",
                True,
                "v0.8.5.post1",
                (0, 8, 5),
                "0.8.5.post1",
            ),
        ),
        (
            "lmsysorg/sglang:v0.5.3-cu126",
            Image(
                "lmsysorg/sglang:v0.5.3-cu126", "sglang", True, "v0.5.3-cu126", (0, 5, 3), "0.5.3"
            ),
        ),
        (
            "lmsysorg/sglang:v0.5.3rc1",
            Image("lmsysorg/sglang:v0.5.3rc1", "sglang", True, "v0.5.3rc1", (0, 5, 3)),
        ),
        (
            "vllm/vllm-openai:v0.11.0-patched",
            Image("vllm/vllm-openai:v0.11.0-patched", "vllm", True, "v0.11.0-patched", (0, 11, 0)),
        ),
        (
            "vllm/vllm-openai:v0.11.0@sha256:ab",
            Image(
                "vllm/vllm-openai:v0.11.0@sha256:ab", "vllm", True, "v0.11.0", (0, 11, 0), "0.11.0"
            ),
        ),
        ("vllm/vllm-openai", Image("vllm/vllm-openai", "vllm", True, "latest", None)),
        (
            "vllm/vllm-openai@sha256:ab",
            Image("vllm/vllm-openai@sha256:ab", "vllm", True, None, None),
        ),
        ("vllm/vllm-openai:latest", Image("vllm/vllm-openai:latest", "vllm", True, "latest", None)),
        ("me/my-vllm:v1.0.0", Image("me/my-vllm:v1.0.0", "vllm", False, "v1.0.0", None)),
        ("xvllm/vllm-openai:v1.0.0", Image("xvllm/vllm-openai:v1.0.0", "vllm", False, "v1.0.0")),
        ("nginx", Image("nginx", None, False, "latest", None)),
        ("r.local:5000/nginx", Image("r.local:5000/nginx", None, False, "latest", None)),
        (OUTPUT, Image()),
        (None, Image()),
    ],
)
def test_image_reference_is_parsed(reference: Any, image: Image) -> None:
    assert parse_image(reference) == image


def read(**container: Any) -> EngineCommand:
    return parse_command({"name": "main", "image": "registry.local/model:1", **container})


def parsed(command: EngineCommand) -> tuple[Any, ...]:
    return (
        command.engine.name if command.engine is not None else None,
        command.program,
        command.arguments,
        command.script,
        command.is_readable,
    )


@each_row(
    ("container", "expected"),
    [
        # The image's own entrypoint.
        ({"image": STOCK, "args": MODEL}, ("vllm", (), tuple(MODEL), None, True)),
        ({"image": STOCK}, ("vllm", (), (), None, True)),
        ({"args": MODEL}, (None, (), tuple(MODEL), None, True)),
        # Programs in command and args.
        (
            {"command": ["vllm", "serve"], "args": ["m", "-tp", "2"]},
            ("vllm", ("vllm", "serve"), ("m", "-tp", "2"), None, True),
        ),
        (
            {"command": ["vllm", "serve", "m", "-tp", "2"]},
            ("vllm", ("vllm", "serve"), ("m", "-tp", "2"), None, True),
        ),
        (
            {"image": STOCK, "args": ["vllm", "serve", "m"]},
            ("vllm", ("vllm", "serve"), ("m",), None, True),
        ),
        (
            {"command": ["/usr/bin/python3", "-u", "-m", "vllm.entrypoints.openai.api_server"]},
            (
                "vllm",
                ("/usr/bin/python3", "-u", "-m", "vllm.entrypoints.openai.api_server"),
                (),
                None,
                True,
            ),
        ),
        (
            {"command": ["python3", "-m", "sglang.launch_server", "--tp", "8"]},
            ("sglang", ("python3", "-m", "sglang.launch_server"), ("--tp", "8"), None, True),
        ),
        (
            {"command": ["tini", "--", "sglang", "serve"], "args": ["--tp", "8"]},
            ("sglang", ("tini", "--", "sglang", "serve"), ("--tp", "8"), None, True),
        ),
        (
            {"command": ["python3.12", "-X", "dev", "-m", "vllm.entrypoints.cli.main", "serve"]},
            (
                "vllm",
                ("python3.12", "-X", "dev", "-m", "vllm.entrypoints.cli.main", "serve"),
                (),
                None,
                True,
            ),
        ),
        # Other programs, even in the engine's image.
        (
            {"image": STOCK, "command": ["python3", "server.py"], "args": ["--port", "1"]},
            (None, ("python3", "server.py"), ("--port", "1"), None, True),
        ),
        (
            {"image": STOCK, "command": ["python3", "-m"]},
            (None, ("python3", "-m"), (), None, True),
        ),
        ({"command": ["echo", "vllm", "serve"]}, (None, ("echo", "vllm", "serve"), (), None, True)),
        # Shell scripts, in command or in args.
        (
            {"command": ["/bin/sh", "-c", "vllm serve 'a b' -tp 2"]},
            ("vllm", ("vllm", "serve"), ("a b", "-tp", "2"), "vllm serve 'a b' -tp 2", True),
        ),
        (
            {"command": ["bash", "-euo", "pipefail", "-c"], "args": ["vllm serve m"]},
            ("vllm", ("vllm", "serve"), ("m",), "vllm serve m", True),
        ),
        (
            {"args": ["/bin/bash", "-lc", "exec vllm serve m"]},
            ("vllm", ("exec", "vllm", "serve"), ("m",), "exec vllm serve m", True),
        ),
        (
            {"command": ["/bin/env", "A=/x", "bash", "--norc", "-ceo", "pipefail", "vllm serve m"]},
            ("vllm", ("vllm", "serve"), ("m",), "vllm serve m", True),
        ),
        (
            {"command": ["sh", "-c"], "args": ['vllm serve "$@"', "sh", "m", "-tp", "2"]},
            ("vllm", ("vllm", "serve"), ("m", "-tp", "2"), 'vllm serve "$@"', True),
        ),
        (
            {"command": ["sh", "-c", "vllm serve $M -tp $TP"]},
            ("vllm", ("vllm", "serve"), ("$M", "-tp", "$TP"), "vllm serve $M -tp $TP", True),
        ),
        (
            {"command": ["sh", "-c", "vllm serve m $ARGS"]},
            ("vllm", ("vllm", "serve"), ("m", "$ARGS"), "vllm serve m $ARGS", False),
        ),
        ({"command": ["sh", "-c", "./run"]}, (None, (), (), "./run", False)),
        ({"command": ["sh", "-c", "vllm serve 'm"]}, (None, (), (), "vllm serve 'm", False)),
        (
            {"command": ["sh", "-c", "if x; then vllm serve a; else vllm serve b; fi"]},
            (
                "vllm",
                ("vllm", "serve"),
                ("a",),
                "if x; then vllm serve a; else vllm serve b; fi",
                False,
            ),
        ),
        ({"command": ["sh", "run.sh"]}, (None, ("sh", "run.sh"), (), None, True)),
        ({"command": ["sh", "-c"]}, (None, ("sh", "-c"), (), None, True)),
        # Outputs.
        (
            {"image": STOCK, "args": ["--model", OUTPUT]},
            ("vllm", (), ("--model", "<output>"), None, False),
        ),
        ({"image": STOCK, "args": OUTPUT}, ("vllm", (), (), None, False)),
        ({"image": STOCK, "command": OUTPUT, "args": MODEL}, (None, (), tuple(MODEL), None, False)),
        ({"command": ["sh", "-c", OUTPUT]}, (None, (), (), "<output>", False)),
        ({"name": "vllm", "image": OUTPUT, "args": MODEL}, ("vllm", (), tuple(MODEL), None, True)),
        ({"name": "engine", "image": OUTPUT}, (None, (), (), None, True)),
        ({"name": "vllm", "image": "me/model:1"}, (None, (), (), None, True)),
    ],
)  # fmt: skip
def test_command_line_is_parsed(container: dict[str, Any], expected: tuple[Any, ...]) -> None:
    assert parsed(read(**container)) == expected


def test_version_is_read_from_the_upstream_image() -> None:
    assert read(image=STOCK).image.stock_release == (0, 11, 0)
    assert read(image="me/vllm:v0.11.0").image.stock_release is None


def test_program_in_args_is_recognized() -> None:
    assert read(image=STOCK, args=["vllm", "serve", "m"]).program_in_args
    assert not read(image=STOCK, command=["vllm", "serve"]).program_in_args


def test_vllm_serve_differs_from_the_older_program() -> None:
    assert read(image=STOCK).is_vllm_serve
    assert read(command=["vllm", "serve"]).is_vllm_serve
    assert not read(command=["python3", "-m", "vllm.entrypoints.openai.api_server"]).is_vllm_serve
    assert not read(image="me/vllm:1").is_vllm_serve


WORDS = st.lists(
    st.one_of(
        st.text(),
        st.integers(),
        st.none(),
        st.just(OUTPUT),
        st.sampled_from(["sh", "-c", "vllm", "serve", "python3", "-m", "sglang.launch_server"]),
        st.text(alphabet="vlm sere-'\"\\$(){}<>|&;#\n`"),
    )
)


@given(
    st.dictionaries(
        st.sampled_from(["name", "image", "command", "args"]),
        st.one_of(WORDS, st.text(), st.none(), st.integers(), st.just(OUTPUT)),
    )
)
def test_read_command_never_raises(container: dict[str, Any]) -> None:
    command = parse_command(container)
    assert command.engine in (*ENGINES.values(), None)


def test_flag_and_value_in_one_element_are_split() -> None:
    assert read(image=STOCK, args=["--port 1"]).arguments == ("--port", "1")


def vllm(*arguments: str) -> EngineCommand:
    return read(image=STOCK, args=list(arguments))


def sglang(*arguments: str) -> EngineCommand:
    return read(image="lmsysorg/sglang:v0.5.3", args=list(arguments))


UNKNOWN = read(args=["--port", "1", "--block-size", "2", "--model", "m", "--ssl-certfile=c"])


def test_serving_port_is_chosen() -> None:
    assert vllm("m", "--port", "9000").port == 9000
    assert sglang("--port=9000").port == 9000
    for command in (vllm("m"), vllm("--port", "$PORT"), vllm("--port", "70000"), UNKNOWN):
        assert command.port is None


def test_https_follows_tls_arguments() -> None:
    assert vllm("m", "--ssl-certfile=/tls/tls.crt", "--ssl-keyfile", "/tls/tls.key").serves_https
    assert not vllm("m").serves_https
    assert not UNKNOWN.serves_https


def test_block_size_is_a_positive_number() -> None:
    assert vllm("m", "--block-size", "64").block_size == 64
    assert sglang("--page-size", "32").block_size == 32
    assert sglang("--block-size", "32").block_size is None
    assert UNKNOWN.block_size is None


SERVED = [
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


@each_row(("arguments", "names"), SERVED)
def test_served_names_of_vllm_are_read(arguments: list[str], names: tuple[str, ...] | None) -> None:
    assert vllm(*arguments).served_names == names


def test_served_names_of_other_engines_are_read() -> None:
    assert UNKNOWN.served_names is None
    assert sglang("--model-path", "m").served_names == ("m",)
