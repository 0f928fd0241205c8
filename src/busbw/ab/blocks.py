"""Blocks of an A/B measurement: starts the engine for one side and reads its figures."""

import math
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from busbw import engine, records
from busbw.ab import container
from busbw.ab.sides import SideSpec
from busbw.comparability import SystemFacts, system_facts
from busbw.compare.figures import sampled_median_us
from busbw.compare.pairing import figures_by_point
from busbw.compare.result import PointKey
from busbw.errors import INTERRUPT_CODES, SIGNALLED, BusbwError, ExitCode
from busbw.launchers import Job, LaunchCallbacks, local
from busbw.launchers.job.processes import ExitStatus, crash_message, rank_lost_if_crashed
from busbw.logs.log import Figure
from busbw.readers.documents import busbw_records

Block: TypeAlias = dict[PointKey, Figure]
"""Result of a block. A point is a size in one placement of one configuration."""

UNCHECKED = ("-c", "0")
"""Additional flags of a timed block: no data checks."""
CHECK_BLOCK_PREFIX = "proof-"
"""Beginning of the names of check blocks, in messages and of their records."""
CHECK_BLOCK_FLAGS = ("-n", "1", "-w", "0", "-N", "1")
"""Additional flags of a check block, which is short and tests if a side runs and computes correct data."""


class BlockEndedError(BusbwError):
    """A block ended early because the user interrupted it or the engine failed."""

    @property
    def was_interrupted(self) -> bool:
        """True if Ctrl-C or another signal ended the block. Earlier blocks remain valid then."""
        return self.exit_code in INTERRUPT_CODES


def _documented_exit_code(code: int) -> int:
    """Maps the engine's exit code to a documented exit code. A crash is RANK_LOST, unknown codes become ENVIRONMENT.

    A SIGHUP that comes before the engine handles signals gives 129. The result is then 143 (SIGTERM), as for a SIGHUP
    that the engine handles.
    """
    if code == SIGNALLED + signal.SIGHUP:
        return SIGNALLED + signal.SIGTERM
    code = rank_lost_if_crashed(ExitStatus(code))
    return code if code in {*ExitCode, *INTERRUPT_CODES} else ExitCode.ENVIRONMENT


@dataclass(frozen=True)
class Measurement:
    """Program, flags and folder that both sides share. Runs their blocks."""

    program: Path
    flags: tuple[str, ...]
    """Engine flags of both sides, before those of each side."""
    folder: Path
    """Folder for the blocks' records."""
    check_interrupt: Callable[[], None] = field(default=lambda: None, kw_only=True)
    """Called before and after each block. Raises KeyboardInterrupt to end the measurement."""

    def block(self, side: SideSpec, name: str, *extra_flags: str) -> Block:
        """Runs a block and returns its figures, also with wrong data. The record stays in the folder as NAME.jsonl.

        Raises:
            BlockEndedError: The block ended early. The error has the engine's exit code.
        """
        record_path = self.record(name)
        self.check_interrupt()
        launch_plan = local.render(self._job(side, record_path, extra_flags))
        code = local.submit(launch_plan, LaunchCallbacks(lambda _line: None, lambda: None))
        self.check_interrupt()
        exit_code = _documented_exit_code(code)
        block_text = f"the block {name} ({side.description})"
        if crash := crash_message([ExitStatus(code)], [f"the engine of {block_text}"]):
            raise BlockEndedError(crash, exit_code=exit_code)
        if code not in (ExitCode.GOOD, ExitCode.WRONG_DATA):
            record_text = f" and its record {os.path.relpath(record_path)}" if record_path.exists() else ""
            raise BlockEndedError(
                f"the engine ended with exit code {code} in {block_text}",
                remedy=f"see its messages above{record_text}",
                exit_code=exit_code,
            )
        return block_of(record_path)

    @cached_property
    def _container_runner(self) -> list[str]:
        return container.runner(has_gpus=engine.gpu_count() > 0)

    def record(self, name: str) -> Path:
        """Path of the record of a block."""
        return self.folder / f"{name}.jsonl"

    def system_facts(self, name: str) -> SystemFacts:
        """Returns the facts of the system that a finished block ran on. Without a row or a record, all are unstated."""
        path = self.record(name)
        if not path.exists():
            return SystemFacts()
        table = busbw_records.table_of(records.read(path))
        return system_facts(table, table.rows[0]) if table.rows else SystemFacts()

    def _job(self, side: SideSpec, record: Path, extra_flags: tuple[str, ...]) -> Job:
        arguments = (*self.flags, *side.flags, *extra_flags)
        if side.image:
            runner, *runner_arguments = container.command(
                self._container_runner, side.image, self.program.name, self.folder, side.environment
            )
            program = Path(shutil.which(runner) or runner)
            secrets = container.inherited_variables(side.environment)
            return Job(program, (*runner_arguments, *arguments), record.absolute(), environment=secrets)
        return Job(self.program, arguments, record, environment=side.environment)


def block_of(path: Path) -> Block:
    """Reads the figures of a block from its record.

    Uses the first figure of each point. Later cycles (-N) are not independent and are ignored.
    """
    table = busbw_records.table_of(records.read(path))
    block: Block = {}
    for row in table.rows:
        for point, figure in figures_by_point(table, row):
            block.setdefault(point, figure)
    return block


def median_us(figure: Figure) -> float:
    """Median of the slowest rank's time over the iterations, or without samples the mean. NaN if no time is above 0."""
    return sampled_median_us(figure) or figure.time_us or math.nan
