"""Screening: quick measurement of many candidates at few sizes, to select those for an A/B measurement.

The base is the side with the user's settings. Each candidate is the base with one more setting.
"""

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import expm1, isfinite, log

from busbw.ab.blocks import PREFLIGHT_FLAGS, UNCHECKED, Block, BlockEndedError, Measurement, median_us
from busbw.ab.sides import SideSpec
from busbw.compare.result import PointKey
from busbw.tune.knobs import Candidate, Setting
from busbw.units import size_text

ROUNDS = 5
"""Rounds of the screening. Each round measures the base and every candidate once, in random order."""
_BASE = -1
"""Index of the base among the measured candidates."""


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


def with_settings(base: SideSpec, *settings: Setting) -> SideSpec:
    """Returns the base with additional settings."""
    environment = dict(base.environment)
    for setting in settings:
        environment |= dict(setting)
    assignments = " ".join(f"{name}={value}" for setting in settings for name, value in setting)
    text = " ".join(filter(None, [base.text, assignments]))
    return replace(base, text=text, environment=tuple(environment.items()))


def screen(
    measurement: Measurement,
    base: SideSpec,
    candidates: Sequence[Candidate],
    *,
    rounds: int = ROUNDS,
    on_progress: Callable[[str], None] = lambda _text: None,
    shuffle: Callable[[list[int]], None] = random.shuffle,
) -> list[ScreenedCandidate]:
    """Measures every candidate and the base in each round.

    Raises:
        BlockEndedError: A measured block failed, or the user interrupted it.
    """
    screened = [ScreenedCandidate(candidate) for candidate in candidates]
    for number, entry in enumerate(screened, start=1):
        on_progress(f"checking {entry.candidate.text} ({number} of {len(screened)})")
        candidate_side = with_settings(base, entry.candidate.setting)
        entry.excluded = _rejection_reason(measurement, candidate_side, f"proof-{number:03}")
    usable = [entry for entry in screened if not entry.excluded]
    sides = {_BASE: base} | {index: with_settings(base, entry.candidate.setting) for index, entry in enumerate(usable)}
    # For each usable candidate and point: one log(speed of candidate / speed of base) per round.
    log_speedups: list[dict[PointKey, list[float]]] = [{} for _ in usable]
    for number in range(1, rounds + 1):
        on_progress(f"screening {len(usable)} candidates: round {number} of {rounds}")
        order = list(range(_BASE, len(usable)))
        shuffle(order)
        blocks: dict[int, Block] = {}
        for index in order:
            blocks[index] = measurement.block(sides[index], f"screen-{number:02}-{index + 1:03}", *UNCHECKED)
        for index, speedups_by_point in enumerate(log_speedups):
            _add_log_speedups(speedups_by_point, blocks[_BASE], blocks[index])
    for entry, speedups_by_point in zip(usable, log_speedups, strict=True):
        for point, log_speedups_of_point in speedups_by_point.items():
            gain = expm1(statistics.median(log_speedups_of_point))
            entry.gains[point.size_bytes] = min(gain, entry.gains.get(point.size_bytes, gain))
    return screened


def _add_log_speedups(speedups_by_point: dict[PointKey, list[float]], base: Block, candidate: Block) -> None:
    """Adds the result of one round, for each point at which both blocks have a time."""
    for point in base.keys() & candidate.keys():
        log_speedup = log(median_us(base[point])) - log(median_us(candidate[point]))
        if isfinite(log_speedup):
            speedups_by_point.setdefault(point, []).append(log_speedup)


def _rejection_reason(measurement: Measurement, candidate_side: SideSpec, name: str) -> str:
    """Tests a candidate with a short checked block. Returns the reason for rejection, or an empty text."""
    try:
        block = measurement.block(candidate_side, name, *PREFLIGHT_FLAGS)
    except BlockEndedError as error:
        if error.was_interrupted:
            raise
        return f"the engine ended with exit code {int(error.exit_code)}"
    wrong = [point for point, figure in block.items() if figure.wrong_elements]
    return f"WRONG DATA at {size_text(wrong[0].size_bytes)}" if wrong else ""
