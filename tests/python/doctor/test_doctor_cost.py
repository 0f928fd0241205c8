"""Costs of findings: shares and limits of bandwidth become busbw of a job."""

import time

import pytest
from doctor_machines import load
from msgspec import UNSET

from busbw.doctor.catalog import all_checks
from busbw.doctor.cost import Cost, Job, estimate_cost
from busbw.doctor.model import Damage, Machine
from busbw.doctor.node_record import examine_node
from busbw.system import System, find


def cost_of(damage: Damage, system: System | None = None, nodes: int = 1) -> Cost:
    cost = estimate_cost(damage, Job(system or find("h100-sxm"), nodes))
    assert cost is not None
    return cost


def test_half_a_nic_costs_half_the_bandwidth_between_nodes() -> None:
    cost = cost_of(Damage(nic_share=0.5))
    assert cost.nodes == 4
    # Eight NICs of 400 Gb/s carry at most 400 GB/s; published plateaus are 330 to 390 GB/s busbw.
    assert 330 < cost.busbw_fixed_gbps < 390
    assert cost.busbw_now_gbps == pytest.approx(cost.busbw_fixed_gbps / 2, rel=0.15)
    assert cost.lost_share == pytest.approx(0.5, abs=0.08)


def test_a_lost_nic_costs_its_share_of_the_node() -> None:
    # NICs may limit a job of two nodes less than its NVLinks, so the figure is for a larger job.
    cost = cost_of(Damage(nic_share=7 / 8), nodes=16)
    assert cost.nodes == 16
    assert cost.lost_share == pytest.approx(1 / 8, abs=0.03)


def test_an_nvlink_concerns_a_single_node() -> None:
    cost = cost_of(Damage(fabric_share=17 / 18), nodes=16)
    assert cost.nodes == 1
    assert cost.lost_share == pytest.approx(1 / 18, abs=0.01)


def test_without_nvls_a_ring_remains() -> None:
    cost = cost_of(Damage(nvls=False), find("h200-sxm"))
    # Published: 8 x H200 reach 480 GB/s with NVLS and 367 GB/s without (stas00/ml-engineering).
    assert cost.busbw_fixed_gbps == pytest.approx(480, rel=0.06)
    assert cost.busbw_now_gbps == pytest.approx(367, rel=0.06)


def test_a_limit_replaces_a_higher_expectation() -> None:
    assert cost_of(Damage(fabric_cap_gbps=28)).busbw_now_gbps == 28
    assert cost_of(Damage(fabric_cap_gbps=1e6)).lost_share == 0


def test_there_is_no_cost_without_a_system() -> None:
    assert estimate_cost(Damage(nic_share=0.5), Job()) is None


@pytest.mark.parametrize(
    ("variables", "nodes"),
    [
        ({}, 4),
        ({"SLURM_NNODES": "16"}, 16),
        ({"BUSBW_SIZE": "32", "BUSBW_LOCAL_SIZE": "8"}, 4),
        ({"OMPI_COMM_WORLD_SIZE": "48", "OMPI_COMM_WORLD_LOCAL_SIZE": "8"}, 6),
        ({"BUSBW_SIZE": "9" * 400}, 4),
    ],
)
def test_the_cost_is_that_of_the_job(variables: dict[str, str], nodes: int) -> None:
    machine = (
        load("dgx-h100").with_file("sys/class/infiniband/mlx5_3/ports/1/state", "1: DOWN").with_variables(**variables)
    )
    record = examine_node("", machine.machine, [each for each in all_checks() if each.name == "nic-state"])
    cost = record.result.findings[0].cost
    assert isinstance(cost, Cost)
    assert cost.nodes == nodes


def test_checks_that_end_before_the_system_is_known_have_costs() -> None:
    class SlowDriver:
        """Tree of a machine with a driver that answers late."""

        tree = load("dgx-h100").with_file("sys/class/infiniband/mlx5_3/ports/1/state", "1: DOWN").tree

        def read(self, key: str) -> bytes:
            if "driver/nvidia/gpus" in key:
                time.sleep(0.05)
            return self.tree.read(key)

        def names(self, key: str) -> tuple[str, ...]:
            return self.tree.names(key)

        def target(self, key: str) -> str:
            return self.tree.target(key)

    record = examine_node("", Machine(SlowDriver()), [each for each in all_checks() if each.name == "nic-state"])
    assert isinstance(record.result.findings[0].cost, Cost)


def test_a_nic_without_a_rate_has_no_cost() -> None:
    machine = load("dgx-h100").with_file("sys/class/infiniband/mlx5_3/ports/1/rate", "0 Gb/sec")
    record = examine_node("", machine.machine, [each for each in all_checks() if each.name == "nic-rate"])
    assert [finding.cost for finding in record.result.findings] == [UNSET]
