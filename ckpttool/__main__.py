"""`python -m ckpttool` is `ckpt`."""

from __future__ import annotations

from ckpttool.cli.main import script

script()
