"""The page about speed shows the results that the bench wrote last."""

from tests.docs.step_tables import PAGE, with_tables


def test_the_page_has_the_tables() -> None:
    """If not: `python -m tests.docs.step_tables` puts them there."""
    page = PAGE.read_text()
    assert with_tables(page) == page
