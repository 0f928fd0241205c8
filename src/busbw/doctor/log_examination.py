"""Examines a log of NCCL."""

from collections.abc import Sequence

from msgspec.structs import replace

from busbw.doctor.catalog import checks_of
from busbw.doctor.checks.log.lines import ORDER
from busbw.doctor.examination import examine
from busbw.doctor.model import Check
from busbw.doctor.nccl_log.nccl_log import NcclLog
from busbw.doctor.result import ALL_CHECKS, Missing, Result

CHECK_LIMIT_S = 1.5
"""Time limit of all checks together."""


def examine_log(log: NcclLog, checks: Sequence[Check[NcclLog]] | None = None) -> Result:
    """Returns the result of checks, by default of all checks of the area log. Causes precede their consequences.

    If a part of the log is unread, no check passes or is inapplicable, because that part may have the messages that the
    check looks for.
    """
    if not log.messages and not log.has_info:
        missing = "messages of NCCL; run the job with NCCL_DEBUG=INFO" + (f" ({log.unread})" if log.unread else "")
        return Result(could_not_check=(Missing(check=ALL_CHECKS, missing=missing),))
    checks = sorted(checks_of("log") if checks is None else checks, key=_position)
    result = examine(checks, log, system=log.system, nodes=log.max_host_count, limit_s=CHECK_LIMIT_S)
    if log.unread is None:
        return result
    unfinished = tuple(Missing(check=name, missing=log.unread) for name in (*result.passed, *result.not_applicable))
    return replace(
        result,
        passed=(),
        not_applicable=(),
        not_applicable_reasons={},
        could_not_check=(*result.could_not_check, *unfinished),
    )


def _position(check: Check[NcclLog]) -> int:
    """Returns the position of a check: those for single messages, in the order of lines.toml, follow all others.

    The other checks find settings and hardware, which often are the cause of such messages.
    """
    return ORDER.get(check.name, -1)
