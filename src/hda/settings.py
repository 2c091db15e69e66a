"""Settings are frozen dataclasses beside what they configure; this module reads, checks and writes them."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from hda.errors import SettingError, unknown

T = TypeVar("T")


def setting(default: T, help: str) -> T:
    """A field of a settings class: its default and the sentence that the command line's help shows for it."""
    return dataclasses.field(default=default, metadata={"help": help})


@dataclasses.dataclass(frozen=True)
class Option:
    """One setting, seen from outside: what the command line needs to offer it."""

    name: str
    kind: type  # bool, int, float or str
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    optional: bool = False  # None is a value ("auto" in the help)

    def parse(self, value: Any) -> Any:
        """The value in the setting's own type.

        Raises:
            UserError: the value does not fit the setting's type or choices.
        """
        if value is None or (self.optional and value in self._absent):
            if self.optional:
                return None
            raise SettingError(self.name, f"needs a value: give {_a(self.kind)}")
        if self.choices:
            if value not in self.choices:
                raise unknown(self.name.replace("_", " "), value, self.choices)
            return value
        if self.kind is bool:
            if isinstance(value, bool):
                return value
            if str(value).lower() in ("true", "yes", "on", "1"):
                return True
            if str(value).lower() in ("false", "no", "off", "0"):
                return False
            raise SettingError(self.name, f"is on or off: got {value!r}, give true or false")
        try:
            if self.kind is int and isinstance(value, float) and not value.is_integer():
                raise ValueError
            parsed = self.kind(value)
            if self.kind is float and not math.isfinite(parsed):
                raise ValueError
        except (TypeError, ValueError, OverflowError):
            raise SettingError(self.name, f"takes {_a(self.kind)}: got {value!r}") from None
        return parsed

    @property
    def _absent(self) -> tuple[str, ...]:
        """Words for no value; "none" may be a name where names are what is asked for."""
        return ("auto",) if self.kind is str and not self.choices else ("auto", "none")


def options(settings: type[Any]) -> tuple[Option, ...]:
    """The options of a settings class, in the order they are written."""
    hints = typing.get_type_hints(settings)
    return tuple(
        _option(f.name, hints[f.name], f.default, f.metadata.get("help", "")) for f in dataclasses.fields(settings)
    )


def build(settings: type[T], given: Mapping[str, Any]) -> T:
    """An instance of a settings class from loosely typed values (a command line's words, a file's JSON).

    Raises:
        UserError: a name is unknown or a value does not fit.
    """
    known = {option.name: option for option in options(settings)}
    for name in given:
        if name not in known:
            raise unknown("setting", name, known)
    return settings(**{name: known[name].parse(value) for name, value in given.items()})


def at_least(smallest: float, **values: float | None) -> None:
    """Check settings by name; None passes.

    Raises:
        UserError: one is smaller.
    """
    for name, value in values.items():
        if value is not None and not value >= smallest:
            raise SettingError(name, f"must be at least {_plain(smallest)}: got {value}")


def between(smallest: float, largest: float, **values: float | None) -> None:
    """Check settings by name; both ends and None pass.

    Raises:
        UserError: one is smaller or larger.
    """
    for name, value in values.items():
        if value is not None and not smallest <= value <= largest:
            raise SettingError(name, f"must be between {_plain(smallest)} and {_plain(largest)}: got {value}")


def as_dict(settings: Any) -> dict[str, Any]:
    """The settings as plain data, ready for JSON."""
    return dataclasses.asdict(settings)


def _option(name: str, hint: Any, default: Any, help: str) -> Option:
    optional = False
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = [part for part in typing.get_args(hint) if part is not type(None)]
        optional, hint = True, inner[0]
    if typing.get_origin(hint) is typing.Literal:
        return Option(name, str, default, help, tuple(typing.get_args(hint)), optional)
    return Option(name, hint, default, help, (), optional)


def _plain(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def _a(kind: type) -> str:
    return {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}[kind]
