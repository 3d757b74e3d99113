"""Plans of chaos: the same seed gives the same, all kinds of faults occur, and what is documented
to lose is spared."""

from tests.chaos.plan import POLICIES, Broker, Fault, Link, drawn_plan, is_fair, stays_known
from tests.chaos.report import kinds_of

PLANS = [drawn_plan(seed, tmpfs=True, remembering=seed % 2 == 0) for seed in range(1, 201)]


def test_a_seed_gives_its_plan_again() -> None:
    assert drawn_plan(7, tmpfs=True) == drawn_plan(7, tmpfs=True) != drawn_plan(8, tmpfs=True)


def test_a_seed_gives_the_same_faults_where_nothing_can_be_mounted() -> None:
    for seed in range(1, 101):
        here, there = drawn_plan(seed, tmpfs=True), drawn_plan(seed)
        assert [(f.at, f.kind, f.target) for f in here.faults] == [
            (f.at, f.kind, f.target) for f in there.faults
        ]
        assert (here.links, here.clients) == (there.links, there.clients)


def test_two_hundred_plans_have_every_fault_and_policy() -> None:
    assert {plan.covering for plan in PLANS} == set(POLICIES)
    kinds = [kind for plan in PLANS for kind in kinds_of(plan)]
    assert set(kinds) == {
        "SIGSTOP, broker",
        "SIGSTOP, clients",
        "away for more than 30 s",
        "cut, client",
        "cut, link",
        "full disk, limit",
        "full disk, tmpfs",
        "heavy traffic",
        "kill -9, clients",
        "kill -9, with state",
        "kill -9, without state",
        "mesh",
        "neighbours without state at once",
        "several killed at once",
        "torn file, cut",
        "torn file, flip",
        "torn file, garbage",
    }
    assert kinds.count("neighbours without state at once") >= 10


def test_a_mesh_changes_nothing_else_of_a_plan() -> None:
    for seed in range(1, 51):
        with_mesh, without = drawn_plan(seed, mesh=True), drawn_plan(seed, mesh=False)
        assert with_mesh.has_mesh
        assert not without.has_mesh
        assert (with_mesh.faults, with_mesh.clients) == (without.faults, without.clients)
        assert [b.keeps for b in with_mesh.brokers] == [b.keeps for b in without.brokers]


def test_plans_are_fair_trees() -> None:
    for plan in PLANS:
        assert is_fair(plan.brokers, plan.links, plan.faults), plan
        assert 5 <= len(plan.brokers) <= 7
        assert len(plan.links) == len(plan.brokers) - 1
        assert plan.faults
        assert {f.how for f in drawn_plan(plan.seed).faults if f.kind == "full"} <= {"limit"}


def test_who_must_not_forget() -> None:
    """M lists nobody; A and C dial in, and only M knows of both by itself."""
    m = Broker("M", keeps=False)
    links = (Link("A", "M", ("A",)), Link("M", "C", ("C",)))
    assert stays_known(m, links, {"M"}, {"M"})
    assert stays_known(m, links, {"M", "A"}, {"M", "A"})  # C remembers and is there
    assert not stays_known(m, links, {"M", "A"}, {"M", "A", "C"})  # C is away
    assert not stays_known(m, links, {"M", "A", "C"}, {"M", "A", "C"})
    assert stays_known(Broker("M", False, remembers=True), links, {"M", "A", "C"}, {"M", "A", "C"})
    listing = (links[0], Link("M", "C", ("M", "C")))
    assert stays_known(m, listing, {"M", "A"}, {"M", "A", "C"})  # it waits for C
    assert not stays_known(m, listing, {"M", "C"}, {"M", "A", "C"})
    both = (Link("A", "M", ("M",)), listing[1])
    assert stays_known(m, both, {"M", "A", "C"}, {"M", "A", "C"})  # it lists all


def test_a_broker_with_damaged_files_counts_as_one_that_forgets() -> None:
    brokers = (Broker("A", keeps=True), Broker("M", keeps=True))
    links = (Link("A", "M", ("A",)),)
    assert is_fair(brokers, links, [Fault(1, "kill", "A", 1), Fault(1, "kill", "M", 1)])
    assert not is_fair(brokers, links, [Fault(1, "kill", "A", 1), Fault(1, "torn", "M", 1, "cut")])
