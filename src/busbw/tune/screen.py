"""Many candidates at few sizes: which are worth a real measurement."""

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
"""In each the settings so far and every candidate are measured once, in an order of its own."""


@dataclass
class ScreenedCandidate:
    """What was seen of a candidate."""

    candidate: Candidate
    gains: dict[int, float] = field(default_factory=dict)
    """By size: how much faster it was, as a share; the median over rounds, of the placement that gained less."""
    excluded: str = ""
    """Why it was not measured, where it was not."""

    @property
    def best_gain(self) -> float:
        """At the size where it helps most."""
        return max(self.gains.values(), default=0.0)


def side(base: SideSpec, *settings: Setting) -> SideSpec:
    """The base with settings on top."""
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
    """Measures every candidate beside the base.

    Raises:
        BlockEndedError: The base itself failed, or the user stopped it.
    """
    screened = [ScreenedCandidate(candidate) for candidate in candidates]
    for number, each in enumerate(screened, start=1):
        on_progress(f"checking {each.candidate.text} ({number} of {len(screened)})")
        each.excluded = _rejection_reason(measurement, side(base, each.candidate.setting), f"proof-{number:03}")
    fit = [each for each in screened if not each.excluded]
    logs: list[dict[PointKey, list[float]]] = [{} for _ in fit]
    for number in range(1, rounds + 1):
        on_progress(f"screening {len(fit)} candidates: round {number} of {rounds}")
        order = list(range(-1, len(fit)))
        shuffle(order)
        blocks: dict[int, Block] = {}
        for which in order:
            chosen = base if which < 0 else side(base, fit[which].candidate.setting)
            blocks[which] = measurement.block(chosen, f"screen-{number:02}-{which + 1:03}", *UNCHECKED)
        for which, found in enumerate(logs):
            for point in blocks[-1].keys() & blocks[which].keys():
                ratio = log(median_us(blocks[-1][point])) - log(median_us(blocks[which][point]))
                if isfinite(ratio):
                    found.setdefault(point, []).append(ratio)
    for each, found in zip(fit, logs, strict=True):
        for point, ratios in found.items():
            gain = expm1(statistics.median(ratios))
            each.gains[point.size_bytes] = min(gain, each.gains.get(point.size_bytes, gain))
    return screened


def _rejection_reason(measurement: Measurement, chosen: SideSpec, name: str) -> str:
    """Why a candidate cannot be used, by a short checked block; empty where it can."""
    try:
        block = measurement.block(chosen, name, *PREFLIGHT_FLAGS)
    except BlockEndedError as error:
        if error.was_interrupted:
            raise
        return f"the engine ended with exit code {int(error.exit_code)}"
    wrong = [point for point, figure in block.items() if figure.wrong_elements]
    return f"WRONG DATA at {size_text(wrong[0].size_bytes)}" if wrong else ""
