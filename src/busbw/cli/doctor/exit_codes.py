"""Exit code of a result."""

from busbw.cli.doctor.selection import Condition
from busbw.doctor.catalog import all_checks
from busbw.doctor.result import ALL_CHECKS, Result
from busbw.errors import ExitCode

_ANYTHING_BAD = Condition(severities=frozenset(("broken", "slow")))


def exit_code_of(result: Result, condition: Condition | None = None) -> int:
    """Returns 1 if something is broken, 5 if something is slow, 3 if a check could not decide, otherwise 0.

    Args:
        result: Result of an examination.
        condition: Findings that count, instead of all that are broken or slow.
    """
    condition = condition or _ANYTHING_BAD
    severities = {finding.severity for finding in result.findings if condition.matches(finding)}
    if severities:
        return 1 if "broken" in severities else ExitCode.SLOWER_THAN_DEMANDED
    # Users other than root cannot run all checks.
    without_root = {check.name for check in all_checks() if not check.needs_root}
    counted = condition.names if condition.has_names_only else without_root | condition.names
    is_undecided = any(each.check in counted | {ALL_CHECKS} for each in result.could_not_check)
    return ExitCode.ENVIRONMENT if is_undecided else ExitCode.GOOD
