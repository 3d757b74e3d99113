"""Which addresses that other brokers say are kept, and which of them are dialled."""

import pytest

from byway.model.addresses import Address
from byway.model.errors import ConfigError
from byway.runtime.dial_rules import (
    LOOPBACK_RULES,
    DialRule,
    admits,
    dialled_address,
    heard_address,
)
from byway.runtime.settings import BrokerSettings

OWN = (Address("127.0.0.1", 7001), Address("broker.example.org", 7001))


def rules(*texts: str) -> tuple[DialRule, ...]:
    return tuple(DialRule.parse(text, "dial_allow") for text in texts)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.0.0.0/8:7001", "10.0.0.0/8:7001"),
        ("10.1.2.3", "10.1.2.3/32"),
        ("::1", "[::1/128]"),
        ("[fd00::/8]:7001", "[fd00::/8]:7001"),
        ("Broker.Example.org", "broker.example.org"),
        ("*.example.org:7001", "*.example.org:7001"),
        ("localhost", "localhost"),
    ],
)
def test_a_rule_is_read_and_shown(text, shown):
    rule = DialRule.parse(text, "dial_allow")
    assert str(rule) == shown
    assert DialRule.parse(shown, "dial_allow") == rule


@pytest.mark.parametrize(
    "text",
    ["", "*", "*.", "10.0.0.1/8", "10.*", "127.1", "0x7f000001", "2130706433", "a b", "h:0",
     "h:65536", "h:x", "ex*ample.org", "*.example.*", "10.0.0.0/33", "-x", "h/8"],
)  # fmt: skip
def test_what_is_no_rule_is_refused(text):
    with pytest.raises(ConfigError, match="dial_allow: expected a host, "):
        DialRule.parse(text, "dial_allow")


def test_hosts_that_a_rule_names():
    allowed = rules("10.0.0.0/8", "fd00::/8", "*.example.org", "west", "192.168.0.9:7001")
    for host in ("10.255.0.1", "::ffff:10.0.0.1", "fd00::9", "a.b.example.org", "WEST"):
        assert admits(allowed, host, 1)
    for host in ("11.0.0.1", "::1", "example.org", "notexample.org", "west.org", "10.0.0.1.org",
                 "10.1", "192.168.0.8", ""):  # fmt: skip
        assert not admits(allowed, host, 1)
    assert admits(allowed, "192.168.0.9", 7001)
    assert not admits(allowed, "192.168.0.9", 22)
    assert admits(allowed, "192.168.0.9")  # from any port
    assert not admits((), "127.0.0.1", 1)


def test_the_default_goes_by_the_listener():
    loopback = BrokerSettings(id="B1", listen=Address("127.0.0.1", 1))
    assert loopback.dial_allow == LOOPBACK_RULES
    assert all(admits(LOOPBACK_RULES, host, 9) for host in ("127.0.0.1", "::1", "localhost"))
    assert not admits(LOOPBACK_RULES, "10.0.0.1", 9)
    assert BrokerSettings(id="B1", listen=Address("0.0.0.0", 1)).dial_allow == ()
    assert BrokerSettings(id="B1", dial_allow=rules("west")).dial_allow == rules("west")


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("10.0.0.2:7001", "10.0.0.2:7001"),
        ("byway://10.0.0.2:7001/", "10.0.0.2:7001"),
        ("[fd00::2]:7001", "[fd00::2]:7001"),
        ("west.example.org:7002", "west.example.org:7002"),
        ("west", "west:7001"),
        ("", ""),
    ],
)
def test_an_address_that_may_be_true_is_kept(said, kept):
    assert heard_address(said, "10.0.0.2", OWN) == (kept, "")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("0.0.0.0:1", "no broker can have it"),
        ("[::]:1", "no broker can have it"),
        ("255.255.255.255:1", "no broker can have it"),
        ("224.0.0.1:1", "no broker can have it"),
        ("[ff02::1]:1", "no broker can have it"),
        ("::ffff:255.255.255.255", "it is no address"),
        ("[::ffff:255.255.255.255]:1", "no broker can have it"),
        ("10.0.0.2:0", "it has no port"),
        ("10.0.0.2:70000", "it is no address"),
        ("127.1:7001", "it is no address"),
        ("a..example.org:7001", "it is no address"),
        ("a" * 64 + ".example.org:7001", "it is no address"),
        ("0x7f000001:7001", "it is no address"),
        ("h;x:1", "it is no address"),
        ("-oProxy:1", "it is no address"),
        ("a\nb:1", "it is no address"),
        ("x" * 260 + ":1", "it is no address"),
        ("broker.example.org:7001", "it is the address of this broker"),
        ("127.0.0.1:7002", "it is a loopback address, and the broker is at 10.0.0.2"),
        ("localhost:7002", "it is a loopback address, and the broker is at 10.0.0.2"),
        ("[::ffff:127.0.0.1]:7002", "it is a loopback address, and the broker is at 10.0.0.2"),
    ],
)
def test_an_address_that_no_other_broker_can_have_is_not_kept(said, reason):
    assert heard_address(said, "10.0.0.2", OWN) == ("", reason)


def test_a_loopback_address_is_kept_of_a_broker_on_this_machine():
    assert heard_address("127.0.0.1:7002", "127.0.0.1", OWN) == ("127.0.0.1:7002", "")
    assert heard_address("127.0.0.1:7001", "127.0.0.1", OWN) == (
        "", "it is the address of this broker",
    )  # fmt: skip


def test_an_address_is_dialled_where_a_rule_admits_it():
    allowed = rules("10.0.0.0/8:7001")
    assert dialled_address("10.0.0.2:7001", allowed) == (Address("10.0.0.2", 7001), "")
    assert dialled_address("10.0.0.2:22", allowed) == (
        None, "no rule of dial_allow admits 10.0.0.2:22",
    )  # fmt: skip
    assert dialled_address("", allowed) == (None, "it has said no address")
    assert dialled_address("10.0.0.2:0", allowed) == (None, "10.0.0.2:0 has no port")
    assert dialled_address("at B2", allowed) == (None, "'at B2' is no address")
