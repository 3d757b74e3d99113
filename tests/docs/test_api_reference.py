"""The API reference is made from the code as it is, and has every public name."""

import byway
from tests.docs.api_reference import PAGE, page


def test_the_page_is_current() -> None:
    """If not: `python -m tests.docs.api_reference` writes it."""
    assert PAGE.read_text() == page()


def test_every_public_name_is_described_once() -> None:
    text = PAGE.read_text()
    for name in set(byway.__all__) - {"__version__", "blocking"}:
        assert text.count(f"### `byway.{name}` ") == 1
    for name in byway.blocking.__all__:
        assert text.count(f"### `byway.blocking.{name}` ") == 1


def test_nothing_internal_is_shown() -> None:
    text = PAGE.read_text()
    assert "<function" not in text
    assert " at 0x" not in text
    assert "def _" not in text
