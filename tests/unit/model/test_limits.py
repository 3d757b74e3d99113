"""Every bound: what is just inside is accepted, what is just outside is refused with the bound."""

import pytest

from byway.model import FilterLimitError, covers, intersects, merge, parse
from byway.model.constraints import PARTS_MAX, SET_SIZE_MAX, NumberSet
from byway.model.filters import ALTERNATIVES_MAX, CANDIDATES_MAX, TERMS_MAX, Filter
from byway.model.scanning import TEXT_LENGTH_MAX, TOKENS_MAX
from byway.model.text import NESTING_MAX, PRODUCTS_MAX


def alternatives(n):
    """n alternatives none of which covers another."""
    return " OR ".join(f"a > {i} AND b > {n - i}" for i in range(n))


def attributes(n):
    return " AND ".join(f"c{i} = 1" for i in range(n))


def holes(n, start=0):
    return f"a NOT IN ({', '.join(str(i) for i in range(start, start + n))})"


def parts(n, form="%{}%"):
    return " AND ".join(f"a NOT LIKE '{form.format(f'p{i:03}')}'" for i in range(n))


def nested(n):
    return "(" * n + "a = 1" + ")" * n


def choices(n):
    """2 ** n alternatives when multiplied out."""
    return " AND ".join(f"(a{i} > 1 OR b{i} > 1)" for i in range(n))


BOUNDS = [
    (lambda n: "a = 1".ljust(n), TEXT_LENGTH_MAX, "characters"),
    (lambda n: "NOT " * (n - 3) + "a = 1", TOKENS_MAX, "tokens"),
    (nested, NESTING_MAX, "nested parentheses"),
    (alternatives, ALTERNATIVES_MAX, "alternatives"),
    (attributes, TERMS_MAX, "attributes in one alternative"),
    (holes, SET_SIZE_MAX, "values in one set"),
    (lambda n: holes(n - 9) + " AND " + holes(9, n), SET_SIZE_MAX, "excluded values"),
    (parts, PARTS_MAX, "LIKE patterns on one attribute"),
    (lambda n: parts(n, "{}%"), PARTS_MAX, "LIKE patterns on one attribute"),
    (lambda n: parts(n, "%{}"), PARTS_MAX, "LIKE patterns on one attribute"),
    (
        lambda n: ",".join(f"[a{i},=,1]" for i in range(n)),
        TERMS_MAX,
        "attributes in one alternative",
    ),
]


@pytest.mark.parametrize(("text", "bound", "what"), BOUNDS, ids=range(len(BOUNDS)))
def test_bounds(text, bound, what):
    accepted = parse(text(bound))
    assert parse(str(accepted)) == accepted
    with pytest.raises(FilterLimitError) as refusal:
        parse(text(bound + 1))
    assert (refusal.value.what, refusal.value.limit) == (what, bound)
    assert refusal.value.actual in (None, bound + 1)


def test_choices_multiply_up_to_the_bound():
    assert len(parse(choices(6)).conjunctions) == 2**6 == ALTERNATIVES_MAX
    with pytest.raises(FilterLimitError, match="at most 64 alternatives, this one has 128"):
        parse(choices(7))
    with pytest.raises(FilterLimitError, match="at most 64 alternatives"):
        parse(choices(12))


def test_the_work_of_multiplying_is_bounded_over_the_whole_text():
    group = f"({choices(5)})"
    few = PRODUCTS_MAX // 2**6 - 1
    assert len(parse(" OR ".join([group] * few)).conjunctions) == 2**5
    with pytest.raises(FilterLimitError, match="multiplied out"):
        parse(" OR ".join([group] * 20))


def test_what_is_accepted_can_be_written_and_read_back():
    wide = f"{choices(6)} AND {attributes(20)}"
    with pytest.raises(FilterLimitError, match="at most 16384 characters in its normal form"):
        parse(wide)
    with pytest.raises(FilterLimitError, match="at most 16384 characters in its normal form"):
        parse(f"[a,str-prefix,'{'%' * 9000}']")
    dense = parse(f"{choices(6)} AND {attributes(8)}")
    assert parse(str(dense)) == dense
    escaped = parse(f"[a,str-prefix,'{'%' * 8000}']")
    assert parse(str(escaped)) == escaped


def test_equal_and_covered_alternatives_do_not_count():
    assert parse(" OR ".join(["a = 1"] * 200)) == parse("a = 1")
    assert parse(" OR ".join(f"a > {i % 100}" for i in range(CANDIDATES_MAX))) == parse("a > 0")
    assert parse(" OR ".join(f"a = {i}" for i in range(900))) == Filter.where(
        {"a": NumberSet(tuple(range(900)))}
    )
    assert parse(" AND ".join(["(a > 1 OR b > 1)"] * 15)) == parse("a > 1 OR b > 1")
    with pytest.raises(FilterLimitError, match="at most 128 alternatives before normalisation"):
        parse(" OR ".join(f"a > {i}" for i in range(CANDIDATES_MAX + 1)))


def test_a_set_may_repeat_its_values():
    assert parse(f"a IN ({', '.join(['1', '2'] * 900)})") == parse("a IN (1, 2)")


def test_large_sets_of_several_alternatives_share_them_out():
    sets = [f"a IN ({', '.join(map(str, range(n, n + 700)))})" for n in (0, 700)]
    f = parse(" OR ".join(sets))
    assert sorted(len(c.terms[0][1].values) for c in f.conjunctions) == [376, 1024]
    assert f == parse(" OR ".join(sets[::-1]))
    assert Filter.of(dict(c.terms) for c in f.conjunctions) == f
    assert all(f.matches({"a": i}) for i in (0, 699, 700, 1399))
    assert not f.matches({"a": 1400})


def test_relations_and_merges_of_the_largest_filters_do_not_fail():
    one, other = parse(holes(SET_SIZE_MAX)), parse(holes(SET_SIZE_MAX, 5000))
    low, high = parse(f"{holes(1024)} AND a < 3e3"), parse(f"{holes(1024, 5000)} AND a >= 3e3")
    some, more = (parse(f"a IN ({', '.join(map(str, range(n, n + 600)))})") for n in (0, 200))
    texts, others = parse(parts(PARTS_MAX)), parse(parts(PARTS_MAX, "q{}%"))
    pairs = [(one, other), (low, high), (some, more), (texts, others)]
    for f, g in pairs:
        assert intersects(f, g) is (f is not low)
        assert not covers(f, g)
        merged = merge(f, g)
        assert covers(merged.filter, f)
        assert covers(merged.filter, g)
        assert parse(str(merged.filter)) == merged.filter
    assert merge(some, more).perfect


def test_merging_two_of_the_largest_disjunctions():
    f = parse(alternatives(ALTERNATIVES_MAX))
    g = parse(alternatives(ALTERNATIVES_MAX).replace("b", "c"))
    merged = merge(f, g)
    assert len(merged.filter.conjunctions) <= ALTERNATIVES_MAX
    assert covers(merged.filter, f)
    assert covers(merged.filter, g)
