"""Examines a log of NCCL, or the variables in the record of a run."""

from collections.abc import Sequence

from msgspec.structs import replace

from busbw.doctor.catalog import checks_of
from busbw.doctor.checks.log.lines import ORDER
from busbw.doctor.cost import Job
from busbw.doctor.examination import examine
from busbw.doctor.model import Check
from busbw.doctor.nccl_log.nccl_log import Communicator, Message, NcclLog, Process
from busbw.doctor.result import ALL_CHECKS, Missing, Result
from busbw.logs.log import Table
from busbw.system import find_in_text

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
    # Checks for single messages follow all others, in the order of lines.toml. The other checks find settings and
    # hardware, which often are the cause of such messages.
    checks = sorted(checks_of("log") if checks is None else checks, key=lambda check: ORDER.get(check.name, -1))
    result = examine(checks, log, Job(log.system, log.max_host_count), limit_s=CHECK_LIMIT_S)
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


def examine_run(table: Table) -> Result:
    """Returns the result for the variables and ranks in the record of a run, as if it were a log of NCCL.

    The record has no messages about networks and connections.
    """
    host = table.hosts[0] if table.hosts else ""
    process = Process(host, pid="")
    messages = [
        Message(process, level="INFO", text=f"{name} set by environment to {value}", place="environment of the run")
        for name, value in table.environment.items()
    ]
    ranks = {rank.rank: Process(rank.host or "", str(rank.pid or "")) for rank in table.rank_list}
    system = find_in_text(table.devices[0]) if len(table.devices) == 1 else None
    communicator = Communicator(size=table.ranks or len(ranks), ranks=ranks)
    return examine_log(NcclLog(messages=messages, communicators=[communicator], system=system))
