"""Parsing of a Kubernetes target: quantities, tolerations, pairs."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.errors import UsageError
from busbw.launchers.kubernetes.target import KubernetesTarget, Toleration, parse_pair, parse_quantity, parse_toleration


@pytest.mark.parametrize(
    ("text", "number"),
    [("8", 8), ("500m", 0.5), ("1k", 1000), ("5120Mi", 5120 * 2**20), ("1.5Gi", 1.5 * 2**30), ("2T", 2e12)],
)
def test_quantities(text: str, number: float) -> None:
    assert parse_quantity(text) == number


@pytest.mark.parametrize("text", ["", "x", "8 Gi", "-1", "8GiB", "Gi", "1e", "½"])
def test_invalid_quantities(text: str) -> None:
    with pytest.raises(UsageError, match="is not a quantity"):
        parse_quantity(text)


@given(st.text())
def test_any_text_is_a_quantity_or_an_error(text: str) -> None:
    with suppress(UsageError):
        assert parse_quantity(text) >= 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu", {"key": "gpu", "operator": "Exists"}),
        ("gpu:NoSchedule", {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}),
        ("a=b", {"key": "a", "operator": "Equal", "value": "b"}),
        ("a=b:NoExecute", {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute"}),
    ],
)
def test_tolerations(text: str, expected: dict[str, str]) -> None:
    assert parse_toleration(text).manifest() == expected


@pytest.mark.parametrize("text", ["", "=b", "a=", ":NoSchedule", "a:b:NoSchedule", "a:Never", "a:"])
def test_invalid_tolerations(text: str) -> None:
    with pytest.raises(UsageError, match="is not a toleration"):
        parse_toleration(text)


def test_a_toleration_in_a_manifest() -> None:
    assert parse_toleration("a=b:NoSchedule") == Toleration("a", "b", "NoSchedule")


def test_pairs() -> None:
    assert parse_pair("a=b=c", "x=y") == ("a", "b=c")
    for text in ("", "a", "=b"):
        with pytest.raises(UsageError, match="write it like x=y"):
            parse_pair(text, "x=y")


@pytest.mark.parametrize("field", ["namespace", "pull_secret", "service_account", "priority_class", "queue"])
@pytest.mark.parametrize("name", ["a\nb", "a\n", "-a", "A", "a b", "a/b", "x" * 254, "\u202ea"])
def test_names_that_would_break_the_manifest(field: str, name: str) -> None:
    with pytest.raises(UsageError, match="is not a name of Kubernetes"):
        KubernetesTarget(image="image", **{field: name})  # type: ignore[arg-type]


def test_valid_names() -> None:
    target = KubernetesTarget(image="image", namespace="team-1", queue="team.queue", pull_secret="0")
    assert (target.namespace, target.queue, target.pull_secret) == ("team-1", "team.queue", "0")
