"""What an operator has added to the list of neighbours, and removed from it."""

from byway.model.addresses import Listing, Neighbour


def listed(*texts: str) -> tuple[Neighbour, ...]:
    return tuple(Neighbour.parse(text, "neighbours") for text in texts)


def test_a_neighbour_is_the_same_by_its_id_or_by_its_address() -> None:
    before = Listing(listed("west@h:1", "h:2"))
    assert before.followed_by(listed("west@h:1", "h:2")) == (before, [])
    same = listed("west@elsewhere:1", "east@h:2")
    assert before.followed_by(same) == (Listing(same), [])
    assert before.followed_by(listed("h:1", "h:2")) == (before, [])


def test_which_were_added_and_removed() -> None:
    before = Listing(listed("west@h:1", "h:2", "east@h:3"))
    after = listed("west@elsewhere:1", "new@h:4", "h:9")
    assert before.followed_by(after) == (Listing(after, listed("new@h:4", "h:9")), ["east"])


def test_one_listed_by_address_is_removed_by_the_id_that_was_learnt() -> None:
    """What is listed is what the settings say; what was learnt is known of it."""
    before = Listing(listed("west@h:1", "east@h:2"))  # both were listed by address
    assert before.followed_by(listed("h:2")) == (Listing(listed("east@h:2")), ["west"])
    assert Listing(listed("h:1")).followed_by(()) == (Listing(), [])  # it has never answered


def test_one_that_answers_at_two_addresses_is_removed_with_the_last() -> None:
    before = Listing(listed("west@h:1", "west@h:2"))
    after, removed = before.followed_by(listed("h:2"))
    assert (after, removed) == (Listing(listed("west@h:2")), [])
    assert after.followed_by(()) == (Listing(), ["west"])
    assert before.followed_by(()) == (Listing(), ["west"])


def test_one_stays_added_while_it_is_listed() -> None:
    added = Listing(listed("west@h:1", "h:2"), listed("west@h:1", "h:2"))
    assert added.followed_by(listed("west@h:1", "h:2")) == (added, [])
    moved = listed("west@h:9", "east@h:2")
    assert added.followed_by(moved) == (Listing(moved, moved), [])
    assert added.followed_by(listed("h:2")) == (Listing(listed("h:2"), listed("h:2")), ["west"])
