"""`busbw expect`: what a collective should reach on a system, and why."""

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
@click.option("-d", "--dtype", "--datatype", metavar="TYPE", help="Element type; only shown, the wires do not care.")
@click.option("--sizes", metavar="LIST", help="Sizes such as 8,1M,8G, instead of a sweep.")
@click.option("-b", "--minbytes", "smallest", metavar="SIZE", help="Smallest size.  [default: 8]")
@click.option("-e", "--maxbytes", "largest", metavar="SIZE", help="Largest size.  [default: 8G]")
@click.option("-f", "--stepfactor", "factor", type=click.IntRange(min=2), help="Ratio of two sizes.  [default: 8]")
@click.option("--ranks", type=click.IntRange(min=1, max=_MAX_RANKS), metavar="N", help="Ranks.  [default: one node's]")
@click.option("--ranks-per-node", "per_node", type=click.IntRange(min=1), metavar="M", help="[default: the system's]")
@click.option(
    "--system",
    "where",
    metavar="NAME|FILE|here",
    default="here",
    show_default=True,
    help="The kind of node; here: this machine.",
)
@click.option(
    "--reference",
    "against",
    metavar="NAME|FILE|auto",
    help="Show beside it what was measured: published figures (`busbw refs`), a log or record, a .toml file; auto: the "
    "nearest comparable published figures.",
)
@nics_option
@click.option("--nvls/--no-nvls", "nvls", default=True, help="Whether the switch may reduce.  [default: --nvls]")
@click.option("--algorithm", metavar="NAME", help="Only this one: Ring, Tree, NVLS, NVLSTree (NCCL_ALGO).")
@click.option("--explain", is_flag=True, help="Show where each constant is from.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
@click.option("--list-systems", is_flag=True, help="List the systems that are described.")
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
    where: str,
    against: str | None,
    nics: str | None,
    nvls: bool,
    algorithm: str | None,
    explain: bool,
    as_json: bool,
    list_systems: bool,
) -> None:
    """Says what COLLECTIVE should reach: the limit of each wire, which one binds, busbw and time per size."""
    out = console()
    if list_systems:
        for line in _systems():
            out.print(line)
        return
    name = named_collective((collective,) if collective else ())
    if where == "auto":
        warn_deprecated("--system auto", "--system here")
        where = "here"
    machine = detect_machine() if where == "here" else None
    place, how = system_of_machine(machine) if machine else (system.find(where), "")
    if nics is not None:
        place = with_parsed_nics(place, nics)
    seen = len(machine.gpus) if machine and machine.gpus else 0
    count = ranks or seen or max(2, place.ranks_per_node)
    job = Scenario(
        collective=name,
        ranks=count,
        ranks_per_node=per_node or (count if place.generation == "host" else min(count, place.ranks_per_node)),
        dtype=_dtype(dtype),
        nvls=nvls,
        algorithm=_algorithm(algorithm),
    )
    expectation = expectation_of(job, place, _sizes(sizes, smallest, largest, factor))
    chosen = selected_reference(against)
    reference = compare_with_reference(expectation, chosen) if chosen else None
    if as_json:
        told = msgspec.to_builtins(expectation)
        out.print(msgspec.json.encode({**told, "reference": reference} if reference else told).decode())
        return
    for line in _page(expectation, machine, how, reference, explain=explain):
        out.print(line)


def _dtype(name: str | None) -> str | None:
    if name is None or name in DTYPES:
        return name
    raise UsageError(f'-d "{name}" is no element type', remedy=f"allowed are {', '.join(ELEMENT_BYTES)}")


def _algorithm(name: str | None) -> str | None:
    if name is None or name.lower() in ("ring", "tree", "nvls", "nvlstree"):
        return name.lower() if name else None
    raise UsageError(f'--algorithm "{name}" is not one of NCCL\'s', remedy="allowed are Ring, Tree, NVLS, NVLSTree")


def _size(text: str, option: str) -> int:
    found = re.fullmatch(r"(\d+)([KMGT]?)", text.strip(), re.IGNORECASE)
    value = int(found[1]) << (10 * " KMGT".index(found[2].upper() or " ")) if found else 0
    if not 0 < value < 1 << 60:
        raise UsageError(f'{option} "{text}" is not a size', remedy="give bytes, or with K, M, G or T, such as 64M")
    return value


def _sizes(listed: str | None, smallest: str | None, largest: str | None, factor: int | None) -> list[int]:
    if listed is not None:
        if (smallest, largest, factor) != (None, None, None):
            raise UsageError("--sizes and -b, -e or -f say the same", remedy="give one of them")
        return sorted({_size(word, "--sizes") for word in listed.split(",")})
    if (smallest, largest, factor) == (None, None, None):
        return list(_DEFAULT_SIZES)
    smallest, largest = smallest if smallest is not None else "8", largest if largest is not None else "8G"
    first, last, step = _size(smallest, "-b"), _size(largest, "-e"), factor or 8
    if first > last:
        raise UsageError(f"-b {smallest} is larger than -e {largest}", remedy="exchange them")
    found = [first]
    while found[-1] * step <= last and len(found) < _MAX_SIZES:
        found.append(found[-1] * step)
    return found


def _systems() -> Iterator[str]:
    for name, one in system.systems().items():
        nics = one.nics.text if one.nics else "no NICs given"
        fabric = one.fabrics[0] if one.fabrics else None
        links = f"{fabric.kind}, {nics}" if fabric else "nothing is known of its wires"
        yield f"{name:<15} {one.title}"
        yield f"{'':<15} {links}"


def _page(
    expectation: Expectation,
    machine: DetectedMachine | None,
    how: str,
    reference: ReferenceComparison | None,
    *,
    explain: bool,
) -> Iterator[str]:
    job, place = expectation.job, expectation.system
    nodes = -(-job.ranks // min(job.ranks, job.ranks_per_node))
    words = " ".join(word for word in (job.collective, job.dtype) if word)
    yield f"{words}, {job.ranks} ranks on {nodes} node{'s' if nodes > 1 else ''} of {place.name}"
    yield from _wrapped("system", place.title + (f"; NICs {place.nics.text} per node" if place.nics else ""))
    if machine is not None:
        yield from _wrapped("this machine", f"{how}; {_machine_text(machine)}")
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
        "limited by", f"{best.binding.wire}, by way of {best.name}, for large messages: {best.binding.why}"
    )
    if best.binding.traffic < 1:
        share = f"{best.binding.traffic:.2f} GB/s cross it for each GB/s of busbw"
        yield from _wrapped("", f"busbw exceeds what that wire carries: {share}")
    yield from _wrapped("latency", f"{expectation.floor_us:.1f} us at least in NCCL's own model of the quickest way")
    yield ""
    yield from _estimates(expectation.estimates)
    legend = "busbw and wire in GB/s; ranges: of a healthy system; wire: what crosses the wire that is full first"
    yield from _wrapped("", legend, indent=0)
    if reference and reference.figures:
        yield ""
        yield from _referred(expectation, reference)
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
            reach = _reach(route) if not number else ""
            carries = f"{limit.capacity_gbps:.4g}/{limit.per}"
            yield f"{name:<11}{wire:<18}{carries:>14}{limit.busbw_gbps:>13.4g}{reach:>20}"
    yield "* wins for large messages, and the wire that is full first"


def _reach(route: Route) -> str:
    share = route.efficiency
    low, typical, high = (route.limit_gbps * one for one in (share.low, share.typical, share.high))
    return f"{typical:.4g} ({low:.3g}-{high:.3g})"


def _estimates(estimates: Iterable[Estimate]) -> Iterator[str]:
    yield f"{'size':>8}{'us':>8}{'range':>15}{'busbw':>8}{'range':>15}{'wire':>8}  by"
    for one in estimates:
        yield (
            f"{size_text(one.size_bytes):>8}{_short(one.time_us.typical):>8}{_range(one.time_us):>15}"
            f"{_short(one.busbw_gbps.typical):>8}{_range(one.busbw_gbps):>15}{_short(one.wire_gbps):>8}"
            f"  {one.route} {one.protocol}"
        )


def _referred(expectation: Expectation, reference: ReferenceComparison) -> Iterator[str]:
    yield f"{'':>8}{'expected':>16}{'reference':>32}"
    yield f"{'size':>8}{'us':>8}{'busbw':>8}{'range':>15}{'us':>9}{'busbw':>9}{'of expected':>13}"
    for figure in reference.figures:
        expected = expectation.at(figure.size_bytes)
        assert expected is not None
        busbw = expected.busbw_gbps
        about = "~" if figure.is_interpolated else ""
        yield (
            f"{size_text(figure.size_bytes):>8}{_short(expected.time_us.typical):>8}{_short(busbw.typical):>8}"
            f"{_range(busbw):>15}{about + _short(figure.time_us):>9}{about + _short(figure.busbw_gbps):>9}"
            f"{f'{figure.ratio_to_expected:.0%}':>13}"
            f"{'' if busbw.low <= figure.busbw_gbps <= busbw.high else '  outside'}"
        )
    between = "; ~ lies between two of its sizes" if any(one.is_interpolated for one in reference.figures) else ""
    yield from _wrapped("", f"busbw in GB/s{between}", indent=0)


def _short(value: float) -> str:
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}" if value >= 0.01 else "0.00"


def _range(one: ExpectedRange) -> str:
    return f"{_short(one.low)}-{_short(one.high)}"


def _sources(routes: Iterable[Route]) -> Iterator[str]:
    yield "where the constants are from"
    said: dict[str, list[str]] = {}
    for route in routes:
        for limit in route.limits:
            said.setdefault(f"{limit.wire}: {limit.source}", []).append(route.name)
            said.setdefault(_why(limit), []).append(route.name)
        share = route.efficiency
        shares = f"{share.low:g} to {share.high:g} of the limit, {share.typical:g} typical"
        said.setdefault(f"{shares}: {share.source}", []).append(route.name)
        said.setdefault(f"latency and protocols: {route.source}", []).append(route.name)
    for sentence, names in said.items():
        yield from _wrapped("", f"{', '.join(dict.fromkeys(names))}: {sentence}", indent=2)
    yield from _wrapped("", f"range of latency: half to two and a half times the model: {LATENCY_SOURCE}", indent=2)


def _why(limit: Limit) -> str:
    return f"{limit.wire}: {limit.why}"
