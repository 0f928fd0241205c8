"""Checks of the area scheduler: one change of a healthy machine yields one finding, and false alarms yield none."""

import pytest
from doctor_machines import TestMachine, assert_only, load

from busbw.doctor.model import NotApplicable
from busbw.doctor.parts.job import variables_of_container

SLURM = load("nd-h100-v5")
POD = load("container")
STATUS, SCONTROL = "proc/self/status", ("scontrol", "show", "node", "ndv5-7")
SIBLINGS = "sys/devices/system/cpu/cpu0/topology/thread_siblings_list"


def slurm_with(*, without: str = "", **variables: str) -> TestMachine:
    """The rank of a Slurm job, bound to the two threads of one core."""
    bound = SLURM.with_file(STATUS, "Cpus_allowed_list:\t0,48").with_file(SIBLINGS, "0,48")
    machine = bound.with_variables(**variables)
    kept = {name: value for name, value in machine.facts["environment"]["variables"].items() if name != without}
    return machine.with_fact("environment", variables=kept)


def nodes(*usable: str, denied: tuple[str, ...] = ()) -> TestMachine:
    return POD.with_fact("devicenodes", usable=usable, denied=denied)


def scontrol(**fields: str) -> TestMachine:
    return SLURM.with_output(SCONTROL, "\n".join(f"   {name}={value} Weight=1" for name, value in fields.items()))


def findings(machine: TestMachine, check: str) -> list[str]:
    result = machine.examine(check)
    assert not result.could_not_check, result.could_not_check
    return [finding.problem for finding in result.findings]


def test_a_step_without_the_cores_that_the_job_requested() -> None:
    assert_only(slurm_with(), "slurm-cpuset", severity="slow")
    one_task = slurm_with(SLURM_STEP_TASKS_PER_NODE="1(x2)")
    assert_only(one_task, "slurm-cpuset", severity="risk")
    finding = one_task.examine("slurm-cpuset").findings[0]
    assert finding.problem == "this task may run only on CPU 0,48, one core, instead of 12 CPUs (SLURM_CPUS_PER_TASK)"
    assert finding.fix == "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK before srun"


def test_one_core_for_each_task() -> None:
    for machine in (
        slurm_with(without="SLURM_CPUS_PER_TASK"),
        slurm_with(SRUN_CPUS_PER_TASK="12"),
        slurm_with(SLURM_CPUS_PER_TASK="2"),
        slurm_with(SLURM_CPUS_PER_TASK="1").with_file(STATUS, "Cpus_allowed_list:\t0"),
    ):
        assert_only(machine, "slurm-cpuset", severity="slow")
        assert "--cpus-per-task=N" in machine.examine("slurm-cpuset").findings[0].fix


def test_cores_that_are_no_problem() -> None:
    for machine in (
        # `srun -N 2 busbw doctor`: other steps of the job may have more cores.
        slurm_with(without="SLURM_CPUS_PER_TASK", SLURM_STEP_TASKS_PER_NODE="1(x2)"),
        slurm_with(without="SLURM_GPUS_ON_NODE"),
        slurm_with(without="SLURM_JOB_ID"),
        slurm_with().with_file("sys/devices/system/cpu/online", "0,48"),
        SLURM.with_file(STATUS, "Cpus_allowed_list:\t0-1"),
    ):
        assert not findings(machine, "slurm-cpuset")


def test_a_task_with_several_cores_needs_no_list_of_the_cpus_of_the_node() -> None:
    machine = SLURM.with_file(STATUS, "Cpus_allowed_list:\t0-23").without("sys/devices/system/cpu/online")
    assert machine.examine("slurm-cpuset").passed
    assert slurm_with().without("sys/devices/system/cpu/online").examine("slurm-cpuset").could_not_check


def test_status_without_cores_cannot_be_checked() -> None:
    result = SLURM.with_file(STATUS, "Name:\tpython3").examine("slurm-cpuset")
    assert result.could_not_check[0].missing == "Cpus_allowed_list in /proc/self/status"


def test_gpus_that_are_hidden_from_each_other() -> None:
    hidden = {"usable": ("nvidia3", "nvidiactl", "nvidia-uvm"), "denied": ("nvidia0", "nvidia1")}
    assert_only(SLURM.with_fact("devicenodes", **hidden), "slurm-gpu-bind", severity="slow")


def test_gpus_that_are_hidden_without_harm() -> None:
    one_gpu = SLURM.with_fact("devicenodes", usable=("nvidia3",))
    for machine in (
        one_gpu.with_variables(SLURM_STEP_TASKS_PER_NODE="1"),
        one_gpu.with_variables(SLURM_GPUS_ON_NODE="1"),
        one_gpu.with_variables(CUDA_VISIBLE_DEVICES="MIG-1b2c"),
        SLURM.with_fact("devicenodes", usable=("kfd",)),
        SLURM.with_variables(CUDA_VISIBLE_DEVICES="3"),
    ):
        assert not findings(machine, "slurm-gpu-bind")


def test_slurm_counts_other_gpus_than_the_driver() -> None:
    assert_only(scontrol(State="IDLE", Gres="gpu:h100:7(S:0-1)"), "slurm-gres-count", severity="risk")
    assert_only(scontrol(State="IDLE", Gres="nvme:4,gpu:4(IDX:0-3),gpu:h100:5"), "slurm-gres-count")


def test_counts_of_slurm_that_are_no_problem() -> None:
    for gres in ("(null)", "gpu:h100:4(S:0),gpu:h100:4(S:1)", "gpu:1g.10gb:56", "shard:80", "gpu:nvidia_h100:8"):
        assert not findings(scontrol(State="IDLE", Gres=gres), "slurm-gres-count")
    display = SLURM.with_file("proc/driver/nvidia/gpus/0000:99:00.0/information", "Model: \t\t NVIDIA T400")
    assert not findings(display, "slurm-gres-count")


def test_the_node_is_examined_outside_jobs_where_slurm_runs() -> None:
    outside = load("dgx-h100").with_file("proc/sys/kernel/hostname", "dgx1.cluster.example")
    assert outside.examine("slurm-gres-count").not_applicable
    daemon = outside.with_file("var/run/slurmd.pid", "1234")
    assert daemon.examine("slurm-gres-count").not_applicable, "without scontrol"
    assert findings(daemon.with_output(("scontrol", "show", "node", "dgx1"), "Gres=gpu:7"), "slurm-gres-count")


def test_a_container_that_lost_its_gpus() -> None:
    lost = nodes("nvidia-uvm", "infiniband/uverbs0", denied=("nvidia0", "nvidia1", "nvidiactl"))
    assert_only(lost, "cgroup-devices", severity="broken")
    (problem,) = findings(lost, "cgroup-devices")
    assert "/dev/nvidia0, /dev/nvidia1, /dev/nvidiactl" in problem


def test_devices_that_a_container_may_not_open_without_harm() -> None:
    all_of_dev = nodes("nvidia0", "nvidiactl", "nvidia-uvm", denied=("nvidia1", "nvidia2"))
    assert not findings(all_of_dev, "cgroup-devices")
    assert not findings(nodes(), "cgroup-devices")
    assert not findings(all_of_dev.with_variables(SLURM_JOB_ID="1"), "cgroup-devices")
    assert load("dgx-h100").examine("cgroup-devices").not_applicable


def test_a_container_with_too_few_rdma_devices() -> None:
    control = ("nvidiactl", "nvidia-uvm", "infiniband/uverbs0")
    eight_gpus = nodes(*(f"nvidia{index}" for index in range(8)), *control)
    assert_only(eight_gpus, "k8s-rdma-resources", severity="slow")
    finding = eight_gpus.examine("k8s-rdma-resources").findings[0]
    assert finding.problem == "this container has 8 of 8 GPUs of the node, but 1 of 8 RDMA devices"
    most = nodes(*(f"nvidia{index}" for index in range(8)), *(f"infiniband/uverbs{index}" for index in range(4)))
    assert not findings(most, "k8s-rdma-resources")
    assert not findings(nodes("nvidia0", "infiniband/uverbs0"), "k8s-rdma-resources")
    own_namespace = eight_gpus.without("sys/class/infiniband")
    assert own_namespace.examine("k8s-rdma-resources").not_applicable


def test_a_container_with_one_of_many_virtual_functions_of_each_nic() -> None:
    names = (*(f"nvidia{index}" for index in range(8)), *(f"infiniband/uverbs{index}" for index in range(8)))
    pod = nodes(*names, "nvidiactl", "nvidia-uvm")
    for index in range(24):
        bus_id = f"0000:18:{index // 8 + 1:02x}.{index % 8}"
        pod = pod.with_target(f"sys/class/infiniband/mlx5_{index + 20}/device", f"sys/devices/pci0000:15/{bus_id}")
        pod = pod.with_target(f"sys/bus/pci/devices/{bus_id}/physfn", "sys/devices/pci0000:15/0000:18:00.0")
        for name, value in (("vendor", "0x15b3"), ("device", "0x101e"), ("class", "0x020700")):
            pod = pod.with_file(f"sys/bus/pci/devices/{bus_id}/{name}", value)
    assert not findings(pod, "k8s-rdma-resources")


def test_the_reason_for_no_container_is_the_job_of_slurm() -> None:
    with pytest.raises(NotApplicable, match="no container of Docker"):
        variables_of_container(SLURM.machine)
    assert variables_of_container(POD.machine)
    with pytest.raises(NotApplicable, match="Slurm decides which devices"):
        variables_of_container(POD.with_variables(SLURM_JOB_ID="7").machine)


@pytest.mark.parametrize("name", ["dgx-h100", "mi300x"])
def test_a_container_without_gpus_is_not_judged_by_those_of_the_host(name: str) -> None:
    # The kernel's /sys and /proc show all devices of the host, but no driver answers.
    pod = load(name).with_variables(KUBERNETES_SERVICE_HOST="10.96.0.1").without("dev").without("facts/gpus")
    pod = pod.with_file("dev/null", "").with_fact("devicenodes", usable=[])
    pod = pod.with_fact("limits", memlock_bytes=8 << 20)
    result = pod.with_fact("filesystems", shm_total_bytes=64 << 20, shm_free_bytes=64 << 20).examine()
    assert not result.findings
    assert not result.could_not_check


def test_a_container_with_one_of_several_amd_gpus() -> None:
    pod = load("mi300x").with_fact("filesystems", shm_total_bytes=64 << 20, shm_free_bytes=64 << 20)
    bus_ids = [path.split("/")[4] for path, content in pod.files.items() if content == "0x120000"]
    for index, bus_id in enumerate(bus_ids):
        pod = pod.with_file(f"sys/bus/pci/devices/{bus_id}/drm/renderD{128 + 8 * index}/dev", "226:128")
    assert findings(pod, "shm-size")
    assert pod.with_file("dev/dri/renderD136", "").examine("shm-size").not_applicable
