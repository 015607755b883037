"""`ckpt help`: the help of a command, for those who type it before its name."""

from __future__ import annotations

import click


@click.command("help", add_help_option=False)
@click.argument("name", metavar="[COMMAND]", required=False)
@click.pass_context
def command(ctx: click.Context, name: str | None) -> None:
    """Show the help of a command."""
    group = ctx.find_root()
    assert isinstance(group.command, click.Group)
    if name is None:
        click.echo(group.get_help())
        return
    _, found, _ = group.command.resolve_command(group, [name])
    if found is not None:  # else it was refused, with the nearest name
        click.echo(found.get_help(click.Context(found, parent=group, info_name=name)))
