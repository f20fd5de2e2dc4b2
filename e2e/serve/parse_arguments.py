"""Parses command lines as vLLM does; run by the Python of an engine.

Reads a JSON list of argument lists, and writes one of errors: empty where a list is accepted.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys

from vllm.utils.argparse_utils import FlexibleArgumentParser

try:
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
except ImportError:  # before it moved there
    from vllm.entrypoints.openai.cli_args import make_arg_parser, validate_parsed_serve_args


def error(parser: argparse.ArgumentParser, words: list[str]) -> str:
    """Why the engine refuses these arguments of `vllm serve`; empty if it takes them."""
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(told):
            # The parser itself looks at the name of the command.
            sys.argv = ["vllm", "serve", *words]
            args = parser.parse_args(words)
            if getattr(args, "model_tag", None):
                args.model = args.model_tag
            validate_parsed_serve_args(args)
    except SystemExit:
        return told.getvalue().strip().splitlines()[-1]
    except Exception as problem:  # noqa: BLE001  whatever it raises, it does not start
        return f"{type(problem).__name__}: {problem}"
    return ""


def main() -> None:
    """Parse what standard input holds."""
    parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
    print(json.dumps([error(parser, words) for words in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
