"""A broker that forgets between a publication and the end of its advertisement, on their way."""

import pytest

from byway.core.broker_config import BrokerConfig
from byway.core.mesh.mesh_config import MeshConfig
from tests.core_net import Net, is_data


class SlowNet(Net):
    """Data from B3 to B4 stays under way."""

    def settle(self) -> None:
        while self.ready():
            for way in self.ready():
                self.step(way)

    def ready(self) -> list[tuple[str, str]]:
        return [
            way
            for way, frames in sorted(self.flying.items())
            if frames and not (way == ("B3", "B4") and is_data(frames[0]))
        ]


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="it is confirmed before B4 has it")
@pytest.mark.parametrize("delta", [1, 4])
def test_a_copy_that_comes_again_behind_the_end_of_its_advertisement_waits(delta):
    """Both have passed B2, and B3, which has not confirmed them, wants nothing more of the
    publisher. When B2 restarts without its state, both come again from B1: B2 hears from B3 that
    it wants nothing, and confirms the publication, though a broker beyond B3 does not have it."""
    config = BrokerConfig(mesh=MeshConfig(delta=delta, interval_us=0))
    net = SlowNet([("B1", "B2"), ("B2", "B3"), ("B3", "B4")], config)
    net.attach("pub", "B1")
    net.attach("sub", "B4")
    net.advertise("pub", "p > 0")
    net.settle()
    net.subscribe("sub", "p > 1")
    net.settle()
    net.publish("pub", p=5)
    net.unadvertise("pub")
    net.settle()
    if not net.flying["B3", "B4"]:
        pytest.fail("nothing is under way")
    net.restart("B2", stored=False)
    net.settle()
    assert net.confirmed("pub") == 0
