"""Verdicts: how one stored conjunction relates to a query.

The query comes as boxes, one per constrained attribute. A verdict is no, yes, or *ask*: a text
pattern, set or exclusion is involved and the exact relation of `byway.model` must decide.
"""

from __future__ import annotations

import numpy as np

from byway.matching.kernels.decorator import kernel
from byway.matching.kernels.selectivity import is_member
from byway.matching.layout import ABSENT, ANY, EQ, EXISTS, GE, IN, LE, NE, NUMBER

BOX_EXISTS = 3
BOX_ABSENT = 4
POINT = 0
RANGE = 1  # of numbers, nothing excluded
EVERYTHING = 2  # any value of the kind
SET = 3
PATTERN = 4  # strings, or numbers with holes
NO, YES, ASK = 0, 1, 2


@kernel
def make_boxes(codes, nums, count, set_nums, set_res, boxes):
    """Boxes from the atoms of a query conjunction; how many."""
    n = 0
    members = 0
    for i in range(count):
        code = codes[i]
        attr = np.int32(code & 0xFFFFFFFF)
        op = (code >> 32) & 0xFF
        res = np.int16(code >> 48)
        fresh = i == 0 or np.int32(codes[i - 1] & 0xFFFFFFFF) != attr or boxes[n - 1].attr == -1
        if fresh:
            box = boxes[n]
            n += 1
            box.attr = attr
            box.first = i
            box.kind = (code >> 40) & 0xFF
            box.low = -np.inf
            box.high = np.inf
            box.low_res = 0
            box.high_res = 0
            box.shape = EVERYTHING
        box = boxes[n - 1]
        box.last = i + 1
        if op == EXISTS:
            box.kind = BOX_EXISTS
        elif op == ABSENT:
            box.kind = BOX_ABSENT
        elif op == EQ:
            box.shape = POINT
            box.low = box.high = nums[i]
            box.low_res = box.high_res = res
        elif op == IN:
            box.shape = SET
            box.low = set_nums[members]
            box.low_res = set_res[members]
            box.high = set_nums[members + res - 1]
            box.high_res = set_res[members + res - 1]
            members += res
        elif op == GE:
            box.shape = RANGE
            box.low = nums[i]
            box.low_res = res
        elif op == LE:
            box.shape = RANGE
            box.high = nums[i]
            box.high_res = res
        elif op != ANY:
            box.shape = PATTERN
    return n


@kernel
def at_least(num, res, than, than_res):
    """Whether a number with its lost rounding is at least another one."""
    return num > than or (num == than and res >= than_res)


@kernel
def covers_box(st, c, boxes):
    """Whether a stored conjunction covers the query."""
    verdict = YES
    for i in range(c.count):
        atom = st.atoms[c.start + i]
        w = st.where[atom.attr]
        if w < 0:
            return NO
        box = boxes[w]
        op = atom.op
        if op == ABSENT or box.kind == BOX_ABSENT:
            if op == ABSENT and box.kind == BOX_ABSENT:
                continue
            return NO
        if op == EXISTS:
            continue
        if box.kind != atom.kind:
            return NO
        if op == ANY:
            continue
        point = box.shape == POINT
        same = box.low == atom.num and box.low_res == atom.res
        if op == EQ:
            if not (point and same):
                return NO
        elif op == GE:
            if not at_least(box.low, box.low_res, atom.num, atom.res):
                return NO
        elif op == LE:
            if not at_least(atom.num, atom.res, box.high, box.high_res):
                return NO
        elif op == NE:
            if point:
                if same:
                    return NO
            else:
                verdict = ASK
        elif op == IN:
            if point:
                if not is_member(st, atom, box.low, box.low_res):
                    return NO
            elif box.shape == SET:
                verdict = ASK
            else:
                return NO
        else:
            verdict = ASK
    return verdict


@kernel
def group_end(st, c, i):
    """First atom after i that is about another attribute."""
    attr = st.atoms[c.start + i].attr
    j = i + 1
    while j < c.count and st.atoms[c.start + j].attr == attr:
        j += 1
    return j


@kernel
def group_inside(st, c, i, end, box):
    """Whether the constraint in atoms i … end lies inside a box of the query."""
    atom = st.atoms[c.start + i]
    op = atom.op
    if op == ABSENT or box.kind == BOX_ABSENT:
        return YES if op == ABSENT and box.kind == BOX_ABSENT else NO
    if box.kind == BOX_EXISTS:
        return YES
    if op == EXISTS or atom.kind != box.kind:
        return NO
    if box.shape == EVERYTHING:
        return YES
    if box.shape == POINT:
        return YES if op == EQ and atom.num == box.low and atom.res == box.low_res else NO
    if box.kind != NUMBER:
        return ASK
    low, low_res, high, high_res = -np.inf, np.int64(0), np.inf, np.int64(0)
    for j in range(i, end):
        a = st.atoms[c.start + j]
        if a.op == EQ or a.op == GE:
            low, low_res = a.num, np.int64(a.res)
        if a.op == EQ or a.op == LE:
            high, high_res = a.num, np.int64(a.res)
        if a.op == IN:
            s = np.int64(a.num)
            low, low_res = st.sets[s].num, np.int64(st.sets[s].res)
            high, high_res = st.sets[s + a.res - 1].num, np.int64(st.sets[s + a.res - 1].res)
    if box.shape == SET:
        inside = at_least(low, low_res, box.low, box.low_res) and at_least(
            box.high, box.high_res, high, high_res
        )
        return ASK if inside else NO
    if at_least(low, low_res, box.low, box.low_res) and at_least(
        box.high, box.high_res, high, high_res
    ):
        return YES if box.shape == RANGE else ASK
    return NO


@kernel
def inside_boxes(st, c, boxes, total):
    """Whether the query covers a stored conjunction."""
    verdict = YES
    met = 0
    i = 0
    while i < c.count:
        end = group_end(st, c, i)
        w = st.where[st.atoms[c.start + i].attr]
        if w >= 0:
            one = group_inside(st, c, i, end, boxes[w])
            if one == NO:
                return NO
            if one == ASK:
                verdict = ASK
            met += 1
        i = end
    return verdict if met == total else NO


@kernel
def atom_meets(st, atom, box):
    """Whether an atom and a box (neither ABSENT) can be true of one value."""
    op = atom.op
    if op == EXISTS or box.kind == BOX_EXISTS:
        return YES
    if atom.kind != box.kind:
        return NO
    if op == ANY or box.shape == EVERYTHING:
        return YES
    if box.shape == POINT:
        same = box.low == atom.num and box.low_res == atom.res
        if op == EQ:
            return YES if same else NO
        if op == NE:
            return NO if same else YES
        if op == IN:
            return YES if is_member(st, atom, box.low, box.low_res) else NO
    if box.kind == NUMBER and (op == EQ or op == GE or op == LE):
        if op != LE and not at_least(box.high, box.high_res, atom.num, atom.res):
            return NO
        if op != GE and not at_least(atom.num, atom.res, box.low, box.low_res):
            return NO
        return YES if box.shape <= RANGE else ASK
    return ASK


@kernel
def fed_by_boxes(st, c, boxes):
    """Whether the query, read as an advertisement, may feed a stored subscription."""
    verdict = YES
    for i in range(c.count):
        atom = st.atoms[c.start + i]
        if atom.op == ABSENT:
            continue
        w = st.where[atom.attr]
        if w < 0 or boxes[w].kind == BOX_ABSENT:
            return NO
        one = atom_meets(st, atom, boxes[w])
        if one == NO:
            return NO
        if one == ASK:
            verdict = ASK
    return verdict


@kernel
def feeds_boxes(st, c, boxes, wanted):
    """Whether a stored advertisement may feed the query. `wanted`: boxes that are not ABSENT."""
    verdict = YES
    met = 0
    i = 0
    while i < c.count:
        end = group_end(st, c, i)
        w = st.where[st.atoms[c.start + i].attr]
        if w >= 0 and boxes[w].kind != BOX_ABSENT and st.atoms[c.start + i].op != ABSENT:
            for j in range(i, end):
                one = atom_meets(st, st.atoms[c.start + j], boxes[w])
                if one == NO:
                    return NO
                if one == ASK:
                    verdict = ASK
            met += 1
        i = end
    return verdict if met == wanted else NO
