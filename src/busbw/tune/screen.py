"""Screening: quick measurement of many candidates at few sizes, to select those for an A/B measurement.

The base is the side with the user's settings. Each candidate is the base with one more setting.
"""

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import expm1, isfinite, log

from busbw.ab.blocks import (
    CHECK_BLOCK_FLAGS,
    CHECK_BLOCK_PREFIX,
    UNCHECKED,
    Block,
    BlockEndedError,
    Measurement,
    median_us,
)
from busbw.ab.sides import SideSpec
from busbw.compare.result import PointKey
from busbw.tune.knobs import Candidate, Setting, setting_text
from busbw.units import size_text

ROUNDS = 5
"""Rounds of the screening. Each round measures the base and every candidate once, in random order."""
_LogSpeedups = dict[PointKey, list[float]]
"""log(speed of a candidate / speed of the base) in each round, by point: 0.05 is about 5 % faster."""


@dataclass
class ScreenedCandidate:
    """A candidate with its screening results."""

    candidate: Candidate
    gains: dict[int, float] = field(default_factory=dict)
    """Relative gain in speed by size in bytes: median over rounds, minimum over placements. 0.05 is 5 % faster."""
    excluded: str = ""
    """Reason for excluding the candidate. Empty if it was measured."""

    @property
    def best_gain(self) -> float:
        """Maximum gain over all sizes."""
        return max(self.gains.values(), default=0.0)


def with_settings(base: SideSpec, setting: Setting) -> SideSpec:
    """Returns the base with an additional setting."""
    environment = dict(base.environment) | dict(setting)
    text = " ".join(filter(None, [base.text, setting_text(setting)]))
    return replace(base, text=text, environment=tuple(environment.items()))


def screen(
    measurement: Measurement,
    base: SideSpec,
    candidates: Sequence[Candidate],
    *,
    on_progress: Callable[[str], None] = lambda _text: None,
) -> list[ScreenedCandidate]:
    """Measures every candidate and the base in each round. A candidate that fails is excluded.

    Raises:
        BlockEndedError: A measured block of the base failed, or the user interrupted a block.
    """
    screened = [ScreenedCandidate(candidate) for candidate in candidates]
    for number, entry in enumerate(screened, start=1):
        on_progress(f"checking {entry.candidate.text} ({number} of {len(screened)})")
        candidate_side = with_settings(base, entry.candidate.setting)
        entry.excluded = _rejection_reason(measurement, candidate_side, f"{CHECK_BLOCK_PREFIX}{number:03}")
    usable = [entry for entry in screened if not entry.excluded]
    # Side 0 is the base, side 1 the first usable candidate.
    sides = [base, *(with_settings(base, entry.candidate.setting) for entry in usable)]
    log_speedups: list[_LogSpeedups] = [{} for _ in usable]
    for round_number in range(1, ROUNDS + 1):
        on_progress(f"screening {len(usable)} candidates: round {round_number} of {ROUNDS}")
        order = [0, *(index for index, entry in enumerate(usable, start=1) if not entry.excluded)]
        random.shuffle(order)
        blocks: dict[int, Block] = {}
        for index in order:
            try:
                blocks[index] = measurement.block(sides[index], f"screen-{round_number:02}-{index:03}", *UNCHECKED)
            except BlockEndedError as error:
                if error.was_interrupted or index == 0:
                    raise
                usable[index - 1].excluded = failure_text(error)
        for index in blocks.keys() - {0}:
            _add_log_speedups(log_speedups[index - 1], base=blocks[0], candidate=blocks[index])
    for entry, candidate_speedups in zip(usable, log_speedups, strict=True):
        if not entry.excluded:
            entry.gains = _gains_by_size(candidate_speedups)
    return screened


def _add_log_speedups(log_speedups: _LogSpeedups, *, base: Block, candidate: Block) -> None:
    """Adds the result of one round, for each point at which both blocks have a time."""
    for point in base.keys() & candidate.keys():
        log_speedup = log(median_us(base[point])) - log(median_us(candidate[point]))
        if isfinite(log_speedup):
            log_speedups.setdefault(point, []).append(log_speedup)


def _gains_by_size(log_speedups: _LogSpeedups) -> dict[int, float]:
    """Returns the gain at each size: the median over the rounds, and the smaller one of both placements."""
    gains: dict[int, float] = {}
    for point, round_speedups in log_speedups.items():
        gain = expm1(statistics.median(round_speedups))
        gains[point.size_bytes] = min(gain, gains.get(point.size_bytes, gain))
    return gains


def _rejection_reason(measurement: Measurement, candidate_side: SideSpec, name: str) -> str:
    """Tests a candidate with a short checked block. Returns the reason for rejection, or an empty text."""
    try:
        block = measurement.block(candidate_side, name, *CHECK_BLOCK_FLAGS)
    except BlockEndedError as error:
        if error.was_interrupted:
            raise
        return failure_text(error)
    wrong = [point for point, figure in block.items() if figure.wrong_elements]
    return f"WRONG DATA at {size_text(wrong[0].size_bytes)}" if wrong else ""


def failure_text(error: BlockEndedError) -> str:
    """Returns the reason for the exclusion of a candidate after its engine failed."""
    return f"the engine ended with exit code {int(error.exit_code)}"
