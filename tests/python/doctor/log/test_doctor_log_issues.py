"""Logs of jobs with a cause that a public issue states."""

from pathlib import Path

import msgspec
import pytest
from doctor_logs import HEALTHY, examine, healthy_log
from msgspec import Struct

from busbw.cli.doctor.selection import exit_code_of
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

KNOWN_WARNING = "init.cc:748 NCCL WARN Duplicate GPU detected : rank 3 and rank 2 both on CUDA device e2000"
HARMLESS_WARNINGS = (
    "misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
    "transport/net_ib/common.cc:153 NCCL WARN NET/IB : mlx5_3:1 GID table changed",
    "transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : client reregistration",
    "init.cc:621 NCCL WARN NCCL_WORK_FIFO_BYTES=5 is being ignored because it is not a power of 2.",
)


@pytest.mark.parametrize("issue", ISSUES, ids=[f"{issue.source} {issue.cause}" for issue in ISSUES])
def test_the_cause_is_among_the_first_findings(tmp_path: Path, issue: Issue) -> None:
    alone = examine(tmp_path, issue.lines).findings
    assert issue.cause == alone[0].check
    in_a_job = examine(tmp_path, [*healthy_log(HEALTHY["dgx-h100"]), *issue.lines]).findings
    assert issue.cause in [finding.check for finding in in_a_job[:3]] or issue.cause == "log-network"


@pytest.mark.parametrize(
    "warning",
    [
        "transport/net_ib.cc:1192 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<60054> with error 5, opcode 48",
        "transport/nvls.cc:157 NCCL WARN Cuda failure 'out of memory'",
        "enqueue.cc:123 NCCL WARN Cuda failure 700 'an illegal memory access was encountered'",
    ],
)
def test_a_job_with_an_unknown_warning_is_not_healthy(tmp_path: Path, warning: str) -> None:
    result = examine(tmp_path, [*healthy_log(HEALTHY["dgx-h100"]), f"node1:17:42 [0] {warning}"])
    assert not result.findings
    assert [missing.check for missing in result.could_not_check] == ["log-other-warnings"]
    assert warning.partition(" NCCL WARN ")[2] in result.could_not_check[0].missing
    assert exit_code_of(result) == 3


def test_warnings_after_a_known_one_need_no_explanation(tmp_path: Path) -> None:
    lines = [f"node1:17:42 [0] {text}" for text in (KNOWN_WARNING, "proxy.cc:1861 NCCL WARN [Service thread] Error")]
    result = examine(tmp_path, [*healthy_log(HEALTHY["dgx-h100"]), *lines])
    assert [finding.check for finding in result.findings] == ["log-gpu-duplicate"]
    assert not result.could_not_check


def test_a_harmless_warning_does_not_matter(tmp_path: Path) -> None:
    lines = [f"node1:17:42 [0] {text}" for text in HARMLESS_WARNINGS]
    result = examine(tmp_path, [*healthy_log(HEALTHY["dgx-h100"]), *lines])
    assert not result.findings
    assert not result.could_not_check


def test_each_check_for_a_message_has_a_source_and_texts() -> None:
    for check in checks_of("log"):
        assert check.source.startswith("https://") or "/" in check.source
        assert check.cost.endswith(".")
        assert check.fix
