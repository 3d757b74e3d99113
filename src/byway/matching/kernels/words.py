"""Tables of the vocabulary: which number a name or a string has, found by its bytes.

Open addressing: an entry is a part of the hash and the number plus one, and 0 where there is none.
Words that are not plain ASCII stand in no table: whoever meets one asks Python.
"""

from __future__ import annotations

import numpy as np

from byway.matching.kernels.decorator import kernel
from byway.matching.kernels.store import array_at
from byway.matching.kernels.texts import FNV_BASIS, FNV_PRIME

HIGH_BITS = np.uint64(0x8080808080808080)


@kernel
def word_hash(text, start, stop):
    """The hash of bytes, 31 bits; -1 if they are not all ASCII."""
    h = FNV_BASIS ^ np.uint64(stop - start)
    seen = np.uint64(0)
    at = start
    while at + 8 <= stop:
        word = np.uint64(text[at])
        for i in range(1, 8):
            word |= np.uint64(text[at + i]) << np.uint64(8 * i)
        seen |= word
        h = (h ^ word) * FNV_PRIME
        h ^= h >> np.uint64(29)
        at += 8
    word = np.uint64(0)
    while at < stop:
        word = word << np.uint64(8) | np.uint64(text[at])
        at += 1
    seen |= word
    if seen & HIGH_BITS:
        return np.int64(-1)
    h = (h ^ word) * FNV_PRIME
    h ^= h >> np.uint64(29)
    h *= FNV_PRIME
    return np.int64(h >> np.uint64(33))


@kernel
def find_word(table, words, text, start, stop):
    """The number of the word with these bytes; -1: there is none, -2: they are not all ASCII."""
    h = word_hash(text, start, stop)
    if h < 0:
        return np.int64(-2)
    last = len(table) - 1
    i = h & last
    while table[i] != 0:
        if (table[i] >> 32) == h:
            number = (table[i] & 0xFFFFFFFF) - 1
            if is_word(words[number], text, start, stop):
                return number
        i = (i + 1) & last
    return np.int64(-1)


@kernel
def is_word(word, text, start, stop):
    """Whether a word has these bytes."""
    if word.length != stop - start:
        return False
    own = array_at(word.address, np.int64(word.length), np.uint8)
    for i in range(len(own)):
        if own[i] != text[start + i]:
            return False
    return True


@kernel
def file_word(table, words, number):
    """Enter a word that is not there yet; the table has room."""
    text = array_at(words[number].address, np.int64(words[number].length), np.uint8)
    h = word_hash(text, np.int64(0), len(text))
    if h >= 0:
        enter(table, h << 32 | (number + 1))


@kernel
def enter(table, entry):
    """Put an entry where it is looked for."""
    last = len(table) - 1
    i = (entry >> 32) & last
    while table[i] != 0:
        i = (i + 1) & last
    table[i] = entry


@kernel
def drop_word(table, words, number):
    """Take a word out, whose bytes are still there; entries that it was in the way of move up."""
    text = array_at(words[number].address, np.int64(words[number].length), np.uint8)
    h = word_hash(text, np.int64(0), len(text))
    if h < 0:
        return
    last = len(table) - 1
    entry = h << 32 | (number + 1)
    hole = h & last
    while table[hole] != entry:
        if table[hole] == 0:
            return
        hole = (hole + 1) & last
    i = hole
    while True:
        i = (i + 1) & last
        if table[i] == 0:
            break
        if ((i - (table[i] >> 32)) & last) >= ((i - hole) & last):
            table[hole] = table[i]
            hole = i
    table[hole] = 0


@kernel
def move_words(table, larger):
    """Enter all words of a table into another one, which is empty."""
    for i in range(len(table)):
        if table[i] != 0:
            enter(larger, table[i])
