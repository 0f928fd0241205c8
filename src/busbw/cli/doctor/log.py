"""Examination of logs for `busbw doctor --log`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from busbw.doctor.log_examination import examine_log
from busbw.doctor.model.check import Check
from busbw.doctor.nccl_log.reader import read_nccl_log
from busbw.doctor.result import Result
from busbw.launchers.machine_types.named_system import named_system


def log_result(paths: tuple[Path, ...], system_name: str | None, checks: Sequence[Check[Any]]) -> Result:
    """Returns the result for the logs of one job.

    Args:
        paths: Files of the log; "-" is standard input.
        system_name: System or machine type of the nodes, for checks and costs that depend on it.
        checks: Checks of the area log to run.

    Raises:
        UsageError: A file cannot be opened, or the system is unknown.
    """
    system = None if system_name is None else named_system(system_name)
    log = read_nccl_log(paths)
    log.system = system
    return examine_log(log, checks)
