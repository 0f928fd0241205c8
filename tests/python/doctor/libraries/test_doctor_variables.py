"""Checks of variables: values that do harm, and names and values that do not do what their user wants."""

import pytest
from doctor_machines import assert_only, load

from busbw.doctor.catalog import checks_of
from busbw.doctor.checks.libraries.harmful_variables import HARMFUL_VALUES
from busbw.doctor.parts.traits import TRAITS

LIBRARY_CHECKS = [check.name for check in checks_of("libraries")]

HARMFUL = [
    ("dgx-h100", "NCCL_P2P_DISABLE", "1", "slow"),
    ("dgx-h100", "NCCL_P2P_LEVEL", "LOC", "slow"),
    ("dgx-h100", "NCCL_IB_DISABLE", "1", "slow"),
    ("dgx-h100", "NCCL_IB_RETRY_CNT", "10", "risk"),
    ("dgx-h100", "NCCL_IGNORE_DISABLED_P2P", "1", "risk"),
    ("hgx-h100-roce", "NCCL_IB_DISABLE", "1", "slow"),
    ("dgx-h100", "NCCL_NET", "Socket", "slow"),
    ("p5-efa", "NCCL_NET", "Socket", "slow"),
    ("p5-efa", "NCCL_NET_PLUGIN", "none", "slow"),
    ("workstation", "NCCL_SHM_DISABLE", "1", "slow"),
    ("dgx-h100", "NCCL_NVLS_ENABLE", "0", "slow"),
    ("gb200-tray", "NCCL_CUMEM_ENABLE", "0", "slow"),
    ("gb200-tray", "NCCL_MNNVL_ENABLE", "0", "slow"),
    ("dgx-h100", "NCCL_ALGO", "Ring", "slow"),
    ("dgx-a100", "NCCL_ALGO", "Ring", "risk"),
    ("dgx-h100", "NCCL_PROTO", "LL", "slow"),
    ("dgx-h100", "NCCL_PROTO", "Simple", "risk"),
    ("dgx-h100", "NCCL_PROTO", "LL,LL128", "risk"),
    ("dgx-h100", "NCCL_NET_GDR_LEVEL", "LOC", "slow"),
    ("dgx-h100", "NCCL_NET_GDR_READ", "0", "slow"),
    ("dgx-h100", "NCCL_IB_TIMEOUT", "14", "risk"),
    ("dgx-h100", "NCCL_IB_TIMEOUT", "32", "risk"),
    ("dgx-h100", "NCCL_IB_ADAPTIVE_ROUTING", "0", "risk"),
    ("dgx-h100", "NCCL_MAX_NCHANNELS", "4", "slow"),
    ("dgx-h100", "NCCL_MAX_CTAS", "4", "slow"),
    ("dgx-h100", "NCCL_BUFFSIZE", "65536", "slow"),
    ("dgx-h100", "NCCL_PXN_DISABLE", "1", "risk"),
    ("dgx-h100", "NCCL_P2P_PXN_LEVEL", "0", "risk"),
    ("dgx-h100", "NCCL_GRAPH_FILE", "/opt/graph.xml", "risk"),
    ("p5-efa", "OFI_NCCL_PROTOCOL", "SENDRECV", "slow"),
    ("p5-efa", "FI_PROVIDER", "tcp;ofi_rxm", "slow"),
    ("p5-efa", "FI_EFA_USE_DEVICE_RDMA", "0", "slow"),
    ("p5-efa", "RDMAV_FORK_SAFE", "1", "risk"),
    ("dgx-h100", "CUDA_LAUNCH_BLOCKING", "1", "slow"),
    ("dgx-h100", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50", "slow"),
    ("dgx-h100", "TORCH_DISTRIBUTED_DEBUG", "DETAIL", "risk"),
]
"""Machine, variable, value, severity."""

HARMLESS = [
    ("workstation", "NCCL_P2P_DISABLE", "1"),  # PCIe machines may need it
    ("dgx-h100", "NCCL_P2P_LEVEL", "NVL"),
    ("p5-efa", "NCCL_IB_DISABLE", "1"),  # the plugin does not read it
    ("workstation", "NCCL_IB_DISABLE", "1"),
    ("dgx-h100", "NCCL_NET_PLUGIN", "none"),  # NCCL's own network is right for InfiniBand
    ("dgx-a100", "NCCL_NVLS_ENABLE", "0"),  # has no NVLS
    ("dgx-h100", "NCCL_MNNVL_ENABLE", "0"),
    ("dgx-h100", "NCCL_IB_TIMEOUT", "22"),
    ("hgx-h100-roce", "NCCL_IB_QPS_PER_CONNECTION", "4"),
    ("hgx-h100-roce", "NCCL_IB_ADAPTIVE_ROUTING", "0"),
    ("p5-efa", "NCCL_BUFFSIZE", "8388608"),
    ("nd-h100-v5", "NCCL_GRAPH_FILE", "/opt/microsoft/graph.xml"),  # part of Azure's images for the A100
    ("dgx-h100", "NCCL_SOCKET_IFNAME", "^lo,docker"),
    ("dgx-h100", "NCCL_DEBUG", "INFO"),
    ("dgx-h100", "CUDA_DEVICE_MAX_CONNECTIONS", "1"),  # frameworks set it on purpose
    ("p5-efa", "FI_PROVIDER", "efa"),
    ("dgx-h100", "NCCL_IB_RETRY_CNT", "7"),
    ("p5-efa", "FI_PROVIDER", "^tcp"),
    ("p5-efa", "FI_EFA_USE_HUGE_PAGE", "0"),
    ("dgx-h100", "NCCL_ASYNC_ERROR_HANDLING", "true"),  # PyTorch's
    ("dgx-h100", "OFI_NCCL_MIN_NCHANNELS", "1"),  # its plugin is not in the search path
    ("dgx-h100", "NCCL_VERSION", "2.28.9-1"),  # images set it
    ("dgx-h100", "NCCL_TESTS_DEVICE", "0"),
    ("dgx-h100", "NCCL_HOME", "/usr/local/nccl"),
    ("dgx-h100", "NCCL_SITE_MODULE", "2"),  # resembles no name
    ("dgx-h100", "NCCL_IB_TC", ""),
    ("dgx-h100", "NCCL_IB_TC", "0x6a"),
    ("mi300x", "NCCL_P2P_DISABLE", "1"),
    ("laptop", "NCCL_ALGO", "Ring"),
]


ORACLE = """\
NCCL_DEBUG=WARN
NCCL_CUMEM_ENABLE=0
NCCL_IB_SPLIT_DATA_ON_QPS=0
NCCL_IB_QPS_PER_CONNECTION=1
NCCL_IB_GID_INDEX=3
NCCL_IB_TC=41
NCCL_IB_SL=0
NCCL_IB_TIMEOUT=22
NCCL_NET_PLUGIN=none
NCCL_SOCKET_IFNAME=eth0
NCCL_IGNORE_CPU_AFFINITY=1
NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7"""
"""/etc/nccl.conf of oracle-quickstart/oci-hpc for H100, with the devices of the test machine."""

GOOGLE = """\
NCCL_SOCKET_IFNAME=enp0s12
NCCL_CROSS_NIC=0
NCCL_ALGO=Ring
NCCL_PROTO=Simple
NCCL_NVLS_ENABLE=0
NCCL_MAX_NCHANNELS=8
NCCL_NET_GDR_LEVEL=PIX
NCCL_P2P_PXN_LEVEL=0
NCCL_DYNAMIC_CHUNK_SIZE=524288
NCCL_FASTRAK_USE_SNAP=1
NCCL_LIB_DIR=/var/lib/tcpxo/lib64"""
"""Variables of GoogleCloudPlatform/cluster-toolkit for A3 machines."""

AMAZON = """\
FI_PROVIDER=efa
FI_EFA_USE_DEVICE_RDMA=1
FI_EFA_FORK_SAFE=1
FI_EFA_USE_HUGE_PAGE=0
FI_EFA_SET_CUDA_SYNC_MEMOPS=0
FI_EFA_ENABLE_SHM_TRANSFER=1
NCCL_BUFFSIZE=8388608
NCCL_P2P_NET_CHUNKSIZE=524288
NCCL_SOCKET_IFNAME=^docker,lo,veth
NCCL_NET_PLUGIN=ofi
TORCH_NCCL_AVOID_RECORD_STREAMS=1
CUDA_DEVICE_MAX_CONNECTIONS=1"""
"""Variables of aws-samples/awsome-distributed-training for p5."""


@pytest.mark.parametrize(("name", "variable", "value", "severity"), HARMFUL)
def test_a_harmful_value_is_found(name: str, variable: str, value: str, severity: str) -> None:
    machine = load(name).with_variables(**{variable: value})
    assert_only(machine, f"env-{variable.lower().replace('_', '-')}", subject=variable, severity=severity)


@pytest.mark.parametrize(("name", "variable", "value"), HARMLESS)
def test_a_value_that_healthy_machines_have_is_no_finding(name: str, variable: str, value: str) -> None:
    result = load(name).with_variables(**{variable: value}).examine(*LIBRARY_CHECKS)
    assert not result.findings
    assert not result.could_not_check


@pytest.mark.parametrize(
    ("name", "vendor", "settings"),
    [
        ("hgx-h100-roce", "OracleCloud", ORACLE),
        ("hgx-h100-roce", "Google", GOOGLE),
        ("p5-efa", "Amazon EC2", AMAZON),
    ],
)
def test_the_settings_that_clouds_ship_are_no_finding(name: str, vendor: str, settings: str) -> None:
    machine = load(name).with_file("sys/class/dmi/id/sys_vendor", vendor)
    in_file = machine.with_file("etc/nccl.conf", settings).examine(*LIBRARY_CHECKS)
    in_environment = machine.with_variables(**dict(line.split("=", 1) for line in settings.splitlines()))
    for result in (in_file, in_environment.examine(*LIBRARY_CHECKS)):
        assert not result.findings
        assert not result.could_not_check


def test_the_traits_of_each_row_are_known() -> None:
    traits = {trait for row in HARMFUL_VALUES for trait in row.traits.split(", ")}
    assert traits <= set(TRAITS)


def test_each_harmful_row_has_a_case() -> None:
    harmful = {f"env-{variable.lower().replace('_', '-')}" for _, variable, _, _ in HARMFUL}
    special = {f"env-nccl-{name}" for name in ("dmabuf-enable", "ib-pci-relaxed-ordering", "ib-hca", "socket-ifname")}
    general = {"env-unknown", "env-not-number", "env-obsolete", "env-contradictory"}
    listed = {name for name in LIBRARY_CHECKS if name.startswith("env-")}
    assert listed == harmful | special | general


@pytest.mark.parametrize("value", ["lo", "=docker0", "virbr0"])
def test_an_interface_without_other_nodes_is_a_risk(value: str) -> None:
    machine = load("dgx-h100").with_variables(NCCL_SOCKET_IFNAME=value)
    assert machine.examine("env-nccl-socket-ifname").findings[0].severity == "risk"


def test_gpudirect_without_dmabuf_needs_nvidia_peermem() -> None:
    machine = load("dgx-h100").with_variables(NCCL_DMABUF_ENABLE="0").without("sys/module/nvidia_peermem")
    assert machine.examine("env-nccl-dmabuf-enable").findings
    loaded = machine.with_file("sys/module/nvidia_peermem/version", "580.95.05")
    assert not loaded.examine("env-nccl-dmabuf-enable").findings


@pytest.mark.parametrize(("clocks", "count"), [("kvm-clock tsc acpi_pm", 1), ("tsc hpet", 0)])
def test_strict_ordering_is_slow_in_a_virtual_machine(clocks: str, count: int) -> None:
    machine = load("dgx-h100").with_variables(NCCL_IB_PCI_RELAXED_ORDERING="0")
    machine = machine.with_file("sys/devices/system/clocksource/clocksource0/available_clocksource", clocks)
    assert len(machine.examine("env-nccl-ib-pci-relaxed-ordering").findings) == count


def test_google_cloud_needs_nvls_off() -> None:
    machine = load("dgx-h100").with_variables(NCCL_NVLS_ENABLE="0").with_file("sys/class/dmi/id/sys_vendor", "Google")
    assert not machine.examine().findings


def test_the_cost_of_nvlink_off_is_the_bandwidth_of_pcie() -> None:
    finding = load("dgx-h100").with_variables(NCCL_P2P_DISABLE="1").examine("env-nccl-p2p-disable").findings[0]
    assert finding.cost
    assert finding.cost.busbw_now_gbps == pytest.approx(51.7, abs=0.1)
    assert finding.fix == "unset NCCL_P2P_DISABLE"


def test_an_unknown_bandwidth_of_pcie_has_no_cost() -> None:
    machine = load("dgx-h100")
    for bus_id in machine.tree.names("proc/driver/nvidia/gpus"):
        machine = machine.with_file(f"sys/bus/pci/devices/{bus_id}/max_link_speed", "Unknown")
    (finding,) = machine.with_variables(NCCL_P2P_DISABLE="1").examine("env-nccl-p2p-disable").findings
    assert not finding.cost


@pytest.mark.parametrize(
    ("path", "fix"), [("etc/nccl.conf", "/etc/nccl.conf"), ("facts/userconfiguration", "~/.nccl.conf")]
)
def test_a_value_in_a_configuration_file_counts(path: str, fix: str) -> None:
    machine = load("dgx-h100")
    line = "NCCL_NVLS_ENABLE=0"
    if path.startswith("facts"):
        machine = machine.with_fact("userconfiguration", lines=["# off", line])
    else:
        machine = machine.with_file(path, f"# off\n{line}")
    assert_only(machine, "env-nccl-nvls-enable")
    assert machine.examine("env-nccl-nvls-enable").findings[0].fix == f"remove NCCL_NVLS_ENABLE from {fix}"


def test_the_environment_precedes_a_configuration_file() -> None:
    machine = load("dgx-h100").with_file("etc/nccl.conf", "NCCL_NVLS_ENABLE=0").with_variables(NCCL_NVLS_ENABLE="2")
    assert not machine.examine("env-nccl-nvls-enable").findings


@pytest.mark.parametrize(
    ("variable", "suggestion"),
    [
        ("NCCL_MIN_CHANNELS", "NCCL_MIN_NCHANNELS"),
        ("NCCL_IB_HCAS", "NCCL_IB_HCA"),
        ("OFI_NCCL_PROTOCOLS", "OFI_NCCL_PROTOCOL"),
    ],
)
def test_a_misspelled_name_is_unknown(variable: str, suggestion: str) -> None:
    machine = load("p5-efa").with_variables(**{variable: "1"})
    assert_only(machine, "env-unknown", subject=variable, severity="risk")
    assert suggestion in machine.examine("env-unknown").findings[0].problem


def test_a_name_of_the_loaded_library_is_known() -> None:
    variables = ["NCCL_IB_HCAS"]
    machine = load("dgx-h100").with_fact("libraries", variables=variables).with_variables(NCCL_IB_HCAS="1")
    assert not machine.examine("env-unknown").findings


def test_no_name_is_unknown_without_a_library() -> None:
    assert load("workstation").with_variables(NCCL_IB_HCAS="1").examine("env-unknown").not_applicable


@pytest.mark.parametrize(
    ("variable", "value", "number"), [("NCCL_IB_DISABLE", "true", "0"), ("NCCL_BUFFSIZE", "8M", "8")]
)
def test_a_word_is_no_number(variable: str, value: str, number: str) -> None:
    machine = load("dgx-h100").with_variables(**{variable: value})
    assert_only(machine, "env-not-number", subject=variable)
    assert machine.examine("env-not-number").findings[0].problem.endswith(f"takes it for {number}")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("NCCL_HOSTID", "3g"),
        ("NCCL_DEBUG_FILE", "on"),
        ("NCCL_SOCKET_IFNAME", "4K"),
        ("NCCL_COMM_ID", "yes"),
        ("NCCL_NET_PLUGIN", "off"),
        ("NCCL_NET_MERGE_LEVEL", "off"),
    ],
)
def test_a_text_may_look_like_a_number(variable: str, value: str) -> None:
    assert load("dgx-h100").with_variables(**{variable: value}).examine("env-not-number").passed


def test_a_removed_variable_has_no_effect() -> None:
    assert_only(load("dgx-h100").with_variables(NCCL_LL_THRESHOLD="0"), "env-obsolete", subject="NCCL_LL_THRESHOLD")


@pytest.mark.parametrize(
    "settings",
    [
        {"NCCL_IB_SPLIT_DATA_ON_QPS": "1", "NCCL_IB_QPS_PER_CONNECTION": "1"},
        {"NCCL_MAX_CTAS": "32", "NCCL_MAX_NCHANNELS": "32"},
        {"NCCL_NET": "gIB", "NCCL_NET_PLUGIN": "none"},
    ],
)
def test_contradictory_settings_are_found(settings: dict[str, str]) -> None:
    machine = load("dgx-h100").with_variables(**settings)
    assert_only(machine, "env-contradictory")
    assert len(machine.examine("env-contradictory").findings[0].evidence) == 2


@pytest.mark.parametrize(
    ("value", "severity", "text"),
    [
        ("mlx5_1", "risk", "mlx5_10"),
        ("=mlx5_0,mlx5_12", "risk", "mlx5_12"),
        ("bnxt_re0", "slow", "bnxt_re0"),
    ],
)
def test_a_selection_of_other_nics_is_found(value: str, severity: str, text: str) -> None:
    machine = load("dgx-h100").with_variables(NCCL_IB_HCA=value)
    if value == "mlx5_1":
        machine = machine.with_target("sys/class/infiniband/mlx5_1", "sys/class/infiniband/mlx5_1")
    result = machine.examine("env-nccl-ib-hca")
    assert [finding.severity for finding in result.findings] == [severity]
    assert text in result.findings[0].problem


@pytest.mark.parametrize("value", ["mlx5", "=mlx5_0,mlx5_3:1", "^mlx5_9", "mlx5_0,mlx5_10"])
def test_a_usual_selection_of_nics_is_no_finding(value: str) -> None:
    assert not load("dgx-h100").with_variables(NCCL_IB_HCA=value).examine("env-nccl-ib-hca").findings


def test_the_cost_is_that_of_the_value() -> None:
    (finding,) = load("dgx-h100").with_variables(NCCL_ALGO="Ring").examine("env-nccl-algo").findings
    assert finding.cost_text == "The NVLink switch no longer reduces."


@pytest.mark.parametrize("value", ["x" * 5000, "x " * 2500])
def test_a_long_value_is_shortened(value: str) -> None:
    (finding,) = load("dgx-h100").with_variables(NCCL_ALGO=value).examine("env-nccl-algo").findings
    assert max(map(len, (finding.problem, *(evidence.value for evidence in finding.evidence)))) <= 400
