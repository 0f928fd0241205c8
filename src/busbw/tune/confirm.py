"""Confirmation of screened candidates: each is measured against the settings that were adopted before it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from busbw.ab import Measurement, Session, SessionRules, SessionState, SideSpec
from busbw.compare.result import ChangeVerdict, Comparison, SizeResult
from busbw.errors import ExitCode
from busbw.tune.knobs import Candidate, Setting
from busbw.tune.outputs import Winner
from busbw.tune.screen import ScreenedCandidate, side

MIN_GAIN = 0.02
"""Minimum gain of a candidate at any size in the screening, as a fraction, for an A/B measurement."""


@dataclass
class ConfirmedCandidate:
    """Comparison of a candidate with the settings before it, and the decision."""

    candidate: Candidate
    comparison: Comparison
    decision: str


@dataclass
class TuningResult:
    """Result of a tuning run."""

    adopted: Setting = ()
    """Environment variables that together are faster at some size and slower at none."""
    winners: list[Winner] = field(default_factory=list)
    """Best settings per size, for the tuner file."""
    confirmed: list[ConfirmedCandidate] = field(default_factory=list)
    exit_code: int = ExitCode.GOOD
    """Exit code of the measurement. Not GOOD if it ended early."""


def confirm(
    measurement: Measurement,
    base: SideSpec,
    screened: Sequence[ScreenedCandidate],
    *,
    max_candidates: int,
    rules: SessionRules,
    on_progress: Callable[[str], None] = lambda _text: None,
) -> TuningResult:
    """Measures the best candidates like `busbw ab`, the best first. Adopted settings extend the base."""
    promising = sorted((each for each in screened if each.best_gain >= MIN_GAIN), key=lambda each: -each.best_gain)
    tuning = TuningResult()
    for number, each in enumerate(promising[:max_candidates], start=1):
        candidate = each.candidate
        if dict(tuning.adopted).keys() & dict(candidate.setting).keys():
            continue  # another value of the same variable was adopted, and it gained more in screening
        folder = measurement.folder / f"confirm-{number:02}"
        folder.mkdir()
        before = side(base, tuning.adopted)
        description = f"confirming {candidate.text} ({number} of {min(max_candidates, len(promising))})"

        def progress(state: SessionState, description: str = description) -> None:
            on_progress(f"{description}: {state.phase}, quadruple {len(state.quadruples) + 1}")

        session = Session(
            replace(measurement, folder=folder), (before, side(before, candidate.setting)), rules, on_progress=progress
        )
        comparison = session.run()
        tuning.confirmed.append(ConfirmedCandidate(candidate, comparison, _decide(tuning, candidate, comparison)))
        if session.state.exit_code:
            tuning.exit_code = session.state.exit_code
            break
    return tuning


def _decide(tuning: TuningResult, candidate: Candidate, comparison: Comparison) -> str:
    """Adds the candidate to the result if it is faster, and returns the decision as text."""
    faster = [result for result in comparison.results if result.verdict is ChangeVerdict.FASTER]
    slower = {result.point.size_bytes for result in comparison.results if result.verdict is ChangeVerdict.SLOWER}
    if comparison.wrong_data:
        return "rejected: wrong data"
    if not faster:
        return "rejected: not faster at any size"
    if candidate.goes_to == "tuner":
        kept = [result for result in faster if result.point.size_bytes not in slower]
        for result in kept:
            _keep_best(tuning.winners, result, candidate)
        return (
            "adopted by size, in the tuner file"
            if kept
            else "rejected: faster in one placement and slower in the other"
        )
    if slower:
        return "rejected: slower at another size"
    tuning.adopted = (*tuning.adopted, *candidate.setting)
    return "adopted"


def _keep_best(winners: list[Winner], result: SizeResult, candidate: Candidate) -> None:
    new = Winner(result.point.size_bytes, candidate.setting, result.speedup or 1.0)
    old = next((winner for winner in winners if winner.size_bytes == new.size_bytes), None)
    if old is None or new.speedup > old.speedup:
        winners[:] = [winner for winner in winners if winner is not old] + [new]
