"""Scenario files: what is read, what is refused, and whom the message blames."""

import pickle
import tomllib
from pathlib import Path

import pytest

from byway.sim.scenario import (
    Scenario,
    ScenarioError,
    ScenarioFile,
    read_scenario,
    scenario_of,
)
from byway.sim.scenario.broker_spec import BrokerSpec
from byway.sim.scenario.fault_spec import Crash
from byway.sim.scenario.read import FILE_BYTES_MAX, parse_setting
from byway.sim.scenario.schema import Network
from byway.sim.topology.topology_spec import ChainSpec

UNNAMED = 'topology = {kind = "chain", brokers = 3}\n'
BASE = 'name = "x"\ntopology = {kind = "chain", brokers = 3}\n'
WORKLOAD = BASE + '[workload]\nkind = "stocks"\n'
CRASH = BASE + "[[faults]]\nkind = 'crash'\nat_s = 1\nfor_s = 1\nbroker = 'B1'\n"
CLIENT = BASE + '[[client]]\nname = "ann"\nbroker = "B1"\n'
STEP = CLIENT + '[[step]]\nat_s = 1\nclient = "ann"\n'


def read(text: str, directory: Path, *settings: str) -> Scenario:
    path = directory / "file.toml"
    path.write_text(text)
    return read_scenario(path, settings)


def fault_of(text: str, directory: Path, *settings: str) -> str:
    with pytest.raises(ScenarioError) as raised:
        read(text, directory, *settings)
    return str(raised.value).replace(f"{directory}/", "")


def test_a_file_is_read(tmp_path: Path) -> None:
    scenario = read(
        BASE + '[network]\nlatency_ms = 5\n[[faults]]\nkind = "crash"\nat_s = 1\nfor_s = 2\n'
        'broker = "B2"\nstored = true\n',
        tmp_path,
    )
    assert scenario == Scenario(
        name="x",
        topology=ChainSpec(brokers=3),
        network=Network(latency_ms=5.0),
        faults=(Crash(at_s=1.0, for_s=2.0, broker="B2", stored=True),),
    )


def test_an_error_can_be_pickled(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as raised:
        read("", tmp_path)
    assert pickle.loads(pickle.dumps(raised.value)).problems == raised.value.problems


def test_a_scenario_can_be_pickled(tmp_path: Path) -> None:
    scenario = read(WORKLOAD + "parameters = {symbols = 3}\n", tmp_path)
    assert pickle.loads(pickle.dumps(scenario)) == scenario


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "",
            "name: missing; expected a string of 1 to 255 characters\n"
            "file.toml: topology: missing; expected a table",
        ),
        ('name = "x"', "topology: missing; expected a table"),
        (UNNAMED + "name = 3", "name: expected a string of 1 to 255 characters, found 3"),
        (UNNAMED + 'name = ""', "name: expected a string of 1 to 255 characters, found ''"),
        ("a = = 1", "not TOML: Invalid value (at line 1, column 5)"),
        (BASE + "seed = -1", "seed: expected an integer from 0 to 4294967295, found -1"),
        (BASE + "seed = 1.5", "seed: expected an integer from 0 to 4294967295, found 1.5"),
        (BASE + "seed = true", "seed: expected an integer from 0 to 4294967295, found true"),
        (BASE + "duration_s = 0", "duration_s: expected a number above 0 to 10000000, found 0"),
        (BASE + "quiet_s = nan", "quiet_s: expected a number from 0 to 10000000, found nan"),
        (BASE + "quiet_s = inf", "quiet_s: expected a number from 0 to 10000000, found inf"),
        (BASE + "network = 3", "network: expected a table, found 3"),
        (BASE + "[netwrok]", "netwrok: unknown key; did you mean 'network'?"),
        (
            BASE + "[network]\nlatency = 3",
            "network.latency: unknown key; did you mean 'network.latency_ms'?",
        ),
        (
            BASE + "[churn]\nxyz = 3",
            "churn.xyz: unknown key; expected one of from_s, to_s, subscribe_per_s, "
            "unsubscribe_per_s, vanish_per_s, away_s_min, away_s_max",
        ),
        (
            BASE + "brokers = {covering = 'lzay'}",
            "brokers.covering: expected one of active, incremental, lazy, none, packing, "
            "selective, found 'lzay'",
        ),
        (
            BASE + "brokers = {selective_similarity = 1.5}",
            "brokers.selective_similarity: expected a number from 0 to 1, found 1.5",
        ),
        (
            BASE + "brokers = {statistics_max = 1}",
            "brokers.statistics_max: expected an integer of at least 2, found 1",
        ),
        (
            BASE + "brokers = {incremental_bursts = 100}",
            "brokers.incremental_bursts: expected an array of 2, "
            "each an integer from 0 to 10000000, found 100",
        ),
        (
            BASE + "brokers = {incremental_bursts = [100, 50]}",
            "brokers.incremental_bursts: 100 is more than 50",
        ),
        (
            BASE + "brokers = {incremental_bursts = [-1, 50]}",
            "brokers.incremental_bursts.0: expected an integer from 0 to 10000000, found -1",
        ),
        (
            BASE + "brokers.at.B2 = {incremental_similarities = [0.6, 0.9]}",
            "brokers.at.B2.incremental_similarities: 0.6 is less than 0.9",
        ),
        (
            BASE + "brokers = {conformance = 'yes'}",
            "brokers.conformance: expected true or false, found 'yes'",
        ),
        (
            BASE + "[brokers.at.B2]\nprofile = 'paper'",
            "brokers.at.B2.profile: unknown key; expected one of "
            + ", ".join(BrokerSpec.__struct_fields__),
        ),
        (
            BASE + "workload = {}",
            "workload.kind: missing; expected one of covering, feeds, siena, stocks, workflow,"
            " zipf",
        ),
        (
            WORKLOAD + "publishers_at = []",
            "workload.publishers_at: expected a non-empty array of strings, found an array of 0",
        ),
        (
            WORKLOAD + "publishers_at = 3",
            "workload.publishers_at: expected a string of 1 to 255 characters or "
            "a non-empty array of strings, found 3",
        ),
        (
            WORKLOAD + "publishers_at = ['B1', 3]",
            "workload.publishers_at.1: expected a string of 1 to 255 characters, found 3",
        ),
        (
            WORKLOAD + "parameters = {symbls = 3}",
            "workload.parameters.symbls: unknown key; did you mean 'workload.parameters.symbols'?",
        ),
        (
            WORKLOAD + "parameters = {symbols = 'a'}",
            "workload.parameters.symbols: expected an integer, found 'a'",
        ),
        (
            WORKLOAD + "parameters = {symbols = 0}",
            "workload.parameters.symbols: expected a number from 1 to 20000, found 0",
        ),
        (BASE + "faults = 3", "faults: expected an array of tables, found 3"),
        (BASE + "faults = [3]", "faults.0: expected a table, found 3"),
        (
            BASE + "[[faults]]\nat_s = 1",
            "faults.0.kind: missing; expected one of crash, cut, partition, delay, slow, disk",
        ),
        (
            BASE + "[[faults]]\nkind = 'crush'",
            "faults.0.kind: expected one of crash, cut, partition, delay, slow, disk, found "
            "'crush'",
        ),
        (
            CRASH + "extra_ms = 2",
            "faults.0.extra_ms: unknown key; expected one of at_s, for_s, broker, stored, power, "
            "torn, stale",
        ),
        (
            BASE + "[[faults]]\nkind = 'cut'\nat_s = 1\nfor_s = 1\nlink = ['B1']",
            "faults.0.link: expected an array of 2, each a string of 1 to 255 characters, "
            "found an array of 1",
        ),
        (
            BASE + "[[faults]]\nkind = 'cut'\nlink = ['B1', 'B2']",
            "faults.0.at_s: missing; expected a number from 0 to 10000000\n"
            "file.toml: faults.0.for_s: missing; expected a number above 0 to 10000000",
        ),
        (
            BASE + "[expect]\ndeliveries = [1, 2, 3]",
            "expect.deliveries: expected an array of 2, each a number, found an array of 3",
        ),
        (
            BASE + "[expect]\ndelivries = 1",
            "expect.delivries: unknown key; did you mean 'expect.deliveries'?",
        ),
    ],
)
def test_a_fault_names_the_file_the_key_and_what_was_expected(
    text: str, message: str, tmp_path: Path
) -> None:
    assert fault_of(text, tmp_path) == f"file.toml: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BASE + "warmup_s = 10", "warmup_s: 10 s is too late: the run ends at 10 s"),
        (
            'name = "x"\ntopology = {brokers = 3}',
            "topology.kind: missing; expected one of chain, star, balanced-tree, random-tree, "
            "links, seed, transit-stub",
        ),
        (
            'name = "x"\ntopology = {kind = "chain", brokers = 3, broker = 3}',
            "topology.broker: unknown key; did you mean 'topology.brokers'?",
        ),
        (
            BASE + "brokers = {profile = 'fast'}",
            "brokers.profile: expected one of instant, measured, paper, paper-slow, found 'fast'",
        ),
        (
            WORKLOAD + "rate_per_s = 1\nrate_per_publisher_per_s = 1",
            "workload.rate_per_publisher_per_s: rate_per_s is given too",
        ),
        (
            BASE + "[workload]\nkind = 'siena'\nadvertise = 'symbols'",
            "workload.advertise: 'symbols' is for kind 'stocks', this one is 'siena'",
        ),
        (
            WORKLOAD + "publishers = 4\nadvertise = 'symbols'\nparameters = {symbols = 3}",
            "workload.publishers: 4 share 3 symbols",
        ),
        (
            WORKLOAD + "subscriptions = 3\nsubscribers = 4",
            "workload.subscribers: 4 share 3 subscriptions",
        ),
        (
            WORKLOAD + "subscribe_at_s = 6\nsubscribe_for_s = 5",
            "workload.subscribe_at_s: 11 s is too late: the run ends at 10 s",
        ),
        (
            BASE + "[workload]\nkind = 'covering'\nparameters = {count = 99}",
            "workload.subscriptions: 1000, but workload.parameters.count is 99",
        ),
        (BASE + "[churn]", "churn: is about the subscribers of a [workload]; there is none"),
        (
            BASE + "[[unsubscribe]]\nat_s = 1\ncount = 2",
            "unsubscribe: is about the subscribers of a [workload]; there is none",
        ),
        (
            WORKLOAD + "[[unsubscribe]]\nat_s = 5\ncount = 11\ngap_s = 0.5",
            "unsubscribe.0.at_s: 10 s is too late: the run ends at 10 s",
        ),
        (WORKLOAD + "[churn]\nto_s = 11", "churn.to_s: the run ends at 10 s"),
        (WORKLOAD + "[churn]\nfrom_s = 5\nto_s = 5", "churn.from_s: must be less than to_s"),
        (
            WORKLOAD + "[churn]\naway_s_min = 3",
            "churn.away_s_min: more than away_s_max, 2",
        ),
        (
            BASE + "faults_random = {for_s_min = 3}",
            "faults_random.for_s_min: more than for_s_max, 2",
        ),
        (
            BASE + "faults_random = {from_s = 9}",
            "faults_random.from_s: from 9 s to 10 s there are less than 2 s",
        ),
        (
            BASE + "[[faults]]\nkind = 'slow'\nat_s = 8\nfor_s = 3\nbroker = 'B1'",
            "faults.0.for_s: lasts to 11 s, the run ends at 10 s",
        ),
        (
            BASE
            + "[[faults]]\nkind = 'cut'\nat_s = 1\nfor_s = 3\nlink = ['B1', 'B2']\n"
            + "[[faults]]\nkind = 'cut'\nat_s = 2\nfor_s = 3\nlink = ['B2', 'B1']",
            "faults.1.at_s: an earlier fault of this kind is not over, and is about the same",
        ),
        (CLIENT + CLIENT.removeprefix(BASE), "client.1.name: 'ann' is named twice"),
        (
            WORKLOAD + "[[client]]\nname = 's01'\nbroker = 'B1'",
            "client.0.name: 's01' is what a client of the workload may be called",
        ),
        (
            CLIENT + "[[step]]\nat_s = 1\nclient = 'anne'\nvanish = true",
            "step.0.client: there is no client 'anne' in [[client]]; did you mean 'ann'?",
        ),
        (
            CLIENT + "[[step]]\nat_s = 10\nclient = 'ann'\nvanish = true",
            "step.0.at_s: 10 s is too late: the run ends at 10 s",
        ),
        (
            STEP,
            "step.0: expected one of advertise, subscribe, unadvertise, unsubscribe, publish, "
            "vanish, return, leave, found none",
        ),
        (
            STEP + "vanish = true\nreturn = true",
            "step.0: expected one of advertise, subscribe, unadvertise, unsubscribe, publish, "
            "vanish, return, leave, found vanish, return",
        ),
        (STEP + "return = false", "step.0.return: expected true, found false"),
        (
            STEP + "publish = {}\nname = 'n'",
            "step.0.name: goes with advertise or subscribe",
        ),
        (STEP + "vanish = true\ndata = 'n'", "step.0.data: goes with publish"),
        (
            STEP + "subscribe = 'price >'",
            "step.0.subscribe: at character 8: expected a number, a quoted string, TRUE or FALSE, "
            "found the end\n"
            "  price >\n         ^",
        ),
        (
            STEP + "publish = {price = 99999999999999999999}",
            "step.0.publish: attribute 'price': an integer of 67 bits does not fit into 64 bits",
        ),
        (
            STEP + "advertise = 'ANY'\nname = 's'\n[[step]]\nat_s = 2\nclient = 'ann'\n"
            "subscribe = 'TRUE'",
            "step.1.name: ann uses 's' for an advertisement and a subscription",
        ),
        (
            BASE + "[expect.messages_by_kind]\nretired = 1",
            "expect.messages_by_kind.retired: unknown key; "
            "did you mean 'expect.messages_by_kind.retire'?",
        ),
        (
            BASE + "[expect]\nyield = [1, 0.5]",
            "expect.yield: 1 is more than 0.5",
        ),
        (
            BASE + "[expect.received]\nann = 3",
            "expect.received.ann: there is no client 'ann' in [[client]]",
        ),
    ],
)
def test_what_cannot_work_is_refused(text: str, message: str, tmp_path: Path) -> None:
    assert fault_of(text, tmp_path) == f"file.toml: {message}"


# --- settings ---------------------------------------------------------------------------------


def test_times_may_have_a_unit_of_their_own(tmp_path: Path) -> None:
    scenario = read(
        'duration_s = "2m"\n' + BASE + '[network]\nlatency_ms = "0.5s"\n',
        tmp_path,
        "warmup_s=250ms",
        'brokers.sync_wait_s = "1h"',
    )
    assert (scenario.duration_s, scenario.warmup_s) == (120.0, 0.25)
    assert (scenario.network.latency_ms, scenario.brokers.sync_wait_s) == (500.0, 3_600.0)
    assert fault_of('duration_s = "2 weeks"\n' + BASE, tmp_path) == (
        "file.toml: duration_s: expected a number above 0 to 10000000, found '2 weeks'"
    )


def test_settings_go_over_the_file(tmp_path: Path) -> None:
    scenario = read(
        WORKLOAD + "[[faults]]\nkind = 'crash'\nat_s = 1\nfor_s = 2\nbroker = 'B2'\n",
        tmp_path,
        "network.latency_ms=5",
        "brokers.covering=active",
        'brokers.at.B2.covering="none"',
        "workload.subscribers_at = ['B1', 'B3']",
        "workload.parameters.symbols=7",
        "faults.0.broker=B3",
        "faults.0.stored=true",
        "topology.brokers=4",
        "topology.brokers=5",
        "name=other-one",
    )
    assert scenario.network.latency_ms == 5
    assert scenario.brokers.covering == "active"
    assert scenario.brokers.at["B2"].covering == "none"
    assert scenario.workload is not None
    assert scenario.workload.subscribers_at == ("B1", "B3")
    assert scenario.workload.parameters == {"symbols": 7}
    assert scenario.faults == (Crash(at_s=1.0, for_s=2.0, broker="B3", stored=True),)
    assert scenario.topology == ChainSpec(brokers=5)
    assert scenario.name == "other-one"


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("x", "expected key=value, such as network.latency_ms=5"),
        ("=3", "expected key=value, such as network.latency_ms=5"),
        ("a..b=3", "expected key=value, such as network.latency_ms=5"),
        ("seed=", 'expected a TOML value after =: a number, true, "text", [1, 2] or a word'),
        ("seed=[1", 'expected a TOML value after =: a number, true, "text", [1, 2] or a word'),
        ("seed=1\na=2", 'expected a TOML value after =: a number, true, "text", [1, 2] or a word'),
        ("seed=two", "seed: expected an integer from 0 to 4294967295, found 'two'"),
        ("sed=2", "sed: unknown key; did you mean 'seed'?"),
        (
            "network.latncy_ms=5",
            "network.latncy_ms: unknown key; did you mean 'network.latency_ms'?",
        ),
        ("latency_ms=5", "latency_ms: unknown key; did you mean 'network.latency_ms'?"),
        ("name.x=5", "name: is no table"),
        (
            "faults.1.at_s=5",
            "faults.1: expected the number of one of its 1 members, counted from 0",
        ),
        ("faults.x=5", "faults.x: expected the number of one of its 1 members, counted from 0"),
        ("faults.0.at_s=11", "faults.0.at_s: 11 s is too late: the run ends at 10 s"),
        ("faults=[]", None),
    ],
)
def test_a_fault_of_a_setting_is_blamed_on_it(
    setting: str, reason: str | None, tmp_path: Path
) -> None:
    text = BASE + "[[faults]]\nkind = 'crash'\nat_s = 1\nfor_s = 2\nbroker = 'B2'\n"
    if reason is None:
        read(text, tmp_path, setting)
    else:
        assert fault_of(text, tmp_path, setting) == f"--set {setting}: {reason}"


def test_each_problem_is_blamed_on_its_source(tmp_path: Path) -> None:
    text = BASE + "quiet_s = -1\n[churn]\naway_s_min = 'long'\n"
    assert fault_of(text, tmp_path, "network.latency_ms=slow").splitlines() == [
        "file.toml: quiet_s: expected a number from 0 to 10000000, found -1",
        "file.toml: churn.away_s_min: expected a number from 0 to 10000000, found 'long'",
        "--set network.latency_ms=slow: network.latency_ms: "
        "expected a number from 0 to 3600000, found 'slow'",
    ]


def test_a_fault_elsewhere_is_blamed_on_the_file(tmp_path: Path) -> None:
    message = fault_of(BASE + "seed = -1", tmp_path, "network.latency_ms=5")
    assert message.startswith("file.toml: seed: ")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=1", 1), ("a=1.5", 1.5), ("a=true", True), ("a='t'", "t"), ("a=word", "word"),
        ("a=a-b_c", "a-b_c"), ("a=[1, 2]", [1, 2]), ("a={b = 1}", {"b": 1}), ('a="x=y"', "x=y"),
    ],
)  # fmt: skip
def test_a_value_is_toml_or_a_word(text: str, value: object) -> None:
    found = parse_setting(text)
    assert (found.path, found.value) == (("a",), value)


# --- one file, many scenarios -----------------------------------------------------------------

EXAMPLES = sorted((Path(__file__).parents[3] / "examples/scenarios").glob("**/*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_scenario_with_changes_is_the_one_of_the_changed_data(path: Path) -> None:
    """Whatever other changes were asked of the file before."""
    file = ScenarioFile(path)
    for latency_ms in (1, 5):
        for quiet_s in (200, 300):
            data = tomllib.loads(path.read_text())
            data.setdefault("network", {})["latency_ms"] = latency_ms
            data["quiet_s"] = quiet_s
            settings = [f"network.latency_ms={latency_ms}", f"quiet_s={quiet_s}"]
            assert file.changed(settings) == scenario_of(data)
    assert file.changed() == scenario_of(tomllib.loads(path.read_text()))


def test_a_change_that_is_refused_is_refused_again(tmp_path: Path) -> None:
    """Beside changes that are not, and in the same words."""
    (tmp_path / "file.toml").write_text(CLIENT)
    file = ScenarioFile(tmp_path / "file.toml")
    for settings in (["network.latency_ms=-1"], ["network.latency_ms=-1", "duration_s=3"]):
        with pytest.raises(ScenarioError, match=r"^--set network.latency_ms=-1: network.latency_"):
            file.changed(settings)
    with pytest.raises(ScenarioError, match=r"^--set client.1.name=x: client.1: expected the num"):
        file.changed(["client.1.name=x"])
    with pytest.raises(ScenarioError, match=r"^--set nothing=1: nothing: unknown key; "):
        file.changed(["nothing=1"])
    (client,) = file.changed(["client.0.name=eve", "client.0.broker=B2"]).client
    assert (client.name, client.broker) == ("eve", "B2")
    assert file.changed(["client.0.broker=B2"]).client[0].name == "ann"


def test_a_setting_may_give_what_the_file_lacks(tmp_path: Path) -> None:
    (tmp_path / "file.toml").write_text(UNNAMED)
    file = ScenarioFile(tmp_path / "file.toml")
    assert file.changed(["name=a"]).name == "a"
    with pytest.raises(ScenarioError, match=r"file.toml: name: missing; expected"):
        file.changed()
    assert file.changed(["name=b"]).name == "b"


# --- files ------------------------------------------------------------------------------------


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"none\.toml: cannot be read: No such file"):
        read_scenario(tmp_path / "none.toml")


def test_a_directory_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be read: Is a directory"):
        read_scenario(tmp_path)
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ScenarioError, match=r"b\.toml: not TOML: 'utf-8' codec"):
        read_scenario(tmp_path / "b.toml")


def test_a_file_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    with path.open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    with pytest.raises(ScenarioError, match=f"larger than {FILE_BYTES_MAX} bytes"):
        read_scenario(path)


def test_plain_data_is_checked_likewise() -> None:
    with pytest.raises(ScenarioError, match=r"^topology: missing"):
        scenario_of({"name": "x"})
