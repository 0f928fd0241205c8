"""The rules of the house: which part may include which, where time is read, where a library may be used.

The arrows are those of docs/architecture.md. A new part must be given its place here before anything may include it.
"""

import ast
import re
from keyword import iskeyword
from pathlib import Path

import pytest

from busbw.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]

# What each part of the engine may include besides itself. A name with a dot is one file, any other a whole part.
ENGINE_ARROWS = {
    "main": {"options", "sweep", "collectives", "measure", "backends", "rendezvous", "output", "verify", "support"},
    "options": {"sweep", "collectives", "backends/backend.hpp", "verify", "support"},
    "sweep": {"collectives", "backends/backend.hpp", "verify", "support"},
    "collectives": {"backends/backend.hpp", "verify", "support"},
    "measure": {"collectives", "backends", "verify", "rendezvous", "support"},
    "backends": {"rendezvous", "verify", "support"},
    "rendezvous": {"support"},
    "verify": {"support"},
    "output": {"support"},
    "support": set(),
    "fastpath": {"support"},
}
# Files of the engine's own folder by part; those of a folder belong to the part of its name.
TOP_FILES = {
    "main": "main",
    "reporter": "main",
    "run_setup": "main",
    "local_run": "main",
    "launched_run": "main",
    "processes_agree": "main",
    "lacked_types": "main",
    "alias": "main",
    "options": "options",
    "options_given": "options",
    "options_gpu": "options",
    "options_table": "options",
    "sweep": "sweep",
}

CLOCK = re.compile(
    r"\b(?:system|steady|high_resolution|utc|tai|gps|file)_clock\b|\bclock_gettime\b|\bclock_getres\b|\bgettimeofday\b|\btimespec_get\b|\btimes\s*\(|\bclock\s*\("
    r"|\b(?:localtime|gmtime|strftime|mktime|asctime|ctime)(?:_r)?\s*\(|\bput_time\b|\b_*rdtscp?\b"
    r"|(?<![\w.>])(?:std::|::)?time\s*\(\s*(?:nullptr|NULL|0|&)"
)
# What the host backend has for ranks in host memory, however their data travels: MPI's ranks use it, too.
HOST_MEMORY = {
    f"backends/host/{name}.hpp" for name in ("host_rank", "machine", "rank_buffers", "reduce_kernel", "share")
}
# Where a library's header may be included: the files whose path matches.
LIBRARIES = {
    "CLI/": re.compile(r"engine/options\.cpp"),
    "nlohmann/": re.compile(r"engine/output/json_text\.cpp"),
    "nccl": re.compile(r"(engine/backends/nccl|fastpath)/.*"),
    "mpi.h": re.compile(r"engine/backends/mpi/.*"),
}
# What a device file may include: the toolkit's own, and headers of plain types.
DEVICE_HEADER = re.compile(r"cuda|cooperative_groups|nccl|(?:cstdint|cstddef|stdint\.h|stddef\.h)$")

# What each module of the command may import besides itself; __init__ (the version) is open to all.
CORE = {"logs", "records", "stats", "errors", "units"}
PYTHON_ARROWS = {
    "errors": set[str](),
    "end_signals": set[str](),
    "units": set[str](),
    "files": set[str](),
    "records": {"errors", "units"},
    "stats": {"errors", "records", "units"},
    "logs": {"records"},
    "schema": {"records"},
    "engine": CORE,
    "plot": CORE,
    "progress": CORE | {"to_stdout"},
    "to_stdout": set[str](),
    "verdict": CORE,
    "launchers": CORE | {"end_signals", "engine", "files", "shelf"},
    "readers": CORE,
    "shelf": {"errors", "files"},
    "svg": set[str](),
    "reference": CORE | {"bands", "shelf"},
    "store": CORE | {"files", "readers"},
    "history": CORE | {"bands", "store"},
    "redact": CORE,
    "terminal": CORE | {"plot"},
    "compare": CORE | {"scatter", "terminal"},
    "ab": CORE | {"compare", "engine", "launchers", "readers"},
    "tune": CORE | {"ab", "compare"},
    "fastpath": CORE | {"ab", "engine", "files", "store"},
    "system": CORE | {"shelf"},
    "topology": CORE | {"svg", "terminal"},
    "bands": CORE,
    "scatter": CORE,
    "fit": CORE,
    "expect": CORE | {"system"},
    "judge": CORE | {"bands", "expect", "fit", "reference", "scatter", "system"},
    "exporters": CORE,
    "report": CORE | {"bands", "compare", "expect", "fit", "judge", "plot", "reference", "svg", "system", "verdict"},
    "cli": None,
}


def without_comments(text: str) -> str:
    """C++ without its comments and the contents of its strings; includes keep theirs."""
    kept = []
    for line in re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL).splitlines():
        if re.match(r"\s*#\s*include\b", line):
            kept.append(line)
        else:
            kept.append(re.sub(r'"(?:\\.|[^"\\])*"', '""', line).split("//")[0])
    return "\n".join(kept)


def engine_part(path: str) -> str:
    """The part that a path below engine/ belongs to, or an empty string."""
    first, slash, _ = path.partition("/")
    if not slash:
        return TOP_FILES.get(Path(path).stem, "")
    return first if first in ENGINE_ARROWS else ""


def backend_of(path: str) -> str:
    """The backend whose folder holds the path: "backends/host"; empty outside of them."""
    found = re.match(r"backends/[^/]+(?=/)", path)
    return found.group() if found else ""


def may_include(file: str, header: str) -> bool:
    part, other = engine_part(file), engine_part(header)
    if backend_of(file) and backend_of(header) and backend_of(file) != backend_of(header):
        return backend_of(file) == "backends/mpi" and header in HOST_MEMORY
    return part == other or other in ENGINE_ARROWS[part] or header in ENGINE_ARROWS[part]


def engine_violations(root: Path) -> list[str]:
    found = []
    for folder in ("engine", "fastpath"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".cpp", ".hpp", ".cu", ".cuh", ".c", ".h"}:
                continue
            name = path.relative_to(root).as_posix()
            inner = path.relative_to(root / "engine").as_posix() if folder == "engine" else name
            code = without_comments(path.read_text())
            if not engine_part(inner):
                found.append(f"{name}: has no place in the house; give it one in {Path(__file__).name}")
                continue
            for kind, header in re.findall(r'^\s*#\s*include\s*([<"])([^>"]+)', code, flags=re.MULTILINE):
                if kind == '"' and not engine_part(header):
                    found.append(f"{name}: includes {header}, which has no place in the house")
                elif kind == '"' and not may_include(inner, header):
                    found.append(f"{name}: includes {header}, against the arrows")
                if kind == "<" and path.suffix in {".cu", ".cuh"} and not DEVICE_HEADER.match(header):
                    found.append(f"{name}: includes {header}, too heavy for a device file")
                for library, allowed in LIBRARIES.items():
                    if kind == "<" and header.startswith(library) and not allowed.fullmatch(name):
                        found.append(f"{name}: includes {header}, allowed only in {allowed.pattern}")
            if not name.startswith("engine/measure/"):
                found += [f"{name}: reads a clock: {match.group()}" for match in CLOCK.finditer(code)]
    return found


def imported_modules(path: Path, package: str) -> set[str]:
    """The modules of busbw that a file imports, by the name below busbw; "" is the package itself."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "busbw" else [base]
        else:
            continue
        modules |= {name.split(".")[1] for name in names if name.startswith("busbw.")}
    return modules


def python_violations(root: Path) -> list[str]:
    found = []
    source = root / "src" / "busbw"
    for path in sorted(source.rglob("*.py")):
        inner = path.relative_to(source)
        name = path.relative_to(root).as_posix()
        allowed: set[str] | None
        if inner.as_posix() == "__init__.py":
            module, allowed = "", set()
        else:
            module = inner.parts[0].removesuffix(".py")
            if module not in PYTHON_ARROWS:
                found.append(f"{name}: has no place in the house; give it one in {Path(__file__).name}")
                continue
            allowed = PYTHON_ARROWS[module]
        package = ".".join(["busbw", *inner.parent.parts])
        for other in sorted(imported_modules(path, package) - {module, "__version__"}):
            if other == "cli" or (allowed is not None and other not in allowed):
                found.append(f"{name}: imports busbw.{other}, against the arrows")
    return found


def test_the_engine_keeps_the_rules() -> None:
    assert engine_violations(ROOT) == []


def test_the_command_keeps_the_rules() -> None:
    assert python_violations(ROOT) == []


def test_no_command_imports_another() -> None:
    """What several share stands in modules that are no commands."""
    folder = ROOT / "src" / "busbw" / "cli"
    modules = {f"busbw.cli.{name}_" if iskeyword(name) else f"busbw.cli.{name}" for name in COMMANDS}
    found = []
    for path in sorted(folder.rglob("*.py")):
        named = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                named |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        found += [f"{path.name}: {name}" for name in sorted(named & modules)]
    assert found == []


def test_there_is_something_to_look_at() -> None:
    assert len(list((ROOT / "engine").rglob("*.cpp"))) > 20
    assert len(list((ROOT / "src" / "busbw").rglob("*.py"))) > 5


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("engine/output/text.cpp", '#include "measure/clock.hpp"', "against the arrows"),
        ("engine/backends/mpi/mpi_backend.cpp", '#include "backends/host/channels.hpp"', "against the arrows"),
        ("engine/backends/nccl/nccl_backend.cpp", '#include "backends/host/machine.hpp"', "against the arrows"),
        ("engine/support/types.hpp", '#include "verify/values.hpp"', "against the arrows"),
        ("engine/verify/values.cpp", '#include "backends/backend.hpp"', "against the arrows"),
        ("engine/collectives/reduce.cpp", '#include "backends/host/arena.hpp"', "against the arrows"),
        ("engine/collectives/reduce.cpp", '#include "rendezvous/team.hpp"', "against the arrows"),
        ("engine/backends/host/arena.cpp", '#include "options.hpp"', "against the arrows"),
        ("engine/backends/host/arena.cpp", '#include "backends/nccl/library.hpp"', "against the arrows"),
        ("engine/measure/runner.cpp", '  #  include "output/sink.hpp"', "against the arrows"),
        ("engine/sweep.cpp", '#include "options.hpp"', "against the arrows"),
        ("fastpath/hook.cpp", '#include "verify/values.hpp"', "against the arrows"),
        ("engine/new_part/file.cpp", "", "no place in the house"),
        ("engine/novelty.cpp", "", "no place in the house"),
        ("engine/sweep.cpp", '#include "new_part/file.hpp"', "no place in the house"),
        ("engine/sweep.cpp", "#include <CLI/CLI.hpp>", "allowed only in"),
        ("engine/options_table.cpp", "#include <CLI/CLI.hpp>", "allowed only in"),
        ("engine/output/records.cpp", "#include <nlohmann/json.hpp>", "allowed only in"),
        ("engine/measure/runner.cpp", "#include <nccl.h>", "allowed only in"),
        ("engine/backends/nccl/kernel.cu", "#include <vector>", "too heavy"),
        ("engine/backends/nccl/kernel.cu", "#include <fmt/format.h>", "too heavy"),
        ("engine/output/text.cpp", "auto now = std::chrono::system_clock::now();", "reads a clock"),
        ("engine/backends/host/wait.hpp", "using Clock = std::chrono::steady_clock;", "reads a clock"),
        ("engine/rendezvous/team.cpp", "clock_gettime(CLOCK_MONOTONIC, &t);", "reads a clock"),
        ("engine/main.cpp", "gettimeofday(&t, nullptr);", "reads a clock"),
        ("engine/main.cpp", "const auto now = time(nullptr);", "reads a clock"),
        ("engine/main.cpp", "const auto now = std::time(0);", "reads a clock"),
        ("engine/output/text.cpp", "localtime_r(&t, &parts);", "reads a clock"),
    ],
)
def test_a_bad_file_of_the_engine_is_found(tmp_path: Path, file: str, line: str, complaint: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(f"#pragma once\n{line}\n")
    found = engine_violations(tmp_path)
    assert len(found) == 1, found
    assert found[0].startswith(f"{file}: ")
    assert complaint in found[0]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("engine/main.cpp", '#include "measure/runner.hpp"'),
        ("engine/options.cpp", "#include <CLI/CLI.hpp>"),
        ("engine/measure/clock.cpp", "auto now = std::chrono::steady_clock::now();"),
        ("engine/backends/host/arena.cpp", '#include "backends/host/barrier.hpp"'),
        ("engine/backends/host/arena.cpp", '#include "backends/backend.hpp"'),
        ("engine/collectives/reduce.cpp", '#include "backends/backend.hpp"'),
        ("engine/output/text.cpp", "// reads no clock_gettime(); nor time(nullptr)"),
        ("engine/output/text.cpp", 'const char* text = "time(nullptr)";'),
        ("engine/output/text.cpp", "const double s = row.time(0) + mean_time(0);"),
        ("engine/rendezvous/team.cpp", "std::this_thread::sleep_for(std::chrono::milliseconds(1));"),
    ],
)
def test_a_good_file_of_the_engine_passes(tmp_path: Path, file: str, line: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(f"{line}\n")
    assert engine_violations(tmp_path) == []


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("records.py", "from busbw.engine import run", "imports busbw.engine"),
        ("records.py", "from .engine import run", "imports busbw.engine"),
        ("readers/dcgm.py", "from .. import store", "imports busbw.store"),
        ("readers/dcgm.py", "import busbw.cli.main", "imports busbw.cli"),
        ("errors.py", "def late():\n    from busbw import records", "imports busbw.records"),
        ("__init__.py", "from busbw import engine", "imports busbw.engine"),
        ("novelty.py", "", "no place in the house"),
    ],
)
def test_a_bad_module_of_the_command_is_found(tmp_path: Path, file: str, line: str, complaint: str) -> None:
    path = tmp_path / "src" / "busbw" / file
    path.parent.mkdir(parents=True)
    path.write_text(f"{line}\n")
    found = python_violations(tmp_path)
    assert len(found) == 1, found
    assert complaint in found[0]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("cli/run.py", "from busbw import __version__, engine\nfrom busbw.records import Row"),
        ("readers/dcgm.py", "from busbw.records import Row\nfrom . import nccl_tests\nimport re"),
    ],
)
def test_a_good_module_of_the_command_passes(tmp_path: Path, file: str, line: str) -> None:
    path = tmp_path / "src" / "busbw" / file
    path.parent.mkdir(parents=True)
    path.write_text(f"{line}\n")
    assert python_violations(tmp_path) == []


TYPE = re.compile(r"^(?:class|struct|enum class) (\w+)(?: final)?(?: *:[^;{]*)? \{", flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("folders", "type_name", "home"),
    [
        (("engine", "tests/engine"), "Store", "engine/rendezvous/store.hpp"),
        (("fastpath", "tests/fastpath"), "Settings", "fastpath/settings.hpp"),
    ],
)
def test_a_type_of_a_namespace_has_one_definition(folders: tuple[str, ...], type_name: str, home: str) -> None:
    """Of two types of one name in one namespace the linker takes the functions of either for both."""
    homes: dict[str, set[str]] = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.[ch]*")):
            for name in TYPE.findall(path.read_text()) if path.suffix in {".hpp", ".cuh"} else []:
                homes.setdefault(name, set()).add(path.relative_to(ROOT).as_posix())
    assert homes[type_name] == {home}
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
