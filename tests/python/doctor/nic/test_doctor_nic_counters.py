"""Counters of NICs: only growth within a second is a finding."""

import pytest
from doctor_machines import assert_only, load

from busbw.doctor.model.tree import LATER, command_key
from busbw.doctor.sources.this_machine import ThisMachine

DGX, ROCE, EFA = load("dgx-h100"), load("hgx-h100-roce"), load("p5-efa")
PORT = "sys/class/infiniband/mlx5_5/ports/1"


@pytest.mark.parametrize(
    ("check", "path", "growth"),
    [
        ("nic-link-flaps", f"{PORT}/counters/link_downed", 1),
        ("nic-link-flaps", f"{PORT}/counters/link_error_recovery", 1),
        ("nic-link-flaps", "sys/class/net/ibp94s0/carrier_changes", 2),
        ("nic-error-counters", f"{PORT}/counters/symbol_error", 11),
        ("nic-error-counters", f"{PORT}/counters/port_rcv_errors", 11),
        ("nic-error-counters", f"{PORT}/counters/port_xmit_discards", 101),
        ("nic-error-counters", f"{PORT}/counters/local_link_integrity_errors", 1),
        ("nic-error-counters", f"{PORT}/counters/excessive_buffer_overrun_errors", 1),
        ("nic-retransmit", f"{PORT}/hw_counters/local_ack_timeout_err", 2),
        ("nic-retransmit", f"{PORT}/hw_counters/req_transport_retries_exceeded", 1),
        ("nic-retransmit", f"{PORT}/hw_counters/roce_slow_restart", 11),
    ],
)
def test_a_counter_that_grows(check: str, path: str, growth: int) -> None:
    for before in (0, 4711):
        machine = DGX.with_file(path, str(before))
        assert not machine.examine().findings
        machine = machine.with_file(f"later/{path}", str(before + growth))
        assert_only(machine, check, subject="mlx5_5", severity="slow")
        evidence = machine.examine(check).findings[0].evidence
        assert [each.source for each in evidence] == [f"/{path}"]
        assert evidence[0].value.endswith(f"grew by {growth} within a second")
    slower = DGX.with_file(f"later/{path}", str(int(DGX.files[path]) + growth - 1))
    assert not slower.with_file(path, str(int(DGX.files[path]) + (growth == 2))).examine(check).findings


@pytest.mark.parametrize(
    ("check", "name", "before", "after"),
    [
        ("nic-congestion", "tx_prio3_pause_duration", 1904772, 2304772),
        ("nic-congestion", "tx_pause_storm_error_events", 0, 1),
        ("nic-congestion", "rx_prio3_discards", 0, 1),
        ("nic-congestion", "rx_prio3_buf_discard", 0, 1),
    ],
)
def test_a_value_of_ethtool_that_grows(check: str, name: str, before: int, after: int) -> None:
    command = ("ethtool", "-S", "ens15np0")
    output = ROCE.files["commands/ethtool -S ens15np0"]
    assert f"     {name}: {before}\n" in f"{output}\n"
    later = f"{output}\n".replace(f"     {name}: {before}\n", f"     {name}: {after}\n")
    machine = ROCE.with_file("later/commands/ethtool -S ens15np0", later)
    assert_only(machine, check, subject="mlx5_5", severity="slow")
    assert machine.examine(check).findings[0].evidence[0].source == " ".join(command)


def test_packets_of_ordinary_traffic_may_be_dropped() -> None:
    later = ROCE.files["commands/ethtool -S ens15np0"].replace("rx_prio0_discards: 0", "rx_prio0_discards: 900")
    assert not ROCE.with_file("later/commands/ethtool -S ens15np0", later).examine().findings


def test_efa_counters() -> None:
    path = "sys/class/infiniband/rdmap79s0/hw_counters/no_completion_cmds"
    assert_only(EFA.with_file(f"later/{path}", "1"), "efa-counters", subject="rdmap79s0")


def test_a_port_that_cannot_be_read_does_not_hide_the_others() -> None:
    bad = "sys/class/infiniband/mlx5_9/ports/1/counters/symbol_error"
    machine = DGX.unreadable(bad).with_file(f"later/{PORT}/counters/symbol_error", "5000")
    result = machine.examine("nic-error-counters")
    assert [finding.subject for finding in result.findings] == ["mlx5_5"]
    assert [each.missing for each in result.could_not_check] == [f"permission to read /{bad}"]


def test_drivers_without_counters() -> None:
    assert "nic-error-counters" in load("mi300x").examine().not_applicable
    missing = ROCE.without("commands/ethtool -S ens10np0").examine("nic-congestion").could_not_check
    assert len(missing) == 1


def test_a_command_runs_again_after_a_second() -> None:
    tree = ThisMachine({})
    key = command_key(("date", "+%s%N"))
    before, after = int(tree.read(key)), int(tree.read(LATER + key))
    assert after - before >= 1_000_000_000
    assert int(tree.read(key)) > after
