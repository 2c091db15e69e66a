"""Mistakes a user can mend, told in one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user gave is wrong: the message is one sentence naming the thing and the remedy.

    The command line prints it and exits with code 2; in Python it is an ordinary exception.
    """


def unknown(kind: str, given: object, known: Iterable[str]) -> UserError:
    """The error for a value that is not among the known ones, with the nearest right ones.

    >>> unknown("method", "hdam", ["hdan", "mcd"]).args[0]
    "unknown method 'hdam': did you mean 'hdan'? (known: hdan, mcd)"
    """
    names = sorted(known)
    near = difflib.get_close_matches(str(given), names, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(repr(name) for name in near)}? " if near else ""
    return UserError(f"unknown {kind} {str(given)!r}: {hint}(known: {', '.join(names)})")
