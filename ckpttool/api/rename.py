"""A checkpoint with other names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, overload

from ckpttool.api.outcome import Outcome, Outcomes, finds_nothing, write_plan, write_plans
from ckpttool.checkpoint.open import Checkpoint, opened, require_checkpoint
from ckpttool.errors import SelectionError, in_arguments
from ckpttool.storage.paths import StrPath
from ckpttool.surgery import renaming
from ckpttool.surgery.maps.reading import read_map
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.rules import (
    PrefixRule,
    RenameRule,
    Rules,
    StripPrefixRule,
    as_rules,
    parse_substitution,
)
from ckpttool.surgery.tables import load_table
from ckpttool.surgery.writing.write import options_to_write

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ckpttool.surgery.writing.write import Writing

NOTHING_TO_RENAME = "nothing to rename: give {rules} or an option such as {map}"


@overload
def rename(
    source: StrPath | Checkpoint,
    destination: StrPath | None = None,
    rules: Rules = (),
    *,
    all: Literal[False] = False,
    sub: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    map: StrPath | None = None,
    table: str | None = None,
    strip_prefix: str | None = None,
    prefix: str | None = None,
    promote_ema: bool = False,
    strict: bool = False,
    **how: Unpack[Writing],
) -> Outcome: ...
@overload
def rename(
    source: StrPath,
    destination: StrPath | None = None,
    rules: Rules = (),
    *,
    all: Literal[True],
    sub: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    map: StrPath | None = None,
    table: str | None = None,
    strip_prefix: str | None = None,
    prefix: str | None = None,
    promote_ema: bool = False,
    strict: bool = False,
    on_done: Callable[[Outcome], None] | None = None,
    **how: Unpack[Writing],
) -> Outcomes: ...
def rename(
    source: StrPath | Checkpoint,
    destination: StrPath | None = None,
    rules: Rules = (),
    *,
    all: bool = False,
    sub: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    map: StrPath | None = None,
    table: str | None = None,
    strip_prefix: str | None = None,
    prefix: str | None = None,
    promote_ema: bool = False,
    strict: bool = False,
    on_done: Callable[[Outcome], None] | None = None,
    **how: Unpack[Writing],
) -> Outcome | Outcomes:
    r"""Give tensors other names, as `ckpt rename` does.

    All rules apply to the original names. The first rule that matches a name decides: first those
    of `rules`, then the others in the order of the arguments.

    Args:
        source: anything that names a checkpoint, or an open one.
        destination: prefix of the new checkpoint, with `all` a folder; None goes with `in_place`
            and `dry_run`.
        rules: a mapping of old names to new ones; or a list of pairs, texts such as "net=model",
            or rules of `ckpttool.surgery`. A name is a key, an object path or a scope.
        all: rename in every checkpoint of the folder `source`, and carry its state file over. One
            in which no rule finds anything stays as it is.
        sub: a mapping of regular expressions to replacements, or a list of such pairs.
        map: a file of rules: a JSON object, two columns, or a `ckpt.map/2` that permutes nothing.
        table: name of a built-in table of rules, such as "tf1-rnn".
        strip_prefix: text to remove from the start of names.
        prefix: text to put before all names; end a scope with a slash.
        promote_ema: swap weights and their moving averages before the rules apply.
        strict: fail if a name matches no rule.
        on_done: with `all`, called with each checkpoint when it is written.
        how: how to write, as `ckpttool.surgery.write` takes it: `in_place`, `dry_run`, `data`,
            `compact`, `force`, `update_state`, `meta`, `follow_links`, `lock_timeout`,
            `on_progress`.

    Raises:
        SelectionError: a rule matches nothing, or there are no rules.
        KeyCollisionError: two tensors would get the same name.
        SurgeryError: with `all` and `in_place`, and some may have been renamed already.
        DestinationError: there is something at the destination.
        CkptError: something cannot be read or written.

    >>> done = ckpttool.rename("tf_ckpts", "out/renamed-1", {"net": "model"})
    >>> done.changes[0].key, done.changes[0].new_key
    ('net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE', 'model/l1/bias/.ATTRIBUTES/VARIABLE_VALUE')
    >>> ckpttool.rename("tf_ckpts", sub=[(r"l(\d)", r"layer_\1")], dry_run=True).destination
    """
    known = as_rules(rules)
    known += read_map(map) if map is not None else []
    known += [load_table(table)] if table is not None else []
    known += [_substitution(each) for each in (sub.items() if isinstance(sub, Mapping) else sub)]
    known += [StripPrefixRule(strip_prefix)] if strip_prefix is not None else []
    known += [PrefixRule(prefix)] if prefix is not None else []
    if not known and not promote_ema:
        raise SelectionError(in_arguments(NOTHING_TO_RENAME))

    def plan_of(ckpt: Checkpoint, rules: Sequence[RenameRule] = known) -> Plan:
        plan = Plan.of(ckpt)
        if promote_ema:
            plan = renaming.promote_averages(plan)
        return renaming.rename(plan, rules, strict=strict) if rules else plan

    def touches(ckpt: Checkpoint) -> bool:
        return strict or any(not finds_nothing(plan_of, ckpt, [rule]) for rule in known)

    if all:
        return write_plans(source, destination, "rename", plan_of, touches, on_done, **how)
    options_to_write(destination, **how)  # refuses what contradicts itself, before a path is read
    with opened(source, within=how.get("in_place", False)) as ckpt:
        require_checkpoint(ckpt)
        return write_plan(plan_of(ckpt), destination, "rename", **how)


def _substitution(pair: tuple[str, str]) -> RenameRule:
    if isinstance(pair, str) or len(pair) != 2:
        raise TypeError(f"sub takes pairs of an expression and a text, not {pair!r}")
    return parse_substitution(*pair)
