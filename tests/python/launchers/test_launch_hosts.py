"""Lists of hosts and hostfiles, as mpirun and nccl-tests' users have them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.errors import UsageError
from busbw.launchers.job.hosts import (
    HostSlots,
    in_url,
    parse_hostfile,
    parse_hosts,
    process_count,
    root_address_by_name,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", [("a", 4)]),
        ("a,b", [("a", 4), ("b", 4)]),
        ("a:2, b:1", [("a", 2), ("b", 1)]),
        ("ada@gpu-01.example.org:8", [("ada@gpu-01.example.org", 8)]),
        ("10.0.0.1:8,10.0.0.2", [("10.0.0.1", 8), ("10.0.0.2", 4)]),
        ("[fe80::1]:2,[fe80::2]", [("fe80::1", 2), ("fe80::2", 4)]),
        ("fe80::1", [("fe80::1", 4)]),
        ("a,b,a:3", [("a", 7), ("b", 4)]),
    ],
)
def test_hosts(text: str, expected: list[tuple[str, int]]) -> None:
    hosts = parse_hosts(text, processes=4)
    assert [(host.name, host.processes) for host in hosts] == expected
    assert process_count(hosts) == sum(count for _, count in expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a,,b",
        "a:",
        "a:0",
        "a:-1",
        "a:x",
        "a:1:2x",
        "-oProxyCommand=evil",
        "a b",
        "a;b",
        "$(id)",
        "a\nb",
        "[a",
        "[]",
        "[]:3",
        "@b",
    ],
)
def test_an_invalid_host_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="--hosts"):
        parse_hosts(text, processes=1)


def test_a_hostfile_of_each_kind() -> None:
    text = "# two racks\nnode1 slots=8\nnode2  slots = 4 max_slots=8 # old\n\nnode3:2\nnode4\n\tnode1\tslots=1\n"
    hosts = parse_hostfile(text, "hosts", processes=3)
    assert hosts == (HostSlots("node1", 9), HostSlots("node2", 4), HostSlots("node3", 2), HostSlots("node4", 3))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("node1\nnode2 slots=0\n", "hosts:2"),
        ("node1 slots=eight", "hosts:1"),
        ("node1 8", "hosts:1"),
        ("node1 gpus=8", "hosts:1"),
        ("\n\n-oBatchMode=no", "hosts:3"),
        ("# nothing\n", "hosts contains no host"),
    ],
)
def test_a_wrong_hostfile_is_named_with_its_line(text: str, place: str) -> None:
    with pytest.raises(UsageError, match=place):
        parse_hostfile(text, "hosts", processes=1)


@given(
    st.lists(st.tuples(st.from_regex(r"[a-z][a-z0-9-]{0,8}[a-z0-9]", fullmatch=True), st.integers(1, 99)), min_size=1)
)
def test_both_forms_of_a_list_mean_the_same(hosts: list[tuple[str, int]]) -> None:
    listed = parse_hosts(",".join(f"{name}:{count}" for name, count in hosts), processes=1)
    filed = parse_hostfile("\n".join(f"{name} slots={count}" for name, count in hosts), "f", processes=1)
    assert listed == filed
    assert process_count(listed) == sum(count for _, count in hosts)


@given(st.text(max_size=40))
def test_no_text_gives_a_host_that_a_program_takes_for_an_option(text: str) -> None:
    try:
        hosts = parse_hosts(text, processes=1)
    except UsageError:
        return
    assert all(host.name and not host.name.startswith("-") and host.name.isascii() for host in hosts)


def test_where_process_0_is_found() -> None:
    assert root_address_by_name((HostSlots("a", 1), HostSlots("b", 1)), "a.example.org") == "a.example.org"
    assert root_address_by_name((HostSlots("a", 4),), "a.example.org") == "127.0.0.1"
    assert [in_url("::1"), in_url("[::1]"), in_url("a")] == ["[::1]", "[::1]", "a"]


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_a_loopback_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="--root-address"):
        root_address_by_name((HostSlots(name, 1), HostSlots("b", 1)), name)
