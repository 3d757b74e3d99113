"""Text operators, on bytes: UTF-8 keeps the order of code points, and parts stay parts."""

from __future__ import annotations

import numpy as np

from byway.matching.kernels.decorator import kernel
from byway.matching.kernels.store import array_at, give_memory, take_memory
from byway.matching.layout import (
    CONTAINS,
    NOT_CONTAINS,
    NOT_PREFIX,
    NOT_SUFFIX,
    PREFIX,
    SUFFIX,
    TEXT_GE,
    TEXT_GT,
    TEXT_LE,
)

FNV_BASIS = np.uint64(0xCBF29CE484222325)
FNV_PRIME = np.uint64(0x100000001B3)
SHORT = 4096


@kernel(inline="always")
def text_at(st, s):
    """The bytes of string s of the vocabulary."""
    word = st.words[s]
    return array_at(word.address, np.int64(word.length), np.uint8)


@kernel
def text_hash(text, start, end, backwards):
    """FNV-1a hash of bytes, from the first on or from the last."""
    h = FNV_BASIS
    for i in range(end - start):
        byte = text[end - 1 - i] if backwards else text[start + i]
        h = (h ^ np.uint64(byte)) * FNV_PRIME
    return np.int64(h)


@kernel
def gram_at(text, at, width):
    """Up to three bytes and their number as one integer, the payload of part lists."""
    gram = np.int64(width) << 24
    for i in range(width):
        gram |= np.int64(text[at + i]) << (8 * i)
    return gram


@kernel
def starts_with(value, at, end, text, start, stop):
    """Whether bytes of a value begin with bytes of a text."""
    if end - at < stop - start:
        return False
    for i in range(stop - start):
        if value[at + i] != text[start + i]:
            return False
    return True


@kernel
def contains_text(value, at, end, text, start, stop):
    """Substring search, linear in the worst case (Knuth, Morris and Pratt)."""
    m = stop - start
    if m == 0:
        return True
    if end - at < m:
        return False
    if m * (end - at) <= SHORT:  # trying every place is quicker than preparing
        for i in range(at, end - m + 1):
            if value[i] == text[start] and starts_with(value, i, end, text, start, stop):
                return True
        return False
    memory = take_memory(4 * m)
    found = search_text(value, at, end, text, start, m, array_at(memory, m, np.int32))
    give_memory(memory)
    return found


@kernel
def search_text(value, at, end, text, start, m, failure):
    """Whether m bytes of a text are part of a value; `failure` is for the search's own use."""
    failure[0] = 0
    k = 0
    for i in range(1, m):
        while k > 0 and text[start + i] != text[start + k]:
            k = failure[k - 1]
        if text[start + i] == text[start + k]:
            k += 1
        failure[i] = k
    k = 0
    for i in range(at, end):
        while k > 0 and value[i] != text[start + k]:
            k = failure[k - 1]
        if value[i] == text[start + k]:
            k += 1
            if k == m:
                return True
    return False


@kernel
def compare_with(value, at, end, text, start, stop):
    """Order of a publication's string and a vocabulary string."""
    while at < end and start < stop:
        if value[at] != text[start]:
            return -1 if value[at] < text[start] else 1
        at += 1
        start += 1
    if at < end:
        return 1
    return -1 if start < stop else 0


@kernel
def text_holds(st, atom, texts, at, end):
    """Whether a publication's string satisfies a text atom."""
    text = text_at(st, np.int64(atom.num))
    start, stop = np.int64(0), len(text)
    op = atom.op
    if op == PREFIX:
        return starts_with(texts, at, end, text, start, stop)
    if op == NOT_PREFIX:
        return not starts_with(texts, at, end, text, start, stop)
    if op == SUFFIX or op == NOT_SUFFIX:
        first = end - (stop - start)
        found = first >= at and starts_with(texts, first, end, text, start, stop)
        return found == (op == SUFFIX)
    if op == CONTAINS:
        return contains_text(texts, at, end, text, start, stop)
    if op == NOT_CONTAINS:
        return not contains_text(texts, at, end, text, start, stop)
    order = compare_with(texts, at, end, text, start, stop)
    if op == TEXT_GE:
        return order >= 0
    if op == TEXT_LE:
        return order <= 0
    if op == TEXT_GT:
        return order > 0
    return order < 0
