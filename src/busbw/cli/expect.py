"""`busbw expect`: predicts busbw and time of a collective on a system, and shows the limits.

A wire is a kind of link, such as NVLink or the NICs. A route is an algorithm with the wires that it uses. Each wire
limits the busbw of the route. The binding limit is the lowest of these limits.
"""

import math
from collections.abc import Iterable, Iterator

import click
import msgspec
from rich.text import Text

from busbw import system
from busbw.cli.options.completion import complete_collective, complete_dtype, complete_names
from busbw.cli.options.deprecated import renamed_option, warn_deprecated
from busbw.cli.options.engine_flags import parse_collective
from busbw.cli.options.json_option import json_option
from busbw.cli.options.param_types import parse_size_option
from busbw.cli.options.reference_option import reference_option, select_reference
from busbw.cli.options.system_option import nics_option, sharp_option
from busbw.errors import UsageError
from busbw.expect import (
    LATENCY_HIGH,
    LATENCY_LOW,
    LATENCY_SOURCE,
    Estimate,
    Expectation,
    ExpectedRange,
    Route,
    Scenario,
    with_nics,
    with_sharp,
)
from busbw.expect import expect as expectation_of
from busbw.judge import ReferenceComparison, compare_with_reference
from busbw.launchers.machine_types.named_system import named_system
from busbw.readers.tables.quantities import DTYPES, ELEMENT_BYTES
from busbw.support.json_output import json_object
from busbw.support.near_misses import suggestion
from busbw.system.detect import DetectedMachine, detect_machine, system_of_machine
from busbw.terminal import console, labeled_lines, terminal_width
from busbw.topology.cpu_ranges import parse_ranges
from busbw.units import size_text

_ALGORITHMS = ("Ring", "Tree", "NVLS", "NVLSTree", "CollNet")
_MAX_RANKS = 1 << 32
_LABEL_WIDTH = 14
"""Width of the labels before the texts, in columns."""


@click.command()
@click.argument("collective", required=False, shell_complete=complete_collective)
@click.option(
    "-d",
    "--dtype",
    "--datatype",
    metavar="TYPE",
    shell_complete=complete_dtype,
    help="Element type, for display only; it does not change the prediction.",
)
@click.option("--sizes", metavar="LIST", help="List of sizes such as 8,1M,8G, instead of a sweep.")
@click.option("-b", "--minbytes", "min_text", metavar="SIZE", help="Smallest size.  [default: 8]")
@click.option("-e", "--maxbytes", "max_text", metavar="SIZE", help="Largest size.  [default: 8G]")
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
    "ranks_per_node",
    type=click.IntRange(min=1),
    metavar="M",
    help="Ranks per node.  [default: the system's]",
)
@click.option(
    "--system",
    "system_name",
    metavar="NAME|FILE|here",
    shell_complete=complete_names(lambda: ("here", *system.systems()), or_files=True),
    default="here",
    show_default=True,
    help="System to predict for; here: this machine.",
)
@reference_option(
    "Show a reference beside the prediction: NAME from `busbw refs`, a log, a record, a .toml file, or auto (nearest)."
)
@nics_option
@sharp_option
@click.option("--nvls/--no-nvls", "nvls", default=True, help="Allow in-switch reduction (NVLS).  [default: --nvls]")
@click.option("--algorithm", metavar="NAME", help=f"Use only this algorithm: {', '.join(_ALGORITHMS)}.")
@click.option("--explain", is_flag=True, help="Show the source of each constant.")
@json_option
@click.option("--list-systems", is_flag=True, help="List the known systems.")
@renamed_option("--systems", "--list-systems")
def expect(
    collective: str | None,
    dtype: str | None,
    sizes: str | None,
    min_text: str | None,
    max_text: str | None,
    factor: int | None,
    ranks: int | None,
    ranks_per_node: int | None,
    system_name: str,
    reference_name: str | None,
    nics: system.Nics | None,
    sharp: bool,
    nvls: bool,
    algorithm: str | None,
    explain: bool,
    as_json: bool,
    list_systems: bool,
) -> None:
    """Predicts COLLECTIVE: the limit of each wire, the binding wire, and busbw and time per size."""
    out = console()
    if list_systems and as_json:
        click.echo(json_object({"systems": system.systems()}))
        return
    if list_systems:
        out.print(*_system_lines(), sep="\n")
        return
    collective_name = parse_collective((collective,) if collective else ())
    if system_name == "auto":
        warn_deprecated("busbw expect --system auto", "busbw expect --system here")
        system_name = "here"
    machine: DetectedMachine | None = None
    system_choice_text = ""
    if system_name == "here":
        machine = detect_machine()
        node_system, system_choice_text = system_of_machine(machine)
    else:
        node_system = named_system(system_name, other_values=("here",))
    if nics is not None:
        node_system = with_nics(node_system, nics)
    if sharp:
        node_system = _with_sharp(node_system)
    rank_count = ranks or _default_ranks(node_system, machine)
    scenario = Scenario(
        collective=collective_name,
        ranks=rank_count,
        ranks_per_node=ranks_per_node or _default_ranks_per_node(node_system, rank_count),
        dtype=_check_dtype(dtype),
        nvls=nvls,
        algorithm=_parse_algorithm(algorithm, nvls=nvls),
    )
    expectation = expectation_of(scenario, node_system, _parse_sizes(sizes, min_text, max_text, factor))
    selected = select_reference(reference_name)
    reference = compare_with_reference(expectation, selected) if selected else None
    if as_json:
        prediction = msgspec.to_builtins(expectation)
        out.print(json_object({**prediction, "reference": reference} if reference else prediction).decode())
        return
    for line in _prediction_lines(expectation, machine, system_choice_text, reference, explain=explain):
        out.print(line)


def _default_ranks(node_system: system.System, machine: DetectedMachine | None) -> int:
    """Returns the number of GPUs of this machine. Without GPUs or `machine`: the ranks of a full node, at least 2."""
    if machine and machine.gpus:
        return len(machine.gpus)
    return max(2, node_system.ranks_per_node)


def _default_ranks_per_node(node_system: system.System, ranks: int) -> int:
    """Returns the ranks of a full node. A host without GPUs runs any number of ranks."""
    return ranks if node_system.generation == "host" else min(ranks, node_system.ranks_per_node)


def _with_sharp(node_system: system.System) -> system.System:
    """Returns the system with a network that reduces."""
    if node_system.nics is None:
        raise UsageError(f"--sharp: {node_system.name} describes no NICs", remedy="state them with --nics 8x400")
    return with_sharp(node_system)


def _check_dtype(name: str | None) -> str | None:
    """Returns the element type as typed, which may be another name such as fp16."""
    if name is None or name in DTYPES:
        return name
    remedy = f"{suggestion(name, ELEMENT_BYTES)}allowed are {', '.join(ELEMENT_BYTES)}"
    raise UsageError(f'-d "{name}" is not an element type', remedy=remedy)


def _parse_algorithm(name: str | None, *, nvls: bool) -> str | None:
    if name is None:
        return None
    if name.lower() not in map(str.lower, _ALGORITHMS):
        raise UsageError(
            f'--algorithm "{name}" is not an algorithm of NCCL', remedy=f"allowed are {', '.join(_ALGORITHMS)}"
        )
    if name.lower().startswith("nvls") and not nvls:
        raise UsageError(f"--algorithm {name} and --no-nvls exclude each other", remedy="drop one")
    return name.lower()


def _parse_sizes(size_list: str | None, min_text: str | None, max_text: str | None, factor: int | None) -> list[int]:
    """Returns the sizes of `--sizes`, or of the sweep `-b`, `-e`, `-f`, in bytes and ascending order.

    A value that the user does not set is None. The default sweep is 8 B to 8 GiB by a factor of 8.
    """
    if size_list is not None:
        if (min_text, max_text, factor) != (None, None, None):
            raise UsageError("--sizes excludes -b, -e and -f", remedy="use either form")
        return sorted({parse_size_option(word, "--sizes") for word in size_list.split(",")})
    min_text = "8" if min_text is None else min_text
    max_text = "8G" if max_text is None else max_text
    first, last = parse_size_option(min_text, "-b"), parse_size_option(max_text, "-e")
    ratio = factor or 8
    if first > last:
        raise UsageError(f"-b {min_text} is larger than -e {max_text}", remedy="swap them")
    sizes = [first]
    while sizes[-1] * ratio <= last:
        sizes.append(sizes[-1] * ratio)
    return sizes


def _system_lines() -> Iterator[str]:
    for name, known_system in system.systems().items():
        nics = known_system.nics.text if known_system.nics else "no NICs given"
        fabric = known_system.fabrics[0] if known_system.fabrics else None
        links = f"{fabric.kind}, {nics}" if fabric else "its links are unknown"
        yield f"{name:<15} {known_system.title}"
        yield f"{'':<15} {links}"


def _prediction_lines(
    expectation: Expectation,
    machine: DetectedMachine | None,
    system_choice_text: str,
    reference: ReferenceComparison | None,
    *,
    explain: bool,
) -> Iterator[str | Text]:
    """Yields the text of a prediction. `machine` is this machine, and None if the user names a system."""
    scenario, node_system = expectation.job, expectation.system
    nodes = math.ceil(scenario.ranks / min(scenario.ranks, scenario.ranks_per_node))
    collective_text = " ".join(filter(None, [scenario.collective, scenario.dtype]))
    yield f"{collective_text}, {scenario.ranks} ranks on {nodes} node{'s' if nodes > 1 else ''} of {node_system.name}"
    system_text = node_system.title
    if node_system.nics:
        system_text += f"; NICs {node_system.nics.text} per node"
        system_text += "; the network reduces (SHARP)" if node_system.nics.sharp else ""
    yield from _fact_lines("system", system_text)
    if machine is not None:
        yield from _fact_lines("this machine", f"{system_choice_text}; {_machine_text(machine)}")
    for note in expectation.notes:
        yield from _fact_lines("note", note)
    if reference:
        yield from _fact_lines("reference", f"{reference.name}: {reference.how_near}")
    if expectation.unknown:
        yield from _fact_lines("unknown", expectation.unknown)
        return
    best = expectation.best
    assert best is not None
    assert expectation.floor_us is not None
    yield ""
    yield from _route_lines(expectation.routes, best)
    yield ""
    yield from _fact_lines(
        "limited by",
        f"{best.binding_limit.wire}, on the route {best.name}, for large messages: {best.binding_limit.why}",
    )
    if best.binding_limit.traffic < 1:
        traffic = f"only {best.binding_limit.traffic:.2f} GB/s cross it for each GB/s of busbw"
        yield from _fact_lines("", f"busbw can be higher than the rate of that wire, because {traffic}")
    yield from _fact_lines(
        "latency", f"at least {expectation.floor_us:.1f} us in NCCL's own model of the fastest route"
    )
    yield ""
    yield from _estimate_lines(expectation.estimates)
    legend = "busbw and wire in GB/s; ranges: of a healthy system; wire: load of the wire that saturates first"
    yield from labeled_lines("", legend, terminal_width())
    if reference and reference.figures:
        yield ""
        yield from _reference_lines(expectation, reference)
    if explain:
        yield ""
        yield from _source_lines(expectation.routes)


def _machine_text(machine: DetectedMachine) -> str:
    host = machine.host
    memory = size_text(host.memory_bytes) if host.memory_bytes else "memory unknown"
    rates = [f"{port.gbit:g} Gb/s" if port.gbit else "rate unknown" for port in machine.ports]
    ports = ", ".join(f"{port.name} {rate}" for port, rate in zip(machine.ports, rates, strict=True))
    processor_count = len(parse_ranges(host.cpus or "") or ()) or "an unknown number of"
    return f"{processor_count} x {host.processor or 'unknown processor'}, {memory}, NICs: {ports or 'none found'}"


def _fact_lines(label: str, text: str) -> Iterator[Text]:
    return labeled_lines(f"{label:<{_LABEL_WIDTH}}", text, terminal_width())


def _route_lines(routes: Iterable[Route], best: Route) -> Iterator[str]:
    yield f"{'route':<11}{'wire':<18}{'carries, GB/s':>14}{'busbw limit':>13}{'healthy busbw':>20}"
    for route in routes:
        for number, limit in enumerate(route.limits):
            is_first_line = number == 0
            name = f"{route.name}{' *' if route is best else ''}" if is_first_line else ""
            is_binding = limit is route.binding_limit and len(route.limits) > 1
            wire = f"{limit.wire}{' *' if is_binding else ''}"
            healthy_busbw = _healthy_busbw_text(route) if is_first_line else ""
            capacity = f"{limit.capacity_gbps:.4g}/{limit.per}"
            yield f"{name:<11}{wire:<18}{capacity:>14}{limit.busbw_gbps:>13.4g}{healthy_busbw:>20}"
    yield "* the best route for large messages, and the wire that saturates first"


def _healthy_busbw_text(route: Route) -> str:
    """Returns the typical busbw of a healthy system, with its range."""
    efficiency = route.efficiency
    low, typical, high = (route.limit_gbps * share for share in (efficiency.low, efficiency.typical, efficiency.high))
    return f"{typical:.4g} ({low:.3g}-{high:.3g})"


def _estimate_lines(estimates: Iterable[Estimate]) -> Iterator[str]:
    yield f"{'size':>8}{'us':>8}{'range':>15}{'busbw':>8}{'range':>15}{'wire':>8}  by"
    for estimate in estimates:
        time_us, busbw_gbps = estimate.time_us, estimate.busbw_gbps
        yield (
            f"{size_text(estimate.size_bytes):>8}{_number_text(time_us.typical):>8}{_range_text(time_us):>15}"
            f"{_number_text(busbw_gbps.typical):>8}{_range_text(busbw_gbps):>15}{_number_text(estimate.wire_gbps):>8}"
            f"  {estimate.route} {estimate.protocol}"
        )


def _reference_lines(expectation: Expectation, reference: ReferenceComparison) -> Iterator[str | Text]:
    yield f"{'':>8}{'expected':>16}{'reference':>32}"
    yield f"{'size':>8}{'us':>8}{'busbw':>8}{'range':>15}{'us':>9}{'busbw':>9}{'of expected':>13}"
    for figure in reference.figures:
        expected = expectation.at(figure.size_bytes)
        assert expected is not None
        busbw_gbps = expected.busbw_gbps
        mark = "~" if figure.is_interpolated else ""
        is_inside = busbw_gbps.low <= figure.busbw_gbps <= busbw_gbps.high
        yield (
            f"{size_text(figure.size_bytes):>8}{_number_text(expected.time_us.typical):>8}"
            f"{_number_text(busbw_gbps.typical):>8}{_range_text(busbw_gbps):>15}"
            f"{mark + _number_text(figure.time_us):>9}{mark + _number_text(figure.busbw_gbps):>9}"
            f"{f'{figure.ratio_to_expected:.0%}':>13}{'' if is_inside else '  outside'}"
        )
    has_interpolated = any(figure.is_interpolated for figure in reference.figures)
    explanation = "; ~ interpolated between two sizes of the reference" if has_interpolated else ""
    yield from labeled_lines("", f"busbw in GB/s{explanation}", terminal_width())


def _number_text(value: float) -> str:
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}" if value >= 0.01 else "0.00"


def _range_text(expected: ExpectedRange) -> str:
    return f"{_number_text(expected.low)}-{_number_text(expected.high)}"


def _source_lines(routes: Iterable[Route]) -> Iterator[str | Text]:
    """Yields each statement about routes once, with the names of its routes."""
    yield "sources of the constants"
    route_names_by_statement: dict[str, list[str]] = {}
    for route in routes:
        for limit in route.limits:
            route_names_by_statement.setdefault(f"{limit.wire}: {limit.source}", []).append(route.name)
            route_names_by_statement.setdefault(f"{limit.wire}: {limit.why}", []).append(route.name)
        efficiency = route.efficiency
        efficiency_text = f"{efficiency.low:g} to {efficiency.high:g} of the limit, {efficiency.typical:g} typical"
        route_names_by_statement.setdefault(f"{efficiency_text}: {efficiency.source}", []).append(route.name)
        route_names_by_statement.setdefault(f"latency and protocols: {route.source}", []).append(route.name)
    for statement, names in route_names_by_statement.items():
        yield from labeled_lines("  ", f"{', '.join(dict.fromkeys(names))}: {statement}", terminal_width())
    range_text = f"range of latency: {LATENCY_LOW:g} to {LATENCY_HIGH:g} times the model"
    yield from labeled_lines("  ", f"{range_text}: {LATENCY_SOURCE}", terminal_width())
