"""Every checker fires: brokers are tampered with, and the report must say what is wrong.

A `Tampered` broker hands its actions to a function of the test, which may change them.
"""

import msgspec
import pytest

from byway.core.actions import Send, SendReply, SetTimer, Timer
from byway.core.branch_queues import BranchQueues
from byway.core.broker_config import BrokerConfig
from byway.core.mesh.mesh_config import MeshConfig
from byway.core.origin import Origin
from byway.model import TRUE, parse
from byway.model.messages import (
    Acknowledge,
    Attached,
    Batch,
    Delivery,
    EntryId,
    Lane,
    PublicationsConfirmed,
    Refused,
    Settled,
)
from byway.sim.engine.network import NetworkOptions
from byway.sim.oracle.reference_network import ReferenceNetwork, plain_tables, tables_of
from byway.sim.topology.shapes import chain
from byway.sim.world import World
from tests.sim.world_runs import RandomRun

pytestmark = pytest.mark.sim

SECOND = 1_000_000
BEGIN_US = 100_000
"""When publishers begin; two links of a millisecond each lie before the subscribers."""
replace = msgspec.structs.replace


class Tampered:
    """A broker whose actions are changed before they are done."""

    def __init__(self, broker, change):
        self._broker = broker
        self._change = change

    def __getattr__(self, name):
        return getattr(self._broker, name)

    def handle(self, now_us, event):
        return self._change(self._broker.handle(now_us, event))

    def handle_batch(self, now_us, events):
        return self._change(self._broker.handle_batch(now_us, events))


def on_replies(change):
    """Change the replies of each Tell."""

    def changed(actions):
        return [
            SendReply(action.client, tuple(change(action.client, list(action.replies))))
            if isinstance(action, SendReply)
            else action
            for action in actions
        ]

    return changed


class Case:
    """A settled publisher at B1 and two subscribers at B3, whose broker is tampered with."""

    def __init__(self, change=None, at="B3", ttl_us=0, latency_us=0, **config):
        network = NetworkOptions(client_latency_us=latency_us)
        self.world = World(chain(3), config=BrokerConfig(**config), network=network)
        self.source = self.world.client("source", "B1", ttl_us)
        self.sink = self.world.client("sink", "B3", ttl_us)
        self.other = self.world.client("other", "B3")
        self.source.advertise("ANY")
        self.sink.subscribe("p >= 0")
        self.other.subscribe("p > 100")
        assert self.world.quiet(10 * SECOND)  # news of links is two seconds late
        self.world.run(BEGIN_US)
        self.node = self.world.nodes[at]
        if change is not None:
            self.node.broker = Tampered(self.node.broker, change)

    def publish(self, count=3):
        for number in range(count):
            self.source.publish({"p": number})

    def report(self):
        self.world.quiet(100 * SECOND)
        return self.world.check()

    def counts(self):
        """What the report counts, zeros left out, and its first sentence."""
        report = self.report()
        assert not report.ok
        fields = msgspec.structs.asdict(report)
        counts = {k: v for k, v in fields.items() if v and type(v) is int}
        return counts, report.violations[0]


def deliveries(replies):
    return [i for i, reply in enumerate(replies) if isinstance(reply, Delivery)]


def test_all_is_well():
    case = Case()
    case.publish()
    assert case.report().ok


# --- deliveries -----------------------------------------------------------------------------------


def test_a_delivery_that_is_dropped_is_missed():
    def drop_last(client, replies):
        del client
        return [r for i, r in enumerate(replies) if i not in deliveries(replies)[2:]]

    case = Case(on_replies(drop_last))
    case.publish()
    counts, sentence = case.counts()
    assert counts == {"missing": 1}
    assert sentence == (
        "publication 3 of source (incarnation 1) (accepted at 2000000 us) was confirmed without "
        "client sink of B3 having it (at 2004000 us)"
    )


def test_a_gap_in_the_numbers_is_seen():
    def drop_first(client, replies):
        del client
        return [r for i, r in enumerate(replies) if i not in deliveries(replies)[:1]]

    case = Case(on_replies(drop_first))
    case.publish()
    counts, sentence = case.counts()
    assert counts == {"missing": 2}  # the gap when it is seen, the publication when confirmed
    assert sentence == "client sink of B3 got delivery 2 after 0 (at 2002000 us)"


@pytest.mark.parametrize(("again", "faults"), [(0, 2), (1, 1)])
def test_a_delivery_that_comes_twice_is_seen(again, faults):
    """Under the same number, or under one of its own."""

    def double(client, replies):
        del client
        found = deliveries(replies)
        if len(found) == 3:
            last = replies[found[-1]]
            replies.append(replace(last, number=last.number + again))
        return replies

    case = Case(on_replies(double))
    case.publish()
    counts, sentence = case.counts()
    assert counts == {"duplicates": faults}
    assert "sink of B3 got" in sentence
    assert case.sink.deliveries == 3


def test_deliveries_in_the_wrong_order_are_seen():
    def swap(client, replies):
        del client
        found = deliveries(replies)
        if len(found) == 3:
            a, b = found[:2]
            first, second = replies[a].publication, replies[b].publication
            replies[a] = replace(replies[a], publication=second)
            replies[b] = replace(replies[b], publication=first)
        return replies

    case = Case(on_replies(swap))
    case.publish()
    counts, sentence = case.counts()
    assert counts == {"out_of_order": 1}
    assert sentence == (
        "client sink of B3 got publication 1 of source (incarnation 1) after a later one "
        "(at 2002000 us)"
    )


def test_a_delivery_that_nobody_asked_for_is_seen():
    def misdeliver(actions):
        for action in list(actions):
            if isinstance(action, SendReply) and action.client == "sink":
                actions.append(SendReply("other", action.replies))
        return actions

    case = Case(misdeliver)
    case.publish()
    counts, sentence = case.counts()
    assert counts == {"spurious": 3}
    assert sentence == (
        "client other of B3 got publication 1 of source (incarnation 1) that none of its "
        "subscriptions matches (at 2002000 us)"
    )


def test_a_delivery_after_unsubscribing_is_seen():
    kept = []

    def keep(client, replies):
        del client
        kept.extend(r for r in replies if isinstance(r, Delivery))
        return replies

    case = Case(on_replies(keep))
    case.publish(1)
    case.world.quiet(SECOND)
    case.sink.unsubscribe("s1")
    case.world.quiet(SECOND)
    late = replace(kept[0].publication, sequence=2, published_us=case.world.now_us)
    case.node.clients["sink"].tell((Delivery(2, late, ("s1.1.1",)),))
    counts, _ = case.counts()
    assert counts == {"spurious": 1}


def test_a_confirmation_that_comes_too_early_is_seen():
    def confirm(actions):
        return [*actions, SendReply("source", (PublicationsConfirmed(1),))]

    case = Case(confirm, at="B1")
    case.publish(1)
    case.world.run(case.world.now_us + 500)
    assert case.world.check().missing == 1


def test_a_delivery_that_is_held_and_lost_is_missed():
    """It was under way when the publication was confirmed, and never arrived."""
    case = Case()
    wire = case.node.clients["sink"]
    wire._hold(True)
    case.publish(1)
    case.world.quiet(SECOND)
    assert wire._held
    wire._held.clear()
    assert case.report().missing == 1


def test_a_client_that_keeps_a_delivery_from_its_application_is_found():
    case = Case()
    case.publish(1)
    case.world.quiet(SECOND)
    case.sink.core.deliveries.events -= 1
    counts, sentence = case.counts()
    assert (counts, sentence) == ({"unsettled": 1}, "sink was given 0 of 1 publications")


def test_redelivery_is_excused_only_after_a_broker_lost_its_state():
    for lose, counted in ((False, "duplicates"), (True, None)):
        case = Case()
        kept = []
        case.node.broker = Tampered(
            case.node.broker,
            on_replies(lambda _, replies, kept=kept: kept.extend(replies) or replies),
        )
        case.publish(1)
        case.world.quiet(SECOND)
        if lose:
            case.world.crash("B2")
            case.world.restart("B2", stored=False)
            assert case.world.quiet(10 * SECOND)
        case.node.clients["sink"].tell((replace(kept[0], number=2),))
        report = case.report()
        if counted:
            assert report.duplicates == 1
        else:
            assert report.ok
            assert case.world.metrics().redelivered == 1
        assert case.sink.deliveries == 1


# --- sessions and answers -------------------------------------------------------------------------


def test_a_refusal_without_reason_is_seen():
    def refuse(client, replies):
        del client
        return [Refused("1", "no") if not isinstance(r, Settled) else r for r in replies[:1]]

    case = Case(on_replies(refuse), at="B1")
    case.publish(1)
    counts, sentence = case.counts()
    assert counts["refusals"] == 1
    assert sentence == (
        "client source of B1 was refused publication 1, which conforms to an advertisement (no) "
        "(at 2000000 us)"
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"resumed": False}, "client sink of B3 finds no session (at "),
        ({"published": 5}, "client sink of B3 is told of 5 publications instead of 0 (at "),
    ],
)
def test_a_session_that_is_mixed_up_is_seen(change, sentence):
    first = []

    def forget(client, replies):
        for number, reply in enumerate(replies):
            if isinstance(reply, Attached) and client == "sink" and not first:
                first.append(reply)
                replies[number] = replace(reply, **change)
        return replies

    case = Case(on_replies(forget), ttl_us=SECOND)
    case.sink.vanish()
    case.sink.come_back()
    counts, first_sentence = case.counts()
    assert counts["sessions"] == 1
    assert first_sentence.startswith(sentence)


def test_a_delivery_that_a_session_lost_is_missed():
    def drop(client, replies):
        return [r for r in replies if client != "sink" or not isinstance(r, Delivery)]

    case = Case(on_replies(drop), ttl_us=SECOND)
    case.sink.vanish()
    case.publish(1)
    case.world.quiet(SECOND)
    case.sink.come_back()
    counts, sentence = case.counts()
    assert counts == {"missing": 1}
    assert "was not in the session of client sink of B3" in sentence


def test_an_answer_that_never_comes_is_missed():
    def unanswered(client, replies):
        del client
        return [r for r in replies if not isinstance(r, Settled)]

    case = Case(on_replies(unanswered))
    case.sink.subscribe("p > 7", "late")
    counts, sentence = case.counts()
    assert counts == {"unsettled": 1}
    assert sentence == "sink was never told that late.2.2 is settled"


# --- tables, leaks, invariants --------------------------------------------------------------------


def test_an_entry_that_is_gone_is_missed():
    case = Case()
    broker = case.world.nodes["B2"].broker
    entry = next(iter(broker.subscriptions))
    broker.subscriptions.remove(entry)
    counts, _ = case.counts()
    assert counts["tables"] == 1
    sentence = case.world.check().violations[0]
    assert sentence == f"B2 lacks subscription {entry.id.client}/{entry.id.name} from B3"


@pytest.mark.parametrize(("covering", "faults"), [("none", 2), ("active", 3)])
def test_an_entry_too_many_is_seen(covering, faults):
    case = Case(covering=covering)
    broker = case.world.nodes["B2"].broker
    for table, link in ((broker.subscriptions, "B3"), (broker.advertisements, "B1")):
        entry = table.add(EntryId("ghost", "g", 1), TRUE, Origin(link))
        entry.settled = True
    report = case.report()
    assert report.tables == faults  # under active: that it ended, and that its filter differs
    assert any("advertisement ghost/g from B1: not in a fresh" in s for s in report.violations)
    assert any("subscription ghost/g" in s for s in report.violations)


@pytest.mark.parametrize(
    ("covering", "sentences"),
    [
        (
            "none",
            ("B2 lacks subscription sink/s1.1.1 from B3", "sink/s1.1.1 from B1: not in a fresh"),
        ),
        (
            "active",
            (
                "sink/s1.1.1 with filter p >= 1 instead of p >= 0",
                "sink/s1.1.1 from B1 instead of from B3",
                "B2 lacks a subscription from B3 to p >= 0",
                "B2 holds a subscription from B1 to p >= 1: not in a fresh network",
            ),
        ),
    ],
)
def test_another_filter_or_direction_is_seen(covering, sentences):
    case = Case(covering=covering)
    table = case.world.nodes["B2"].broker.subscriptions
    entry = next(e for e in table if e.id.client == "sink")
    table.remove(entry)
    table.add(entry.id, parse("p >= 1"), Origin("B1")).settled = True
    report = case.report()
    said = "\n".join(report.violations)
    for sentence in sentences:
        assert sentence in said


def test_plain_tables_are_those_of_new_brokers():
    """Said outright or done by brokers, a network without covering holds the same."""
    for seed in range(30):
        run = RandomRun(seed, faults=False)
        run.run()
        clients = run.world.sessions
        topology = run.world.topology
        configs = {
            name: BrokerConfig(mesh=MeshConfig(delta=run.rng.choice((1, 2, 4))))
            for name in topology.brokers
        }
        network = ReferenceNetwork(topology, configs)
        network.register(clients)
        done = {name: tables_of(broker) for name, broker in network.brokers.items()}
        assert plain_tables(topology, configs, clients) == done


def test_what_stays_behind_is_seen():
    case = Case(lambda actions: [a for a in actions if not _is_acknowledgement(a)])
    case.publish(1)
    counts, _ = case.counts()
    assert counts["leaks"] >= 1
    assert counts["unsettled"] == 1  # the publication is never confirmed
    assert any("data messages are kept for B3" in s for s in case.world.check().violations)


@pytest.mark.interpreted
def test_what_is_held_for_ever_is_seen(monkeypatch):
    case = Case(mesh=MeshConfig(delta=2))
    monkeypatch.setattr(BranchQueues, "_send_on", nothing)
    case.source.unadvertise(*case.source.advertisements)
    case.report()
    assert "B1: 1 data messages are held" in case.world.check().violations


@pytest.mark.interpreted
def test_what_is_parked_for_ever_is_seen(monkeypatch):
    case = Case(mesh=MeshConfig(delta=2, bypass_after_us=20_000))
    case.world.client("middle", "B2", 100 * SECOND).subscribe("p >= 0")
    assert case.world.quiet(10 * SECOND)
    case.world.crash("B2")
    case.publish(2)
    case.world.run(case.world.now_us + 5 * SECOND)
    assert case.world.nodes["B1"].broker.parked == 2
    monkeypatch.setattr(BranchQueues, "on_link_changed", nothing)
    case.world.restart("B2", stored=True)
    case.report()
    assert "B1: 2 data messages are parked" in case.world.check().violations


def nothing(*_):
    """Done instead of what a broker should do."""


def _is_acknowledgement(action):
    return isinstance(action, Send) and isinstance(action.frame, Acknowledge)


def test_a_timer_that_stays_is_seen():
    timer = Timer("forgotten", "x")
    case = Case(lambda actions: [*actions, SetTimer(timer, 10**12)])
    case.publish(1)
    counts, sentence = case.counts()
    assert counts == {"leaks": 1}
    assert sentence == "B3: timer forgotten x is set"


def test_a_breach_of_the_protocol_is_seen():
    case = Case()
    gap = Batch(Lane.CONTROL, 999, ())
    case.world.at(case.world.now_us, lambda: case.node.receive("B2", gap))
    counts, sentence = case.counts()
    assert counts == {"protocol": 1}
    assert sentence.startswith("B3 closed its connection to B2, which lane CONTROL goes on")


def test_a_broken_invariant_is_told():
    case = Case()
    table = case.world.nodes["B3"].broker.subscriptions
    next(iter(table)).forwarded |= {"B2"}
    next(iter(table)).forwarded |= {"nowhere"}
    counts, sentence = case.counts()
    assert counts["invariants"] >= 1
    assert "nowhere, which is no neighbour" in sentence


def test_a_world_that_does_not_come_to_rest_is_not_judged():
    case = Case()
    case.publish()
    report = case.world.check()
    assert report.ok
    assert not report.tables_compared


# --- random runs with a saboteur ------------------------------------------------------------------


def test_a_saboteur_in_random_runs_is_found():
    """One delivery in fifty is dropped or doubled somewhere: runs with such a one are not ok."""
    caught = sabotaged = 0
    for seed in range(40):
        run = RandomRun(seed, faults=False)
        done = []

        def change(client, replies, done=done, rng=run.rng):
            del client
            for number in deliveries(replies):
                if rng.random() < 0.02:
                    done.append(replies[number])
                    copies = [replies[number]] * rng.choice((0, 2))
                    return replies[:number] + copies + replies[number + 1 :]
            return replies

        for node in run.world.nodes.values():
            node.broker = Tampered(node.broker, on_replies(change))
        report = run.run()
        sabotaged += bool(done)
        caught += not report.ok
        assert report.ok or done
    assert sabotaged > 10
    assert (
        caught >= sabotaged * 0.7
    )  # the last delivery of all, if nobody had a claim, is not missed
