"""From the words of a command line to a typed dataclass; a mistake is one line that names the fix.

tyro reads types, defaults and help texts. Names are looked at before it, so that a misspelled one gets the
nearest, and its boxed messages become one line.
"""

import contextlib
import dataclasses
import io
import re
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import tyro

from papd.errors import ConfigError, nearest
from papd.runs.fields import parse_whole

Options = TypeVar("Options")

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_HELP = ("-h", "--help")


@dataclasses.dataclass(frozen=True)
class Option:
    """One field as an option of the command line."""

    name: str
    kind: Any

    @property
    def flag(self) -> str:
        """How it is written."""
        return "--" + self.name.replace("_", "-")

    @property
    def choices(self) -> tuple[str, ...]:
        """What it may be, where that is a list."""
        kinds = (self.kind, *typing.get_args(self.kind))
        return next((typing.get_args(k) for k in kinds if typing.get_origin(k) is typing.Literal), ())

    @property
    def is_switch(self) -> bool:
        """Whether it stands alone or as ``--no-``."""
        return self.kind is bool

    @property
    def flags(self) -> tuple[str, ...]:
        """All that it may be written as."""
        return (self.flag, self.flag.replace("--", "--no-", 1)) if self.is_switch else (self.flag,)

    @property
    def is_path(self) -> bool:
        """Whether it names a file or folder."""
        return Path in (self.kind, *typing.get_args(self.kind))

    @property
    def takes_many(self) -> bool:
        """Whether several values follow it."""
        return typing.get_origin(self.kind) is tuple

    def accepts(self, word: str) -> bool:
        """Whether ``word`` can be one of several values (numbers end where a word begins)."""
        if typing.get_args(self.kind)[0] in (str, Path):
            return True
        try:
            float(word)
        except ValueError:
            return False
        return True


def options_of(cls: type, default: Any = None) -> Iterator[Option]:
    """Every option of a dataclass, nested ones flattened, positional ones left out."""
    bare = typing.get_type_hints(cls)
    marked = typing.get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        value = getattr(default, field.name, None)
        if value is None and field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield from options_of(type(value), value)
        elif tyro.conf.Positional not in typing.get_args(marked[field.name]):
            yield Option(field.name, bare[field.name])


def split_words(
    options: Sequence[Option], words: Sequence[str]
) -> tuple[list[str], dict[str, list[str]], list[str]]:
    """Positional words; the values given to each option, by field name; all words in tyro's order."""
    known = {option.flag: option for option in options}
    positional: list[str] = []
    given: dict[str, list[str]] = {}
    ordered: list[str] = []
    rest = [part for word in words for part in _halves(word)]
    while rest:
        word = rest.pop(0)
        if word in _HELP:
            ordered.append(word)
        elif _is_flag(word):
            option = _find(known, word)
            values = _values(option, rest)
            del rest[: len(values)]
            given[option.name] = values
            ordered += [word.replace("_", "-"), *values]
        else:
            positional.append(word)
    return positional, given, [*positional, *ordered]


def _halves(word: str) -> list[str]:
    return word.split("=", 1) if word.startswith("--") and "=" in word else [word]


def _is_flag(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and not re.match(r"-[0-9.]|-(inf|nan)", word)


def _find(known: dict[str, Option], word: str) -> Option:
    flag = word.replace("_", "-")
    option = known.get(flag)
    if option is None and flag.startswith("--no-"):
        option = known.get("--" + flag.removeprefix("--no-"))
        option = option if option is not None and option.is_switch else None
    if option is None:
        raise ConfigError(f"unknown option {word}{nearest(flag, known)}")
    return option


def _values(option: Option, rest: Sequence[str]) -> list[str]:
    if option.is_switch:
        return []
    if not option.takes_many:
        return [word for word in rest[:1] if not _is_flag(word)]
    values: list[str] = []
    for word in rest:
        if _is_flag(word) or not option.accepts(word):
            break
        values.append(word)
    return values


def parse(cls: type[Options], words: Sequence[str], *, prog: str, default: Options) -> Options:
    """Read ``words`` as a ``cls``. Help is printed as tyro does; anything wrong is a :class:`ConfigError`."""
    options = tuple(options_of(cls, default))
    _, given, ordered = split_words(options, words)
    if not any(word in _HELP for word in words):
        _check_values(options, given)
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint), _whole_numbers():
            return tyro.cli(cls, prog=prog, args=ordered, default=default, description=cls.__doc__)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise ConfigError(_one_line(complaint.getvalue())) from stop


def _check_values(options: Sequence[Option], given: dict[str, list[str]]) -> None:
    for option in options:
        values = given.get(option.name)
        if values == [] and not option.is_switch:
            raise ConfigError(f"{option.flag} needs a value")
        wrong = [value for value in values or () if option.choices and value not in option.choices]
        if wrong:
            raise ConfigError(
                f"{option.flag} {wrong[0]}: {option.name} is one of {', '.join(option.choices)}"
            )


@contextlib.contextmanager
def _whole_numbers() -> Iterator[None]:
    """Within this, tyro reads 1e6 as a whole number."""
    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def whole(info: tyro.constructors.PrimitiveTypeInfo) -> Any:
        if info.type is not int:
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="N",
            instance_from_str=lambda words: parse_whole(words[0]),
            is_instance=lambda value: isinstance(value, int),
            str_from_instance=lambda value: [str(value)],
        )

    with registry:
        yield


def _one_line(text: str) -> str:
    """The complaint inside a box: what stands between its title and the first rule."""
    lines = [_STYLE.sub("", line).strip("│ ").rstrip() for line in text.splitlines()[1:]]
    body: list[str] = []
    for line in lines:
        if line.startswith(("──", "╰")):
            break
        body.append(line)
    words = re.sub(r"^Error parsing (?!--)[\w. -]+: ", "", " ".join(body))
    return words.replace("Unrecognized options:", "unexpected") or "the command line cannot be read"
