"""The memory layout of the matching index: record types, operator codes, counters.

A filter's conjunction becomes a run of *atoms* (attribute, operator, value). One atom, the *access*
atom, decides in which posting lists the conjunction is filed; the rest is verified. Everything
lives in flat numpy arrays: `arrays.Arrays` owns them, kernels find them through one directory. This
file decides the layout and nothing else.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

# --- operators of atoms ----------------------------------------------------------------------
# EQ … ANY compare `num` (a number, a string id or 0/1); the text operators compare bytes.
EQ: Final = 0
NE: Final = 1
GE: Final = 2  # at least (num, res); an open bound has res moved by one, see number_key
LE: Final = 3
IN: Final = 4  # one of sets[num : num + res]
ANY: Final = 5  # any value of the kind
EXISTS: Final = 6
ABSENT: Final = 7
PREFIX: Final = 8
SUFFIX: Final = 9
CONTAINS: Final = 10
NOT_PREFIX: Final = 11
NOT_SUFFIX: Final = 12
NOT_CONTAINS: Final = 13
TEXT_GE: Final = 14
TEXT_LE: Final = 15
TEXT_GT: Final = 16
TEXT_LT: Final = 17

# --- kinds: byway.model.Kind, and the pseudo-kind under which EXISTS and ABSENT are filed ------
BOOLEAN: Final = 0
NUMBER: Final = 1
STRING: Final = 2
NAN: Final = 3
EVERY: Final = 3  # field of an attribute that every present value visits
KINDS: Final = 4  # fields per attribute

# --- tags: what a posting list holds ---------------------------------------------------------
T_EQ: Final = 0  # access: equal to the payload
T_GRID: Final = 1  # access: ranges that touch a cell of the dyadic grid
T_PREFIX: Final = 2
T_SUFFIX: Final = 3
T_GRAM: Final = 4
T_NE: Final = 5
T_ANY: Final = 6  # access: satisfied by any value of the field
T_OTHER: Final = 7  # access: nothing indexable; verified one by one
T_GT: Final = 8  # access, ordered: lower bounds
T_LT: Final = 9  # access, ordered: upper bounds
T_REL_EQ: Final = 10  # relations, ordered: points
T_REL_LOW: Final = 11  # relations, ordered: ranges by their finite lower bound
T_REL_HIGH: Final = 12  # relations, ordered: ranges without lower bound, by the upper one
T_REL_LOOSE: Final = 13  # relations, ordered: everything else, all under one key
T_ALWAYS: Final = 14  # conjunctions without a positive atom
FIRST_RELATION: Final = T_REL_EQ
ORDERED: Final = 6  # ordered sets per field: T_GT … T_REL_LOOSE

# --- sizes -----------------------------------------------------------------------------------
GRID_LEVELS: Final = 64  # cell widths 4**-24 … 4**39
GRID_LOWEST: Final = -24
TEXT_KEY_MAX: Final = 63  # bytes of a prefix or suffix that make its list key
SAMPLES: Final = 32  # recent values kept per field
DEFERRED_MAX: Final = 256  # verified together
LEAF_MAX: Final = 256  # entries at which a leaf of an ordered set is split
SIZE_CLASSES: Final = 104
EXT_GRID, EXT_PREFIX, EXT_SUFFIX, EXT_GRAM = 0, 64, 128, 192
EXT_WIDTH: Final = 196

# Bit of post_filing: the conjunction has one atom and its key no other conjunction, so a list that
# vouches for the access atom vouches for the match.
LONE: Final = -32768
# Else, in a conjunction with one filing: a guard, an attribute without which it cannot match.
GUARD: Final = 16384
FILING_MASK: Final = 16383

# --- pools with free lists -------------------------------------------------------------------
POOL_ATOMS: Final = 0
POOL_FILINGS: Final = 1
POOL_POSTS: Final = 2
POOL_FENCES: Final = 3
POOL_SETS: Final = 4
POOLS: Final = 5

# --- counters in control ---------------------------------------------------------------
USED: Final = 0  # + pool: high-water mark of each pool
C_CONJUNCTIONS: Final = 5  # high-water marks
C_SLOTS: Final = 6
C_LISTS: Final = 7
C_ATTRIBUTES: Final = 8
C_EXTS: Final = 9
C_SAMPLED: Final = 10
FREE_CONJUNCTION: Final = 11  # heads of free chains, -1 at the end
FREE_SLOT: Final = 12
FREE_LIST: Final = 13
LIVE_CONJUNCTIONS: Final = 14
LIVE_KEYS: Final = 15
HASHED_LISTS: Final = 16
EPOCH: Final = 17
ALWAYS_LIST: Final = 18
RELATIONS: Final = 19  # 1 once relation queries are served
WANT_POSTS: Final = 20  # what a kernel could not get: grow and call again
WANT_FENCES: Final = 21
PUBLICATIONS: Final = 22  # seen
CANDIDATES: Final = 23  # conjunctions looked at
MATCHES: Final = 24  # conjunctions that matched
PRESENCE_TOTAL: Final = 25  # publications behind the presence counts (halved now and then)
HOT: Final = 26  # number of lists in hot
MOVED: Final = 27  # conjunctions given another access atom
PENDING: Final = 28  # a conjunction whose filing waits for room, or -1
CURSOR: Final = 29  # where the walk through the hottest list stands
PASS: Final = 30  # MOVED when that walk began
DEFERRED: Final = 31  # conjunctions put aside
FREE_EXT: Final = 32  # heads of free chains of rows, -1 at the end
FREE_SAMPLES: Final = 33
LIVE: Final = 34  # + pool: rows of each pool that are in use
LIVE_LISTS: Final = 39
LIVE_ATTRIBUTES: Final = 40
LIVE_EXTS: Final = 41
CONTROLS: Final = 42

ATOM = np.dtype(
    [("num", "f8"), ("attr", "i4"), ("res", "i2"), ("op", "u1"), ("kind", "u1")], align=True
)
CONJUNCTION = np.dtype(
    [
        ("start", "i4"),  # of its atoms
        ("slot", "i4"),  # of its key; -1 when free
        ("link", "i4"),
        ("filing", "i4"),  # start of its filings
        ("next", "i4"),  # next conjunction of the key, or next free
        ("count", "i4"),  # atoms
        ("access", "i4"),  # index of the access atom, -1: always list
        ("filings", "i4"),
        ("filed", "i4"),  # filings done so far
        ("ordinal", "i2"),  # which conjunction of its filter
        ("stamped", "i1"),  # 1: may be met twice in one match
        ("several", "i1"),  # 1: its key has other conjunctions
    ],
    align=True,
)
SLOT = np.dtype([("key", "i8"), ("head", "i4"), ("stamp", "i4"), ("link", "i4"), ("count", "i4")])
LIST = np.dtype(
    [
        ("payload", "i8"),
        ("start", "i4"),
        ("size", "i4"),
        ("room", "i4"),
        ("waste", "i4"),  # candidates refused since the last look
        ("next", "i4"),  # chain of the field's lists
        ("prev", "i4"),
        ("field", "i4"),
        ("res", "i2"),
        ("tag", "u1"),
        ("patience", "u1"),
    ],
    align=True,
)
FILING = np.dtype([("list", "i4"), ("pos", "i4")])
FENCE = np.dtype([("key", "i4"), ("conjunction", "i4"), ("list", "i4")])
MEMBER = np.dtype([("num", "f8"), ("res", "i2")], align=True)
ORDERED_SET = np.dtype([("start", "i4"), ("size", "i4"), ("room", "i4"), ("entries", "i4")])
FIELD = np.dtype(
    [
        ("access", "i4"),  # filings under access atoms of this field
        ("points", "i4"),  # T_EQ lists
        ("any", "i4"),  # list ids, -1: none
        ("other", "i4"),
        ("chain", "i4"),  # first of the field's access lists but T_NE
        ("unequal", "i4"),  # first of its T_NE lists
        ("ext", "i4"),  # row in ext, -1: no grid and no text lists
        ("samples", "i4"),  # row in samples, -1: nothing seen
        ("seen", "i4"),  # values seen by the samples
        ("repeats", "f4"),  # how likely two of its values are equal, the common ones apart
        ("observed", "i4"),  # 1: by publications; 0: only the constants of filters so far
    ]
)
# A string of the vocabulary.
WORD = np.dtype(
    [
        ("address", "i8"),  # of its bytes
        ("length", "i4"),
        ("uses", "i4"),  # atoms and members of sets that name it, in all indexes
        ("listed", "i4"),  # 1: stands in `unused`
    ],
    align=True,
)
# An attribute name of the vocabulary.
NAME = np.dtype(
    [
        ("address", "i8"),  # of its bytes
        ("length", "i4"),
        ("reads_text", "i4"),  # 1: some filter tests it with a text operator
    ],
    align=True,
)
# What an attribute of a relation query is constrained to.
BOX = np.dtype(
    [
        ("low", "f8"),
        ("high", "f8"),
        ("attr", "i4"),  # -1: no stored filter constrains it
        ("first", "i4"),  # its atoms in the query
        ("last", "i4"),
        ("low_res", "i2"),
        ("high_res", "i2"),
        ("kind", "u1"),  # or verdicts.BOX_EXISTS, BOX_ABSENT
        ("shape", "u1"),
    ],
    align=True,
)

# --- relations of stored conjunctions to a query ------------------------------------------------
COVERING: Final = 0  # stored covers query
COVERED: Final = 1  # query covers stored
FED: Final = 2  # stored subscriptions that the query, an advertisement, may feed
FEEDING: Final = 3  # stored advertisements that may feed the query, a subscription

Array = npt.NDArray[Any]


# The arrays of a store, in the order of its directory: element type and width (0: one-dimensional).
ARRAYS: Final[dict[str, tuple[np.dtype[Any], int]]] = {
    "control": (np.dtype("i8"), 0),  # see above
    "free": (np.dtype("i4"), SIZE_CLASSES),  # [pool, size class]: heads of free blocks
    "atoms": (ATOM, 0),
    "conjunctions": (CONJUNCTION, 0),
    "conjunction_key": (np.dtype("i8"), 0),
    "slots": (SLOT, 0),
    "lists": (LIST, 0),
    "post_conjunction": (np.dtype("i4"), 0),  # postings
    "post_filing": (np.dtype("i2"), 0),  # which filing of it, LONE, or a GUARD
    "post_key": (np.dtype("i4"), 0),  # in ordered sets: what the leaf is sorted by
    "filings": (FILING, 0),
    "sets": (MEMBER, 0),
    "fences": (FENCE, 0),
    "ordered": (ORDERED_SET, 0),  # [field * ORDERED + tag - T_GT]
    "fields": (FIELD, 0),  # [attribute * KINDS + kind]
    "ext": (np.dtype("i4"), EXT_WIDTH),  # counts per grid level, prefix length, suffix length, gram
    "masks": (np.dtype("u8"), 4),  # the same as bit masks
    "samples": (np.dtype("f8"), SAMPLES),
    "presence": (np.dtype("i4"), 2),  # publications with it, conjunctions that constrain it
    "table": (np.dtype("i8"), 0),  # fingerprint and list id, open addressing
    "keys": (np.dtype("i4"), 0),  # slot + 1 by key, open addressing
    "local": (np.dtype("i4"), 0),  # attribute by name id of the vocabulary, -1: unknown here
    "where": (np.dtype("i4"), 0),  # position of an attribute in the publication, -1: absent
    "hits": (np.dtype("i4"), 0),  # conjunctions that matched
    "deferred": (np.dtype("i4"), 0),  # conjunctions to be verified
    "deferred_lists": (np.dtype("i8"), 0),  # list << 1 | trusted, for each
    "deferred_starts": (np.dtype("i4"), 0),
    "hot": (np.dtype("i4"), 0),  # lists that wasted much
}
# The vocabulary's own directory follows them in a store's directory.
SHARED_ARRAYS: Final[dict[str, np.dtype[Any]]] = {
    "words": WORD,  # by number
    "unused": np.dtype("i4"),  # numbers of strings that may be unused: there is room for all
    "unused_count": np.dtype("i8"),  # how many these are
    "string_table": np.dtype("i8"),  # which number a string has, see `kernels.words`
    "names": NAME,  # by number
    "name_table": np.dtype("i8"),
}
