"""Where settings come from, which source counts, and what is said about wrong ones."""

import json
import re
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from byway.cli.main import app
from byway.core.broker_config import BrokerConfig
from byway.core.mesh.mesh_config import MeshConfig
from byway.model.addresses import Address, Neighbour
from byway.runtime.config_display import changed_keys, plain
from byway.runtime.config_sources import Reading, SettingsError, read_settings
from byway.runtime.settings import SETTINGS, BrokerSettings, Limits, host_id

SMALL = 'id = "B1"\nlisten = "127.0.0.1:7001"\n'
FULL = """\
id = "B1"
listen = "[::1]:7001"
neighbours = ["B2@127.0.0.1:7002", "localhost:7003"]
data = "state"
durability = "power"
state_dir = "names"
http = "127.0.0.1:9001"
trace = "traces"
log = "json"
log_level = "debug"

[core]
covering = "incremental"
incremental_bursts = [50, 1_000]
incremental_similarities = [1, 0.5]
selective_similarity = 0.75
merging = true
conformance = false
load_interval_us = 1_000_000

[limits]
clients = 3
slow_client = "block"
"""


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str) -> str:
        path = tmp_path / "broker.toml"
        path.write_text(text)
        return str(path)

    return write


def read(file: str | None, *settings: str, **variables: str) -> Reading:
    return read_settings(file, variables, {}, settings)


def problems(file: str | None, *settings: str, **variables: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        read(file, *settings, **variables)
    return str(caught.value).splitlines()


# --- sources -----------------------------------------------------------------------------------


def test_a_file_with_everything(file):
    core = BrokerConfig(
        covering="incremental",
        incremental_bursts=(50, 1_000),
        incremental_similarities=(1.0, 0.5),
        selective_similarity=0.75,
        merging=True,
        conformance=False,
        load_interval_us=1_000_000,
        probe_cycles=True,
    )
    assert read(file(FULL)).settings == BrokerSettings(
        id="B1",
        listen=Address("::1", 7001),
        neighbours=(
            Neighbour(Address("127.0.0.1", 7002), "B2"),
            Neighbour(Address("localhost", 7003)),
        ),
        data="state",
        durability="power",
        state_dir="names",
        http=Address("127.0.0.1", 9001),
        trace="traces",
        log="json",
        log_level="debug",
        core=core,
        limits=Limits(clients=3, slow_client="block"),
    )


def test_what_is_not_given_has_its_default(file):
    reading = read(file(SMALL))
    assert reading.settings == BrokerSettings(id="B1", listen=Address("127.0.0.1", 7001))
    assert reading.notes == []


def test_no_file_is_needed():
    reading = read_settings(None, {}, {"id": "B1", "listen": "h:1", "neighbours": ["B2@h:2"]})
    assert reading.settings.neighbours == (Neighbour(Address("h", 2), "B2"),)
    assert reading.sources["neighbours"] == "--neighbour"


def test_each_source_is_stronger_than_those_before(file):
    text = SMALL + "[limits]\nclients = 1\ndrain_ms = 1\nretry_ms = 1\nkeepalive_ms = 10\n"
    reading = read_settings(
        file(text),
        {
            "BYWAY_LIMITS__DRAIN_MS": "2_000",
            "BYWAY_LIMITS__RETRY_MS": "2",
            "BYWAY_ID": "B2",
            "BYWAY_DATA": "there",
        },
        {"id": "B3", "data": ""},
        ["limits.retry_ms=3", "id = B4"],
    )
    limits = reading.settings.limits
    assert (limits.clients, limits.drain_ms, limits.retry_ms, limits.keepalive_ms) == (
        1,
        2000,
        3,
        10,
    )
    assert (reading.settings.id, reading.settings.data) == ("B4", None)
    assert reading.sources["limits.drain"] == "BYWAY_LIMITS__DRAIN_MS"
    assert reading.sources["limits.retry"] == "--set limits.retry_ms=3"


# --- times -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('keepalive = "2s"', 2_000),
        ('keepalive = "250ms"', 250),
        ('keepalive = "0.5m"', 30_000),
        ("keepalive = 3", 3_000),
        ("keepalive = 0.25", 250),
        ('keepalive = "3"', 3_000),
        ("keepalive_ms = 300", 300),
        ('keepalive_ms = "2s"', 2_000),
    ],
)
def test_a_time_has_a_unit_or_the_one_of_its_key(file, text, expected):
    assert read(file(f"{SMALL}[limits]\n{text}\n")).settings.limits.keepalive_ms == expected


def test_times_can_be_given_by_every_source(file):
    path = file(SMALL + '[core]\nsession_ttl_max = "2h"\n[limits]\nretry_max = "1s"\n')
    reading = read(
        path,
        "limits.retry=20ms",
        "core.sync_wait=1m",
        BYWAY_LIMITS__KEEPALIVE="1.5s",
        BYWAY_CORE__LOAD_INTERVAL="2",
    )
    core, limits = reading.settings.core, reading.settings.limits
    assert (core.session_ttl_us_max, core.sync_wait_us, core.load_interval_us) == (
        7_200_000_000,
        60_000_000,
        2_000_000,
    )
    assert (limits.retry_ms_max, limits.retry_ms, limits.keepalive_ms) == (1_000, 20, 1_500)
    assert reading.notes == []


def test_a_stronger_source_counts_by_either_key(file):
    old, new = (file(f"{SMALL}[limits]\n{line}\n") for line in ("drain_ms = 1", 'drain = "1ms"'))
    for path in (old, new):
        for more in ("limits.drain=2ms", "limits.drain_ms=2"):
            assert read(path, more).settings.limits.drain_ms == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('keepalive = "soon"', "limits.keepalive: expected a time from 10ms to 1h, found 'soon'"),
        ('keepalive = "5ms"', "limits.keepalive: expected a time from 10ms to 1h, found '5ms'"),
        ("keepalive = true", "limits.keepalive: expected a time from 10ms to 1h, found true"),
        ("keepalive = 7200", "limits.keepalive: expected a time from 10ms to 1h, found 7200"),
        ("keepalive = nan", "limits.keepalive: expected a time from 10ms to 1h, found nan"),
        ('retry = "1.5ms"', "limits.retry: expected a time of at least 1ms, found '1.5ms'"),
        ("retry = -1", "limits.retry: expected a time of at least 1ms, found -1"),
        (
            "keepalive_ms = 5",
            "limits.keepalive_ms: expected an integer from 10 to 3600000, found 5",
        ),
    ],
)
def test_what_is_no_time_is_named_by_the_key_that_was_written(file, text, expected):
    path = file(f"{SMALL}[limits]\n{text}\n")
    assert problems(path) == [f"{path}: {expected}"]


def test_the_key_without_a_unit_counts_where_both_are(file):
    path = file(SMALL + '[limits]\nkeepalive_ms = 300\nkeepalive = "2s"\n')
    reading = read(path)
    assert reading.settings.limits.keepalive_ms == 2_000
    assert reading.notes == [
        f"{path}: limits.keepalive_ms is ignored: limits.keepalive, its new name, is there too"
    ]


@given(st.integers(0, 2**50))
def test_a_time_that_is_shown_is_read_as_the_same(microseconds):
    settings = BrokerSettings(core=BrokerConfig(sync_wait_us=microseconds))
    shown = plain(settings)["core.sync_wait"]
    again = read_settings(None, {"BYWAY_CORE__SYNC_WAIT": shown}, {}).settings
    assert again.core.sync_wait_us == microseconds


# --- what else is read ---------------------------------------------------------------------------


def test_variables_mean_what_their_keys_are(file):
    reading = read(
        file(SMALL),
        BYWAY_NEIGHBOURS="h:1, B2@h:2",
        BYWAY_CORE__CONFORMANCE="false",
        BYWAY_CORE__COVERING="active",
        BYWAY_HTTP="127.0.0.1:9",
        OTHER="ignored",
    )
    settings = reading.settings
    assert [str(n) for n in settings.neighbours] == ["h:1", "B2@h:2"]
    assert (settings.core.conformance, settings.core.covering) == (False, "active")
    assert settings.http == Address("127.0.0.1", 9)


@pytest.mark.parametrize("bursts", ["7,9", "7, 9", "[7, 9]"])
def test_numbers_and_pairs_of_them_can_be_texts(file, bursts):
    core = read(
        file(SMALL),
        f"core.incremental_bursts={bursts}",
        "core.selective_similarity=.5",
        "core.retire_batch=0",
        BYWAY_CORE__INCREMENTAL_SIMILARITIES="0.8,0.75",
    ).settings.core
    assert core.incremental_bursts == (7, 9)
    assert core.incremental_similarities == (0.8, 0.75)
    assert (core.selective_similarity, core.retire_batch) == (0.5, 0)


def test_a_variable_that_looks_like_a_slip_is_noted(file):
    reading = read(file(SMALL), BYWAY_LISTN="h:1", BYWAY_SOMETHING_ELSE="x")
    assert reading.notes == ["BYWAY_LISTN is not known; did you mean BYWAY_LISTEN?"]


def test_keys_of_earlier_versions_are_read_with_a_note(file):
    path = file(
        SMALL + "[core]\nagreement_wait_us = 5\nstrangers_wait_us = 7\n[limits]\nstrangers = 9\n"
    )
    reading = read(path)
    assert reading.settings.core.sync_wait_us == 5
    assert reading.sources["core.sync_wait"] == path
    assert reading.settings.limits.unidentified == 9
    assert reading.notes == [
        f'{path}: core.agreement_wait_us is called core.sync_wait now, a time such as "30s"',
        f"{path}: core.strangers_wait_us is not needed any more and ignored: brokers learn the "
        "names of each other's neighbours",
        f"{path}: limits.strangers is called limits.unidentified now",
    ]


def test_a_stronger_source_is_stronger_by_the_old_name_too(file):
    path = file(SMALL + "[core]\nsync_wait_us = 5\n")
    reading = read(path, BYWAY_CORE__AGREEMENT_WAIT_US="6")
    assert reading.settings.core.sync_wait_us == 6
    assert read(path, "core.agreement_wait_us=8").settings.core.sync_wait_us == 8
    both = read(file(SMALL + "[core]\nagreement_wait_us = 5\nsync_wait = 9e-6\n"))
    assert both.settings.core.sync_wait_us == 9
    assert "is ignored: core.sync_wait, its new name, is there too" in both.notes[0]


def test_a_wrong_value_under_the_old_name_is_named(file):
    (line,) = problems(file(SMALL), "core.agreement_wait_us=soon")
    assert line == (
        "--set core.agreement_wait_us=soon: core.sync_wait_us: "
        "expected an integer of at least 0, found 'soon'"
    )


# --- faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lisen = 1", ["lisen: unknown key; did you mean 'listen'?"]),
        ("keepalive_ms = 1", ["keepalive_ms: unknown key; did you mean 'limits.keepalive'?"]),
        ("delta = 4", ["delta: unknown key; did you mean 'mesh.delta'?"]),
        ("[core]\ncoverage = 1", ["core.coverage: unknown key; did you mean 'core.covering'?"]),
        (
            "[cellar]\nwine = 1",
            ["cellar: unknown key; expected one of id, listen, advertise, neighbours, "],
        ),
        ("core = 3", ["core: expected a table, found 3"]),
        ("data = 3", ["data: expected a string, found 3"]),
        ("http = 9001", ["http: expected host:port, found 9001"]),
        (
            'http = "9001"',
            [
                "http: '9001' is no address: expected host:port, such as localhost:9001 or "
                "[::1]:9001"
            ],
        ),
        ('log = "yaml"', ["log: expected one of human, json, found 'yaml'"]),
        (
            'neighbours = "h:1"',
            [
                "neighbours: expected an array of at most 1024, each host:port or id@host:port, "
                "found 'h:1'"
            ],
        ),
        ("neighbours = [1]", ["neighbours.0: expected host:port or id@host:port, found 1"]),
        ('neighbours = ["h:x"]', ["neighbours.0: 'h:x' is no address: expected host:port"]),
        ('neighbours = ["@h:1"]', ["neighbours.0: '@h:1': expected an id before the @"]),
        ("[core]\nconformance = 1", ["core.conformance: expected true or false, found 1"]),
        (
            "[core]\nhops_max = true",
            ["core.hops_max: expected an integer from 1 to 1073741823, found true"],
        ),
        (
            "[limits]\nclients = 0\nkeepalive_ms = 3.5",
            [
                "limits.clients: expected an integer of at least 1, found 0",
                "limits.keepalive_ms: expected an integer from 10 to 3600000, found 3.5",
            ],
        ),
        (
            "[core]\nbody_bytes_max = 2_000_000",
            ["core.body_bytes_max: expected an integer from 1 to 1048576, found 2000000"],
        ),
        (
            '[core]\ncovering = "eager"',
            [
                "core.covering: expected one of active, incremental, lazy, none, packing, "
                "selective, found 'eager'"
            ],
        ),
        (
            "[core]\nselective_similarity = 1.5",
            ["core.selective_similarity: expected a number from 0 to 1, found 1.5"],
        ),
        (
            "[core]\nselective_similarity = nan",
            ["core.selective_similarity: expected a number from 0 to 1, found nan"],
        ),
        (
            "[core]\nmerging_false_positives = true",
            ["core.merging_false_positives: expected a number from 0 to 1, found true"],
        ),
        (
            "[core]\nincremental_bursts = [1, 2, 3]",
            [
                "core.incremental_bursts: expected an array of 2, each an integer of at least 0, "
                "found an array of 3"
            ],
        ),
        (
            "[core]\nincremental_bursts = [-1, 2]",
            ["core.incremental_bursts.0: expected an integer of at least 0, found -1"],
        ),
        (
            "[core]\nincremental_similarities = 0.9",
            [
                "core.incremental_similarities: expected an array of 2, each a number from 0 to 1, "
                "found 0.9"
            ],
        ),
        (
            "[core]\nstatistics_max = 1",
            ["core.statistics_max: expected an integer of at least 2, found 1"],
        ),
    ],
)
def test_faults_name_file_key_found_and_expected(file, text, expected):
    path = file(SMALL + text)
    found = problems(path)
    assert len(found) == len(expected)
    for line, words in zip(found, expected, strict=True):
        assert line.startswith(f"{path}: {words}")


@pytest.mark.parametrize("id", ["", "a b", "a\n", "x" * 257])
def test_ids_are_words(file, id):
    (line,) = problems(file(SMALL), BYWAY_ID=id)
    assert "expected a string of 1 to 256 characters without spaces" in line


def test_nothing_need_be_given(file):
    settings = read(file("")).settings
    assert (settings.id, str(settings.listen)) == (host_id(), "127.0.0.1:7001")


@pytest.mark.parametrize(
    ("host", "id"),
    [
        ("harbour", "harbour"),
        ("harbour.example.org", "harbour"),
        ("my host@home", "myhosthome"),
        ("x" * 300, "x" * 256),
        ("", "broker"),
        (".local", "broker"),
    ],
)
def test_the_name_of_a_host_becomes_an_id(host, id, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert host_id() == id
    assert read_settings(None, {"BYWAY_ID": id}, {}).settings.id == id


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("h", "h:7001"),
        ("byway://h", "h:7001"),
        ("byway://h:1/", "h:1"),
        ("[::1]", "[::1]:7001"),
        ("localhost:9", "localhost:9"),
    ],
)
def test_scheme_and_port_of_an_address_may_be_left_out(text, address):
    assert str(read(None, f"listen={text}").settings.listen) == address
    (neighbour,) = read(None, f"neighbours=B2@{text}").settings.neighbours
    assert str(neighbour) == f"B2@{address}"


def test_the_operations_port_has_a_port_of_its_own():
    for text in ("127.0.0.1", "http://127.0.0.1:9001/"):
        assert read(None, f"http={text}").settings.http == Address("127.0.0.1", 9001)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('neighbours = ["B1@h:2"]', "neighbours: B1@h:2 is this broker itself"),
        ('neighbours = ["127.0.0.1:7001"]', "neighbours: 127.0.0.1:7001 is this broker itself"),
        ('neighbours = ["h:2", "B2@h:2"]', "neighbours: h:2 is listed twice"),
        ('neighbours = ["B2@h:2", "B2@h:3"]', "neighbours: B2 is listed twice"),
        ("core.incremental_bursts = [2, 1]", "core.incremental_bursts: 2 is more than 1"),
        (
            "core.incremental_similarities = [0.6, 0.9]",
            "core.incremental_similarities: 0.6 is less than 0.9",
        ),
        ('http = "127.0.0.1:7001"', "http: 127.0.0.1:7001 is the address that brokers and clients"),
    ],
)
def test_contradictions_are_named(file, text, reason):
    (line,) = problems(file(SMALL + text))
    assert reason in line


def test_other_sources_are_blamed_for_their_faults(file):
    wrong = "limits.client=1", "limits.clients=many", "core.incremental_bursts=9", "nonsense"
    found = problems(file(SMALL), *wrong, BYWAY_LOG="loud")
    assert sorted(found) == [
        "--set core.incremental_bursts=9: core.incremental_bursts: "
        "expected an array of 2, each an integer of at least 0, found '9'",
        "--set limits.client=1: limits.client: unknown key; did you mean 'limits.clients'?",
        "--set limits.clients=many: limits.clients: expected an integer of at least 1, "
        "found 'many'",
        "--set nonsense: expected key=value",
        "BYWAY_LOG: log: expected one of human, json, found 'loud'",
    ]


def test_files_that_cannot_be_read_are_named(file, tmp_path):
    assert problems("nowhere.toml") == ["nowhere.toml: cannot be read: No such file or directory"]
    (line,) = problems(file("id = "))
    assert "broker.toml: is not TOML: Invalid value (at " in line
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe")
    assert "is not TOML" in problems(str(path))[0]


# --- telling -----------------------------------------------------------------------------------


def test_every_setting_has_a_key():
    fields = {*BrokerSettings.__struct_fields__} - {"core", "limits", "mesh"}
    fields |= {f"core.{name}" for name in BrokerConfig.__struct_fields__ if name != "mesh"}
    fields |= {f"mesh.{name}" for name in MeshConfig.__struct_fields__}
    fields |= {f"limits.{name}" for name in Limits.__struct_fields__}
    assert {option.field for option in SETTINGS.values()} == fields
    assert len(SETTINGS) == len(fields)
    assert not [key for key in SETTINGS if re.search(r"_(us|ms|s)(_|$)", key)]


def test_the_table_of_the_mesh_goes_into_the_core(file):
    settings = read(file("[mesh]\ndelta = 4\ninterval = '2s'\nstrategy = 'S1'\n")).settings
    assert settings.mesh == MeshConfig(delta=4, interval_us=2_000_000, strategy="S1")
    assert settings.core.mesh == settings.mesh
    assert read(file("")).settings.core.mesh == MeshConfig()
    (line,) = problems(file("[core.mesh]\ndelta = 4\n"))
    assert "core.mesh: unknown key" in line


def test_what_has_changed_is_named(file):
    before = read(file(SMALL)).settings
    after = read(file(SMALL), "neighbours=h:1", "limits.clients=7", "core.covering=active").settings
    assert changed_keys(before, after) == ["neighbours", "core.covering", "limits.clients"]
    assert changed_keys(before, before) == []


def run(*arguments: str, **variables: str):
    return CliRunner().invoke(app, ["config", "check", *arguments], env=variables)


def test_check_prints_a_file_that_gives_the_same_settings(file, tmp_path):
    result = run(file(FULL), "--set", "limits.clients=5", BYWAY_LOG_LEVEL="error")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "\nclients = 5  # --set limits.clients=5\n" in result.stdout
    assert '\nlog_level = "error"  # BYWAY_LOG_LEVEL\n' in result.stdout
    copy = tmp_path / "copy.toml"
    copy.write_text(result.stdout)
    expected = read(file(FULL), "limits.clients=5", BYWAY_LOG_LEVEL="error").settings
    assert read(str(copy)).settings == expected


def test_check_prints_json(file):
    result = run(file(SMALL), "--json", BYWAY_LISTN="x")
    facts = json.loads(result.stdout)
    assert (facts["id"], facts["data"], facts["limits"]["clients"]) == ("B1", None, 10_000)
    assert sorted(facts.pop("sources")) == ["id", "listen"]
    tables = {table: facts.pop(table) for table in ("core", "limits", "mesh")}
    for table, members in tables.items():
        facts |= {f"{table}.{name}": value for name, value in members.items()}
    assert facts == plain(read(file(SMALL)).settings)
    assert result.stderr == "warning: BYWAY_LISTN is not known; did you mean BYWAY_LISTEN?\n"


def test_check_prints_all_that_is_wrong(file):
    result = run(file('log = "loud"\n[limits]\nclients = 0'))
    assert (result.exit_code, result.stdout) == (2, "")
    assert [line.rpartition("toml: ")[2].split(":")[0] for line in result.stderr.splitlines()] == [
        "log",
        "limits.clients",
    ]
