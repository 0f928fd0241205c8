"""The expectation: limits by wire against figures worked out by hand, and what must hold for every job."""

import math
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.collectives import collectives
from busbw.expect import Route, Scenario, estimator, expect, scenario_of, system_of, with_nics
from busbw.logs.log import Figure, Rank, Row, Table
from busbw.reference import references
from busbw.system import Nics, find, systems

LARGE = 1 << 40
GPU_SYSTEMS = [name for name, system in systems().items() if system.fabrics and system.nics]


def route_of(name: str, system: str, ranks: int, per_node: int = 8, collective: str = "all_reduce") -> Route:
    job = Scenario(collective=collective, ranks=ranks, ranks_per_node=min(ranks, per_node))
    return next(route for route in expect(job, find(system), [8]).routes if route.name == name)


@pytest.mark.parametrize(
    ("system", "ranks", "gbps"),
    [
        ("v100-sxm2", 8, 120),
        ("a100-sxm", 8, 240),
        ("h800", 8, 165),
        ("h200-sxm", 4, 371),
        ("b200", 8, 722),
        ("mi300x", 8, 336),  # 7 links of 48
        ("mi300x", 2, 48),  # one link joins a pair
        ("v100-pcie", 2, 12),
        ("a100-nvl-pair", 2, 240),
        ("a100-nvl-pair", 4, 24),  # beyond the pair it is PCIe 4
    ],
)
def test_the_ring_ceiling(system: str, ranks: int, gbps: float) -> None:
    assert route_of("Ring", system, ranks).limit_gbps == pytest.approx(gbps, rel=0.003)


@pytest.mark.parametrize(
    ("system", "ranks", "gbps"),
    # Worked out by hand: efficiency x links x 2 (n-1)/(n+1).
    [
        ("h200-sxm", 5, 420),
        ("h200-sxm", 6, 450),
        ("h200-sxm", 7, 473),
        ("h200-sxm", 8, 490),
        ("h800", 8, 218),
        ("b200", 6, 763),
        ("b200", 7, 801),
        ("b200", 8, 831),
        ("gb200-nvl72", 64, 1035),
        ("gb200-nvl72", 72, 1039),
    ],
)
def test_nvls_reduction(system: str, ranks: int, gbps: float) -> None:
    route = route_of("NVLS", system, ranks, 4 if "nvl72" in system else 8)
    assert route.limit_gbps == pytest.approx(gbps, rel=0.003)
    # Each GPU sends and receives S (1 + 1/n), while busbw counts 2 S (n-1)/n.
    assert route.binding_limit.traffic == pytest.approx((1 + 1 / ranks) / (2 * (ranks - 1) / ranks))


@pytest.mark.parametrize(("system", "ranks"), [("h200-sxm", 4), ("b200", 5), ("a100-sxm", 8), ("mi300x", 8)])
def test_systems_without_nvls_reduction(system: str, ranks: int) -> None:
    job = Scenario(collective="all_reduce", ranks=ranks, ranks_per_node=ranks)
    assert "NVLS" not in [route.name for route in expect(job, find(system), [8]).routes]


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "sendrecv"])
def test_two_healthy_gpus_are_within_their_range(collective: str) -> None:
    """Two GPUs, measured by nccl-tests on several machines, rise more slowly with the size than longer rings."""
    sweeps = [sweep for sweep in references()["h200-x2"].sweeps if sweep.collective == collective]
    assert len(sweeps) == 2
    points = [(point.size_bytes or 0, point.time_us or 0) for sweep in sweeps for point in sweep.points]
    points = [(size_bytes, time_us) for size_bytes, time_us in points if size_bytes >= 8 << 20]
    job = Scenario(collective=collective, ranks=2, ranks_per_node=2)
    found = expect(job, find("h200-sxm"), [size_bytes for size_bytes, _ in points])
    for (size_bytes, time_us), estimate in zip(points, found.estimates, strict=True):
        limits = estimate.time_us
        assert limits.low <= time_us <= limits.high, size_bytes
        assert 1.5 * time_us > limits.high, "two thirds of the speed, such as 12 of 18 links, are slow"


@pytest.mark.parametrize("system", ["a100-nvl-pair", "h100-nvl-pair", "b200", "mi300x"])
def test_only_pairs_with_measurements_have_a_range_of_their_own(system: str) -> None:
    """Two of three bridges are slow."""
    ring = route_of("Ring", system, 2)
    assert ring.efficiency.low > 2 / 3 * ring.efficiency.high
    assert ring.efficiency.low == route_of("Ring", "h200-sxm", 8).efficiency.low


def test_nvls_can_be_disabled() -> None:
    job = Scenario(collective="all_reduce", ranks=8, ranks_per_node=8, nvls=False)
    found = expect(job, find("h200-sxm"), [LARGE])
    assert [route.name for route in found.routes] == ["Ring", "Tree"]
    assert found.estimates[0].busbw_gbps.typical == pytest.approx(367, rel=0.03)  # published with NVLS off


def test_all_gather_uses_no_nvls() -> None:
    job = Scenario(collective="all_gather", ranks=8, ranks_per_node=8)
    assert [route.name for route in expect(job, find("h200-sxm"), [8]).routes] == ["Ring"]


@pytest.mark.parametrize(
    ("nics", "ranks", "wire", "gbps"),
    [
        ((8, 400), 32, "NVLink", 370.8),  # 384 of the NICs is more
        ((4, 400), 32, "NIC", 192),
        ((8, 200), 32, "NIC", 192),
        ((1, 400), 32, "NIC", 48),
    ],
)
def test_a_ring_over_nodes(nics: tuple[int, int], ranks: int, wire: str, gbps: float) -> None:
    system = with_nics(find("h100-sxm"), Nics(count=nics[0], gbit=nics[1], source="a test"))
    job = Scenario(collective="all_reduce", ranks=ranks, ranks_per_node=8)
    ring = next(route for route in expect(job, system, [8]).routes if route.name == "Ring")
    assert ring.binding_limit.wire == wire
    assert ring.limit_gbps == pytest.approx(gbps)


def test_over_two_nodes_a_tree_uses_each_nic_once() -> None:
    tree = route_of("Tree", "a100-p4d", 16)
    ring = route_of("Ring", "a100-p4d", 16)
    assert ring.limit_gbps == pytest.approx(48)
    assert tree.limit_gbps == pytest.approx(90)
    assert tree.binding_limit.traffic == pytest.approx(16 / 30)  # S crosses each way, busbw counts 2 S (n-1)/n
    assert route_of("Tree", "a100-p4d", 2, per_node=1).limit_gbps == pytest.approx(12)  # two ranks send no more than S
    assert route_of("Tree", "a100-p4d", 32).limit_gbps == pytest.approx(48)


@pytest.mark.parametrize(
    ("ranks", "gbps"),
    # 8 x 400 Gb/s, 48 GB/s for each GPU; of its n-1 shares only those to other nodes cross the NIC.
    [(16, 48 * 15 / 8), (32, 48 * 31 / 24), (256, 48 * 255 / 248)],
)
def test_alltoall_uses_a_gpus_own_nic(ranks: int, gbps: float) -> None:
    route = route_of("Pairwise", "h100-sxm", ranks, collective="alltoall")
    assert route.binding_limit.wire == "NIC"
    assert route.limit_gbps == pytest.approx(gbps)


@pytest.mark.parametrize(
    ("collective", "system", "gbps"),
    [
        # p4d: four NICs of 12 GB/s for eight GPUs, of which one sends to other nodes.
        ("sendrecv", "a100-p4d", 12),
        ("gather", "a100-p4d", 12 * 15 / 8),
        ("scatter", "a100-p4d", 12 * 15 / 8),
        ("alltoall", "a100-p4d", 6 * 15 / 8),
        # p5: 32 NICs of 12 GB/s, four for each GPU.
        ("sendrecv", "h100-p5", 48),
        ("gather", "h100-p5", 48 * 15 / 8),
        # Of 15 parts 7 go over NVLink, then 8 over the NIC.
        ("hypercube", "h100-sxm", 15 / (7 / 370.8 + 8 / 48)),
    ],
)
def test_pairwise_over_two_nodes(collective: str, system: str, gbps: float) -> None:
    assert route_of("Pairwise", system, 16, collective=collective).limit_gbps == pytest.approx(gbps, rel=0.003)


def test_a_hypercube_of_nodes_with_one_rank_each_crosses_with_every_part() -> None:
    assert route_of("Pairwise", "h100-sxm", 4, 1, "hypercube").limit_gbps == pytest.approx(48)


def test_a_rack_is_one_domain() -> None:
    job = Scenario(collective="all_reduce", ranks=72, ranks_per_node=4)
    found = expect(job, find("gb200-nvl72"), [LARGE])
    assert found.nodes == 1
    assert {limit.wire for route in found.routes for limit in route.limits} == {"NVLink"}


def test_only_the_algorithm_that_is_allowed() -> None:
    job = Scenario(collective="all_reduce", ranks=16, ranks_per_node=8, algorithm="ring")
    assert [route.name for route in expect(job, find("h100-sxm"), [8]).routes] == ["Ring"]


def test_one_rank_crosses_nothing() -> None:
    found = expect(Scenario(collective="all_reduce", ranks=1, ranks_per_node=1), find("h100-sxm"), [8])
    assert found.unknown is not None
    assert "nothing crosses a link" in found.unknown
    assert found.estimates == ()


def test_memory_is_not_guessed() -> None:
    found = expect(Scenario(collective="all_reduce", ranks=4, ranks_per_node=4), find("host"), [8])
    assert found.unknown == "the host backend has no expectation: the copy rate of memory is not known"
    assert "compare with a run on the same machine" in " ".join(found.notes), "verdicts state the option themselves"


def test_nodes_without_nics_are_not_guessed() -> None:
    found = expect(Scenario(collective="all_reduce", ranks=16, ranks_per_node=8), find("h100-pcie"), [8])
    assert found.unknown is not None
    assert "--nics" in found.unknown


def test_the_latency_floor_counts_steps() -> None:
    # NCCL's own figures: a tree of 4 GPUs is 6.8 us + 2 x 3 steps of 0.6, a ring 6.6 + 6 x 0.6.
    found = expect(Scenario(collective="all_reduce", ranks=4, ranks_per_node=4), find("h200-sxm"), [8])
    assert found.floor_us == pytest.approx(10.2)
    # 16 GPUs on two nodes: 6.8 + 2 x (7 x 0.6 + 1 x 5.0).
    found = expect(Scenario(collective="all_reduce", ranks=16, ranks_per_node=8), find("h100-sxm"), [8])
    assert found.floor_us == pytest.approx(25.2)
    # The same over EFA, which adds 75 us to each step between nodes.
    found = expect(Scenario(collective="all_reduce", ranks=16, ranks_per_node=8), find("h100-p5"), [8])
    assert found.floor_us == pytest.approx(175.2)


def test_a_thread_that_launches_several_gpus_takes_longer() -> None:
    def time_us(gpus: int) -> float:
        job = Scenario(collective="all_reduce", ranks=4, ranks_per_node=4, gpus_per_thread=gpus)
        return expect(job, find("h200-sxm"), [1024]).estimates[0].time_us.typical

    assert time_us(4) == pytest.approx(18.49, rel=0.15)  # measured: 18.5 to 20.3 us
    assert time_us(1) == pytest.approx(8.99, rel=0.15)  # measured in a graph


@given(
    st.sampled_from(GPU_SYSTEMS),
    st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall", "sendrecv", "gather"]),
    st.integers(2, 512),
    st.integers(0, 40),
)
def test_properties_of_all_scenarios(name: str, collective: str, ranks: int, power: int) -> None:
    system = find(name)
    job = Scenario(collective=collective, ranks=ranks, ranks_per_node=min(ranks, system.ranks_per_node))
    found = expect(job, system, [1 << power, 1 << (power + 1)])
    assert found.unknown is None
    highest = max(route.limit_gbps * route.efficiency.high for route in found.routes)
    for one in found.estimates:
        for limits in (one.time_us, one.busbw_gbps):
            assert 0 <= limits.low <= limits.typical <= limits.high
        assert one.busbw_gbps.high <= highest * 1.000001
        assert one.time_us.typical >= (found.floor_us or 0)
        factor = collectives()[collective].bus_factor_of(ranks)
        assert one.busbw_gbps.typical == pytest.approx(one.size_bytes * factor / one.time_us.typical / 1e3)
        assert math.isfinite(one.wire_gbps)
    assert found.estimates[0].time_us.typical <= found.estimates[1].time_us.typical
    assert found.estimates[0].busbw_gbps.typical <= found.estimates[1].busbw_gbps.typical * 1.000001


# --- what a log says


def table(devices: list[str], *, hosts: int = 1, **more: object) -> Table:
    ranks = tuple(
        Rank(
            rank=number, host=f"node{number * hosts // len(devices)}", device_name=name, bus_id=f"0000:{number:02x}:00"
        )
        for number, name in enumerate(devices)
    )
    return Table(format="a test", collective="all_reduce", ranks=len(devices), rank_list=ranks, **more)  # type: ignore[arg-type]


def row(size: int = 1 << 30) -> Row:
    return Row(line=1, size_bytes=size, figures={"out_of_place": Figure(time_us=1.0)})


def test_the_system_follows_from_the_devices() -> None:
    found = system_of(table(["NVIDIA H200"] * 8))
    assert found is not None
    assert found.name == "h200-sxm"


def test_mixed_devices_are_no_system() -> None:
    assert system_of(table(["NVIDIA H200", "NVIDIA B200"])) is None
    assert system_of(table(["NVIDIA Z9"] * 2)) is None


def test_processors_give_the_host_system() -> None:
    ranks = tuple(Rank(rank=number, bus_id="cpu", device_name="AMD EPYC") for number in range(4))
    found = system_of(Table(format="records", rank_list=ranks))
    assert found is not None
    assert found.name == "host"


def test_a_title_states_gpus_and_nics() -> None:
    found = system_of(Table(format="a test", title="32x H800 NVLink + 4x 400Gbps IB + all reduce"))
    assert found is not None
    assert found.name == "h800"
    assert found.nics is not None
    assert (found.nics.count, found.nics.gbit) == (4, 400)


def test_ranks_per_node_are_counted_in_the_device_list() -> None:
    logged = table(["NVIDIA H200"] * 8, hosts=2)
    job = scenario_of(logged, row(), find("h200-sxm"))
    assert job is not None
    assert (job.ranks, job.ranks_per_node) == (8, 4)


def split(by: Callable[[int], int], ranks: int = 16) -> Table:
    """Two nodes of H100 with ranks in groups (NCCL_TESTS_SPLIT)."""
    listed = tuple(
        Rank(rank=number, group=by(number), host=f"n{number * 2 // ranks}", device_name="NVIDIA H100")
        for number in range(ranks)
    )
    return Table(format="a test", collective="all_reduce", ranks=ranks, rank_list=listed)


@pytest.mark.parametrize(
    ("by", "ranks", "per_node", "groups", "gbps"),
    [
        (lambda number: number % 8, 2, 1, 8, 48),  # a rail each: one of eight NICs
        (lambda number: number % 4, 4, 2, 4, 96),
        (lambda number: number // 8, 8, 8, 1, None),  # a node each
        (lambda number: number // 4, 4, 4, 1, None),
    ],
)
def test_a_group_has_nodes_of_its_own(
    by: Callable[[int], int], ranks: int, per_node: int, groups: int, gbps: float | None
) -> None:
    system = find("h100-sxm")
    one = msgspec.structs.replace(row(), ranks=ranks, group=1)
    job = scenario_of(split(by), one, system)
    assert job is not None
    assert (job.ranks, job.ranks_per_node, job.groups) == (ranks, per_node, groups)
    found = expect(job, system, [8])
    assert found.nodes == ranks // per_node
    nics = [limit.capacity_gbps for route in found.routes for limit in route.limits if limit.wire == "NIC"]
    assert nics == pytest.approx([gbps] * len(nics))
    assert bool(nics) == (gbps is not None)


@pytest.mark.parametrize("counts", [(8, 4, 4), (8, 1), (8, 8, 1)])
def test_unequal_nodes_are_not_guessed(counts: tuple[int, ...]) -> None:
    hosts = [f"n{node}" for node, count in enumerate(counts) for _ in range(count)]
    listed = tuple(Rank(rank=rank, host=host, device_name="NVIDIA H100") for rank, host in enumerate(hosts))
    one = Table(format="a test", collective="all_reduce", ranks=len(hosts), rank_list=listed)
    job = scenario_of(one, row(), find("h100-sxm"))
    assert job is not None
    found = expect(job, find("h100-sxm"), [8])
    assert found.nodes == len(counts)
    assert found.unknown is not None
    assert f"unequal numbers of ranks, {min(counts)} to 8" in found.unknown
    # In a rack the trays of a job are one domain.
    rack = scenario_of(one, row(), find("gb200-nvl72"))
    assert rack is not None
    assert expect(rack, find("gb200-nvl72"), [8]).unknown is None


def test_groups_share_the_nics_that_they_cross() -> None:
    system = with_nics(find("h100-sxm"), Nics(count=4, gbit=400, source="a test"))
    job = scenario_of(split(lambda number: number % 8), msgspec.structs.replace(row(), ranks=2), system)
    assert job is not None
    (ring, _) = expect(job, system, [8]).routes
    assert ring.limit_gbps == pytest.approx(24)
    assert "shared by 8 groups" in ring.binding_limit.why


def test_groups_share_the_nics_of_all_nodes_of_a_rack() -> None:
    system = find("gb200-nvl72")
    assert system.nics is not None
    job = Scenario(collective="all_reduce", ranks=144, ranks_per_node=2, groups=2)
    nics_gbps = [limit.capacity_gbps for limit in expect(job, system, [8]).routes[0].limits if limit.wire == "NIC"]
    # Each of 2 groups uses half of the NICs of a rack with 18 nodes.
    assert nics_gbps == pytest.approx([18 * system.nics.count / 2 * system.nics.gbit * 0.12])


def test_a_rank_alone_on_its_node_uses_no_links() -> None:
    for name in GPU_SYSTEMS:
        if find(name).rack_ranks is None:
            found = expect(Scenario(collective="all_reduce", ranks=2, ranks_per_node=1), find(name), [1 << 30])
            assert {limit.wire for route in found.routes for limit in route.limits} == {"NIC"}


@pytest.mark.parametrize(
    ("environment", "nvls", "algorithm"),
    [({}, True, None), ({"NCCL_NVLS_ENABLE": "0"}, False, None), ({"NCCL_ALGO": "Ring"}, True, "ring"),
     ({"NCCL_ALGO": "Ring,Tree"}, True, None), ({"NCCL_ALGO": "^NVLS"}, True, None)],
)  # fmt: skip
def test_effective_settings_count(environment: dict[str, str], nvls: bool, algorithm: str | None) -> None:
    job = scenario_of(table(["NVIDIA H200"] * 8, environment=environment), row(), find("h200-sxm"))
    assert job is not None
    assert (job.nvls, job.algorithm) == (nvls, algorithm)


@pytest.mark.parametrize(
    ("settings", "gpus"),
    [({}, None), ({"nGpus": "8", "graph": "0"}, 8), ({"nGpus": "8", "graph": "1"}, 1), ({"nGpus": "x"}, None),
     ({"gpus_per_thread": "4", "graph_launches": "0"}, 4)],
)  # fmt: skip
def test_launches_are_counted(settings: dict[str, str], gpus: int | None) -> None:
    job = scenario_of(table(["NVIDIA H200"] * 8, settings=settings), row(), find("h200-sxm"))
    assert job is not None
    assert job.gpus_per_thread == gpus


def test_the_expected_column() -> None:
    estimate = estimator(table(["NVIDIA H200"] * 8))
    found = estimate(row())
    assert found is not None
    assert found.busbw_gbps.low < 480 < found.busbw_gbps.high
    assert estimate(row(size=0)) is None
    assert estimator(Table(format="a test"))(row()) is None
    assert estimator(table(["NVIDIA H200"]))(row()) is None


def test_unknown_ranks_have_no_expectation() -> None:
    unknown = Table(format="a test", collective="all_reduce", title="H200")
    assert estimator(unknown)(row()) is None
