"""Slow nodes from runs of groups: expectations from the construction of the runs, with no noise but the stated one."""

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from busbw.find.group_runs import GroupRun, GroupRuns, RunSearch, find_slow_nodes, run_power

Slowdown = Callable[[frozenset[str], int], float]


def job(nodes: Iterable[str], time_us: float, configuration: str = "x") -> GroupRun:
    return GroupRun(nodes=frozenset(nodes), configuration=configuration, times_us={("s", 1 << 30): time_us})


def random_jobs(
    slowdown: Slowdown, *, nodes: int = 24, size: int = 4, jobs: int = 90, noise: float = 0.02, seed: int = 1
) -> list[GroupRun]:
    random = np.random.default_rng(seed)
    runs = []
    for number in range(jobs):
        members = frozenset(f"n{node}" for node in random.choice(nodes, size, replace=False))
        runs.append(job(members, 1000 * slowdown(members, number) * np.exp(random.normal(0, noise))))
    return runs


def names(search: RunSearch) -> list[str | None]:
    return [finding.node for finding in search.findings]


@pytest.mark.parametrize("slowdown", [1.15, 1.5, 4])
def test_a_slow_node_is_named_with_its_slow_down(slowdown: float) -> None:
    runs = random_jobs(lambda members, _: slowdown if "n7" in members else 1)
    search = find_slow_nodes(GroupRuns(runs))
    assert names(search) == ["n7"]
    assert search.undecided == []
    (finding,) = search.findings
    assert finding.slowdown == pytest.approx(slowdown, rel=0.02)
    assert finding.flows == sum("n7" in run.nodes for run in runs)
    assert not finding.intermittent


def test_healthy_nodes_are_not_accused() -> None:
    for seed in range(5):
        search = find_slow_nodes(GroupRuns(random_jobs(lambda *_: 1, seed=seed)))
        assert (search.findings, search.undecided) == ([], [])


def test_slow_runs_of_all_nodes_accuse_none() -> None:
    """Half of the runs are equally slow whatever their nodes are, as runs across leaf switches."""
    for seed in range(5):
        random = np.random.default_rng(100 + seed)
        runs = random_jobs(lambda *_, random=random: 1.3 if random.random() < 0.5 else 1, nodes=48, seed=seed)
        search = find_slow_nodes(GroupRuns(runs))
        assert (search.findings, search.undecided) == ([], [])
        assert search.comparison.slow_share == pytest.approx(0.45, abs=0.1)


def test_half_of_the_runs_may_be_slow() -> None:
    runs = random_jobs(lambda members, _: 1.15 if "n3" in members else 1, nodes=16, size=8, noise=0.03)
    assert names(find_slow_nodes(GroupRuns(runs))) == ["n3"]


def test_two_slow_nodes_are_both_named() -> None:
    search = find_slow_nodes(GroupRuns(random_jobs(lambda members, _: 2 if members & {"n3", "n9"} else 1)))
    assert sorted(names(search)) == ["n3", "n9"]  # type: ignore[type-var]


def test_a_node_that_is_slow_now_and_then_is_named_with_its_share() -> None:
    runs = random_jobs(lambda members, number: 2 if "n3" in members and number % 2 else 1, jobs=150)
    (finding,) = find_slow_nodes(GroupRuns(runs)).findings
    slow = [run for number, run in enumerate(runs) if "n3" in run.nodes and number % 2]
    assert (finding.node, finding.intermittent, finding.flows) == ("n3", True, len(slow))
    assert finding.slow_share == pytest.approx(len(slow) / sum("n3" in run.nodes for run in runs), abs=0.001)


def test_nodes_that_always_run_together_are_undecided_with_the_deciding_run() -> None:
    def together(run: GroupRun) -> GroupRun:
        extra = {"twin"} if "n3" in run.nodes else set()
        return job(run.nodes | extra, run.times_us["s", 1 << 30])

    runs = random_jobs(lambda members, _: 1.5 if "n3" in members else 1)
    search = find_slow_nodes(GroupRuns([together(run) for run in runs]))
    assert search.findings == []
    (parts,) = search.undecided
    assert {part.node for part in parts.between} == {"n3", "twin"}
    assert "Run each of them without the others, with node n" in parts.says
    partner = parts.says.split("with node ")[-1].split(",")[0]
    fast = sum(partner in run.nodes and "n3" not in run.nodes for run in runs)
    assert f"which is in {fast} fast runs." in parts.says


def test_nodes_that_are_slow_only_together_are_undecided() -> None:
    runs = random_jobs(lambda *_: 1)
    both = [job({"n3", "n5"}, 1500 + number) for number in range(20)]
    search = find_slow_nodes(GroupRuns(runs + both))
    assert search.findings == []
    assert {part.node for parts in search.undecided for part in parts.between} == {"n3", "n5"}


def test_no_suspect_is_the_partner_of_the_deciding_runs() -> None:
    both = [job({"n3", "n5"}, 1500 + number) for number in range(20)]
    without_n3 = [job({"n5", f"n{6 + number}"}, 1000) for number in range(15)]  # so n5 has most fast runs
    (parts,) = find_slow_nodes(GroupRuns(random_jobs(lambda *_: 1) + both + without_n3)).undecided
    assert {part.node for part in parts.between} == {"n3", "n5"}
    assert parts.says.split("with node ")[-1].split(",")[0] not in ("n3", "n5")


def test_without_another_node_the_deciding_runs_have_no_partner() -> None:
    alone = [job({node}, 1000 + number) for node in ("n3", "n5") for number in range(20)]
    both = [job({"n3", "n5"}, 1500 + number) for number in range(10)]
    (parts,) = find_slow_nodes(GroupRuns(alone + both)).undecided
    assert {part.node for part in parts.between} == {"n3", "n5"}
    assert parts.says.endswith("Run each of them without the others.")


def test_one_slow_run_accuses_no_node() -> None:
    search = find_slow_nodes(GroupRuns(random_jobs(lambda _, number: 3 if number == 40 else 1)))
    assert (search.findings, search.undecided) == ([], [])
    assert (search.comparison.is_slow & search.comparison.is_peer).sum() == 1


def test_fast_runs_on_one_node_do_not_clear_its_network() -> None:
    alone = [job({f"n{node}"}, 100, "alone") for node in range(24) for _ in range(12)]
    runs = random_jobs(lambda members, _: 1.5 if "n3" in members else 1)
    (finding,) = find_slow_nodes(GroupRuns(runs + alone)).findings
    assert (finding.node, finding.intermittent) == ("n3", False)
    assert finding.flows == sum("n3" in run.nodes for run in runs)


def test_configurations_are_not_compared_with_each_other() -> None:
    small = random_jobs(lambda *_: 1)
    large = [job(run.nodes, 5 * run.times_us["s", 1 << 30], "y") for run in random_jobs(lambda *_: 1, seed=2)]
    search = find_slow_nodes(GroupRuns(small + large))
    assert (search.findings, search.undecided) == ([], [])
    assert not search.comparison.is_slow.any()


def test_a_node_in_all_runs_of_its_configuration_is_not_covered() -> None:
    runs = random_jobs(lambda *_: 1)
    always = [job({"always", *run.nodes}, 9000, "y") for run in random_jobs(lambda *_: 1, jobs=8, seed=2)]
    groups = GroupRuns(runs + always)
    assert not groups.is_usable[groups.nodes.index("always")].any()
    power = run_power(groups, find_slow_nodes(groups).comparison)
    assert (power.parts, power.all_parts) == (24, 25)


def test_too_few_runs_are_not_compared() -> None:
    groups = GroupRuns([job({"a", "b"}, 1), job({"a", "c"}, 1), job({"b", "c"}, 9)])
    assert not groups.is_compared.any()
    assert find_slow_nodes(groups).findings == []


def test_sizes_below_the_plateau_are_not_judged() -> None:
    def with_small_size(run: GroupRun, number: int) -> GroupRun:
        times = {**run.times_us, ("s", 8): 10.0 * (5 if number % 3 else 1)}
        return GroupRun(nodes=run.nodes, configuration="x", times_us=times)

    runs = [with_small_size(run, number) for number, run in enumerate(random_jobs(lambda *_: 1))]
    assert not find_slow_nodes(GroupRuns(runs)).comparison.is_slow.any()


def test_the_stated_power_is_the_share_of_nodes_that_are_found() -> None:
    """Nodes that are slower by 10 % are found as often as the power says, within the error of 40 searches."""
    found, stated = 0, []
    for seed in range(40):
        groups = GroupRuns(
            random_jobs(lambda members, _: 1.1 if "n7" in members else 1, nodes=16, jobs=32, noise=0.035, seed=seed)
        )
        search = find_slow_nodes(groups)
        found += names(search) == ["n7"]
        stated.append(run_power(groups, search.comparison).found)
    assert found / 40 == pytest.approx(float(np.mean(stated)), abs=0.25)
