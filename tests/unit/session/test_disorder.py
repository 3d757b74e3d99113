"""A client whose broker does not keep order takes each publication once, in whatever order."""

from byway.model.seen import SeenOutOfOrder, SeenPublications


def test_each_is_new_once_in_any_order() -> None:
    before = SeenPublications(4)
    assert before.is_new("x", 1, 3)
    seen = SeenOutOfOrder(4, before)
    seen.window = 8
    assert [seen.is_new("x", 1, n) for n in (2, 5, 4, 5, 4)] == [False, True, True, False, False]
    assert [seen.is_new("y", 1, n) for n in (10, 3, 2, 3)] == [True, True, False, False]
