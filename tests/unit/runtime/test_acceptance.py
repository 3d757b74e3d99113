"""Which brokers may dial in: by the settings, by who is there, by what was learnt."""

import msgspec
import pytest

from byway.model.addresses import Address, Listing, Neighbour
from byway.runtime.acceptance import Acceptance
from byway.runtime.config_display import plain
from byway.runtime.config_sources import read_settings
from byway.runtime.dial_rules import DialRule
from byway.runtime.settings import BrokerSettings, Limits

EVERYWHERE = Address("0.0.0.0", 7001)
LOOPBACK = Address("127.0.0.1", 7001)
B2 = Neighbour(Address("10.0.0.2", 7002), "B2")
BY_ADDRESS = Neighbour(Address("10.0.0.3", 7003))


def settings(listen: Address = EVERYWHERE, **others: object) -> BrokerSettings:
    return BrokerSettings(id="B1", listen=listen, neighbours=(B2, BY_ADDRESS), **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host", "accept"),
    [
        ("127.0.0.1", "any"),
        ("127.8.9.10", "any"),
        ("::1", "any"),
        ("localhost", "any"),
        ("0.0.0.0", "listed"),
        ("::", "listed"),
        ("10.0.0.1", "listed"),
        ("192.168.1.4", "listed"),
        ("broker.example", "listed"),
        ("localhost.example", "listed"),
    ],
)
def test_the_default_goes_by_the_listener(host: str, accept: str) -> None:
    assert settings(Address(host, 7001)).accept == accept
    for given in ("any", "listed"):
        assert settings(Address(host, 7001), accept=given).accept == given


def test_the_settings_that_are_in_force_say_so(tmp_path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text('id = "B1"\nlisten = "0.0.0.0:7001"\n')
    reading = read_settings(str(path), {}, {})
    assert plain(reading.settings)["accept"] == "listed"
    assert "accept" not in reading.sources
    reading = read_settings(str(path), {"BYWAY_ACCEPT": "any"}, {})
    assert plain(reading.settings)["accept"] == "any"
    with pytest.raises(ValueError, match=r"accept: expected one of any, listed, found 'all'"):
        read_settings(str(path), {}, {}, ["accept=all"])


def test_listed_ones_only() -> None:
    acceptance = Acceptance(settings())
    assert acceptance.refusal("B2", []) == ""
    assert acceptance.refusal("was-here", ["was-here"]) == ""
    assert acceptance.refusal("B3", []) == (
        'broker B3 is not among the neighbours of B1, which accepts no other (accept = "listed")'
    )
    acceptance.learn(BY_ADDRESS, "B3")
    assert acceptance.refusal("B3", []) == ""
    assert acceptance.known_as(BY_ADDRESS) == "B3"
    acceptance.learn(BY_ADDRESS, "B4")  # another one answers there now
    assert acceptance.refusal("B3", []) != ""
    assert acceptance.refusal("", []) != ""


def test_any_up_to_a_bound() -> None:
    acceptance = Acceptance(settings(LOOPBACK, limits=Limits(neighbours=2)))
    assert acceptance.refusal("X", ["B2", "one"]) == ""
    assert acceptance.refusal("X", ["B2", "one", "two"]) == (
        "B1 has 2 neighbours that are not listed, the most there may be (limits.neighbours)"
    )
    assert acceptance.refusal("B2", ["one", "two"]) == ""
    assert acceptance.refusal("one", ["one", "two"]) == ""
    acceptance.settings = msgspec.structs.replace(acceptance.settings, limits=Limits(neighbours=0))
    assert acceptance.refusal("X", []) != ""


def test_who_may_open_links_outside_the_tree() -> None:
    rules = (DialRule("10.0.0.0/8"),)
    acceptance = Acceptance(settings(dial_allow=rules, limits=Limits(soft_links=2, neighbours=0)))
    assert acceptance.refusal_outside_tree("B3", "10.9.9.9", []) == ""
    assert acceptance.refusal_outside_tree("B2", "11.0.0.1", []) == ""  # it is listed
    assert acceptance.refusal_outside_tree("B3", "11.0.0.1", []) == (
        "broker B3 is not among the neighbours of B1, which lets others open links only from hosts "
        "that dial_allow admits, and not from 11.0.0.1"
    )
    assert acceptance.refusal_outside_tree("B3", "10.9.9.9", ["one", "two"]) == (
        "2 links outside the tree were opened to B1, the most there may be (limits.soft_links)"
    )
    assert acceptance.refusal_outside_tree("one", "10.9.9.9", ["one", "two"]) == ""
    anybody = Acceptance(settings(dial_allow=(), accept="any"))
    assert anybody.refusal_outside_tree("B3", "11.0.0.1", []) == ""


def test_whom_an_operator_has_added() -> None:
    acceptance = Acceptance(settings(), Listing((B2, BY_ADDRESS), (B2, BY_ADDRESS)))
    assert acceptance.is_added("B2")
    assert not acceptance.is_added("B3")
    acceptance.learn(BY_ADDRESS, "B3")
    assert acceptance.is_added("B3")
    acceptance.linked("B2")
    assert not acceptance.is_added("B2")
    assert acceptance.added == {BY_ADDRESS}
    named = Neighbour(BY_ADDRESS.address, "B3")
    assert acceptance.listing == Listing((B2, named), (BY_ADDRESS,))


def test_ids_learnt_before_a_restart_are_known() -> None:
    """Until another one answers there."""
    known = Listing((B2, Neighbour(BY_ADDRESS.address, "B3")))
    acceptance = Acceptance(settings(), known)
    assert acceptance.known_as(BY_ADDRESS) == "B3"
    assert acceptance.refusal("B3", []) == ""
    assert acceptance.listing == known
    acceptance.learn(BY_ADDRESS, "B4")
    assert acceptance.known_as(BY_ADDRESS) == "B4"
