"""Renaming tensors and their objects.

In a name-based checkpoint rules work on keys. In an object-based one they work on the edges of the
object graph, each named by its path: a renamed object takes along everything below it, keys are
those that TensorFlow would give the new graph, and slot variables follow their variable and their
optimizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from ckpttool.checkpoint.kinds.optimizers import AVERAGED
from ckpttool.checkpoint.nearest import listed, nearest_names, quoted
from ckpttool.checkpoint.selection.graph_names import GraphNames
from ckpttool.errors import KeyCollisionError, SelectionError, SurgeryError
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import (
    ATTRIBUTES,
    GRAPH_KEY,
    OPTIMIZER_SLOT,
    escape,
    object_path,
    split_key,
    unescape,
)
from ckpttool.objects.moves import EdgeId, move_edges
from ckpttool.surgery.edge_notes import with_edge_notes
from ckpttool.surgery.maps.reading import refuse_layouts
from ckpttool.surgery.plan import Plan, PlannedTensor, refuse_disputes
from ckpttool.surgery.rules import (
    FirstOf,
    MoveRule,
    PrefixRule,
    RenameRule,
    Rules,
    StripPrefixRule,
    as_rules,
)

# The counter belongs to the checkpoint object itself, not to the program's objects.
_SAVE_COUNTER = (0, "save_counter")


def rename(plan: Plan, rules: Rules, *, strict: bool = False) -> Plan:
    """Return the plan with other names.

    All rules apply to the original names; the first that matches a name decides.

    Args:
        plan: the plan.
        rules: a mapping from old names to new ones, or rules in order, each an object or text such
            as "net=model".
        strict: every name must match a rule, except slot variables and the save counter of an
            object-based checkpoint.

    Raises:
        SelectionError: a rule matches nothing, or, with `strict`, a name matches no rule.
        KeyCollisionError: two tensors would get the same name.
        SurgeryError: a rule cannot be carried out.
    """
    known = as_rules(rules)
    refuse_layouts(plan.source, known)
    if plan.graph is None:
        return _rename_keys(plan, known, strict=strict)
    return _rename_objects(plan, plan.graph, known, strict=strict)


def promote_averages(plan: Plan) -> Plan:
    """Return the plan with averages and their weights exchanged, so that nothing is lost.

    Each average takes the key of its weight and the weight that of its average; an object graph
    stays unchanged. A note names the weights without an average.

    Raises:
        SurgeryError: there are no averages, or the weights of some are unknown or have several.
    """
    pairs = _averages_by_weight(plan)
    keys = {tensor.source_key: tensor.key for tensor in plan.tensors}
    names = {average: keys[weight] for weight, average in pairs.items()}
    names |= {weight: keys[average] for weight, average in pairs.items()}
    tensors = tuple(t.called(names.get(t.source_key, t.key)) for t in plan.tensors)
    alone = sorted(
        plan.short_name(tensor.key)
        for tensor in plan.tensors
        if plan.kinds[tensor.source_key] == "weight" and tensor.source_key not in pairs
    )
    weights = "weight" if len(pairs) == 1 else "weights"
    note = f"averages took the place of {len(pairs)} {weights}"
    if alone:
        note += f"; without an average: {listed(alone)}"
    return refuse_collisions(replace(plan, tensors=tensors).with_notes(note))


def _averages_by_weight(plan: Plan) -> dict[str, str]:
    """Return weight -> its average, both as source keys."""
    there = {tensor.source_key for tensor in plan.tensors}
    found: dict[str, list[str]] = {}
    unknown = []
    for average in plan.source.averages:
        if average.key not in there:
            continue
        if average.weight in there and average.weight is not None:
            found.setdefault(average.weight, []).append(average.key)
        else:
            unknown.append(plan.short_name(average.key))
    if unknown:
        raise SurgeryError(
            f"the weights of these averages are not known: {listed(unknown)}",
            path=plan.source.prefix,
        )
    if not found:
        raise SurgeryError(
            "there are no averages to promote: no optimizer keeps any, and none is called "
            f"'…/{AVERAGED}' beside its weight",
            path=plan.source.prefix,
        )
    for weight, averages in found.items():
        if len(averages) > 1:
            raise SurgeryError(
                f"it has several averages: {listed([plan.short_name(key) for key in averages])}",
                path=plan.source.prefix,
                key=weight,
            )
    return {weight: averages[0] for weight, averages in found.items()}


def _rename_keys(plan: Plan, rules: Sequence[RenameRule], *, strict: bool) -> Plan:
    used: set[int] = set()
    unmatched = []
    tensors = []
    first = FirstOf(rules)
    for tensor in plan.tensors:
        found = first.rename(tensor.key)
        if found is None:
            unmatched.append(tensor.key)
            tensors.append(tensor)
            continue
        at, new = found
        used.add(at)
        if not new:
            raise SurgeryError("a rule makes the name empty", key=tensor.key)
        tensors.append(tensor.called(new))
    _refuse_dead(rules, used, [tensor.key for tensor in plan.tensors])
    if strict and unmatched:
        raise SelectionError(f"no rule matches {listed(unmatched)}", path=plan.source.prefix)
    return refuse_collisions(replace(plan, tensors=tuple(tensors)))


def _rename_objects(
    plan: Plan, graph: ObjectGraph, rules: Sequence[RenameRule], *, strict: bool
) -> Plan:
    refuse_disputes(plan)
    spelled = [
        _settled(plan, graph, each) if isinstance(each, MoveRule) else each for each in rules
    ]
    used: set[int] = set()
    moves: dict[EdgeId, str] = {}
    matched = set()
    first, of_counter = FirstOf(spelled), FirstOf(spelled, (PrefixRule, StripPrefixRule))
    for edge, path in _edges(graph):
        found = (of_counter if edge == _SAVE_COUNTER else first).rename(path)
        if found is not None:
            at, moves[edge] = found
            used.add(at)
            matched.add(path)
    _refuse_dead(rules, used, [path for _, path in _edges(graph)], spelled)
    if strict:
        parts = [split_key(tensor.key) for tensor in plan.tensors]
        own = ["/".join(part.path) for part in parts if part is not None and part.slot is None]
        alone = [name for name in own if name not in matched and name != _SAVE_COUNTER[1]]
        if alone:
            raise SelectionError(f"no rule matches {listed(alone)}", path=plan.source.prefix)
    moved = refuse_collisions(refuse_disputes(follow_graph(plan, graph, move_edges(graph, moves))))
    return with_edge_notes(moved, graph)


def follow_graph(plan: Plan, before: ObjectGraph, after: ObjectGraph) -> Plan:
    """Return the plan with another graph, and with the keys of the attributes there.

    Args:
        plan: a plan whose tensors have the keys of `before`.
        before: the graph of the plan.
        after: a graph with the same ids; removed attributes keep their keys.
    """
    owned = before.claims({tensor.key for tensor in plan.tensors}).at
    columns = before.columns
    tensors = []
    for tensor in plan.tensors:
        at = owned.get(tensor.key)
        if at is not None:
            old = columns.keys[at]
            new = after.key_of_node(columns.holder(at), columns.attribute_names[at])
            if new is not None and new != old:
                tensor = tensor.called(new + tensor.key[len(old) :])
        tensors.append(tensor)
    return replace(plan, tensors=tuple(tensors), graph=after)


def _edges(graph: ObjectGraph) -> Iterable[tuple[EdgeId, str]]:
    """Yield every reachable edge with its path."""
    columns = graph.columns
    for node_id in columns.parents_with_edges():
        base = graph.paths[node_id]
        if base is not None:
            for name, _ in columns.children(node_id):
                yield (node_id, name), f"{base}/{escape(name)}" if base else escape(name)


def _settled(plan: Plan, graph: ObjectGraph, rule: MoveRule) -> MoveRule:
    """Return a rule with the graph's own path of the edge that it names.

    What no path leads to may be the full name of a variable. The paths of everything below the edge
    begin with that one.
    """
    rule = _as_path(rule)
    if graph.node_at(rule.old) is None:
        rule = replace(rule, old=_path_of_variable(plan, graph, rule.old) or rule.old)
    above, _, name = rule.old.rpartition("/")
    parent = graph.node_at(above)
    base = None if parent is None else graph.path(parent)
    if base is None or graph.node_at(rule.old) is None:
        return rule
    name = escape(unescape(name))
    return replace(rule, old=f"{base}/{name}" if base else name)


def _path_of_variable(plan: Plan, graph: ObjectGraph, name: str) -> str | None:
    names = GraphNames(graph, {tensor.key for tensor in plan.tensors})
    paths = sorted(filter(None, map(object_path, names.variables_called(name))))
    if len(paths) > 1:
        raise SelectionError(
            f"'{name}' is the name of several variables; say which is meant: {listed(paths)}"
        )
    return paths[0] if paths else None


def _as_path(rule: MoveRule) -> MoveRule:
    """Return a rule with object paths for one that may have keys."""
    old, new = (object_path(name) if ATTRIBUTES in name else name for name in (rule.old, rule.new))
    if old is None or new is None:
        raise SurgeryError(f"'{rule.text}': a key, not the path of an object")
    for path in (old, new):
        if OPTIMIZER_SLOT in path.split("/"):
            raise SurgeryError(
                f"'{rule.text}': slot variables follow their variable and their optimizer; "
                "rename one of these"
            )
        if any(segment[:1] == "." and segment[1:2] not in ".S" for segment in path.split("/")):
            raise SurgeryError(f"'{rule.text}': an attribute cannot be renamed, only its object")
    return replace(rule, old=old.strip("/"), new=new.strip("/"))


def _refuse_dead(
    rules: Sequence[RenameRule],
    used: Set[int],
    names: Sequence[str],
    spelled: Sequence[RenameRule] | None = None,
) -> None:
    """Refuse rules that match nothing.

    Args:
        rules: all rules, as given.
        used: the numbers of those that matched.
        names: all names.
        spelled: all rules, as they were compared with the names.
    """
    for at, rule in enumerate(rules):
        if at in used:
            continue
        if any((spelled or rules)[at].rename(name) is not None for name in names):
            raise SelectionError(
                f"the rule '{rule.text}' matches nothing that an earlier rule has not"
            )
        near = nearest_names(rule.old, names) if isinstance(rule, MoveRule) else []
        hint = f"; nearest: {quoted(near)}" if near else ""
        raise SelectionError(f"the rule '{rule.text}' matches nothing{hint}")


def refuse_collisions(plan: Plan) -> Plan:
    """Return the plan if all keys are different.

    Raises:
        KeyCollisionError: two tensors have the same.
        SurgeryError: one has that of the object graph.
    """
    sources: dict[str, PlannedTensor] = {}
    for tensor in plan.tensors:
        if tensor.key == GRAPH_KEY != tensor.source_key:
            raise SurgeryError("that key is reserved for the object graph", key=tensor.source_key)
        other = sources.setdefault(tensor.key, tensor)
        if other is not tensor:
            raise KeyCollisionError(
                f"'{other.source_key}' and '{tensor.source_key}' would both be called "
                f"'{tensor.key}'",
                path=plan.source.prefix,
            )
    return plan
