"""An A/B session: check of both sides, noise measurement, then quadruples until all sizes have a verdict.

`plan` decides when the data are evaluated, `blocks` runs the engine, and `verdicts` evaluates. Terms:

- A point is a size in one placement of one configuration.
- A check block is a short block that tests if a side runs and computes correct data.
- A quadruple is four timed blocks in the order ABBA or BAAB.
- A look evaluates the quadruples so far, and ends the session if every size has a verdict.
"""

import random
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from time import monotonic

from busbw.ab import plan, verdicts
from busbw.ab.blocks import CHECK_BLOCK_FLAGS, CHECK_BLOCK_PREFIX, UNCHECKED, Block, BlockEndedError, Measurement
from busbw.ab.sides import SideSpec
from busbw.ab.verdicts import Quadruple
from busbw.comparability import find_differences
from busbw.compare.pairing import by_configuration
from busbw.compare.result import NO_INTERVALS, ChangeVerdict, Comparison, PointKey, SettingDifference, Side, SizeResult
from busbw.errors import ExitCode, UsageError, interrupt_exit_code
from busbw.logs.log import PLACEMENT_WORDS
from busbw.units import count_text, size_text


@dataclass(frozen=True)
class SessionRules:
    """Limits of a session, and the smallest change of interest."""

    resolution: float
    """Smallest relative change that matters: 0.05 is 5 %."""
    max_quadruples: int = plan.MAX_QUADRUPLES
    max_time_s: float | None = None
    """Time budget of the session. None: no limit."""
    measures_noise: bool = True
    """True if A is first measured against A."""
    checks_every_block: bool = False
    """True if the user requested data checks (-c). Otherwise only one short block of each side is checked."""

    @property
    def noise_quadruple_count(self) -> int:
        """Number of quadruples of A against A."""
        return plan.FIRST_LOOK if self.measures_noise else 0

    @property
    def blocks_to_first_look(self) -> int:
        """Number of timed blocks up to the first look. A verdict needs at least these blocks."""
        return 4 * (self.noise_quadruple_count + plan.FIRST_LOOK)


@dataclass
class SessionState:
    """Progress and results so far. After an interrupt the session judges these results."""

    points: list[PointKey] = field(default_factory=list)
    """Points that both sides have."""
    unpaired_warnings: list[str] = field(default_factory=list)
    """Sentences about points that only one side has."""
    wrong_data: dict[str, str] = field(default_factory=dict)
    """Sentence about wrong data in the check block, by side."""
    noise_quadruples: list[Quadruple] = field(default_factory=list)
    """Quadruples of A against A."""
    quadruples: list[Quadruple] = field(default_factory=list)
    """Quadruples of A against B."""
    activity: str = "checking both sides"
    """Current activity, for progress texts."""
    ended_by: BlockEndedError | None = None
    failed_side: str | None = None
    """Side of the block that failed or was interrupted, "A" or "B"."""
    interrupted_by: KeyboardInterrupt | None = None
    """Interrupt between two blocks, or just after a block. None without it. An interrupted block is in `ended_by`."""
    stopped_because: str = ""
    """Reason of a regular end, as a clause. Empty after an early end."""

    @property
    def exit_code(self) -> int:
        """Exit code of the measurement itself, regardless of its verdicts."""
        if self.ended_by:
            return self.ended_by.exit_code
        return interrupt_exit_code(self.interrupted_by) if self.interrupted_by else ExitCode.GOOD

    @property
    def is_interrupted(self) -> bool:
        """True if Ctrl-C or another signal ended the session. The finished quadruples remain valid."""
        return self.ended_by.was_interrupted if self.ended_by else self.interrupted_by is not None


class Session:
    """Measures two sides against each other and compares them."""

    def __init__(
        self,
        measurement: Measurement,
        sides: tuple[SideSpec, SideSpec],
        rules: SessionRules,
        *,
        on_progress: Callable[[SessionState], None] = lambda _state: None,
        seed: int | None = None,
    ) -> None:
        """Calls `on_progress` before each quadruple. A seed fixes the order."""
        self._measurement = measurement
        self._sides = {"A": sides[0], "B": sides[1]}
        self._rules = rules
        self._on_progress = on_progress
        # The permutation test is exact only if the order is random, independently of the state of the machine.
        self._coin = random.Random(secrets.randbits(64) if seed is None else seed)
        self._start_s = monotonic()
        self._extra_flags = () if rules.checks_every_block else UNCHECKED
        self.state = SessionState()

    def run(self) -> Comparison:
        """Measures until every size is decided or a limit is reached.

        After a failed timed block, or an interrupt after the checks, compares the finished quadruples.

        Raises:
            BlockEndedError: A side failed or was interrupted in its check block, so there is no comparison.
            KeyboardInterrupt: The user interrupted the session before the end of the checks.
            UsageError: The sides have no row in common, or the time budget is too short.
        """
        self._check_sides()
        self._require_sufficient_budget()
        try:
            self._measure_noise()
            self._measure_difference()
        except BlockEndedError as error:
            self.state.ended_by = error
        except KeyboardInterrupt as interrupt:
            self.state.interrupted_by = interrupt
        return self._comparison()

    def _check_sides(self) -> None:
        """Runs a short checked block of each side, and selects the points that both sides have.

        So a rejected flag ends the session early. Wrong data do not end the session: the comparison reports them.
        """
        blocks = {name: self._block(name, f"{CHECK_BLOCK_PREFIX}{name}", *CHECK_BLOCK_FLAGS) for name in self._sides}
        self._require_like_systems()
        for name, block in blocks.items():
            wrong = [point for point, figure in block.items() if figure.wrong_elements]
            if wrong:
                self.state.wrong_data[name] = (
                    f"{name} has wrong data in {len(wrong)} of {count_text(len(block), 'measurement')}, first at "
                    f"{size_text(wrong[0].size_bytes)} {PLACEMENT_WORDS[wrong[0].placement]}."
                )
        a, b = blocks["A"], blocks["B"]
        self.state.points = sorted((point for point in a if point in b), key=by_configuration)
        if not self.state.points:
            raise UsageError(
                "the two sides have no row in common",
                remedy="let --a and --b change settings, not the measured rows",
            )
        if unpaired := len(a.keys() ^ b.keys()):
            self.state.unpaired_warnings.append(f"{count_text(unpaired, 'measurement')} of one side only are left out.")

    def _require_like_systems(self) -> None:
        """Raises UsageError if the check blocks ran on unlike systems, such as other GPUs of a mixed machine."""
        facts_a, facts_b = (
            self._measurement.system_facts(f"{CHECK_BLOCK_PREFIX}{name}").by_name() for name in self._sides
        )
        blockers, _ = find_differences(facts_a, facts_b)
        if blockers:
            raise UsageError(
                f"the two sides ran on unlike systems: {'; '.join(difference.text for difference in blockers)}",
                remedy="let --a and --b use like GPUs and one transport",
            )

    def _require_sufficient_budget(self) -> None:
        """Raises UsageError if the time budget is too short for the first look."""
        if self._rules.max_time_s is None:
            return
        blocks = self._rules.blocks_to_first_look
        # Until here, only the two check blocks ran, with one iteration per size. A timed block takes no less time.
        check_block_s = (monotonic() - self._start_s) / 2
        min_s = check_block_s * blocks
        if min_s > self._rules.max_time_s:
            raise UsageError(
                f"--budget {self._rules.max_time_s:g} is too little: a verdict needs at least {blocks} blocks, "
                f"which take at least {min_s:.0f} s here",
                remedy=f"set --budget to {2 * min_s:.0f} or more, or measure fewer sizes",
            )

    def _measure_noise(self) -> None:
        """Measures the quadruples of A against A."""
        self.state.activity = "measuring the noise (A against A)"
        while len(self.state.noise_quadruples) < self._rules.noise_quadruple_count and not self._is_out_of_time():
            number = len(self.state.noise_quadruples) + 1
            self._on_progress(self.state)
            self.state.noise_quadruples.append(self._measure_quadruple(f"noise-{number:03}", a="A", b="A"))

    def _measure_difference(self) -> None:
        """Measures quadruples of A against B, and evaluates them at each look."""
        self.state.activity = "measuring A against B"
        max_quadruples = self._rules.max_quadruples
        for look in plan.looks(max_quadruples):
            while len(self.state.quadruples) < look:
                if self._is_out_of_time():
                    self.state.stopped_because = f"the time budget of {self._rules.max_time_s:g} s was used up"
                    return
                self._on_progress(self.state)
                number = len(self.state.quadruples) + 1
                self.state.quadruples.append(self._measure_quadruple(f"block-{number:03}", a="A", b="B"))
            if self._judge_quadruples().is_decided:
                self.state.stopped_because = "every size was decided"
                return
        self.state.stopped_because = (
            f"the limit of {count_text(max_quadruples, 'quadruple')} was reached (--max-quadruples)"
        )

    def _is_out_of_time(self) -> bool:
        limit_s = self._rules.max_time_s
        return limit_s is not None and monotonic() - self._start_s >= limit_s

    def _measure_quadruple(self, name: str, *, a: str, b: str) -> Quadruple:
        """Measures four blocks: side `a` in the role of A, and side `b` in the role of B."""
        order = plan.choose_order(lambda: self._coin.random() < 0.5)
        sides = {"A": a, "B": b}
        blocks: list[Block] = [
            self._block(sides[letter], f"{name}-{position}-{letter}", *self._extra_flags)
            for position, letter in enumerate(order, start=1)
        ]
        return Quadruple(order, (blocks[0], blocks[1], blocks[2], blocks[3]))

    def _block(self, side: str, name: str, *extra_flags: str) -> Block:
        """Measures a block of a side, "A" or "B"."""
        try:
            return self._measurement.block(self._sides[side], name, *extra_flags)
        except BlockEndedError:
            self.state.failed_side = side
            raise

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until the limits are reached, from the speed so far. None before the first quadruple."""
        done = len(self.state.noise_quadruples) + len(self.state.quadruples)
        if not done:
            return None
        elapsed_s = monotonic() - self._start_s
        remaining = self._rules.noise_quadruple_count + self._rules.max_quadruples - done
        left_s = elapsed_s / done * remaining
        if self._rules.max_time_s is None:
            return left_s
        return max(0.0, min(left_s, self._rules.max_time_s - elapsed_s))

    def _judge_quadruples(self) -> verdicts.AbVerdicts:
        return verdicts.judge(
            self.state.points,
            self.state.quadruples,
            alpha=plan.alpha_per_look(self._rules.max_quadruples),
            resolution=self._rules.resolution,
            noisy=self._noisy_points(),
        )

    def _noisy_points(self) -> frozenset[PointKey]:
        """Points at which A differed from itself in the noise measurement."""
        judged = verdicts.judge(
            self.state.points,
            self.state.noise_quadruples,
            alpha=plan.alpha_per_look(self._rules.max_quadruples),
            resolution=self._rules.resolution,
        )
        changed = (ChangeVerdict.FASTER, ChangeVerdict.SLOWER)
        return frozenset(result.point for result in judged.results if result.verdict in changed)

    def _comparison(self) -> Comparison:
        judged = self._judge_quadruples()
        a, b = self._sides["A"], self._sides["B"]
        blocks_per_side = 2 * len(self.state.quadruples)
        wrong_timed_blocks = _wrong_timed_blocks(judged.results, self.state.wrong_data)
        return Comparison(
            a=Side(label="A", source=a.description, runs=blocks_per_side),
            b=Side(label="B", source=b.description, runs=blocks_per_side),
            results=judged.results,
            resolution=self._rules.resolution,
            method=tuple(self._method_sentences(judged.results)),
            level_text=f"each {judged.level * 100:.4g} %" if judged.level else NO_INTERVALS,
            wrong_data=(*self.state.wrong_data.values(), *wrong_timed_blocks),
            warnings=tuple(self._warnings()),
            differences=(SettingDifference(what="side", a=a.description, b=b.description),) if a != b else (),
        )

    def _method_sentences(self, results: Sequence[SizeResult]) -> list[str]:
        quadruples = count_text(len(self.state.quadruples), "quadruple")
        noise = verdicts.noise(self.state.points, self.state.noise_quadruples)
        method = [
            f"{quadruples} of interleaved blocks (ABBA or BAAB at random). Each block is one "
            "start of the engine. A size counts as changed if its interval and that of a neighbor (the next size or "
            "the other placement) exclude 1 on the same side.",
            f"Probability of any false alarm in a run: at most {plan.RUN_ALPHA * 100:g} %, by a permutation test that "
            "relabels quadruples.",
        ]
        if results and results[0].compared == "device_time_us":
            method.append("Times are device times: all ranks begin together, and launch time is excluded.")
        if noise:
            worst = max(noise, key=lambda point: noise[point])
            method.append(
                f"Noise: A against A differed by {min(noise.values()) * 100:.1f} % to {noise[worst] * 100:.1f} % per "
                f"quadruple (most at {size_text(worst.size_bytes)}), over "
                f"{len(self.state.noise_quadruples)} quadruples."
            )
        elif not self._rules.measures_noise:
            method.append(
                "Noise was not measured (--no-noise), so sizes at which A differs from itself are not excluded."
            )
        return method

    def _warnings(self) -> list[str]:
        warnings = list(self.state.unpaired_warnings)
        if self.state.is_interrupted:
            warnings.append(f"Interrupted while {self.state.activity}; the verdicts use the finished quadruples.")
        elif self.state.ended_by:
            warnings.append(f"Ended early: {self.state.ended_by}.")
        else:
            warnings.append(f"Stopped because {self.state.stopped_because}.")
        if self._sides["A"] == self._sides["B"]:
            warnings.append("Both sides are the same: any change reported here is a false alarm.")
        return warnings


def _wrong_timed_blocks(results: Sequence[SizeResult], wrong_sides: Collection[str]) -> list[str]:
    """Describes wrong data in timed blocks. Omits the sides with wrong data in their check block (`wrong_sides`)."""
    sentences = []
    for name, figures in (("A", [result.a for result in results]), ("B", [result.b for result in results])):
        wrong = sum(bool(figure.wrong_elements) for figure in figures)
        if wrong and name not in wrong_sides:
            sentences.append(
                f"{name} has wrong data in {wrong} of {count_text(len(figures), 'measurement')}, in some blocks."
            )
    return sentences
