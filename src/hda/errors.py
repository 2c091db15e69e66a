"""Mistakes a user can mend, told in one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user gave is wrong: the message is one sentence naming the thing and the remedy.

    The command line prints it and exits with code 2; in Python it is an ordinary exception.
    """


class SettingError(UserError):
    """A setting has a wrong value: the message begins with the setting's name, as an option on the command line."""

    def __init__(self, name: str, wrong: str) -> None:
        super().__init__(f"{name} {wrong}")
        self.name, self.wrong = name, wrong


class NotFiniteError(UserError):
    """Training has left the numbers: its settings do not work."""


class UnmetError(UserError):
    """Something was looked into and is not as it should be: the command still gives the result that `--json` asks for."""

    def __init__(self, message: str, result: object) -> None:
        super().__init__(message)
        self.result = result


class ProcessLostError(RuntimeError):
    """Another of a run's processes has ended, and this one cannot go on: nobody's mistake, and one sentence too."""


def unknown(kind: str, given: object, known: Iterable[str], see: str | None = None) -> UserError:
    """The error for a value that is not among the known ones, with the nearest right ones.

    Args:
        kind: what it should be one of.
        given: the value.
        known: the right ones.
        see: how to see them, where they are too many to list.

    >>> unknown("method", "hdam", ["hdan", "mcd"]).args[0]
    "unknown method 'hdam': did you mean 'hdan'? (known: hdan, mcd)"
    """
    names = sorted(known)
    listed = see or f"known: {', '.join(names)}"
    return UserError(f"unknown {kind} {str(given)!r}{nearest(given, names)} ({listed})")


def nearest(given: object, known: Iterable[str]) -> str:
    """The question whether one of the known was meant, after a colon; empty where none is near.

    >>> nearest("hdam", ["hdan", "mcd"])
    ": did you mean 'hdan'?"
    """
    near = difflib.get_close_matches(str(given), list(known), n=2, cutoff=0.5)
    return f": did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
