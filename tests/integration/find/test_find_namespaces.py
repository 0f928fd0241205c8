"""Does `busbw find` name the slow part of a real network: six hosts with two NICs each, and the engine over TCP?

Every link has a known rate, so low that the processors are no bottleneck. Each host has two ranks, one per NIC. The
switches route between the rails.
"""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from installed import plain_environment

from busbw.cli.main import main

from ..launchers.namespaces import Network, network, skip_reason
from ..programs import Programs

pytestmark = pytest.mark.skipif(bool(reason := skip_reason()), reason=reason)

HOSTS, RAILS = 6, 2
RATE_MBIT = 100
PORT = 4711


RELAY = """
import shlex, subprocess, sys, time
engine = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for number, line in enumerate(sys.stdin.buffer):
    engine.stdin.write(line)
    engine.stdin.flush()
    if number == 3:
        time.sleep(0.1)
        subprocess.run(shlex.split(sys.argv[1]), check=True)
    sys.stdout.buffer.write(engine.stdout.readline())
    sys.stdout.buffer.flush()
engine.stdin.close()
sys.exit(engine.wait())
"""
"""A measuring program that runs another one, and a command during its third round."""


def run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr.strip()}"


def limit(namespace: str, interface: str, rate_mbit: float = RATE_MBIT) -> None:
    """Sets the rate of what leaves an interface. The queue is long, so that nothing is lost."""
    where = ("tc", "-n", namespace, "qdisc", "replace", "dev", interface, "root")
    run(*where, "tbf", "rate", f"{rate_mbit}mbit", "burst", "16kb", "limit", "8mb")


def limit_to(namespace: str, interface: str, address: str, rate_mbit: float) -> None:
    """Sets another rate for what leaves an interface to one address."""
    tc = ("tc", "-n", namespace)
    run(*tc, "qdisc", "replace", "dev", interface, "root", "handle", "1:", "htb", "default", "1")
    for number, rate in ((1, RATE_MBIT), (2, rate_mbit)):
        size = ("rate", f"{rate}mbit", "burst", "16kb", "cburst", "16kb")
        run(*tc, "class", "add", "dev", interface, "parent", "1:", "classid", f"1:{number}", "htb", *size)
    match = ("u32", "match", "ip", "dst", f"{address}/32", "flowid", "1:2")
    run(*tc, "filter", "add", "dev", interface, "parent", "1:", "protocol", "ip", *match)


def route_between_rails(net: Network) -> None:
    run("ip", "netns", "exec", net.middle, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
    for rail in range(RAILS):
        run("ip", "-n", net.middle, "address", "add", f"10.78.{rail}.1/24", "dev", f"s{rail}")
        for host in net.hosts:
            gateway = ("default", "via", f"10.78.{rail}.1", "dev", f"eth{rail}", "metric", str(100 + rail))
            run("ip", "-n", host.namespace, "route", "add", *gateway)


@contextmanager
def limited_network(lossy: Mapping[tuple[int, int], float] | None = None) -> Iterator[Network]:
    with network(HOSTS, switches=RAILS, lossy=lossy) as made:
        route_between_rails(made)
        for number, host in enumerate(made.hosts):
            run("ip", "-n", host.namespace, "link", "set", "lo", "mtu", "9000")  # below the burst
            limit(host.namespace, "lo")
            for rail in range(RAILS):
                limit(host.namespace, f"eth{rail}")
                limit(made.middle, made.port(number, rail))
        yield made


@pytest.fixture
def net() -> Iterator[Network]:
    with limited_network() as made:
        yield made


def search(
    net: Network,
    programs: Programs,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    action: Callable[[], str] | None = None,
) -> dict[str, Any]:
    """Result of a search over all hosts. Process 0 is started by the search, the others by this function.

    `action` returns a command that runs during the third round, after all processes are started.
    """
    common = {
        "BUSBW_LAUNCHER": "busbw",
        "BUSBW_SIZE": str(HOSTS),
        "BUSBW_LOCAL_RANK": "0",
        "BUSBW_LOCAL_SIZE": "1",
        "BUSBW_TOKEN": "of-these-tests",
        "BUSBW_RENDEZVOUS": f"tcp://{net.hosts[0].addresses[0]}:{PORT}",
    }
    engine = [str(programs.path("busbw-engine")), "flows", "-t", "2", "-e", "1M", "-T", "6" if action else "60"]
    for process, host in enumerate(net.hosts[1:], start=1):
        environment = {**plain_environment(), **common, "BUSBW_RANK": str(process), "BUSBW_NODE": str(process)}
        host.start(engine, folder=folder, environment=environment)
    variables = [f"{name}={value}" for name, value in {**common, "BUSBW_RANK": "0", "BUSBW_NODE": "0"}.items()]
    named = 'echo "$1" >/proc/sys/kernel/hostname && shift && exec "$@"'
    first = net.hosts[0]
    words = ["ip", "netns", "exec", first.namespace, "unshare", "--uts", "sh", "-c", named, "sh", first.name]
    words += ["env", *variables, *engine]
    if action:
        (folder / "relay.py").write_text(RELAY)
        words = [sys.executable, str(folder / "relay.py"), action(), *words]
    command = shlex.join(words)
    code = main(["find", "--json", "--size", "512K", "--answer-timeout", "60", "--measure-with", command])
    output = capsys.readouterr()
    result = json.loads(output.out)
    assert result["complete"], output.err
    result["exit_code"] = code
    return dict(result)


def named(result: dict[str, Any]) -> list[tuple[Any, ...]]:
    keys = ("kind", "node", "nodes", "nic", "direction")
    return [tuple(finding[key] for key in keys if finding.get(key)) for finding in result["findings"]]


def test_healthy_links_are_not_accused(
    net: Network, programs: Programs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = search(net, programs, tmp_path, capsys)
    assert (named(result), result["undecided"], result["exit_code"]) == ([], [], 0)


def test_a_nic_that_sends_at_half_its_rate(
    net: Network, programs: Programs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit(net.hosts[2].namespace, "eth1", RATE_MBIT / 2)
    assert named(search(net, programs, tmp_path, capsys)) == [("nic", "host2", "eth1", "send")]


def test_a_node_with_all_links_at_half_their_rate(
    net: Network, programs: Programs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rail in range(RAILS):
        limit(net.hosts[4].namespace, f"eth{rail}", RATE_MBIT / 2)
        limit(net.middle, net.port(4, rail), RATE_MBIT / 2)
    [(kind, node, *_)] = named(search(net, programs, tmp_path, capsys))
    assert (kind, node) == ("node", "host4")


def test_a_pair_of_nodes_at_half_the_rate(
    net: Network, programs: Programs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for one, other in ((1, 5), (5, 1)):
        for rail in range(RAILS):
            limit_to(net.hosts[one].namespace, f"eth{rail}", net.hosts[other].addresses[rail], RATE_MBIT / 2)
    [(kind, nodes, *_)] = named(search(net, programs, tmp_path, capsys))
    assert (kind, sorted(nodes)) == ("pair", ["host1", "host5"])


def test_a_link_that_loses_one_frame_of_a_hundred(
    programs: Programs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with limited_network({(3, 0): 0.01}) as net:
        run("ip", "-n", net.hosts[3].namespace, "link", "set", "eth0", "mtu", "1500")  # several losses in each flow
        [(kind, node, nic, *_)] = named(search(net, programs, tmp_path, capsys))
    assert (kind, node, nic) == ("nic", "host3", "eth0")


def test_a_link_that_goes_silent_during_a_round(
    net: Network, programs: Programs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = shlex.join(["ip", "-n", net.middle, "link", "set", net.port(3, 1), "nomaster"])
    result = search(net, programs, tmp_path, capsys, lambda: cut)
    assert named(result) == [("nic", "host3", "eth1", "both")]
    assert (result["findings"][0]["dead"], result["undecided"], result["exit_code"]) == (True, [], 5)


def test_a_process_that_is_killed_during_a_round(
    net: Network, programs: Programs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = search(net, programs, tmp_path, capsys, lambda: f"kill -KILL {net.hosts[4].started[0].pid}")
    [finding] = result["findings"]
    assert (finding["kind"], finding["node"], finding["lost"]) == ("node", "host4", True)
    assert finding["says"].startswith("node host4 does not answer; ranks 8 to 9 (process 4, pid ")
    assert (result["undecided"], result["exit_code"]) == ([], 5)
