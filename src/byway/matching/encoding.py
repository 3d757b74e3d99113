"""Encoding: constraints as atoms, publications as codes, in the arrays that kernels read.

An atom's code packs attribute (32 bits), operator (8), kind (8) and the lost rounding of its number
(16); a publication's code packs name (32), kind (8), lost rounding + 32768 (16). See `layout`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, Final

from byway.matching import layout as lay
from byway.matching.vocabulary import Vocabulary
from byway.model.constraints import (
    Absent,
    BoolSet,
    Constraint,
    Exists,
    NumberRange,
    NumberSet,
    StringPattern,
    StringSet,
)
from byway.model.filters import Conjunction
from byway.model.values import (
    INFINITY,
    Attributes,
    Kind,
    Number,
    Value,
    canonical_number,
    kind_of,
    number_key,
)

_EXACT: Final = 2**53
_NUMBER: Final = lay.NUMBER << 40
_STRING: Final = lay.STRING << 40
_BOOLEAN: Final = lay.BOOLEAN << 40

_VALUE_BASE: Final = 32768 << 40  # no rounding lost
_VALUE_NUMBER: Final = _VALUE_BASE | lay.NUMBER << 32
_VALUE_STRING: Final = _VALUE_BASE | lay.STRING << 32
_VALUE_BOOLEAN: Final = _VALUE_BASE | lay.BOOLEAN << 32
_VALUE_NAN: Final = _VALUE_BASE | lay.NAN << 32


class Atoms:
    """The atoms of one conjunction, ready for a kernel. Reused from call to call, and left as they
    are when the same conjunction is asked for again, as when a broker stores a filter, looks for
    what covers it and for what it covers."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.codes: list[int] = []
        self.nums: list[float] = []
        self.set_nums: list[float] = []
        self.set_res: list[int] = []
        self.extended: list[int] = []  # fields that may need grid or text lists
        self._filled: Conjunction | None = None
        self._forgotten = 0
        self._lists: tuple[array[Any], ...] | None = None

    def fill(self, conjunction: Conjunction, attribute_of: Callable[[str], int]) -> None:
        """Encode `conjunction`; `attribute_of` numbers names (-1: unknown, in queries)."""
        vocabulary = self.vocabulary
        if conjunction is self._filled and self._forgotten == vocabulary.forgotten:
            return
        vocabulary.forget_unused()
        self.clear()
        self._forgotten = vocabulary.forgotten
        self._filled = conjunction
        for name, constraint in conjunction.terms:
            attribute = attribute_of(name)
            if attribute < 0:
                self._filled = None  # it may get a number later
            _ENCODERS[type(constraint)](self, attribute, constraint)

    def clear(self) -> None:
        """Hold no atoms, nor the memory for them."""
        self._filled = self._lists = None
        self.codes.clear()
        self.nums.clear()
        self.set_nums.clear()
        self.set_res.clear()
        self.extended.clear()

    def forget(self) -> None:
        """Encode the next conjunction whichever it is: numbers of attributes have changed."""
        self._filled = None

    def put(self, attribute: int, op: int, kind: int, num: float, res: int = 0) -> None:
        """Append one atom."""
        self.codes.append((attribute & 0xFFFFFFFF) | op << 32 | kind | res << 48)
        self.nums.append(num)

    def put_number(self, attribute: int, op: int, number: Number, shift: int = 0) -> None:
        """Append an atom about a number; `shift` closes an open bound."""
        if -_EXACT <= number <= _EXACT:
            self.put(attribute, op, _NUMBER, float(number), shift)
        else:
            nearest, rest = number_key(number)
            self.put(attribute, op, _NUMBER, nearest, rest + shift)

    def put_string(self, attribute: int, op: int, text: str) -> None:
        """Append an atom about a string, which the vocabulary knows from now on."""
        self.put(attribute, op, _STRING, float(self.vocabulary.string(text)))

    def put_set(self, attribute: int, kind: int, members: list[tuple[float, int]]) -> None:
        """Append an atom about a set, whose members are sorted."""
        self.put(attribute, lay.IN, kind, 0.0, len(members))
        for num, res in members:
            self.set_nums.append(num)
            self.set_res.append(res)

    def address(self) -> int:
        """Where a kernel finds how many atoms there are, their codes and numbers, how many members
        sets have, their numbers and lost roundings. It is there until the next `fill`."""
        if self._lists is None:
            parts = (
                array("q", self.codes), array("d", self.nums),
                array("d", self.set_nums), array("q", self.set_res),
            )  # fmt: skip
            codes, nums, set_nums, set_res = (part.buffer_info()[0] for part in parts)
            numbers = (len(self.codes), codes, nums, len(self.set_nums), set_nums, set_res)
            self._lists = *parts, array("q", numbers)
        return self._lists[-1].buffer_info()[0]


def _exists(atoms: Atoms, attribute: int, constraint: Exists) -> None:
    del constraint
    atoms.put(attribute, lay.EXISTS, lay.KINDS << 40, 0.0)


def _absent(atoms: Atoms, attribute: int, constraint: Absent) -> None:
    del constraint
    atoms.put(attribute, lay.ABSENT, lay.KINDS << 40, 0.0)


def _bool_set(atoms: Atoms, attribute: int, constraint: BoolSet) -> None:
    if len(constraint.values) == 2:
        atoms.put(attribute, lay.ANY, _BOOLEAN, 0.0)
    else:
        atoms.put(attribute, lay.EQ, _BOOLEAN, float(constraint.values[0]))


def _number_set(atoms: Atoms, attribute: int, constraint: NumberSet) -> None:
    values = constraint.values
    if len(values) == 1:
        atoms.put_number(attribute, lay.EQ, values[0])
    else:
        atoms.put_set(attribute, _NUMBER, [number_key(v) for v in values])


def _number_range(atoms: Atoms, attribute: int, c: NumberRange) -> None:
    low = c.low != -INFINITY or c.low_open
    high = c.high != INFINITY or c.high_open
    if low:
        atoms.put_number(attribute, lay.GE, c.low, 1 if c.low_open else 0)
    if high:
        atoms.put_number(attribute, lay.LE, c.high, -1 if c.high_open else 0)
    if low and high and attribute >= 0:
        atoms.extended.append(attribute * lay.KINDS + lay.NUMBER)
    for number in c.excluded:
        atoms.put_number(attribute, lay.NE, number)
    if not (low or high or c.excluded):
        atoms.put(attribute, lay.ANY, _NUMBER, 0.0)


def _string_set(atoms: Atoms, attribute: int, constraint: StringSet) -> None:
    if len(constraint.values) == 1:
        atoms.put_string(attribute, lay.EQ, constraint.values[0])
    else:
        ids = sorted(atoms.vocabulary.string(v) for v in constraint.values)
        atoms.put_set(attribute, _STRING, [(float(i), 0) for i in ids])


def _string_pattern(atoms: Atoms, attribute: int, c: StringPattern) -> None:
    before = len(atoms.codes)
    texts: list[tuple[int, str]] = []
    if c.prefix:
        texts.append((lay.PREFIX, c.prefix))
    if c.suffix:
        texts.append((lay.SUFFIX, c.suffix))
    texts += [(lay.CONTAINS, part) for part in c.contains]
    if c.low or c.low_open:
        texts.append((lay.TEXT_GT if c.low_open else lay.TEXT_GE, c.low))
    if c.high is not None:
        texts.append((lay.TEXT_LT if c.high_open else lay.TEXT_LE, c.high))
    texts += [(lay.NOT_PREFIX, part) for part in c.not_prefix]
    texts += [(lay.NOT_SUFFIX, part) for part in c.not_suffix]
    texts += [(lay.NOT_CONTAINS, part) for part in c.not_contains]
    for op, text in texts:
        atoms.put_string(attribute, op, text)
    if texts and attribute >= 0:
        atoms.extended.append(attribute * lay.KINDS + lay.STRING)
    for text in c.excluded:
        atoms.put_string(attribute, lay.NE, text)
    if len(atoms.codes) == before:
        atoms.put(attribute, lay.ANY, _STRING, 0.0)


_ENCODERS: Final[dict[type[Constraint], Callable[..., None]]] = {
    Exists: _exists,
    Absent: _absent,
    BoolSet: _bool_set,
    NumberSet: _number_set,
    NumberRange: _number_range,
    StringSet: _string_set,
    StringPattern: _string_pattern,
}


class Parcel:
    """The arrays of one publication, and where they are: a kernel that is given the address of this
    list of addresses finds everything."""

    __slots__ = ("_list", "address", "arrays")

    def __init__(
        self, codes: array[int], nums: array[float], texts: array[int], marks: array[int]
    ) -> None:
        self.arrays = codes, nums, texts, marks
        self._list = array("q", (
            len(codes), codes.buffer_info()[0], nums.buffer_info()[0], *texts.buffer_info(),
            marks.buffer_info()[0],
        ))  # fmt: skip
        self.address = self._list.buffer_info()[0]

    def put(self, codes: list[int], nums: list[float]) -> None:
        """Another publication in the same arrays, without texts; there is room for it."""
        count = len(codes)
        own_codes, own_nums, _, _ = self.arrays
        own_codes[:count] = array("q", codes)
        own_nums[:count] = array("d", nums)
        self._list[0] = count


class Codes:
    """Publications as codes, separated by `starts`; text bytes only where filters look at text."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.nums: list[float] = []
        self.starts: list[int] = [0]
        self.texts = bytearray()
        self.marks: list[int] = []

    def clear(self) -> None:
        """Forget all publications, to encode others."""
        self.codes.clear()
        self.nums.clear()
        if self.texts:
            self.texts = bytearray()
        self.marks.clear()
        self.starts[1:] = ()

    def put(self, attributes: Attributes, vocabulary: Vocabulary) -> None:
        """Encode one more publication; names that no filter uses are left out."""
        codes, nums = self.codes, self.nums
        names, strings = vocabulary.names, vocabulary.strings
        text_names = vocabulary.text_names
        value: Any  # told apart by its class below
        for name, value in attributes.items():
            number = names.get(name)
            if number is None:
                continue
            kind = type(value)
            if kind is float:
                codes.append(number | (_VALUE_NUMBER if value == value else _VALUE_NAN))
                nums.append(value)
            elif kind is str:
                codes.append(number | _VALUE_STRING)
                nums.append(strings.get(value, -1))
                if number in text_names:
                    self._mark()
                    self.texts += value.encode()
            elif kind is int and -_EXACT <= value <= _EXACT:
                codes.append(number | _VALUE_NUMBER)
                nums.append(value)
            else:
                self._put_rare(number, value, strings)
        self.starts.append(len(codes))

    def _put_rare(self, number: int, value: Value, strings: dict[str, int]) -> None:
        """Booleans, integers beyond 2**53, and subclasses of the four types."""
        kind = kind_of(value)
        if kind is Kind.BOOLEAN:
            self.codes.append(number | _VALUE_BOOLEAN)
            self.nums.append(float(value))
        elif kind is Kind.STRING:
            text = str(value)
            self.codes.append(number | _VALUE_STRING)
            self.nums.append(strings.get(text, -1))
            self._mark()
            self.texts += text.encode()
        elif kind is Kind.NAN:
            self.codes.append(number | _VALUE_NAN)
            self.nums.append(0.0)
        else:
            number_value = canonical_number(value)  # type: ignore[arg-type]
            nearest, rest = number_key(number_value)
            self.codes.append(number | lay.NUMBER << 32 | (rest + 32768) << 40)
            self.nums.append(nearest)

    def _mark(self) -> None:
        """All values up to the one just added start where the text stands now."""
        self.marks.extend([len(self.texts)] * (len(self.codes) - len(self.marks)))

    def parcel(self) -> Parcel:
        """The only publication that was put in, for a kernel."""
        codes, nums, marks = self.arrays()
        if not self.texts:
            marks = array("q", bytes(8 * (len(codes) + 1)))
        return Parcel(codes, nums, array("B", self.texts), marks)

    def arrays(self) -> tuple[array[int], array[float], array[int]]:
        """Codes, numbers and text marks (one more than codes) as machine arrays."""
        if self.texts:
            self.marks.extend([len(self.texts)] * (len(self.codes) + 1 - len(self.marks)))
        return array("q", self.codes), array("d", self.nums), array("q", self.marks)
