"""`python -m ckpttool` is `ckpt`."""

from __future__ import annotations

import sys

from ckpttool.cli.main import main

sys.exit(main())
