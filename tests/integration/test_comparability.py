"""Real runs over shared memory and over sockets are unlike systems, for history, compare and check."""

import json
from pathlib import Path

import pytest

from busbw.cli.main import main

from .programs import first_record

SMALL = ["all_reduce", "-b", "1K", "-e", "4K", "-n", "2", "-w", "1"]


def test_transports_are_unlike_and_ports_are_no_change(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(tmp_path)]
    for _ in range(2):
        assert main(["launch", "local", "--processes", "2", *store, *SMALL]) == 0
        assert main(["run", *store, *SMALL, "-t", "2"]) == 0
    headers = {str(path): first_record(path) for path in tmp_path.glob("*/records.jsonl")}
    sockets, sockets_again = (path for path, header in headers.items() if "transport" in header["machine"])
    memory = next(path for path, header in headers.items() if "transport" not in header["machine"])
    assert (
        len({header["environment"].get("BUSBW_RENDEZVOUS") for header in headers.values()}) == 3
    )  # two ports, and none
    capfd.readouterr()

    assert main(["history", *store, "all_reduce", "--json"]) == 0
    trends = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert {(trend["same"]["transport"], len(trend["runs"])) for trend in trends} == {
        ("tcp sockets", 2),
        ("shared memory", 2),
    }

    assert main(["compare", sockets, memory]) == 2
    assert "1 host, tcp sockets against" in capfd.readouterr().err
    assert main(["compare", sockets, memory, "--any-system"]) == 0
    assert "Unlike systems: transport tcp sockets against shared memory." in " ".join(capfd.readouterr().out.split())

    assert main(["compare", sockets, sockets_again]) == 0
    assert "BUSBW_RENDEZVOUS" not in capfd.readouterr().out

    assert main(["check", memory, "--system", "h100-sxm", "--json"]) == 3
    assert {verdict["reason_kind"] for verdict in json.loads(capfd.readouterr().out)["verdicts"]} == {"other_system"}
