"""`busbw expect`: predicts busbw and time of a collective on a system, and shows the limits."""

import re
import textwrap
from collections.abc import Iterable, Iterator

import click
import msgspec

from busbw import system
from busbw.cli.options.deprecated import renamed_option, warn_deprecated
from busbw.cli.options.engine_flags import named_collective
from busbw.cli.options.nics_option import nics_option, with_parsed_nics
from busbw.cli.options.reference_option import selected_reference
from busbw.errors import UsageError
from busbw.expect import LATENCY_SOURCE, Estimate, Expectation, ExpectedRange, Limit, Route, Scenario
from busbw.expect import expect as expectation_of
from busbw.judge import ReferenceComparison, compare_with_reference
from busbw.readers.tables.quantities import DTYPES, ELEMENT_BYTES
from busbw.system.detect import DetectedMachine, detect_machine, system_of_machine
from busbw.terminal import console, width_of
from busbw.units import size_text

_DEFAULT_SIZES = tuple(8 << (3 * step) for step in range(11))
_MAX_SIZES = 200
_MAX_RANKS = 1 << 32


@click.command()
@click.argument("collective", required=False)
@click.option(
    "-d",
    "--dtype",
    "--datatype",
    metavar="TYPE",
    help="Element type, for display only; it does not change the prediction.",
)
@click.option("--sizes", metavar="LIST", help="List of sizes such as 8,1M,8G, instead of a sweep.")
@click.option("-b", "--minbytes", "smallest", metavar="SIZE", help="Smallest size.  [default: 8]")
@click.option("-e", "--maxbytes", "largest", metavar="SIZE", help="Largest size.  [default: 8G]")
@click.option(
    "-f", "--stepfactor", "factor", type=click.IntRange(min=2), help="Ratio of successive sizes.  [default: 8]"
)
@click.option(
    "--ranks",
    type=click.IntRange(min=1, max=_MAX_RANKS),
    metavar="N",
    help="Number of ranks.  [default: those of one node]",
)
@click.option(
    "--ranks-per-node",
    "per_node",
    type=click.IntRange(min=1),
    metavar="M",
    help="Ranks per node.  [default: the system's]",
)
@click.option(
    "--system",
    "system_name",
    metavar="NAME|FILE|here",
    default="here",
    show_default=True,
    help="System to predict for; here: this machine.",
)
@click.option(
    "--reference",
    "reference_name",
    metavar="NAME|FILE|auto",
    help="Show a reference beside the prediction: NAME from `busbw refs`, a log, a record, a .toml file, or auto "
    "(nearest).",
)
@nics_option
@click.option("--nvls/--no-nvls", "nvls", default=True, help="Allow in-switch reduction (NVLS).  [default: --nvls]")
@click.option("--algorithm", metavar="NAME", help="Use only this algorithm: Ring, Tree, NVLS, NVLSTree (NCCL_ALGO).")
@click.option("--explain", is_flag=True, help="Show the source of each constant.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
@click.option("--list-systems", is_flag=True, help="List the known systems.")
@renamed_option("--systems", "--list-systems")
def expect(
    collective: str | None,
    dtype: str | None,
    sizes: str | None,
    smallest: str | None,
    largest: str | None,
    factor: int | None,
    ranks: int | None,
    per_node: int | None,
    system_name: str,
    reference_name: str | None,
    nics: str | None,
    nvls: bool,
    algorithm: str | None,
    explain: bool,
    as_json: bool,
    list_systems: bool,
) -> None:
    """Predicts COLLECTIVE: the limit of each wire, the binding wire, and busbw and time per size."""
    out = console()
    if list_systems:
        for line in _systems():
            out.print(line)
        return
    name = named_collective((collective,) if collective else ())
    if system_name == "auto":
        warn_deprecated("--system auto", "--system here")
        system_name = "here"
    machine = detect_machine() if system_name == "here" else None
    node_system, description = system_of_machine(machine) if machine else (system.find(system_name), "")
    if nics is not None:
        node_system = with_parsed_nics(node_system, nics)
    gpu_count = len(machine.gpus) if machine and machine.gpus else 0
    count = ranks or gpu_count or max(2, node_system.ranks_per_node)
    job = Scenario(
        collective=name,
        ranks=count,
        ranks_per_node=per_node
        or (count if node_system.generation == "host" else min(count, node_system.ranks_per_node)),
        dtype=_dtype(dtype),
        nvls=nvls,
        algorithm=_algorithm(algorithm),
    )
    expectation = expectation_of(job, node_system, _sizes(sizes, smallest, largest, factor))
    chosen = selected_reference(reference_name)
    reference = compare_with_reference(expectation, chosen) if chosen else None
    if as_json:
        prediction = msgspec.to_builtins(expectation)
        out.print(msgspec.json.encode({**prediction, "reference": reference} if reference else prediction).decode())
        return
    for line in _lines(expectation, machine, description, reference, explain=explain):
        out.print(line)


def _dtype(name: str | None) -> str | None:
    if name is None or name in DTYPES:
        return name
    raise UsageError(f'-d "{name}" is not an element type', remedy=f"allowed are {', '.join(ELEMENT_BYTES)}")


def _algorithm(name: str | None) -> str | None:
    if name is None or name.lower() in ("ring", "tree", "nvls", "nvlstree"):
        return name.lower() if name else None
    raise UsageError(
        f'--algorithm "{name}" is not an algorithm of NCCL', remedy="allowed are Ring, Tree, NVLS, NVLSTree"
    )


def _size(text: str, option: str) -> int:
    found = re.fullmatch(r"(\d+)([KMGT]?)", text.strip(), re.IGNORECASE)
    value = int(found[1]) << (10 * " KMGT".index(found[2].upper() or " ")) if found else 0
    if not 0 < value < 1 << 60:
        raise UsageError(
            f'{option} "{text}" is not a size', remedy="give bytes, or a number with K, M, G or T, such as 64M"
        )
    return value


def _sizes(listed: str | None, smallest: str | None, largest: str | None, factor: int | None) -> list[int]:
    if listed is not None:
        if (smallest, largest, factor) != (None, None, None):
            raise UsageError("--sizes excludes -b, -e and -f", remedy="use either form")
        return sorted({_size(word, "--sizes") for word in listed.split(",")})
    if (smallest, largest, factor) == (None, None, None):
        return list(_DEFAULT_SIZES)
    smallest, largest = smallest if smallest is not None else "8", largest if largest is not None else "8G"
    first, last, step = _size(smallest, "-b"), _size(largest, "-e"), factor or 8
    if first > last:
        raise UsageError(f"-b {smallest} is larger than -e {largest}", remedy="swap them")
    found = [first]
    while found[-1] * step <= last and len(found) < _MAX_SIZES:
        found.append(found[-1] * step)
    return found


def _systems() -> Iterator[str]:
    for name, one in system.systems().items():
        nics = one.nics.text if one.nics else "no NICs given"
        fabric = one.fabrics[0] if one.fabrics else None
        links = f"{fabric.kind}, {nics}" if fabric else "its links are unknown"
        yield f"{name:<15} {one.title}"
        yield f"{'':<15} {links}"


def _lines(
    expectation: Expectation,
    machine: DetectedMachine | None,
    description: str,
    reference: ReferenceComparison | None,
    *,
    explain: bool,
) -> Iterator[str]:
    job, node_system = expectation.job, expectation.system
    nodes = -(-job.ranks // min(job.ranks, job.ranks_per_node))
    words = " ".join(word for word in (job.collective, job.dtype) if word)
    yield f"{words}, {job.ranks} ranks on {nodes} node{'s' if nodes > 1 else ''} of {node_system.name}"
    yield from _wrapped(
        "system", node_system.title + (f"; NICs {node_system.nics.text} per node" if node_system.nics else "")
    )
    if machine is not None:
        yield from _wrapped("this machine", f"{description}; {_machine_text(machine)}")
    for note in expectation.notes:
        yield from _wrapped("note", note)
    if reference:
        yield from _wrapped("reference", f"{reference.name}: {reference.how_near}")
    if expectation.unknown:
        yield from _wrapped("unknown", expectation.unknown)
        return
    best = expectation.best
    assert best is not None
    assert expectation.floor_us is not None
    yield ""
    yield from _routes(expectation.routes, best)
    yield ""
    yield from _wrapped(
        "limited by", f"{best.binding.wire}, on the route {best.name}, for large messages: {best.binding.why}"
    )
    if best.binding.traffic < 1:
        share = f"{best.binding.traffic:.2f} GB/s cross it for each GB/s of busbw"
        yield from _wrapped("", f"busbw exceeds the load of that wire: {share}")
    yield from _wrapped("latency", f"at least {expectation.floor_us:.1f} us in NCCL's own model of the fastest route")
    yield ""
    yield from _estimates(expectation.estimates)
    legend = "busbw and wire in GB/s; ranges: of a healthy system; wire: load of the wire that saturates first"
    yield from _wrapped("", legend, indent=0)
    if reference and reference.figures:
        yield ""
        yield from _reference_lines(expectation, reference)
    if explain:
        yield ""
        yield from _sources(expectation.routes)


def _machine_text(machine: DetectedMachine) -> str:
    memory = size_text(machine.memory_bytes) if machine.memory_bytes else "memory unknown"
    ports = ", ".join(f"{port.name} {f'{port.gbit:g} Gb/s' if port.gbit else 'rate unknown'}" for port in machine.ports)
    processors = f"{machine.processors or 'an unknown number of'} x {machine.processor or 'unknown processor'}"
    return f"{processors}, {memory}, NICs: {ports or 'none found'}"


def _wrapped(label: str, text: str, indent: int = 14) -> Iterator[str]:
    lines = textwrap.wrap(text, max(40, width_of() - indent), break_long_words=False)
    for number, line in enumerate(lines):
        yield f"{label if not number else '':<{indent}}{line}"


def _routes(routes: Iterable[Route], best: Route) -> Iterator[str]:
    yield f"{'route':<11}{'wire':<18}{'carries, GB/s':>14}{'busbw limit':>13}{'healthy busbw':>20}"
    for route in routes:
        for number, limit in enumerate(route.limits):
            name = f"{route.name}{' *' if route is best else ''}" if not number else ""
            wire = f"{limit.wire}{' *' if limit is route.binding and len(route.limits) > 1 else ''}"
            reach = _busbw_text(route) if not number else ""
            carries = f"{limit.capacity_gbps:.4g}/{limit.per}"
            yield f"{name:<11}{wire:<18}{carries:>14}{limit.busbw_gbps:>13.4g}{reach:>20}"
    yield "* the best route for large messages, and the wire that saturates first"


def _busbw_text(route: Route) -> str:
    share = route.efficiency
    low, typical, high = (route.limit_gbps * one for one in (share.low, share.typical, share.high))
    return f"{typical:.4g} ({low:.3g}-{high:.3g})"


def _estimates(estimates: Iterable[Estimate]) -> Iterator[str]:
    yield f"{'size':>8}{'us':>8}{'range':>15}{'busbw':>8}{'range':>15}{'wire':>8}  by"
    for one in estimates:
        yield (
            f"{size_text(one.size_bytes):>8}{_number_text(one.time_us.typical):>8}{_range(one.time_us):>15}"
            f"{_number_text(one.busbw_gbps.typical):>8}{_range(one.busbw_gbps):>15}{_number_text(one.wire_gbps):>8}"
            f"  {one.route} {one.protocol}"
        )


def _reference_lines(expectation: Expectation, reference: ReferenceComparison) -> Iterator[str]:
    yield f"{'':>8}{'expected':>16}{'reference':>32}"
    yield f"{'size':>8}{'us':>8}{'busbw':>8}{'range':>15}{'us':>9}{'busbw':>9}{'of expected':>13}"
    for figure in reference.figures:
        expected = expectation.at(figure.size_bytes)
        assert expected is not None
        busbw = expected.busbw_gbps
        about = "~" if figure.is_interpolated else ""
        yield (
            f"{size_text(figure.size_bytes):>8}{_number_text(expected.time_us.typical):>8}{_number_text(busbw.typical):>8}"
            f"{_range(busbw):>15}{about + _number_text(figure.time_us):>9}{about + _number_text(figure.busbw_gbps):>9}"
            f"{f'{figure.ratio_to_expected:.0%}':>13}"
            f"{'' if busbw.low <= figure.busbw_gbps <= busbw.high else '  outside'}"
        )
    between = (
        "; ~ interpolated between two sizes of the reference"
        if any(one.is_interpolated for one in reference.figures)
        else ""
    )
    yield from _wrapped("", f"busbw in GB/s{between}", indent=0)


def _number_text(value: float) -> str:
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}" if value >= 0.01 else "0.00"


def _range(one: ExpectedRange) -> str:
    return f"{_number_text(one.low)}-{_number_text(one.high)}"


def _sources(routes: Iterable[Route]) -> Iterator[str]:
    yield "sources of the constants"
    names_of: dict[str, list[str]] = {}
    for route in routes:
        for limit in route.limits:
            names_of.setdefault(f"{limit.wire}: {limit.source}", []).append(route.name)
            names_of.setdefault(_limit_text(limit), []).append(route.name)
        share = route.efficiency
        shares = f"{share.low:g} to {share.high:g} of the limit, {share.typical:g} typical"
        names_of.setdefault(f"{shares}: {share.source}", []).append(route.name)
        names_of.setdefault(f"latency and protocols: {route.source}", []).append(route.name)
    for sentence, names in names_of.items():
        yield from _wrapped("", f"{', '.join(dict.fromkeys(names))}: {sentence}", indent=2)
    yield from _wrapped("", f"range of latency: 0.5 to 2.5 times the model: {LATENCY_SOURCE}", indent=2)


def _limit_text(limit: Limit) -> str:
    return f"{limit.wire}: {limit.why}"
