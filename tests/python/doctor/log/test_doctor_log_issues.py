"""Logs of jobs with a cause that a public issue states."""

from pathlib import Path

import msgspec
import pytest
from doctor_logs import HEALTHY, examine, healthy_log
from msgspec import Struct

from busbw.doctor.catalog import checks_of


class Issue(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    source: str
    cause: str
    messages: list[str]
    """Of node1, or of another host after @."""

    @property
    def lines(self) -> list[str]:
        lines = []
        for message in self.messages:
            host, _, text = message[1:].partition(" ") if message.startswith("@") else ("node1", "", message)
            lines.append(f"{host}:17:42 [0] {text}")
        return lines


ISSUES = msgspec.toml.decode((Path(__file__).parent / "issues.toml").read_bytes(), type=dict[str, list[Issue]])["issue"]


@pytest.mark.parametrize("issue", ISSUES, ids=[f"{issue.source} {issue.cause}" for issue in ISSUES])
def test_the_cause_is_among_the_first_findings(tmp_path: Path, issue: Issue) -> None:
    alone = examine(tmp_path, issue.lines).findings
    assert issue.cause == alone[0].check
    in_a_job = examine(tmp_path, [*healthy_log(HEALTHY["dgx-h100"]), *issue.lines]).findings
    assert issue.cause in [finding.check for finding in in_a_job[:3]] or issue.cause == "log-network"


def test_each_check_for_a_message_has_a_source_and_texts() -> None:
    for check in checks_of("log"):
        assert check.source.startswith("https://") or "/" in check.source
        assert check.cost.endswith(".")
        assert check.fix
