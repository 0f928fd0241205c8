"""The check memlock."""

from doctor_machines import assert_only, load


def test_a_small_limit_breaks_rdma() -> None:
    machine = load("dgx-h100").with_fact("limits", memlock_bytes=65536)
    assert_only(machine, "memlock", severity="broken")
    assert machine.examine("memlock").findings[0].evidence[0].value == "64"
