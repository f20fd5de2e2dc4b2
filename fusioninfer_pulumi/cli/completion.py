"""Shell completion, written from the parser of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

SHELLS = ("bash", "zsh", "fish")

_BASH = """\
_fusioninfer_pulumi() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" found=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    found="{commands}"
  else
    case "${{COMP_WORDS[1]}}:${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
    esac
    if [ -z "$found" ] && [ "${{current#-}}" != "$current" ]; then
      case "${{COMP_WORDS[1]}}" in
{options}
      esac
    fi
  fi
  COMPREPLY=($(compgen -W "$found" -- "$current"))
}}
complete -o default -F _fusioninfer_pulumi fusioninfer-pulumi
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """A script that completes commands, options and their values in a shell."""
    commands = _commands(parser)
    if shell == "fish":
        return "".join(_fish(commands))
    values, options = [], []
    for name, command in commands.items():
        for action in _actions(command):
            if action.choices and action.option_strings:
                for option in action.option_strings:
                    choices = " ".join(map(str, action.choices))
                    values.append(f'      {name}:{option}) found="{choices}" ;;')
            elif action.choices:
                values.append(f'      {name}:{name}) found="{" ".join(action.choices)}" ;;')
        options.append(f'        {name}) found="{" ".join(_options(command))}" ;;')
    text = _BASH.format(
        commands=" ".join(commands), values="\n".join(values), options="\n".join(options)
    )
    return _ZSH + text if shell == "zsh" else text


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return parser._actions  # noqa: SLF001  # argparse has no other way to list its options


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (commands,) = (each.choices for each in _actions(parser) if isinstance(each.choices, dict))
    return commands


def _options(command: argparse.ArgumentParser) -> list[str]:
    return [each for action in _actions(command) for each in action.option_strings]


def _fish(commands: dict[str, argparse.ArgumentParser]) -> Iterator[str]:
    start = "complete -c fusioninfer-pulumi"
    yield f"{start} -n __fish_use_subcommand -f -a '{' '.join(commands)}'\n"
    for name, command in commands.items():
        seen = f"{start} -n '__fish_seen_subcommand_from {name}'"
        for action in _actions(command):
            long = [each[2:] for each in action.option_strings if each.startswith("--")]
            choices = f" -x -a '{' '.join(map(str, action.choices))}'" if action.choices else ""
            if long:
                yield f"{seen} -l {long[0]}{choices}\n"
            elif choices:
                yield f"{seen}{choices}\n"
