"""``papd completion``: a script that lets the shell complete commands, options and choices."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from papd.cli import COMMANDS
from papd.commands import train
from papd.commands.parse import Option, options_of, parse
from papd.envs.bullet_ids import BULLET_IDS
from papd.errors import ConfigError

Shell = Literal["bash", "zsh", "fish"]


_ENVS = " ".join(BULLET_IDS)


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
            f'    elif [[ $COMP_CWORD == 2 && ${{COMP_WORDS[1]}} == train && $word != -* ]]; then words="{_ENVS}"',
            "    else case ${COMP_WORDS[1]} in",
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
        for option in options:
            values = (
                f" -x -a '{' '.join(option.choices)}'"
                if option.choices
                else ""
                if option.is_switch
                else " -r"
            )
            lines += [
                f"complete -c papd -n '__fish_seen_subcommand_from {name}' -l {flag.removeprefix('--')}{values}"
                for flag in option.flags
            ]
    return "\n".join(lines)
