"""One block: the engine started once for one side, and the time of each row in it."""

import math
import os
import shutil
import signal
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from busbw import engine, records
from busbw.ab import container
from busbw.ab.sides import SideSpec
from busbw.compare.figures import time_us
from busbw.compare.pairing import Observations, observations
from busbw.compare.result import PointKey
from busbw.errors import INTERRUPT_CODES, SIGNALLED, BusbwError, ExitCode
from busbw.launchers import Job, LaunchCallbacks, local
from busbw.logs import Figure
from busbw.readers import busbw_records

Block: TypeAlias = dict[PointKey, Figure]

UNCHECKED = ("-c", "0")
"""More flags of a block that is there to be timed."""
PREFLIGHT_FLAGS = ("-n", "1", "-w", "0", "-N", "1")
"""More flags of a short block that shows whether a side runs and computes right."""


class BlockEndedError(BusbwError):
    """A block did not come to its end: the user stopped it, or the engine failed."""

    @property
    def was_interrupted(self) -> bool:
        """Whether somebody ended it, by Ctrl-C or another signal, which says nothing of what was measured."""
        return self.exit_code in INTERRUPT_CODES


def _documented(code: int) -> int:
    """One of ours: an engine that a hang-up reached before it could take it ends with 129, and was terminated, too."""
    if code == SIGNALLED + signal.SIGHUP:
        return SIGNALLED + signal.SIGTERM
    return code if code in {*ExitCode, *INTERRUPT_CODES} else ExitCode.ENVIRONMENT


@dataclass(frozen=True)
class Measurement:
    """What is measured on either side."""

    program: Path
    flags: tuple[str, ...]
    """Of both sides."""
    folder: Path

    def block(self, side: SideSpec, name: str, *extra: str) -> Block:
        """Runs a block and returns its figures; its record stays in the folder.

        Raises:
            BlockEndedError: It ended early; carries the engine's exit code.
        """
        path = self.record(name)
        code = local.submit(
            local.render(self._job(side, path, extra)), LaunchCallbacks(lambda _line: None, lambda: None)
        )
        if code not in (ExitCode.GOOD, ExitCode.WRONG_DATA):
            raise BlockEndedError(
                f"the engine ended with exit code {code} in the block {name} ({side.description})",
                remedy="what it said stands above"
                + (f"; its record is {os.path.relpath(path)}" if path.exists() else ""),
                exit_code=_documented(code),
            )
        return block_of(path)

    def command(self, side: SideSpec, name: str, *extra: str) -> str:
        """What a block would run, as a shell would take it."""
        return local.render(self._job(side, self.record(name), extra)).text()

    @cached_property
    def _container_runner(self) -> list[str]:
        return container.runner(has_gpus=engine.gpu_count() > 0)

    def record(self, name: str) -> Path:
        """Where the record of a block is, or will be."""
        return self.folder / f"{name}.jsonl"

    def _job(self, side: SideSpec, path: Path, extra: tuple[str, ...]) -> Job:
        arguments = (*self.flags, *side.flags, *extra)
        if side.image:
            first, *words = container.command(
                self._container_runner, side.image, self.program.name, self.folder, side.environment
            )
            return Job(Path(shutil.which(first) or first), (*words, *arguments), path.absolute())
        job = Job(self.program, arguments, path)
        return job.with_environment(dict(side.environment)) if side.environment else job


def block_of(path: Path) -> Block:
    """The figures of a block whose record is there."""
    return first_figures(observations([busbw_records.table_of(records.read(path))]))


def first_figures(found: Observations) -> Block:
    """A block has one figure of each row; later cycles (-N) add nothing that a further block would not."""
    return {point: each[0].figure for point, each in found.items()}


def median_us(figure: Figure) -> float:
    """The median over iterations of the slowest rank; NaN where the block has no time."""
    return time_us(figure) or math.nan
