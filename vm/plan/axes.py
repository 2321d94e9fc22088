"""Fewer axes: unit axes dropped, neighbours that every view steps through alike made one."""

from __future__ import annotations

from .extents import Expr
from .graph import remap_view
from .policy import ShapePolicy
from .steps import Contract, Literal, Nest, NestInput, NestOp, NestOut, Plan, View, walk
from .usage import accesses


def collapse_rows(plan: Plan, policy: ShapePolicy) -> str:
    """Make all axes but the last one where that is possible, so that rows of any rank are blocked alike."""
    for step in walk(plan.steps):
        if isinstance(step, Nest):
            collapse(step, keep_last=True)
        elif isinstance(step, Contract) and step.batch:
            collapse_batch(step)
    return ""


def collapse_all(plan: Plan, policy: ShapePolicy) -> str:
    """Make neighbouring axes one wherever that is possible."""
    for step in walk(plan.steps):
        if isinstance(step, Nest) and len(step.axes) > 1:
            collapse(step, keep_last=False)
    return ""


def collapse(nest: Nest, keep_last: bool) -> None:
    """Rewrite a nest over fewer axes, in place."""
    axes = nest.axes
    fixed = {item.axis for item in nest.inputs if item.axis >= 0}  # of iotas
    for out in nest.outs:
        if out.reduce in ("argmax", "argmin"):
            fixed.update(i for i in range(len(axes)) if out.reduced >> i & 1)
    groups: list[list[int]] = []  # old axes that become one, outermost first
    views = _views(nest)
    last = len(axes) - 1
    for axis, extent in enumerate(axes):
        if extent.value == 1 and axis not in fixed:
            continue
        if groups and axis not in fixed and not (keep_last and axis == last):
            before = groups[-1][-1]
            if before not in fixed and _joins(nest, views, before, axis, extent):
                groups[-1].append(axis)
                continue
        groups.append([axis])
    if len(groups) == len(axes):
        return
    try:
        shape = tuple(_product([axes[i] for i in group]) for group in groups)
    except OverflowError:
        return
    _rewrite(nest, groups, shape)


def _joins(nest: Nest, views: list[View], outer: int, inner: int, extent: Expr) -> bool:
    for view in views:
        if view.strides[outer] is not view.strides[inner] * extent:
            return False
    return all(out.reduced >> outer & 1 == out.reduced >> inner & 1 for out in nest.outs)


def _views(nest: Nest) -> list[View]:
    reads, writes = accesses(nest)
    return reads + writes


def _product(extents: list[Expr]) -> Expr:
    total = extents[0]
    for extent in extents[1:]:
        total = total * extent
    return total


def _rewrite(nest: Nest, groups: list[list[int]], shape: tuple[Expr, ...]) -> None:
    keep = [-1] * len(nest.axes)
    for new, group in enumerate(groups):
        keep[group[-1]] = new  # the innermost axis has the joint stride
    nest.axes = shape
    for i, item in enumerate(nest.inputs):
        if item.view is not None:
            nest.inputs[i] = NestInput("view", item.dtype, view=remap_view(item.view, keep, shape))
        elif item.kind == "iota":
            axis = keep[item.axis]
            nest.inputs[i] = (NestInput("iota", "i64", axis=axis) if axis >= 0
                              else NestInput("scalar", "i64", operand=Literal(0, "i64")))
    for i, op in enumerate(nest.ops):
        if op.view is not None:
            nest.ops[i] = NestOp(op.op, op.dtype, op.operand_dtype, op.args, remap_view(op.view, keep, shape),
                                 op.indexes, op.position)
    for i, out in enumerate(nest.outs):
        reduced = 0
        for new, group in enumerate(groups):
            if out.reduced >> group[-1] & 1:
                reduced |= 1 << new
        how = out.reduce if reduced else "store"  # over axes of one element there is nothing to reduce
        nest.outs[i] = NestOut(out.slot, how, remap_view(out.view, keep, shape), reduced, out.mask, out.indexes,
                               out.position)


def collapse_batch(step: Contract) -> None:
    """Make the innermost batch axes rows of the left operand, where one right operand serves them all."""
    while step.batch:
        axis = len(step.batch) - 1
        stride = step.b.strides[axis]
        if step.batch[axis].value == 1:
            m = step.m
        elif stride.terms or stride.const or any(
                view.strides[axis] is not view.strides[axis + 1] * step.m
                for view in (step.a, step.out, step.residual) if view is not None):
            return
        else:
            m = step.batch[axis] * step.m
        step.batch, step.m = step.batch[:-1], m
        step.a = _drop(step.a, axis, (*step.batch, m, step.k))
        step.b = _drop(step.b, axis, (*step.batch, step.k, step.n))
        step.out = _drop(step.out, axis, (*step.batch, m, step.n))
        if step.residual is not None:
            step.residual = _drop(step.residual, axis, step.out.shape)


def _drop(view: View, axis: int, shape: tuple[Expr, ...]) -> View:
    return View(view.buffer, view.dtype, shape, view.strides[:axis] + view.strides[axis + 1:], view.offset)
