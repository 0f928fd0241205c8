"""Old spellings of options, valid for one release. The help hides them, and their use prints the new spelling."""

from collections.abc import Callable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from busbw.errors import UsageError

if TYPE_CHECKING:
    from click.parser import _OptionParser

Function = TypeVar("Function", bound=Callable[..., Any])


def warn_deprecated(old: str, new: str) -> None:
    """Prints that `old` is deprecated in favor of `new`."""
    click.echo(f"busbw: {old} is deprecated: use {new}", err=True)


def renamed_option(old: str, new: str) -> Callable[[Function], Function]:
    """Accepts `old` as another spelling of the option `new` of the same command."""
    name = f"deprecated_{old.strip('-').replace('-', '_')}"  # differs from every parameter of a command
    return click.option(old, name, cls=_OldSpelling, new=new)


def replaced_option(old: str, name: str, new: str) -> Callable[[Function], Function]:
    """Adds the old option `old`, hidden. Its value still arrives in the parameter `name`; using it prints `new`."""

    def warn(context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
        if value is not None and not context.resilient_parsing:
            warn_deprecated(old, new)
        return value

    return click.option(old, name, hidden=True, callback=warn)


class _OldSpelling(click.Option):
    """Hidden option with an old spelling. It parses like the new option and passes its values on to that option."""

    def __init__(self, declarations: list[str], *, new: str, **attributes: Any) -> None:
        # Eager: click must process the old spelling before the new option, which gets its value.
        super().__init__(declarations, hidden=True, expose_value=False, is_eager=True, **attributes)
        self._new = new

    def add_to_parser(self, parser: "_OptionParser", ctx: click.Context) -> None:
        """Registers the old spelling with the number and kind of values of the new one."""
        target = copy(self._target(ctx))
        target.name, target.opts, target.secondary_opts = self.name, self.opts, []
        target.add_to_parser(parser, ctx)

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Passes the parsed values on to the new option, which converts and checks them.

        Raises:
            UsageError: Both spellings are given.
        """
        if self.name not in opts:
            return None, args
        target = self._target(ctx)
        parsed_values = cast("dict[str, Any]", opts)  # click passes a dictionary that may be changed
        value = parsed_values.pop(self.name)
        if target.multiple:
            value = [*value, *parsed_values.get(target.name, ())]
        elif target.name in parsed_values:
            raise UsageError(f"{self.opts[0]} is the old spelling of {self._new}", remedy="give only the new one")
        parsed_values[target.name] = value
        if not ctx.resilient_parsing:
            warn_deprecated(self.opts[0], self._new)
        return None, args

    def _target(self, context: click.Context) -> click.Option:
        """The new option."""
        return next(
            option for option in context.command.params if isinstance(option, click.Option) and self._new in option.opts
        )
