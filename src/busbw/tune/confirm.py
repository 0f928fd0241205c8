"""Confirmation of screened candidates by A/B sessions.

Side A of a session has the settings that earlier sessions adopted. Side B has one candidate in addition. A confirmed
candidate goes to the environment file, for all sizes, or by size to the tuner file, for NCCL's tuner plugin.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from busbw.ab import Measurement, Session, SessionRules, SessionState, SideSpec
from busbw.ab.blocks import BlockEndedError
from busbw.compare.result import ChangeVerdict, Comparison, SizeResult
from busbw.errors import ExitCode, interrupt_exit_code
from busbw.tune.knobs import Candidate, Setting
from busbw.tune.outputs import Winner
from busbw.tune.screen import ScreenedCandidate, failure_text, with_settings

MIN_GAIN = 0.02
"""Minimum gain at the best size in the screening for an A/B session: 2 %."""


@dataclass
class ConfirmedCandidate:
    """Comparison of the settings with a candidate (B) and without it (A), and the decision."""

    candidate: Candidate
    comparison: Comparison | None
    """None if the session ended before its first timed block."""
    decision: str
    """Text that begins with "adopted" or "rejected"."""


@dataclass
class TuningResult:
    """Result of a tuning run."""

    adopted: Setting = ()
    """Environment variables for all sizes. Each adopted setting was faster at some size and slower at none."""
    winners: list[Winner] = field(default_factory=list)
    """Best setting of each size, for the tuner file."""
    confirmed: list[ConfirmedCandidate] = field(default_factory=list)
    exit_code: int = ExitCode.GOOD
    """Exit code of the measurement. Not GOOD if it was interrupted."""


def confirm(
    measurement: Measurement,
    base: SideSpec,
    screened: Sequence[ScreenedCandidate],
    *,
    max_candidates: int,
    rules: SessionRules,
    on_progress: Callable[[str], None] = lambda _text: None,
) -> TuningResult:
    """Compares the best candidates by A/B sessions, the best first. Adopted settings extend side A of the next session.

    Candidates for the tuner file come last: their speed-ups are compared with each other, so they need the same side A.
    A candidate that fails is rejected. An interrupt ends the confirmation, and the results so far remain.
    """
    promising = [entry for entry in screened if entry.best_gain >= MIN_GAIN]
    best = sorted(promising, key=lambda entry: entry.best_gain, reverse=True)[:max_candidates]
    best.sort(key=lambda entry: entry.candidate.goes_to == "tuner")
    tuning = TuningResult()
    for number, entry in enumerate(best, start=1):
        candidate = entry.candidate
        if dict(tuning.adopted).keys() & dict(candidate.setting).keys():
            continue  # an adopted candidate sets the same variable, and gained more in the screening
        folder = measurement.folder / f"confirm-{number:02}"
        folder.mkdir()
        current_side = with_settings(base, tuning.adopted)
        description = f"confirming {candidate.text} ({number} of {len(best)})"
        session = Session(
            replace(measurement, folder=folder),
            (current_side, with_settings(current_side, candidate.setting)),
            rules,
            on_progress=_progress_callback(description, on_progress),
        )
        comparison = None
        try:
            comparison = session.run()
            error: BlockEndedError | None = session.state.ended_by
            was_interrupted = session.state.is_interrupted
        except BlockEndedError as raised:  # in the check blocks
            error, was_interrupted = raised, raised.was_interrupted
        except KeyboardInterrupt as interrupt:
            tuning.exit_code = interrupt_exit_code(interrupt)
            break
        if error is not None and not was_interrupted:
            if session.state.failed_side != "B":
                raise error  # the current setting does not run, so no candidate can be judged
            decision = f"rejected: {failure_text(error)}"
        elif comparison is not None and (comparison.changed or not was_interrupted):
            decision = _adopt_if_faster(tuning, candidate, comparison)
        else:
            decision = "not decided: interrupted"
        tuning.confirmed.append(ConfirmedCandidate(candidate, comparison, decision))
        if was_interrupted:
            tuning.exit_code = error.exit_code if error else session.state.exit_code
            break
    return tuning


def _progress_callback(description: str, on_progress: Callable[[str], None]) -> Callable[[SessionState], None]:
    """Returns the callback of a session, which passes its progress to `on_progress` as text."""

    def report(state: SessionState) -> None:
        on_progress(f"{description}: {state.activity}, quadruple {len(state.quadruples) + 1}")

    return report


def _adopt_if_faster(tuning: TuningResult, candidate: Candidate, comparison: Comparison) -> str:
    """Adds the candidate to the result if it is faster, and returns the decision as text."""
    faster = [result for result in comparison.results if result.verdict is ChangeVerdict.FASTER]
    slower_sizes = {result.point.size_bytes for result in comparison.results if result.verdict is ChangeVerdict.SLOWER}
    if comparison.wrong_data:
        return "rejected: wrong data"
    if not faster:
        return "rejected: not faster at any size"
    if candidate.goes_to == "tuner":
        winning = [result for result in faster if result.point.size_bytes not in slower_sizes]
        if not winning:
            return "rejected: faster in one placement and slower in the other"
        for result in winning:
            _update_winner(tuning.winners, result, candidate)
        return "adopted by size, in the tuner file"
    if slower_sizes:
        return "rejected: slower at another size"
    tuning.adopted = (*tuning.adopted, *candidate.setting)
    return "adopted"


def _update_winner(winners: list[Winner], result: SizeResult, candidate: Candidate) -> None:
    """Makes the candidate the winner of this size if it is faster than the previous winner."""
    new = Winner(result.point.size_bytes, candidate.setting, result.speedup or 1.0)
    old = next((winner for winner in winners if winner.size_bytes == new.size_bytes), None)
    if old is not None:
        if new.speedup <= old.speedup:
            return
        winners.remove(old)
    winners.append(new)
