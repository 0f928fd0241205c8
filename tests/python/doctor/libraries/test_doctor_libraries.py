"""Checks of libraries: NCCL, its plugins and configuration files, the driver's libraries, and libibverbs."""

from typing import Any

import pytest
from doctor_machines import TestMachine, assert_only, load

from busbw.doctor.catalog import checks_of

TOPOLOGY = "opt/microsoft/ndv5-topo.xml"


def with_library(machine: TestMachine, name: str, **fields: Any) -> TestMachine:
    """Returns the machine with other fields of the libraries with this name, or without them if no field is given."""
    libraries = machine.facts["libraries"]["libraries"]
    changed = []
    for each in libraries:
        if each["name"] != name:
            changed.append(each)
        elif fields:
            changed.append(each | fields)
    return machine.with_fact("libraries", libraries=changed)


def with_first(machine: TestMachine, **fields: Any) -> TestMachine:
    """Returns the machine with another NCCL library in front of the others."""
    library = {"name": "libnccl.so.2", "path": "/opt/nccl/libnccl.so.2"} | fields
    return machine.with_fact("libraries", libraries=[library, *machine.facts["libraries"]["libraries"]])


def test_another_version_in_front_is_found() -> None:
    machine = with_first(load("dgx-h100"), origin="LD_LIBRARY_PATH", version="2.29.3")
    assert_only(machine, "nccl-which", severity="risk")
    assert "2.29.3 by LD_LIBRARY_PATH, 2.28.9" in machine.examine("nccl-which").findings[0].problem


@pytest.mark.parametrize(
    "fields",
    [
        {"origin": "LD_LIBRARY_PATH", "version": "2.28.9"},
        {"origin": "wheel", "version": "2.29.3"},  # usual: PyTorch in a virtual environment, and a package
        {"origin": "LD_LIBRARY_PATH"},
    ],
)
def test_several_libraries_of_a_healthy_machine_are_no_finding(fields: dict[str, str]) -> None:
    assert not with_first(load("dgx-h100"), **fields).examine("nccl-which").findings


def test_a_machine_without_nccl_runs_jobs_in_containers() -> None:
    library_checks = [check.name for check in checks_of("libraries")]
    result = with_library(load("p5-efa"), "libnccl.so.2").examine(*library_checks)
    assert not result.findings
    assert not result.could_not_check
    names = {"nccl-which", "nccl-known-defect", "net-plugin", "efa-plugin", "rdma-core-version"}
    assert names <= set(result.not_applicable)


@pytest.mark.parametrize(
    ("name", "version", "effect"),
    [
        ("hgx-h100-roce", "2.20.5", "GID index 0"),
        ("dgx-h100", "2.17.1", "hangs"),
        ("p5-efa", "2.18.3", "no NVLS"),
        ("p5-efa", "2.19.4", "104 of 280"),
    ],
)
def test_a_known_defect_is_found(name: str, version: str, effect: str) -> None:
    machine = with_library(load(name), "libnccl.so.2", version=version)
    assert_only(machine, "nccl-known-defect")
    assert effect in machine.examine("nccl-known-defect").findings[0].problem


def test_nvidia_peermem_that_an_old_nccl_does_not_recognize_is_found() -> None:
    machine = with_library(load("dgx-a100"), "libnccl.so.2", version="2.22.3")
    machine = machine.with_file("sys/module/nvidia_peermem/version", "570.86.15").without("sys/kernel/mm/memory_peers")
    assert machine.examine("nccl-known-defect").findings[0].severity == "slow"
    recognized = machine.with_file("sys/kernel/mm/memory_peers/nv_mem/version", "1.3")
    assert not recognized.examine("nccl-known-defect").findings
    assert not load("dgx-a100").examine("nccl-known-defect").findings


def test_an_unlimited_stack_crashes_old_releases_on_gb200() -> None:
    machine = with_library(load("gb200-tray"), "libnccl.so.2", version="2.27.5")
    assert not machine.examine("nccl-known-defect").findings
    assert machine.with_fact("limits", stack_bytes=None).examine("nccl-known-defect").findings


@pytest.mark.parametrize(
    ("name", "version", "variables"),
    [
        ("dgx-h100", "2.20.5", {}),  # no RoCE
        ("hgx-h100-roce", "2.20.5", {"NCCL_IB_GID_INDEX": "3"}),
        ("dgx-a100", "2.17.1", {}),  # no NVLS
        ("p5-efa", "2.23.4", {}),
    ],
)
def test_a_defect_whose_condition_is_not_met_is_no_finding(name: str, version: str, variables: dict[str, str]) -> None:
    machine = with_library(load(name), "libnccl.so.2", version=version).with_variables(**variables)
    assert not machine.examine("nccl-known-defect").findings


def test_an_unknown_version_is_undecided() -> None:
    assert with_library(load("dgx-h100"), "libnccl.so.2", version=None).examine("nccl-known-defect").could_not_check


def test_another_version_of_libcuda_breaks_jobs() -> None:
    machine = with_library(load("dgx-h100"), "libcuda.so.1", version="570.124.06")
    assert_only(machine, "driver-cuda-compat", severity="broken")


def test_the_compatibility_library_is_no_mismatch() -> None:
    path = "/usr/local/cuda-12.8/compat/libcuda.so.570.124.06"
    machine = with_library(load("dgx-a100"), "libcuda.so.1", path=path, version="570.124.06")
    assert not machine.examine().findings


def test_a_libcuda_that_is_not_found_is_undecided() -> None:
    machine = load("workstation").with_fact("libraries", libraries=[])
    assert machine.examine("driver-cuda-compat").could_not_check


@pytest.mark.parametrize("line", ["export NCCL_IB_TC=106", "NCCL_IB_TC = 106", "NCCL_IB_TC"])
def test_a_line_that_nccl_ignores_is_found(line: str) -> None:
    machine = load("dgx-h100").with_file("etc/nccl.conf", f"NCCL_IB_SL=1\n#comment\n\n{line}")
    assert_only(machine, "hidden-nccl-conf", severity="risk")


@pytest.mark.parametrize("comment", ["# site", "  # site", "\t#NCCL_IB_TC=106"])
def test_a_comment_in_the_configuration_file_is_no_finding(comment: str) -> None:
    machine = load("dgx-h100").with_file("etc/nccl.conf", f"NCCL_IB_SL=1\n{comment}")
    assert machine.examine("hidden-nccl-conf").passed


def test_a_named_file_that_does_not_exist_is_found() -> None:
    machine = load("dgx-h100").with_variables(NCCL_CONF_FILE="/opt/nccl.conf")
    assert_only(machine.with_fact("userconfiguration", path="/opt/nccl.conf"), "hidden-nccl-conf")


def test_the_topology_file_of_another_shape_is_slow() -> None:
    machine = load("nd-h100-v5")
    other = machine.with_file(TOPOLOGY, machine.files[TOPOLOGY].replace('"000c:', '"000d:'))
    assert_only(other, "topo-file", severity="slow")


def test_a_topology_file_that_does_not_exist_is_found() -> None:
    assert_only(load("nd-h100-v5").without(TOPOLOGY), "topo-file", severity="risk")
    assert load("nd-h100-v5").unreadable(TOPOLOGY).examine("topo-file").could_not_check


def test_a_container_may_see_fewer_gpus_than_its_topology_file() -> None:
    machine = load("nd-h100-v5").without("proc/driver/nvidia/gpus/000c:00:00.0")
    assert not machine.examine("topo-file").findings


@pytest.mark.parametrize(
    ("variable", "check"),
    [
        ("NCCL_NET_PLUGIN", "net-plugin"),
        ("NCCL_TUNER_PLUGIN", "tuner-plugin"),
        ("NCCL_TUNER_CONFIG_FILE", "tuner-plugin"),
    ],
)
def test_a_named_plugin_that_does_not_exist_is_found(variable: str, check: str) -> None:
    assert_only(load("dgx-h100").with_variables(**{variable: "/opt/absent"}), check, subject=variable, severity="risk")
    assert (
        not load("dgx-h100")
        .with_file("opt/absent", "")
        .with_variables(**{variable: "/opt/absent"})
        .examine(check)
        .findings
    )


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ("ofi", 0),
        ("libnccl-net.so", 0),
        ("none", 0),
        ("libsite.so", 0),
        ("gIB", 1),
        ("libnccl-net-gIB.so", 1),
        ("ofi,spcx", 1),
    ],
)
def test_a_plugin_is_found_by_name(value: str, count: int) -> None:
    assert len(load("p5-efa").with_variables(NCCL_NET_PLUGIN=value).examine("net-plugin").findings) == count


def test_efa_needs_its_plugin() -> None:
    machine = load("p5-efa")
    for name in ("libnccl-net.so", "libnccl-net-ofi.so", "libnccl-tuner-ofi.so"):
        machine = with_library(machine, name)
    assert_only(machine, "efa-plugin", severity="slow")
    # Jobs often add the folder to LD_LIBRARY_PATH themselves.
    assert not machine.with_file("opt/amazon/ofi-nccl/lib/libnccl-net.so", "").examine("efa-plugin").findings


@pytest.mark.parametrize(("name", "driver"), [("dgx-h100", "mlx5"), ("p5-efa", "efa")])
def test_libibverbs_and_its_driver_are_needed(name: str, driver: str) -> None:
    assert_only(with_library(load(name), "libibverbs.so.1"), "rdma-core-version", severity="slow")
    assert_only(load(name).without(f"etc/libibverbs.d/{driver}.driver"), "rdma-core-version", subject=driver)
    assert load(name).without("etc/libibverbs.d").examine("rdma-core-version").could_not_check


def test_a_libcuda_without_the_version_of_the_driver_is_undecided() -> None:
    path = "/usr/lib/wsl/lib/libcuda.so.1.1"
    machine = with_library(load("dgx-a100"), "libcuda.so.1", path=path, version="1.1")
    result = machine.examine("driver-cuda-compat")
    assert result.could_not_check
    assert not result.findings
