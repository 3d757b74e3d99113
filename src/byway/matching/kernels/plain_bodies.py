"""Reading the body of a publication, straight into the codes that matching takes.

A body is msgpack: an array of a map, from attribute names to values, and of data. Only *plain*
bodies are read here: those that `byway.model.messages.Body` encodes to, with names and strings in
ASCII, integers that are exact as floats, few attributes, none of them twice. Whether anything else
is a publication, and which, is for Python to say. Bytes come from anybody: none is read that is not
known to be there.
"""

from __future__ import annotations

import numpy as np

from byway.matching.kernels.decorator import kernel
from byway.matching.kernels.words import find_word
from byway.matching.layout import BOOLEAN, NAN, NUMBER, STRING

NOT_PLAIN = np.int64(-1)
NAME_BYTES_MAX = 255
EXACT = 2**53
BASE = 32768 << 40  # no rounding lost
VALUE_BOOLEAN = BASE | BOOLEAN << 32
VALUE_NUMBER = BASE | NUMBER << 32
VALUE_STRING = BASE | STRING << 32
VALUE_NAN = BASE | NAN << 32
TEXT, SMALL, WHOLE, FRACTION, TRUTH, OTHER = 0, 1, 2, 3, 4, 5


@kernel
def read_body(st, body, codes, nums, texts, marks):
    """Codes, numbers and texts of a plain body, as `encoding.Codes` makes them; how many values
    there are, or `NOT_PLAIN`."""
    count, at = read_map_size(body)
    if count < 0 or count > len(codes):
        return NOT_PLAIN
    put = 0
    used = 0  # of `texts`
    for _ in range(count):
        kind, start, stop = read_head(body, at)
        if kind != TEXT or stop == start or stop - start > NAME_BYTES_MAX:
            return NOT_PLAIN
        name = find_word(st.name_table, st.names, body, start, stop)
        if name == -2:
            return NOT_PLAIN
        kind, start, at = read_head(body, stop)
        if kind == OTHER:
            return NOT_PLAIN
        if name >= 0:
            for i in range(put):
                if codes[i] & 0xFFFFFFFF == name:
                    return NOT_PLAIN
            marks[put] = used
        if kind == TEXT:
            number = find_word(st.string_table, st.words, body, start, at)
            if number == -2:
                return NOT_PLAIN
            if name >= 0:
                codes[put] = name | VALUE_STRING
                nums[put] = number
                put += 1
                if st.names[name].reads_text:
                    if used + at - start > len(texts):
                        return NOT_PLAIN
                    for i in range(start, at):
                        texts[used] = body[i]
                        used += 1
            continue
        if kind == FRACTION:
            value = np.int64(big_endian(body, start, 8)).view(np.float64)
            code = VALUE_NUMBER if value == value else VALUE_NAN
        elif kind == TRUTH:
            value = np.float64(body[start] & 1)
            code = VALUE_BOOLEAN
        else:
            whole = small(body[start]) if kind == SMALL else read_whole(body, start, at)
            if whole < -EXACT or whole > EXACT:
                return NOT_PLAIN
            value = np.float64(whole)
            code = VALUE_NUMBER
        if name >= 0:
            codes[put] = name | code
            nums[put] = value
            put += 1
    if not ends_with_data(body, at):
        return NOT_PLAIN
    marks[put] = used
    return np.int64(put)


@kernel
def read_map_size(body):
    """The number of attributes, -1 if this is no body; and where the first one is."""
    size = len(body)
    if size >= 2 and body[0] == 0x92:  # an array of two
        if body[1] & 0xF0 == 0x80:
            return np.int64(body[1] & 0x0F), np.int64(2)
        if body[1] == 0xDE and size >= 4:
            return np.int64(big_endian(body, np.int64(2), 2)), np.int64(4)
    return np.int64(-1), np.int64(0)


@kernel
def read_head(body, at):
    """What stands at a place: its kind, where its content starts, and where it ends. The content of
    a truth value or of a small integer is its tag; any other starts after the tag."""
    size = len(body)
    if at >= size:
        return OTHER, at, at
    tag = np.int64(body[at])
    kind, start, stop = OTHER, at + 1, at + 1
    if tag < 0x80 or tag >= 0xE0:
        kind, start = SMALL, at
    elif 0xA0 <= tag < 0xC0:
        kind, stop = TEXT, start + (tag & 0x1F)
    elif tag == 0xCB:
        kind, stop = FRACTION, start + 8
    elif tag == 0xC2 or tag == 0xC3:
        kind, start = TRUTH, at
    elif 0xCC <= tag <= 0xD3:
        kind, stop = WHOLE, start + (1 << (tag & 3))
    elif tag == 0xD9 and at + 2 <= size:
        kind, start = TEXT, at + 2
        stop = start + np.int64(body[at + 1])
    elif tag == 0xDA and at + 3 <= size:
        kind, start = TEXT, at + 3
        stop = start + np.int64(big_endian(body, at + 1, 2))
    if stop > size:
        return OTHER, at, at
    return kind, start, stop


@kernel
def small(tag):
    """The integer that a tag is."""
    return np.int64(tag) if tag < 0x80 else np.int64(tag) - 256


@kernel
def read_whole(body, start, stop):
    """The integer whose content lies here; a very large one is only known to be so."""
    width = stop - start
    raw = big_endian(body, start, width)
    if body[start - 1] <= 0xCF:  # without a sign
        return np.int64(min(raw, np.uint64(2**62)))
    unused = 64 - 8 * width
    return np.int64(raw << np.uint64(unused)) >> unused


@kernel
def big_endian(body, at, width):
    """The bytes from a place on as one number."""
    raw = np.uint64(0)
    for i in range(width):
        raw = raw << np.uint64(8) | np.uint64(body[at + i])
    return raw


@kernel
def ends_with_data(body, at):
    """Whether the rest is the data of a publication, and nothing else."""
    size = len(body)
    if at >= size:
        return False
    width = 0
    if body[at] == 0xC4:
        width = 1
    elif body[at] == 0xC5:
        width = 2
    elif body[at] == 0xC6:
        width = 4
    if width == 0 or at + 1 + width > size:
        return False
    return at + 1 + width + np.int64(big_endian(body, at + 1, width)) == size
