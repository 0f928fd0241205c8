"""Screening: quick measurement of many candidates at few sizes, to select those for an A/B measurement."""

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import expm1, isfinite, log

from busbw.ab.blocks import PREFLIGHT_FLAGS, UNCHECKED, Block, BlockEndedError, Measurement, median_us
from busbw.ab.sides import SideSpec
from busbw.compare.result import PointKey
from busbw.tune.knobs import Candidate, Setting
from busbw.units import size_text

ROUNDS = 5
"""Rounds of the screening. Each round measures the base and every candidate once, in random order."""


@dataclass
class ScreenedCandidate:
    """A candidate with its screening results."""

    candidate: Candidate
    gains: dict[int, float] = field(default_factory=dict)
    """Relative gain in speed by size: median over rounds, minimum over placements."""
    excluded: str = ""
    """Reason for excluding the candidate. Empty if it was measured."""

    @property
    def best_gain(self) -> float:
        """Maximum gain over all sizes."""
        return max(self.gains.values(), default=0.0)


def side(base: SideSpec, *settings: Setting) -> SideSpec:
    """Returns the base with additional settings."""
    environment = dict(base.environment)
    for setting in settings:
        environment |= dict(setting)
    words = " ".join(f"{name}={value}" for setting in settings for name, value in setting)
    return SideSpec(" ".join(filter(None, [base.text, words])), tuple(environment.items()), base.flags)


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
    for number, each in enumerate(screened, start=1):
        on_progress(f"checking {each.candidate.text} ({number} of {len(screened)})")
        each.excluded = _rejection_reason(measurement, side(base, each.candidate.setting), f"proof-{number:03}")
    usable = [each for each in screened if not each.excluded]
    log_ratios: list[dict[PointKey, list[float]]] = [{} for _ in usable]
    for number in range(1, rounds + 1):
        on_progress(f"screening {len(usable)} candidates: round {number} of {rounds}")
        order = list(range(-1, len(usable)))  # -1 is the base
        shuffle(order)
        blocks: dict[int, Block] = {}
        for index in order:
            chosen = base if index < 0 else side(base, usable[index].candidate.setting)
            blocks[index] = measurement.block(chosen, f"screen-{number:02}-{index + 1:03}", *UNCHECKED)
        for index, found in enumerate(log_ratios):
            for point in blocks[-1].keys() & blocks[index].keys():
                ratio = log(median_us(blocks[-1][point])) - log(median_us(blocks[index][point]))
                if isfinite(ratio):
                    found.setdefault(point, []).append(ratio)
    for each, found in zip(usable, log_ratios, strict=True):
        for point, ratios in found.items():
            gain = expm1(statistics.median(ratios))
            each.gains[point.size_bytes] = min(gain, each.gains.get(point.size_bytes, gain))
    return screened


def _rejection_reason(measurement: Measurement, chosen: SideSpec, name: str) -> str:
    """Tests a candidate with a short checked block. Returns the reason for rejection, or an empty text."""
    try:
        block = measurement.block(chosen, name, *PREFLIGHT_FLAGS)
    except BlockEndedError as error:
        if error.was_interrupted:
            raise
        return f"the engine ended with exit code {int(error.exit_code)}"
    wrong = [point for point, figure in block.items() if figure.wrong_elements]
    return f"WRONG DATA at {size_text(wrong[0].size_bytes)}" if wrong else ""
