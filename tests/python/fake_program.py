"""A fake engine for tests of launchers. Rank 0 prints the lines of a table, with the golden records between them.

Environment variables control it:
- STAND_IN_CODE_<rank>: exit code of that rank.
- STAND_IN_PAUSE_S: pause after each line of the table.
- STAND_IN_FOLDER: folder for `<rank>.json` with arguments, environment, pid and stdin of each process.

With that folder, all processes of a job wait for each other before they write to stderr. So the launcher can merge
their equal lines even on a busy machine.
"""

import sys
from pathlib import Path

GOLDEN_RECORD = Path(__file__).resolve().parents[1] / "golden" / "records.jsonl"
TABLE = ["# a table", *(f"  {row} a row" for row in range(7))]

PROGRAM = f"""#!{sys.executable}
import json, os, signal, sys, time
if sys.argv[1:] == ["--version"]:
    print("busbw 9.9.9\\nbackend host 9.9.9\\nrecord schema 1.0")
    sys.exit(0)
if sys.argv[1:] == ["--world"]:
    print("0 1 none")
    sys.exit(0)
if sys.argv[1:] == ["--list-devices"]:
    sys.exit(0)
rank = os.environ.get("BUSBW_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMI_RANK") or "0"
folder = os.environ.get("STAND_IN_FOLDER")
size = int(os.environ.get("BUSBW_SIZE") or os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ.get("PMI_SIZE") or "1")
def wait_for_all(suffix):
    end_s = time.monotonic() + 20  # a process may have been killed
    while not all(os.path.exists(f"{{folder}}/{{other}}.{{suffix}}") for other in range(size)):
        if time.monotonic() > end_s:
            break
        time.sleep(0.01)
def end(number, _frame):
    if folder:
        open(f"{{folder}}/{{rank}}.ended", "w").close()
        wait_for_all("ended")
    sys.stderr.write(f"stand-in: signal {{number}}\\n")
    sys.exit(128 + number)
signal.signal(signal.SIGINT, end)
signal.signal(signal.SIGTERM, end)
if folder:
    about = {{"argv": sys.argv, "environment": dict(os.environ), "pid": os.getpid(), "stdin": sys.stdin.read()}}
    with open(f"{{folder}}/.{{rank}}", "w") as file:
        json.dump(about, file)
    os.rename(f"{{folder}}/.{{rank}}", f"{{folder}}/{{rank}}.json")
    wait_for_all("json")
sys.stderr.write("stand-in: here\\n")  # one write, so that the message of a signal cannot split it
pause_s = float(os.environ.get("STAND_IN_PAUSE_S", "0"))
records = open({str(GOLDEN_RECORD)!r}, "rb").read().splitlines(keepends=True)
for line, record in zip({TABLE!r}, [*records, b""]):
    if rank == "0":
        sys.stdout.buffer.write(line.encode() + b"\\n" + record)
        sys.stdout.flush()
    time.sleep(pause_s)
sys.exit(int(os.environ.get(f"STAND_IN_CODE_{{rank}}", "0")))
"""


def install(folder: Path) -> Path:
    """Makes a folder with the fake engine and one collective program."""
    folder.mkdir()
    for name in ("busbw-engine", "all_reduce_perf"):
        (folder / name).write_text(PROGRAM)
        (folder / name).chmod(0o755)
    return folder
