"""``papd completion``: a script that lets the shell complete commands, options and choices."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import tyro

from papd.cli import COMMANDS
from papd.commands import train
from papd.commands.parse import Option, options_of, parse
from papd.envs.bullet_ids import BULLET_IDS
from papd.errors import ConfigError

Shell = Literal["bash", "zsh", "fish"]

FIRST_WORDS = {"train": BULLET_IDS, "envs": BULLET_IDS, "completion": get_args(Shell)}
"""What the first word after a command may be, where that is a list; elsewhere it is a run, a file or nothing."""


@dataclass(frozen=True)
class Options:
    """Print a completion script. For bash: papd completion bash > ~/.local/share/bash-completion/completions/papd"""

    shell: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="{bash,zsh,fish}")] = ""
    """The shell it is for."""


def main(words: Sequence[str]) -> int:
    """Run the command."""
    options = parse(Options, words, prog="papd completion", default=Options())
    writers = {"bash": bash, "zsh": zsh, "fish": fish}
    if options.shell not in writers:
        raise ConfigError(f"which shell? one of {', '.join(writers)}, for example: papd completion bash")
    print(writers[options.shell](known_options()))
    return 0


def known_options() -> dict[str, list[Option]]:
    """The options of every command that is there, both algorithms' for ``train``."""
    found = {}
    for command in COMMANDS:
        if command.exists():
            module = importlib.import_module(command.module)
            options = (
                train.every_option() if module is train else options_of(module.Options, module.Options())
            )
            found[command.name] = list({option.name: option for option in options}.values())
    return found


def bash(commands: dict[str, list[Option]]) -> str:
    """A completion function for bash."""
    return "\n".join(
        [
            "_papd() {",
            '    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} words=""',
            '    if [[ $COMP_CWORD == 1 ]]; then words="' + " ".join(commands) + ' --help --version"',
            "    elif [[ $COMP_CWORD == 2 && $word != -* ]]; then case ${COMP_WORDS[1]} in",
            *(f'        {name}) words="{" ".join(first)}" ;;' for name, first in FIRST_WORDS.items()),
            "    esac; else case ${COMP_WORDS[1]} in",
            *(_bash_case(name, options) for name, options in commands.items()),
            "    esac; fi",
            '    COMPREPLY=($(compgen -W "$words" -- "$word"))',
            "}",
            "complete -o default -F _papd papd",
        ]
    )


def _bash_case(command: str, options: list[Option]) -> str:
    flags = " ".join(flag for option in options for flag in option.flags)
    choices = [
        f'            {option.flag}) words="{" ".join(option.choices)}" ;;'
        for option in options
        if option.choices
    ]
    files = "|".join(option.flag for option in options if option.is_path)
    return "\n".join(
        [
            f"    {command}) case $previous in",
            *choices,
            *([f"            {files}) ;;"] if files else []),
            f'            *) [[ $word == -* ]] && words="{flags} --help" ;;',
            "        esac ;;",
        ]
    )


def zsh(commands: dict[str, list[Option]]) -> str:
    """The same function, through zsh's bash emulation."""
    return "\n".join(["autoload -U +X bashcompinit && bashcompinit", bash(commands)])


def fish(commands: dict[str, list[Option]]) -> str:
    """One line an option."""
    names = " ".join(commands)
    lines = [f"complete -c papd -n 'not __fish_seen_subcommand_from {names}' -f -a '{names}'"]
    for name, options in commands.items():
        only = f"complete -c papd -n '__fish_seen_subcommand_from {name}'"
        if name in FIRST_WORDS:
            lines.append(f"{only} -f -a '{' '.join(FIRST_WORDS[name])}'")
        for option in options:
            lines += [f"{only} -l {flag.removeprefix('--')}{_fish_values(option)}" for flag in option.flags]
    return "\n".join(lines)


def _fish_values(option: Option) -> str:
    if option.choices:
        return f" -x -a '{' '.join(option.choices)}'"
    if option.is_switch:
        return ""
    return " -r -F" if option.is_path else " -x"
