"""The check memlock."""

import pytest
from doctor_machines import assert_only, load

IPC_LOCK = "Name:\tbusbw\nCapEff:\t0000000000004000\nCpus_allowed_list:\t0-223\n"


def test_a_small_limit_breaks_rdma() -> None:
    machine = load("dgx-h100").with_fact("limits", memlock_bytes=65536)
    assert_only(machine, "memlock", severity="broken")
    assert machine.examine("memlock").findings[0].evidence[0].value == "64"


@pytest.mark.parametrize(("user_map", "findings"), [("0 0 4294967295", 0), ("0 1000 1", 1)])
def test_a_capability_of_the_first_user_namespace_ignores_the_limit(user_map: str, findings: int) -> None:
    machine = load("dgx-h100").with_fact("limits", memlock_bytes=65536).with_file("proc/self/status", IPC_LOCK)
    assert len(machine.with_file("proc/self/uid_map", user_map).examine("memlock").findings) == findings


def test_without_rdma_devices_the_limit_does_no_harm() -> None:
    for machine in (load("laptop"), load("workstation"), load("container").without("dev/infiniband")):
        result = machine.with_fact("limits", memlock_bytes=8 << 20).examine("memlock")
        assert result.not_applicable == ("memlock",)


def test_a_server_with_a_nic_and_without_gpus_is_not_broken() -> None:
    server = load("hgx-h100-roce").without("proc/driver/nvidia")
    for path in [path for path, content in server.files.items() if path.endswith("/class") and "0x0302" in content]:
        server = server.without(path.removesuffix("/class"))
    findings = server.with_fact("limits", memlock_bytes=8 << 20).examine("memlock").findings
    assert [finding.severity for finding in findings] == ["risk"]
    ordinary = server.with_file("sys/class/net/ens{10..17}np0/mtu", "1500")
    assert not ordinary.examine("nic-mtu").findings
