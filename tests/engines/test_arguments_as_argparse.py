"""Random command lines: our checks and Python's argparse reject the same ones."""

from __future__ import annotations

import argparse
import json
from random import Random
from typing import NoReturn

import pytest
from profiles import slow_unless

from fusioninfer_pulumi.engines.argument_checks import check_arguments
from fusioninfer_pulumi.engines.argument_tables import (
    ArgumentDefinition,
    Definitions,
    load_argument_table,
)
from fusioninfer_pulumi.engines.engine_commands import parse_command
from fusioninfer_pulumi.findings import Severity

RELEASE = "0.5.10"
LAUNCH = ["python3", "-m", "sglang.launch_server"]
#: Arguments whose bounds are narrower than argparse's.
BOUNDED = ("--port", "--mem-fraction-static", "--context-length", "--max-running-requests")


class RejectedError(Exception):
    """Raised instead of exiting."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise RejectedError(message)


def size(text: str) -> int:
    return int(text[:-1]) * 1000 if text[-1:] in ("k", "K") else int(text)


TYPES = {"int": int, "float": float, "size": size, "json": json.loads}


def make_parser(definitions: Definitions) -> Parser:
    parser = Parser(add_help=False)
    for word in definitions:
        definition = definitions[word]
        if word != definition.name:
            continue
        if definition.kind == "switch":
            kind = argparse.BooleanOptionalAction if definition.negated else "store_true"
            parser.add_argument(*definition.names, action=kind)
            continue
        parser.add_argument(
            *definition.names,
            nargs=definition.nargs,
            type=TYPES.get(definition.kind, str),
            choices=list(definition.choices) or None,
        )
    return parser


def random_values(rng: Random, definition: ArgumentDefinition) -> list[str]:
    good = [str(rng.choice(definition.choices))] if definition.choices else ["1"]
    many = definition.nargs in ("*", "+")
    return rng.choice(
        [good, good, good, good, [], ["x"], ["-1"], ["1.5"], good * 2 if many else good, ["8k"]]
    )


def random_command_line(rng: Random, definitions: Definitions) -> list[str]:
    line: list[str] = []
    for _ in range(rng.randint(1, 4)):
        word = rng.choice([item for item in definitions if definitions[item].name not in BOUNDED])
        definition = definitions[word]
        written = rng.choice([word] * 6 + [word[: rng.randint(4, len(word))], word + "s"])
        values = [] if definition.kind == "switch" else random_values(rng, definition)
        if len(values) == 1 and rng.random() < 0.3:
            line.append(f"{written}={values[0]}")
        else:
            line += [written, *values]
        if rng.random() < 0.05:
            line.append(rng.choice(["true", "-q", "-5"]))
    return line


@pytest.mark.parametrize("seed", slow_unless(lambda seed: seed < 2, range(8)))
def test_same_command_lines_are_rejected_as_by_argparse(seed: int) -> None:
    rng, definitions = Random(seed), load_argument_table("sglang").get_definitions(RELEASE)
    parser, wrong = make_parser(definitions), 0
    for _ in range(40):
        line = random_command_line(rng, definitions)
        try:
            _, rest = parser.parse_known_args(line)
            rejected = bool(rest)
        except RejectedError:
            rejected = True
        image = f"lmsysorg/sglang:v{RELEASE}"
        result = check_arguments(
            parse_command({"image": image, "command": LAUNCH, "args": line}), {}
        )
        errors = [finding for finding in result if finding.severity is Severity.ERROR]
        assert bool(errors) == rejected, (line, errors)
        wrong += rejected
    assert 4 < wrong < 36
