"""A report in a notebook: its card, and how to get the page."""

from __future__ import annotations

from ckpttool.printable import shortened
from ckpttool.query.report.facts import ReportFacts
from ckpttool.render import humanize
from ckpttool.render.notebook.checkpoint import kind_shares
from ckpttool.render.notebook.frame import facts_line, named_line, share_bar, strong, view_frame

_LONGEST = 80


def report_html(facts: ReportFacts) -> str:
    """Return the HTML of the card of a report."""
    finite = "all finite" if facts.values and facts.complete else ""
    if facts.not_finite:
        finite = f"NaN or Inf in {humanize.counted(facts.not_finite, 'tensor')}"
    weights = facts.totals.weights
    parts = [
        facts_line(
            [
                f"{facts.source.generation}, {facts.source.style}-based",
                humanize.counted(facts.tensors, "tensor"),
                f"{humanize.amount(weights)} parameters" if weights else "",
                humanize.size(facts.totals.bytes),
                "" if facts.step is None else f"step {humanize.number(facts.step)}",
                finite,
            ]
        )
    ]
    if facts.problems:
        first = shortened(facts.problems[0], _LONGEST)
        count = humanize.counted(len(facts.problems), "problem")
        parts.append(facts_line([f"{count}, the first is: {first}"]))
    parts += share_bar(
        kind_shares({kind.name: kind.bytes for kind in facts.kinds}), "bytes by kind"
    )
    parts.append(named_line("The page itself: ", 'report.save("report.html")'))
    return view_frame(["Report on ", strong(facts.source.prefix)], *parts)
