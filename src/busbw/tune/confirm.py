"""From screened candidates to settings that hold: each is measured against what was found so far."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from busbw.ab import Measurement, Session, SessionRules, SessionState, SideSpec
from busbw.compare.result import ChangeVerdict, Comparison, SizeResult
from busbw.errors import ExitCode
from busbw.tune.knobs import Candidate, Setting
from busbw.tune.outputs import Winner
from busbw.tune.screen import ScreenedCandidate, side

MIN_GAIN = 0.02
"""What a candidate must gain at some size in screening to be measured again."""


@dataclass
class ConfirmedCandidate:
    """A candidate that was measured against the settings before it."""

    candidate: Candidate
    comparison: Comparison
    decision: str


@dataclass
class TuningResult:
    """What was found."""

    adopted: Setting = ()
    """For the environment: faster somewhere, slower nowhere, all together."""
    winners: list[Winner] = field(default_factory=list)
    """For the tuner's file: by size."""
    confirmed: list[ConfirmedCandidate] = field(default_factory=list)
    exit_code: int = ExitCode.GOOD
    """Of the measurement; not good where it was stopped."""


def confirm(
    measurement: Measurement,
    base: SideSpec,
    screened: Sequence[ScreenedCandidate],
    *,
    most: int,
    rules: SessionRules,
    on_progress: Callable[[str], None] = lambda _text: None,
) -> TuningResult:
    """Measures the best candidates by `busbw ab`'s rules, best first; the base grows by what is adopted."""
    promising = sorted((each for each in screened if each.best_gain >= MIN_GAIN), key=lambda each: -each.best_gain)
    tuning = TuningResult()
    for number, each in enumerate(promising[:most], start=1):
        candidate = each.candidate
        if dict(tuning.adopted).keys() & dict(candidate.setting).keys():
            continue  # another value of the same variable was adopted, and it gained more in screening
        folder = measurement.folder / f"confirm-{number:02}"
        folder.mkdir()
        before = side(base, tuning.adopted)
        words = f"confirming {candidate.text} ({number} of {min(most, len(promising))})"

        def progress(state: SessionState, words: str = words) -> None:
            on_progress(f"{words}: {state.phase}, quadruple {len(state.quadruples) + 1}")

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
    """Takes the candidate into the tuning where it belongs, and says so."""
    faster = [result for result in comparison.results if result.verdict is ChangeVerdict.FASTER]
    slower = {result.point.size_bytes for result in comparison.results if result.verdict is ChangeVerdict.SLOWER}
    if comparison.wrong_data:
        return "rejected: wrong data"
    if not faster:
        return "rejected: faster nowhere"
    if candidate.goes_to == "tuner":
        kept = [result for result in faster if result.point.size_bytes not in slower]
        for result in kept:
            _keep_best(tuning.winners, result, candidate)
        return "by size, in the tuner's file" if kept else "rejected: faster in one placement and slower in the other"
    if slower:
        return "rejected: slower at another size"
    tuning.adopted = (*tuning.adopted, *candidate.setting)
    return "adopted"


def _keep_best(winners: list[Winner], result: SizeResult, candidate: Candidate) -> None:
    new = Winner(result.point.size_bytes, candidate.setting, result.speedup or 1.0)
    old = next((winner for winner in winners if winner.size_bytes == new.size_bytes), None)
    if old is None or new.speedup > old.speedup:
        winners[:] = [winner for winner in winners if winner is not old] + [new]
