"""An A/B measurement from its first block to its comparison: proof, noise, quadruples until it is decided."""

import random
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from busbw.ab import plan, verdicts
from busbw.ab.blocks import PREFLIGHT_FLAGS, UNCHECKED, Block, BlockEndedError, Measurement
from busbw.ab.sides import SideSpec
from busbw.ab.verdicts import Quadruple
from busbw.compare.pairing import by_configuration
from busbw.compare.result import ChangeVerdict, Comparison, Difference, PointKey, Side, SizeResult
from busbw.errors import ExitCode, UsageError, interrupt_exit_code
from busbw.logs import PLACEMENT_WORDS
from busbw.units import count_text, size_text


@dataclass(frozen=True)
class SessionRules:
    """When to stop and what to call a change."""

    resolution: float
    max_quadruples: int = plan.MAX_QUADRUPLES
    max_time_s: float | None = None
    measures_noise: bool = True
    """Whether A is measured against A first."""
    checks_every_block: bool = False
    """Whether the user asked for checks (-c); otherwise only one short block of each side is checked."""

    @property
    def noise_quadruples(self) -> int:
        """Of A against A."""
        return plan.FIRST_LOOK if self.measures_noise else 0

    @property
    def blocks_to_first_look(self) -> int:
        """The fewest that can tell anything, without the proof."""
        return 4 * (self.noise_quadruples + plan.FIRST_LOOK)


@dataclass
class SessionState:
    """How far a measurement is; what is here when it is interrupted is what can be judged."""

    points: list[PointKey] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    calibration: list[Quadruple] = field(default_factory=list)
    quadruples: list[Quadruple] = field(default_factory=list)
    phase: str = "checking both sides"
    ended_by: BlockEndedError | None = None
    interrupted_by: KeyboardInterrupt | None = None
    """Between two blocks, or too late to end one."""
    stopped_because: str = ""

    @property
    def exit_code(self) -> int:
        """Of the measurement itself, before what it found."""
        if self.ended_by:
            return self.ended_by.exit_code
        return interrupt_exit_code(self.interrupted_by) if self.interrupted_by else ExitCode.GOOD

    @property
    def is_interrupted(self) -> bool:
        """By Ctrl-C or another signal, which says nothing of what was measured."""
        return self.ended_by.was_interrupted if self.ended_by else self.interrupted_by is not None


class Session:
    """Measures two sides against each other."""

    def __init__(
        self,
        measurement: Measurement,
        sides: tuple[SideSpec, SideSpec],
        rules: SessionRules,
        *,
        on_progress: Callable[[SessionState], None] = lambda _state: None,
        on_end: Callable[[], None] = lambda: None,
        seed: int | None = None,
    ) -> None:
        self._measurement = measurement
        self._sides = {"A": sides[0], "B": sides[1]}
        self._rules = rules
        self._on_progress = on_progress
        self._on_end = on_end
        # The coin is what makes the test exact, so it must know nothing of the machine.
        self._coin = random.Random(secrets.randbits(64) if seed is None else seed)
        self._start_s = monotonic()
        self._extra = () if rules.checks_every_block else UNCHECKED
        self.state = SessionState()

    def run(self) -> Comparison:
        """Measures until all is decided or the rules end it, and says what can be said; also when interrupted.

        Raises:
            BusbwError: A side did not get through its first block; nothing can be said.
        """
        self._check_sides()
        self._require_time()
        try:
            self._calibrate()
            self._measure()
        except BlockEndedError as error:
            self._on_end()
            self.state.ended_by = error
        except KeyboardInterrupt as interrupt:
            self._on_end()
            self.state.interrupted_by = interrupt
        return self._comparison()

    def _check_sides(self) -> None:
        """A short checked block of each side: what is refused or wrong shows before the time is spent."""
        blocks = {
            name: self._measurement.block(side, f"proof-{name}", *PREFLIGHT_FLAGS) for name, side in self._sides.items()
        }
        for name, block in blocks.items():
            wrong = [point for point, figure in block.items() if figure.wrong_elements]
            if wrong:
                self.state.wrong.append(
                    f"{name} has wrong data in {len(wrong)} of {count_text(len(block), 'measurement')}, first at "
                    f"{size_text(wrong[0].size_bytes)} {PLACEMENT_WORDS[wrong[0].placement]}."
                )
        a, b = blocks["A"], blocks["B"]
        self.state.points = sorted((point for point in a if point in b), key=by_configuration)
        if not self.state.points:
            raise UsageError(
                "the two sides have no row in common",
                remedy="let --a and --b change how it is done, not what is measured",
            )
        if unpaired := len(a.keys() ^ b.keys()):
            self.state.skipped.append(f"{count_text(unpaired, 'measurement')} of one side only were left out.")

    def _require_time(self) -> None:
        """Refuses a budget in which not even the first look can be reached, before it is spent."""
        if self._rules.max_time_s is None:
            return
        # The two blocks so far were the shortest that there are.
        blocks = self._rules.blocks_to_first_look
        min_s = (monotonic() - self._start_s) / 2 * blocks
        if min_s > self._rules.max_time_s:
            raise UsageError(
                f"--budget {self._rules.max_time_s:g} is too little: {blocks} blocks are the fewest "
                f"that can tell anything, and they take at least {min_s:.0f} s here",
                remedy=f"give --budget {2 * min_s:.0f} or more, or fewer sizes",
            )

    def _calibrate(self) -> None:
        self.state.phase = "measuring the noise (A against A)"
        while len(self.state.calibration) < self._rules.noise_quadruples and not self._is_late():
            number = len(self.state.calibration) + 1
            self._on_progress(self.state)
            self.state.calibration.append(self._quadruple(f"noise-{number:03}", {"A": "A", "B": "A"}))

    def _measure(self) -> None:
        self.state.phase = "measuring A against B"
        most = self._rules.max_quadruples
        for look in plan.looks(most):
            while len(self.state.quadruples) < look:
                if self._is_late():
                    self.state.stopped_because = f"the time given ({self._rules.max_time_s:g} s) was over"
                    return
                self._on_progress(self.state)
                number = len(self.state.quadruples) + 1
                self.state.quadruples.append(self._quadruple(f"block-{number:03}", {"A": "A", "B": "B"}))
            if self._judge().is_decided:
                self.state.stopped_because = "every size was decided"
                return
        self.state.stopped_because = f"{count_text(most, 'quadruple')} are the most (--max-quadruples)"

    def _is_late(self) -> bool:
        limit_s = self._rules.max_time_s
        return limit_s is not None and monotonic() - self._start_s >= limit_s

    def _quadruple(self, name: str, sides: dict[str, str]) -> Quadruple:
        order = plan.order(lambda: self._coin.random() < 0.5)
        blocks: list[Block] = [
            self._measurement.block(self._sides[sides[letter]], f"{name}-{place}-{letter}", *self._extra)
            for place, letter in enumerate(order, start=1)
        ]
        return Quadruple(order, (blocks[0], blocks[1], blocks[2], blocks[3]))

    @property
    def seconds_left(self) -> float | None:
        """Until the last quadruple that may come, at the speed so far; None before there is one."""
        done = len(self.state.calibration) + len(self.state.quadruples)
        if not done:
            return None
        elapsed_s = monotonic() - self._start_s
        left_s = elapsed_s / done * (self._rules.noise_quadruples + self._rules.max_quadruples - done)
        return left_s if self._rules.max_time_s is None else max(0.0, min(left_s, self._rules.max_time_s - elapsed_s))

    def _judge(self) -> verdicts.AbVerdicts:
        return verdicts.judge(
            self.state.points,
            self.state.quadruples,
            alpha=plan.alpha_per_look(self._rules.max_quadruples),
            resolution=self._rules.resolution,
            unfit=self._unfit(),
        )

    def _unfit(self) -> frozenset[PointKey]:
        """Where A differed from itself."""
        judged = verdicts.judge(
            self.state.points,
            self.state.calibration,
            alpha=plan.alpha_per_look(self._rules.max_quadruples),
            resolution=self._rules.resolution,
        )
        changed = (ChangeVerdict.FASTER, ChangeVerdict.SLOWER)
        return frozenset(result.point for result in judged.results if result.verdict in changed)

    def _comparison(self) -> Comparison:
        judged = self._judge()
        a, b = self._sides["A"], self._sides["B"]
        number = len(self.state.quadruples)
        noise = verdicts.noise(self.state.points, self.state.calibration)
        method = [
            f"{count_text(number, 'quadruple')} of interleaved blocks (ABBA or BAAB, by a coin), each block a start of "
            "the engine; a size counts as changed when its interval excludes 1 and so does that of a neighbour (the "
            "next size, or the other placement), on the same side.",
            f"Chance of any false alarm in a run: at most {plan.RUN_ALPHA * 100:g} %, by relabelling quadruples.",
        ]
        if judged.results and judged.results[0].compared == "device_time_us":
            method.append("Times are the device's: all ranks begin together, and launching is not in them.")
        if noise:
            worst = max(noise, key=lambda point: noise[point])
            method.append(
                f"Noise: A against A was off by {min(noise.values()) * 100:.1f} % to {noise[worst] * 100:.1f} % per "
                f"quadruple (most at {size_text(worst.size_bytes)}), over {len(self.state.calibration)} of them."
            )
        elif not self._rules.measures_noise:
            method.append(
                "Noise was not measured (--no-noise), so a size at which A differs from itself is not left out."
            )
        return Comparison(
            a=Side(label="A", source=a.description, runs=2 * number),
            b=Side(label="B", source=b.description, runs=2 * number),
            results=judged.results,
            resolution=self._rules.resolution,
            method=tuple(method),
            level_text=f"each {judged.level * 100:.4g} %" if judged.level else "no intervals",
            wrong_data=(*self.state.wrong, *_wrong_later(judged.results, self.state.wrong)),
            warnings=tuple(self._warnings()),
            differences=(Difference(what="side", a=a.description, b=b.description),) if a != b else (),
        )

    def _warnings(self) -> list[str]:
        said = list(self.state.skipped)
        if self.state.is_interrupted:
            said.append(f"Interrupted while {self.state.phase}; this is what the finished quadruples say.")
        elif self.state.ended_by:
            said.append(f"Ended early: {self.state.ended_by}.")
        else:
            said.append(f"Stopped because {self.state.stopped_because}.")
        if self._sides["A"] == self._sides["B"]:
            said.append("Both sides are the same: any change reported here is a false alarm.")
        return said


def _wrong_later(results: Sequence[SizeResult], known: Sequence[str]) -> list[str]:
    """Sides whose data were wrong in a block that was timed, where the proof did not show it."""
    said = []
    for name, figures in (("A", [each.a for each in results]), ("B", [each.b for each in results])):
        wrong = sum(bool(each.wrong_elements) for each in figures)
        if wrong and not any(sentence.startswith(f"{name} ") for sentence in known):
            said.append(
                f"{name} has wrong data in {wrong} of {count_text(len(figures), 'measurement')}, in some blocks."
            )
    return said
