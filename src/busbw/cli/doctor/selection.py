"""Options that select checks and findings: `--check`, `--ignore` and `--fail-on`, and the exit code."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import click
from msgspec import Struct

from busbw.cli.options.param_types import parse_fraction
from busbw.doctor.catalog import all_checks
from busbw.doctor.cost import Cost
from busbw.doctor.model import Check
from busbw.doctor.model.check import SEVERITIES, Area
from busbw.doctor.result import ALL_CHECKS, ReportedFinding, Result
from busbw.errors import ExitCode, UsageError
from busbw.support.near_misses import suggestion

_COST = "cost:"
"""Beginning of the word that sets `Condition.min_cost`, such as "cost:10%"."""


class Condition(Struct, kw_only=True, frozen=True):
    """Findings that make the command fail: each finding that one of the fields matches."""

    names: frozenset[str] = frozenset()
    severities: frozenset[str] = frozenset()
    min_cost: float | None = None
    """Lost share of the bandwidth, from 0 to 1."""

    @property
    def has_names_only(self) -> bool:
        """True if only findings of the named checks match."""
        return not self.severities and self.min_cost is None

    def matches(self, finding: ReportedFinding) -> bool:
        """True if the command fails because of this finding."""
        lost_share = finding.cost.lost_share if isinstance(finding.cost, Cost) else 0.0
        is_costly = self.min_cost is not None and lost_share >= self.min_cost
        return is_costly or finding.check in self.names or finding.severity in self.severities


_ANYTHING_BAD = Condition(severities=frozenset(("broken", "slow")))


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options `--check`, `--ignore` and `--fail-on`: parameters `only`, `ignored` and `fail_on`."""
    name_option: dict[str, Any] = {"multiple": True, "metavar": "NAME,...", "callback": _parse_words}
    condition_option = name_option | {"metavar": "WHAT,...", "callback": partial(_parse_words, takes_conditions=True)}
    condition_help = "Exit with 1 or 5 only for these: NAME, broken, slow, risk, cost:10%; repeatable."
    for option in (
        click.option("--fail-on", "fail_on", help=condition_help, **condition_option),
        click.option("--ignore", "ignored", help="Do not run these checks; repeatable.", **name_option),
        click.option("--check", "only", help="Run only these checks; repeatable.", **name_option),
    ):
        command = option(command)
    return command


def select(only: Sequence[str], ignored: Sequence[str], areas: Collection[Area]) -> tuple[Check[Any], ...]:
    """Returns the selected checks of these areas.

    Raises:
        UsageError: No check is selected.
    """
    permitted = [check for check in all_checks() if check.area in areas and check.name not in ignored]
    selected = tuple(check for check in permitted if not only or check.name in only)
    if not selected:
        raise UsageError("no check is left", remedy="select other ones; `busbw doctor --list` shows them")
    return selected


def condition_of(words: Sequence[str]) -> Condition | None:
    """Returns the condition of `--fail-on`. None if there are no words."""
    if not words:
        return None
    costs = [parse_fraction(word.removeprefix(_COST), "--fail-on") for word in words if word.startswith(_COST)]
    names_and_severities = frozenset(word for word in words if not word.startswith(_COST))
    return Condition(
        names=names_and_severities.difference(SEVERITIES),
        severities=names_and_severities.intersection(SEVERITIES),
        min_cost=min(costs, default=None),
    )


def _parse_words(
    _context: click.Context, option: click.Parameter, texts: tuple[str, ...], *, takes_conditions: bool = False
) -> tuple[str, ...]:
    """Returns the words of all values of an option: ("a,b", "c") gives ("a", "b", "c").

    A word is the name of a check. With `takes_conditions`, it may also be a severity or a cost.
    """
    words = tuple(filter(None, map(str.strip, ",".join(texts).split(","))))
    names = [check.name for check in all_checks()]
    if takes_conditions:
        names += SEVERITIES
    for word in words:
        if takes_conditions and word.startswith(_COST):
            parse_fraction(word.removeprefix(_COST), option.opts[-1])
        elif word not in names:
            remedy = f"{suggestion(word, names)}`busbw doctor --list` shows the checks"
            raise UsageError(f'{option.opts[0]}: no check is named "{word}"', remedy=remedy)
    return words


def exit_code_of(result: Result, condition: Condition | None = None) -> int:
    """Returns 1 if something is broken, 5 if something is slow, 3 if a required check could not decide, otherwise 0.

    Args:
        result: Result of an examination.
        condition: Findings that count, instead of all that are broken or slow. If it has only names of checks, only
            these checks are required. Otherwise the checks that need no root are required too.
    """
    condition = condition or _ANYTHING_BAD
    severities = {finding.severity for finding in result.findings if condition.matches(finding)}
    if severities:
        return 1 if "broken" in severities else ExitCode.SLOWER_THAN_DEMANDED
    required = {*condition.names, ALL_CHECKS}  # ALL_CHECKS: a node without a record, or a log without messages
    if not condition.has_names_only:
        required |= {check.name for check in all_checks() if not check.needs_root}
    is_undecided = any(missing.check in required for missing in result.could_not_check)
    return ExitCode.ENVIRONMENT if is_undecided else ExitCode.GOOD
