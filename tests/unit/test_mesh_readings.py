"""The static model of the claims about the mesh: its walks against paths of the tree."""

import pytest

from benches.mesh_readings import DATA, Paths, mapped, model, setting_of, walk


@pytest.mark.parametrize("at_leaves", [True, False])
def test_over_the_tree_the_brokers_on_the_paths_handle_an_item(at_leaves: bool) -> None:
    setting = setting_of(DATA["DT1"], 3, at_leaves)
    paths = Paths(setting.topology)
    handled = matched = 0
    for feed, who in setting.items:
        home, wanting = setting.feeds[feed], {setting.subscribers[n] for n in who}
        handled += len({home}.union(*(paths.path(home, at) for at in wanting)))
        handled -= home not in wanting  # a publisher's broker is no pure forwarder
        matched += len(wanting)
    tree = mapped(paths, dict.fromkeys(setting.topology.brokers, ()))
    walked = walk(setting, paths, tree, "S0")
    assert (walked.matched, walked.forwarders) == (matched, handled - matched)


def test_soft_links_spare_brokers_that_only_forward() -> None:
    setting = setting_of(DATA["DT1"], 3, at_leaves=True)
    s0, s1, s2, few = (
        model(setting, strategy, fanout)
        for strategy, fanout in (("S0", 35), ("S1", 35), ("S2", 35), ("S2", 1))
    )
    assert s0.matched == s1.matched == s2.matched == few.matched
    assert s2.forwarders < s1.forwarders < s0.forwarders == few.forwarders
