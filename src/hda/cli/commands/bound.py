"""Show the theory's bound on the target's risk, term by term, and whether H is k (F - F*) as the theory assumes.

Without a run: on a problem built so that the ideal F* is known, with a head trained on it, after more and more updates. With
a run: F* is estimated by a classifier that sees the labels of both domains, so the terms are estimates; the run must have
been begun with --evaluate. In the paper k is between 0 and 1 and the same on both domains, so that the discrepancy of G is
(1 - k) times that of F. Here k is measured by regression of a trained H on F - F*, on each domain.

  hda bound
  hda bound runs/hdan
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from hda import settings as plain
from hda.cli import options
from hda.cli.text import table


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run's folder (default: a problem whose F* is known)")
    seed = plain.Option("seed", int, 0, "of the problem that is built")
    parser.add_argument("--seed", type=seed.parse, metavar="N", help=f"{seed.help} (default: 0)")
    options.add_looking(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    return _known(args) if args.run is None else _estimated(args)


def _known(args: argparse.Namespace) -> dict[str, Any]:
    from hda.analysis.known_ideal import known_ideal
    from hda.errors import UserError

    for name, given in options.places(args).items():
        raise UserError(f"--{name} {given} says where a run's pictures are: name the run too, or leave it out")
    plain.at_least(0, seed=args.seed)
    found = known_ideal(args.seed or 0)
    print(
        "A problem whose ideal F* is known by construction; a head of three heuristics trained on it, measured on fresh rows."
    )
    print("Risks and distances are of class scores, as in the paper.\n")
    rows = [
        (
            f"{outcome.updates:,}",
            *_proportions(outcome.study),
            f"{outcome.study.factor:.2f}",
            f"{outcome.study.ratio:.2f}",
            f"{outcome.target_accuracy:.1f}",
        )
        for outcome in found
    ]
    header = ("updates", "k source", "left", "k target", "left", "1 - k", "measured", "target %")
    print(table(header, rows))
    print("\nleft: the share of H's squares that k (F - F*) leaves unexplained.")
    print("1 - k: what the discrepancy is multiplied with if the assumption holds; measured: what it is in fact.")
    print(f"target %: accuracy of G; F* itself has {found[-1].ideal_accuracy:.1f} %.\n")
    print(f"After {found[-1].updates:,} updates:")
    _tell(found[-1].study)
    return {"estimated": False, "outcomes": [outcome.as_dict() for outcome in found]}


def _estimated(args: argparse.Namespace) -> dict[str, Any]:
    from hda.cli.terminal import reporting
    from hda.engine.run import Run
    from hda.errors import UserError
    from hda.report.bound import estimate
    from hda.report.subject import gather

    if args.seed is not None:
        raise UserError("--seed is for the problem that is built: leave it out, or leave the run out")
    if args.pictures == 0:
        raise UserError("--pictures 0 leaves nothing to estimate from: give 100 or more")
    with reporting() as reporter:
        places = options.places(args)
        (subject,) = gather([Run(args.run)], limit=args.pictures, device=args.device, places=places, reporter=reporter)
    found = estimate(subject)
    source, target = f"{found.source_pictures:,}", f"{found.target_pictures:,}"
    print(
        f"An estimate: F* of {args.run} is not known. A linear classifier on its features stands for it, which sees the"
    )
    print(
        f"labels of {source} pictures of the source and {target} of the target, each scored by one trained on others."
    )
    right, there = (f"{accuracy:.1f} %" for accuracy in found.ideal_accuracy)
    print(f"It tells {right} of the source and {there} of the target; the worse it is, the less the terms say.")
    print("Risks and distances are of class probabilities, so that 1 is the largest; k is of class scores.\n")
    _tell(found.of_probabilities, found.of_scores)
    return {"estimated": True, **found.as_dict()}


def _tell(bound: Any, assumption: Any = None) -> None:
    """The terms of F and of G side by side, then k and where its assumption fails."""
    about = assumption or bound
    names = {
        "source_risk": "risk on the source",
        "ideal_risk": "risk of F*, both domains",
        "discrepancy": "discrepancy",
        "bound": "bound: the sum",
        "target_risk": "risk on the target",
        "source_distance": "distance from F*, source",
        "target_distance": "distance from F*, target",
    }
    f, g = bound.f.as_dict(), bound.g.as_dict()
    print(table(("term", "of F", "of G"), [(said, f"{f[name]:.3f}", f"{g[name]:.3f}") for name, said in names.items()]))
    k, left, other, left_there = _proportions(about)
    print(f"\nk is {k} on the source ({left} left unexplained) and {other} on the target ({left_there}).")
    factor, ratio = f"{about.factor:.2f}", f"{about.ratio:.2f}"
    print(f"The theory multiplies the discrepancy by |1 - k| = {factor}; measured, of class scores: {ratio}.")
    fails = about.fails()
    if fails:
        print("The assumption H = k (F - F*), with one k on both domains, fails here:")
        print("\n".join(f"- {sentence}" for sentence in fails))
    else:
        print("The assumption H = k (F - F*), with one k on both domains, holds here.")
    if g["source_risk"] > f["source_risk"]:
        print("The risk of G on the source is above that of F, which the theory takes for equal.")


def _proportions(study: Any) -> tuple[str, str, str, str]:
    from hda.analysis.bound import signless

    s, t = study.source, study.target
    return signless(s.k), f"{s.residual:.0%}", signless(t.k), f"{t.residual:.0%}"
