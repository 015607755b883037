"""The HTML that a notebook shows of a checkpoint and of comparisons."""

from __future__ import annotations

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import CkptError
from ckpttool.query.diff.results import Diff
from ckpttool.query.diff.series import Series
from ckpttool.render.notebook.checkpoint import checkpoint_html
from ckpttool.render.notebook.diff import diff_html
from ckpttool.render.notebook.series import series_html

# With long names of which every character takes many bytes, fewer rows are shown.
_ROWS = (12, 8, 4, 2)
_MOST_BYTES = 6 << 10


def html_of(answer: object) -> str | None:
    """Return the HTML of an answer; None if it has none, or if a file cannot be read."""
    try:
        drawn = (_drawn(answer, most) for most in _ROWS)
        return next((t for t in drawn if t is None or len(t.encode()) <= _MOST_BYTES), None)
    except CkptError:
        return None  # repr() says what can be said


def _drawn(answer: object, most: int) -> str | None:
    if isinstance(answer, Checkpoint):
        return checkpoint_html(answer, most)
    if isinstance(answer, Diff):
        return diff_html(answer, most)
    if isinstance(answer, Series):
        return series_html(answer)
    return None
