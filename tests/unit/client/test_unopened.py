"""Advertisements and subscriptions that are made and never opened: a warning, no silence."""

import asyncio
import gc
import warnings

import pytest

import byway

NOWHERE = "byway://127.0.0.1:1"


def test_a_subscription_that_is_not_awaited_warns_at_its_line() -> None:
    async def forgetful() -> None:
        client = byway.connect(NOWHERE)
        client.subscribe("price > 18")

    with pytest.warns(RuntimeWarning, match=r"subscribe\('price > 18'\) was never opened") as found:
        asyncio.run(forgetful())
    (warning,) = found
    assert "await it, or use it in `async with`" in str(warning.message)
    assert warning.filename == __file__


def test_an_advertisement_that_is_not_awaited_warns() -> None:
    async def forgetful() -> None:
        byway.connect(NOWHERE).advertise("price > 0", "name EXISTS")

    with pytest.warns(RuntimeWarning, match=r"advertise\('price > 0', …\) was never opened"):
        asyncio.run(forgetful())


def test_iterating_over_one_that_is_not_awaited_raises_instead_of_ending() -> None:
    async def forgetful() -> None:
        async for _ in byway.connect(NOWHERE).subscribe("price > 18", name="dear"):
            pytest.fail("there is no event")

    def run() -> None:
        with pytest.raises(
            byway.ClosedError, match=r"subscription dear is .*: it was never opened"
        ):
            asyncio.run(forgetful())
        gc.collect()

    with pytest.warns(RuntimeWarning, match="never opened"):
        run()


def test_one_that_cannot_be_made_or_was_opened_does_not_warn() -> None:
    async def main() -> None:
        client = byway.connect(NOWHERE)
        with pytest.raises(byway.FilterSyntaxError):
            client.subscribe("price >")
        with pytest.raises(byway.BywayError):
            client.subscribe("price > 18", when_full="burst")  # type: ignore[arg-type]
        with pytest.raises(byway.NotSettledError):
            await client.subscribe("price > 18", timeout=0.01)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
        gc.collect()


def test_a_topic_pattern_gets_a_hint() -> None:
    async def main() -> None:
        byway.connect(NOWHERE).subscribe("sensors.>")

    with pytest.raises(byway.FilterSyntaxError) as caught:
        asyncio.run(main())
    assert "no topics" in caught.value.hint
    assert str(caught.value).endswith(caught.value.hint)
    assert "topic LIKE 'sensors.%'" in caught.value.hint
