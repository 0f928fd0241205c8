"""Runs checks at the same time, within one time limit, and collects their results."""

import time
from collections.abc import Sequence
from threading import Thread
from typing import Generic

from busbw.doctor.cost import Job, estimate_cost
from busbw.doctor.model import Check, Finding, NotApplicable, Unreadable
from busbw.doctor.model.check import Subject
from busbw.doctor.result import Missing, Result, make_reported_finding, sort_key
from busbw.units import plain, shorten

LIMIT_S = 4.0
"""Time limit of all checks together. A check that waits for a device ends without a decision."""


class _Outcome(Generic[Subject]):
    """Outcome of one check so far. Only the thread of this check changes the object, also after the time limit."""

    def __init__(self, check: Check[Subject], limit_s: float) -> None:
        self.check = check
        self.findings: list[Finding] = []
        self.undecided_text: str | None = f"the check did not end within {limit_s:.2g} s"
        """Value that the check lacks for a decision, or a clause with the reason. None if decided or not applicable.

        The first text stays if the check does not end.
        """
        self.not_applicable: str | None = None
        """Reason for which the check does not apply. None if the check applies."""

    def run(self, subject: Subject) -> None:
        """Runs the check."""
        try:
            for finding in self.check.examine(subject):
                self.findings.append(finding)
            self.undecided_text = None
        except NotApplicable as reason:
            self.not_applicable = shorten(str(reason))
            self.undecided_text = None
        except Unreadable as error:
            self.undecided_text = shorten(str(error))
        except Exception as error:
            # A machine or a log can have values in any form, and one check must not end the other checks.
            error_text = f"{type(error).__name__} {plain(str(error))[:80]}".rstrip()
            self.undecided_text = f"values in a form that the check understands: {error_text}"

    @property
    def has_passed(self) -> bool:
        """True if the check decided that there is no problem."""
        return not self.findings and self.undecided_text is None and self.not_applicable is None


def examine(
    checks: Sequence[Check[Subject]],
    subject: Subject,
    job: Job,
    *,
    limit_s: float = LIMIT_S,
) -> Result:
    """Returns the result of checks.

    Args:
        checks: Checks to run, within one time limit.
        subject: Object that the checks examine.
        job: Job for the costs. Its fields are read after the checks, because another thread may set them until then.
        limit_s: Time limit in seconds.
    """
    end = time.monotonic() + limit_s
    outcomes = [_Outcome(check, limit_s) for check in checks]
    # A read can block forever in the kernel. Daemon threads do not keep the program from ending.
    threads = [Thread(target=outcome.run, args=(subject,), daemon=True) for outcome in outcomes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    findings = [
        make_reported_finding(outcome.check, finding, estimate_cost(finding.damage, job))
        for outcome in outcomes
        for finding in tuple(outcome.findings)  # a copy, because the thread of the check may still add findings
    ]
    reasons = {outcome.check.name: outcome.not_applicable for outcome in outcomes if outcome.not_applicable is not None}
    return Result(
        findings=tuple(sorted(findings, key=sort_key)),
        passed=tuple(outcome.check.name for outcome in outcomes if outcome.has_passed),
        not_applicable=tuple(reasons),
        not_applicable_reasons=reasons,
        could_not_check=tuple(
            Missing(check=outcome.check.name, missing=outcome.undecided_text)
            for outcome in outcomes
            if outcome.undecided_text is not None
        ),
    )
