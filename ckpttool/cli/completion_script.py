"""`ckpt completion`: the script that makes a shell complete the words of `ckpt`."""

from __future__ import annotations

from importlib.resources import files

import click

from ckpttool.cli import options

_SCRIPTS = {"bash": "ckpt.bash", "zsh": "_ckpt", "fish": "ckpt.fish"}
EXAMPLES = (
    ("ckpt completion bash > ~/.local/share/bash-completion/completions/ckpt", "For bash."),
    ("ckpt completion fish > ~/.config/fish/completions/ckpt.fish", "For fish."),
    ("ckpt completion zsh > ~/.zfunc/_ckpt", "For zsh, if ~/.zfunc is in fpath."),
)


@options.command("completion", examples=EXAMPLES)
@click.argument("shell", type=click.Choice(tuple(_SCRIPTS)))
@options.pass_settings
def command(settings: options.Settings, shell: str) -> None:
    """Print the completion script for a shell: bash, zsh or fish."""
    script = files("ckpttool.cli") / "completions" / _SCRIPTS[shell]
    click.echo(script.read_text(encoding="utf-8"), nl=False)
