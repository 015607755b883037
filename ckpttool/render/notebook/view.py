"""The HTML that a notebook shows of an answer."""

from __future__ import annotations

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import CkptError
from ckpttool.render.notebook.checkpoint import checkpoint_html


def html_of(answer: object) -> str | None:
    """Return the HTML of an answer; None if it has none, or if a file cannot be read."""
    try:
        if isinstance(answer, Checkpoint):
            return checkpoint_html(answer)
    except CkptError:
        pass  # repr() says what can be said
    return None
