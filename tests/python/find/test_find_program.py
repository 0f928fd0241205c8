"""`busbw find --measure-with`: real programs over pipes, correct and faulty ones."""

import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import find_clusters
import pytest

from busbw.cli.main import main

pytestmark = pytest.mark.usefixtures("here")  # the searches are kept in the store of the current folder

SIMULATOR = shlex.join([sys.executable, str(find_clusters.SIMULATOR)])

ANSWERS = textwrap.dedent(
    """
    import json, sys, time
    sys.stdin.reconfigure(line_buffering=True)
    NICS = lambda: [{"name": f"mlx5_{gpu}", "rail": gpu, "gpus": [gpu], "future": 1} for gpu in range(2)]
    NODES = [{"name": f"n{node}", "leaf": "l", "gpus": 2, "nics": NICS()} for node in range(4)]
    CLUSTER = {"protocol": 1, "nodes": NODES}

    def answer(request):
        if request["ask"] == "cluster":
            return CLUSTER
        flows = [{"times_us": [1000.0 + row % 7] * request["iterations"]} for row in range(len(request["flows"]))]
        return {"id": request["id"], "flows": flows, "took_s": 0.01}

    def say(value):
        print(value if isinstance(value, str) else json.dumps(value), flush=True)

    for line in sys.stdin:
        request = json.loads(line)
        if request["ask"] == "end":
            break
        if request.get("id") == 3:
            MISBEHAVE
        else:
            say(answer(request))
    """
)

FAULTY = {
    "time.sleep(60)": "the measuring program did not answer measurement 3 within 1 s",
    "sys.exit(7)": "the measuring program ended with exit code 7 before it answered measurement 3",
    "import os; os.kill(os.getpid(), 9)": "was ended by signal 9",
    "say('hello, world')": 'answered measurement 3 with "hello, world", which is no valid answer',
    "say({**answer(request), 'id': 2})": "answered measurement 2 instead of measurement 3",
    "say({**answer(request), 'flows': answer(request)['flows'][1:]})": "answered measurement 3 with 7 of 8 flows",
    "say({**answer(request), 'flows': [{'times_us': [-1.0]}] * 8})": "flow 0 has a time of -1 us",
    "say({**answer(request), 'flows': [{'times_us': [5e-324]}] * 8})": "flow 0 has a time of 4.94066e-324 us",
    "say({**answer(request), 'flows': [{'times_us': [1e308]}] * 8})": "flow 0 has a time of 1e+308 us",
    "say('x' * 999)": f'answered measurement 3 with "{"x" * 37}...{"x" * 20}", which is no valid answer',
    "say({'id': 3, 'flows': 'none'})": "which is no valid answer",
    "say({'error': 'the scheduler is down'})": "the measuring program reports: the scheduler is down",
    "say({'error': ''})": "the measuring program reports: an error without a message",
    "say({**answer(request), 'took_s': -5})": "measurement 3 took -5 s",
}


def program(folder: Path, misbehavior: str) -> str:
    path = folder / "program.py"
    path.write_text(ANSWERS.replace("MISBEHAVE", misbehavior))
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(path))}"


@pytest.mark.parametrize("misbehavior", FAULTY)
def test_a_faulty_program_is_one_error_and_its_measurements_are_kept(
    misbehavior: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["find", "--json", "--answer-timeout", "1", "--measure-with", program(tmp_path, misbehavior)])
    output = capsys.readouterr()
    assert code == 3
    result = json.loads(output.out)
    assert (result["rounds"], result["complete"], result["findings"]) == (2, False, [])
    record, line = output.err.splitlines()
    assert record.startswith("Record: busbw-records/")
    assert line.startswith("busbw: ")
    assert FAULTY[misbehavior] in line


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("not json", "which is no valid answer"),
        ('{"protocol":2,"nodes":[]}', "the measuring program speaks protocol 2"),
        ('{"nodes":[]}', "the cluster has no GPU"),
        ('{"error":"no allocation"}', "the measuring program reports: no allocation"),
        ("", "no valid answer"),
    ],
)
def test_without_a_cluster_nothing_is_measured(
    answer: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.py"
    path.write_text(f"input(); print({answer!r}, flush=True)")
    assert main(["find", "--measure-with", f"{sys.executable} {path}"]) == 3
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err


def test_a_cluster_without_any_transfer_accuses_no_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "program.py"
    times = '{"times_us": [1000.0 + row % 7] * request["iterations"]}'
    assert times in ANSWERS
    file.write_text(ANSWERS.replace("MISBEHAVE", "say(answer(request))").replace(times, '{"error": "no route"}'))
    assert main(["find", "--measure-with", shlex.join([sys.executable, str(file)])]) == 3
    output = capsys.readouterr()
    assert output.out == ""
    assert "busbw: no flow transferred data: no route; " in output.err


def test_a_program_that_does_not_start_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "--measure-with", "/nonexistent/program"]) == 3
    assert "cannot start /nonexistent/program: No such file or directory" in capsys.readouterr().err


def test_the_simulator_as_a_program_gives_the_same_result_as_inside(capsys: pytest.CaptureFixture[str]) -> None:
    fault = ["--fault", "nic-send:2/1:2"]
    assert main(["find", "--json", "--measure-with", f"{SIMULATOR} 8x4 {' '.join(fault)}"]) == 5
    outside = json.loads(capsys.readouterr().out)
    assert main(["find", "--json", "--simulate", "8x4", *fault]) == 5
    inside = json.loads(capsys.readouterr().out)
    assert [(one["kind"], one["node"], one["nic"], one["direction"]) for one in outside["findings"]] == [
        ("nic", "n2", "mlx5_1", "send")
    ]
    assert {**outside, "simulated": True} == inside


def test_a_healthy_program_ends_with_0_and_gets_the_last_request(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = program(tmp_path, "say(answer(request))")
    path = tmp_path / "program.py"
    path.write_text(path.read_text().replace("break", f"open({str(log)!r}, 'w').write('end'); break"))
    assert main(["find", "--measure-with", command]) == 0
    assert log.read_text() == "end"


def test_names_of_a_program_do_not_control_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = program(tmp_path, "say(answer(request))")
    path = tmp_path / "program.py"
    slow = '5000.0 if flow["to"]["gpu"] == 1 and "0" in flow["to"]["node"] else 1000.0'
    flows = f'[{{"times_us": [{slow}] * 10}} for flow in request["flows"]]'
    path.write_text(
        path.read_text()
        .replace('f"n{node}"', 'f"\\x1b[31mn{node}"')
        .replace(
            "say(answer(request))", f'say({{**answer(request), "flows": {flows}}} if "flows" in request else CLUSTER)'
        )
    )
    assert main(["find", "--measure-with", command]) in (5, 6)
    out = capsys.readouterr().out
    assert "?[31mn0" in out
    assert "\x1b" not in out


def test_ctrl_c_reports_the_findings_so_far(tmp_path: Path) -> None:
    path = tmp_path / "slow.py"
    path.write_text(
        "import subprocess, sys, time\n"
        f"simulator = subprocess.Popen([*{shlex.split(SIMULATOR)!r}, '8x2', '--fault', 'node:5:3'],\n"
        "    stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "for number, line in enumerate(sys.stdin.buffer):\n"
        "    if number == 7:\n"
        f"        open({str(tmp_path / 'ready')!r}, 'w').close()\n"
        "        time.sleep(60)\n"
        "    simulator.stdin.write(line); simulator.stdin.flush()\n"
        "    sys.stdout.buffer.write(simulator.stdout.readline()); sys.stdout.buffer.flush()\n"
    )
    words = [sys.executable, "-c", "import sys; from busbw.cli.entry_point import main; sys.exit(main())"]
    search = subprocess.Popen(
        [*words, "find", "--json", "--measure-with", f"{sys.executable} {path}"], stdout=subprocess.PIPE, text=True
    )
    while not (tmp_path / "ready").exists():
        assert search.poll() is None
    os.kill(search.pid, signal.SIGINT)
    output, _ = search.communicate(timeout=30)
    assert search.returncode == 130
    result = json.loads(output)
    assert (result["complete"], result["rounds"]) == (False, 6)
    assert [(one["kind"], one["node"]) for one in result["findings"]] == [("node", "n5")]


def test_an_interrupt_explains_the_error_of_the_program(tmp_path: Path) -> None:
    """Ctrl-C on a job reaches both."""
    misbehavior = "import os; os.kill(os.getppid(), 2); say({'error': 'interrupted'})"
    words = [sys.executable, "-c", "import sys; from busbw.cli.entry_point import main; sys.exit(main())"]
    command = [*words, "find", "--json", "--measure-with", program(tmp_path, misbehavior)]
    search = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert search.returncode == 130
    assert [line.split("/")[0] for line in search.stderr.splitlines()] == ["Record: busbw-records"]
    assert json.loads(search.stdout)["rounds"] == 2
