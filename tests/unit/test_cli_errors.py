"""What commands say of wrong input: where it is and what was expected, and no library's words."""

import pytest
from typer.testing import CliRunner

from byway.cli.main import VERBS, app

FOREIGN = (
    "Errno", "Traceback", "Connect call", "Input should", "Value error", "Expected `", "x>=",
    "valid float", "unable to parse", "codec", "Usage:", "Error:",
)  # fmt: skip
"""Words of libraries that a user would not understand."""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("sub TRUE --broker localhost:1", 1, "byway://localhost:1: Connection refused)\n"),
        ("sub TRUE --broker nowhere.invalid", 1, "byway://nowhere.invalid:7001: "),
        ("topology show --broker [::1]:1", 1, "byway://[::1]:1: "),
        ("client list --http localhost:1", 1, "localhost:1 cannot be reached: Connection refused"),
        ("client disconnect x --http a:b", 2, "--http: 'a:b' is no address: expected host:port"),
        ("subscription list --client x --all", 2, "expected --client or --all, not both\n"),
        ("client list --limit 0", 2, "--limit: expected at least 1\n"),
        ("client list --limit 2000", 2, "--limit: expected at most 1000\n"),
        ("client", 2, "Commands:"),
        ("client show", 2, "missing: NAME\nsee byway client show --help\n"),
        ("sub", 2, "missing: FILTER"),
        ("sub TRUE --count none", 2, "--count: expected an integer\nsee byway sub --help\n"),
        ("sub TRUE --count 0", 2, "--count: expected at least 1\n"),
        ("sub TRUE --count", 2, "--count: expected a value\n"),
        ("sub TRUE --timeout soon", 2, "--timeout: expected a time such as 10s, 250ms, 2m or 1h"),
        ("sub TRUE --timeout 0", 2, "--timeout: expected a time of at least 1ms, found '0'\n"),
        ("sub TRUE --broker :7001", 2, "':7001' is no address: expected host:port"),
        ("sub TRUE --brokr x", 2, "there is no option --brokr; did you mean --broker?\n"),
        ("sub TRUE --json=yes", 2, "--json takes no value\n"),
        ("subs TRUE", 2, "there is no command subs; did you mean 'sub'"),
        ("bench --attributes x", 2, "--attributes: expected one of 'quotes', 'number', found 'x'"),
        ("bench --rate fast", 2, "--rate: expected a number\n"),
        ("demo --seconds 2h", 2, "--seconds: expected a time from 100ms to 1h, found '2h'\n"),
        ("filter match a=1 {", 2, "not JSON: the text ends too early\n"),
        ("filter match a=1 [1]", 2, "expected an object, found an array\n"),
        ("broker --listen 1.2.3.4:port", 2, "--listen: listen: '1.2.3.4:port' is no address"),
        ("broker a b", 2, "more than expected: a b\n"),
        ("config check /", 2, "/: cannot be read: Is a directory\n"),
        ("simulate none.toml --seed x", 2, "--seed: expected an integer\n"),
        ("simulate none.toml --seed 99999999999999999999", 2, "--seed: expected a number from 0"),
        ("trace story", 2, "missing: ID\n"),
        ("trace story a/1 /nowhere", 2, "/nowhere"),
        ("reproduce --seeds 0", 2, "--seeds: expected at least 1\n"),
        ("reproduce M1 --set duration_s", 2, "--set duration_s: expected key=value"),
        ("reproduce M1 --set hops=1", 2, "claim M1: hops: "),
        ("reproduce X9", 2, "there is no claim 'X9'; expected some of "),
    ],
)
def test_an_error_is_plain(arguments: str, code: int, said: str) -> None:
    result = CliRunner().invoke(app, arguments.split(), prog_name="byway")
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr
    if "Commands:" not in said:
        assert not [words for words in FOREIGN if words in result.stderr]


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_an_unknown_option_of_every_verb(verb: str) -> None:
    result = CliRunner().invoke(app, [verb, "--nonsense-option"], prog_name="byway")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no option --nonsense-option" in result.stderr
    assert f"see byway {verb} --help" in result.stderr


@pytest.mark.parametrize(
    ("verb", "default"),
    [
        ("pub", "30s"),
        ("sub", "0s"),
        ("demo", "5s"),
        ("topology leave", "30s"),
        ("client list", "10s"),
    ],
)
def test_help_shows_times_as_people_type_them(verb: str, default: str) -> None:
    shown = " ".join(CliRunner().invoke(app, [*verb.split(), "--help"]).stdout.split())
    assert f"[default: {default}" in shown
