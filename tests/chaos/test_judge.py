"""The judge of chaos runs finds what is wrong in logs, and excuses what is documented, only."""

from pathlib import Path

import pytest

from tests.chaos.interests import ALL, Interest
from tests.chaos.judge import SECOND, Facts, Verdict, judge

WIDE = ALL.written()
FEW = Interest((0, 10), (0, 100), ("oak",)).written()


class Logs:
    """Logs of a publisher p and a subscriber s with sessions, at brokers P and S."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.t = 10 * SECOND
        self.losses: dict[str, list[int]] = {}
        self.sessions = {"p": True, "s": True}
        self.p("S")
        self.p("L", "1 100")
        self.s("S")
        self.s("L", "1 100")
        self.s("Q", f"w {WIDE}")
        self.s("T", "w 1")

    def p(self, word: str, rest: object = "") -> None:
        self._write("p", word, rest)

    def s(self, word: str, rest: object = "") -> None:
        self._write("s", word, rest)

    def _write(self, client: str, word: str, rest: object) -> None:
        self.t += SECOND // 100
        with (self.directory / f"{client}.log").open("a") as file:
            file.write(f"{word} {self.t} {rest}".rstrip() + "\n")

    def publish(self, *numbers: int, a: int = 50) -> None:
        for n in numbers:
            self.p("P", f"{n} oak {a} 50")

    def get(self, *numbers: int, incarnation: int = 100, less: int = 0, name: str = "w") -> None:
        for n in numbers:
            self.s("G", f"{name} p {incarnation} {n - less} {n}")

    def loses(self, broker: str) -> None:
        self.t += SECOND // 100
        self.losses.setdefault(broker, []).append(self.t)

    def verdict(self) -> Verdict:
        return judge(self.directory, Facts({"p": "P", "s": "S"}, self.sessions, self.losses))


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def test_all_is_well(logs: Logs) -> None:
    logs.publish(1, 2, 3)
    logs.get(1, 2, 3)
    logs.p("C", "1 3")
    verdict = logs.verdict()
    assert verdict.is_exact
    assert (verdict.confirmed, verdict.owed, verdict.delivered) == (3, 3, 3)


def test_what_was_confirmed_and_did_not_come_is_lost(logs: Logs) -> None:
    logs.publish(1, 2, 3)
    logs.get(1, 3)
    logs.p("C", "1 3")
    verdict = logs.verdict()
    assert (verdict.lost, verdict.lost_publications, verdict.is_exact) == (1, 1, False)
    assert verdict.told["lost"] == ["s.w lacks 1 of p, n from 2 to 2"]


def test_what_is_not_confirmed_is_not_owed_but_must_be_in_the_end(logs: Logs) -> None:
    logs.publish(1, 2)
    logs.get(1)
    logs.p("C", "1 1")
    verdict = logs.verdict()
    assert (verdict.lost, verdict.unconfirmed, verdict.is_exact) == (0, 1, False)


def test_a_refusal_is_told(logs: Logs) -> None:
    logs.publish(1)
    logs.p("R", "1 'it conforms to no advertisement'")
    verdict = logs.verdict()
    assert (verdict.unconfirmed, verdict.strange, verdict.is_exact) == (0, 1, False)


def test_what_was_published_before_the_subscription_was_settled_is_not_owed(logs: Logs) -> None:
    logs.s("Q", f"x {FEW}")
    logs.publish(1, a=5)
    logs.s("T", "x 1")
    logs.publish(2, a=5)
    logs.publish(3, a=50)
    logs.get(1, 2, 3)
    logs.p("C", "1 3")
    assert logs.verdict().told["lost"] == ["s.x lacks 1 of p, n from 2 to 2"]


def test_a_subscription_that_is_never_settled_is_told(logs: Logs) -> None:
    logs.s("Q", f"x {FEW}")
    assert logs.verdict().unsettled == 1


def test_an_event_that_does_not_match_is_strange(logs: Logs) -> None:
    logs.s("Q", f"x {FEW}")
    logs.s("T", "x 1")
    logs.publish(1, a=50)
    logs.p("C", "1 1")
    logs.get(1)
    logs.get(1, name="x")
    verdict = logs.verdict()
    assert (verdict.strange, verdict.is_exact) == (1, False)


def test_twice_in_one_session_is_doubled(logs: Logs) -> None:
    logs.publish(1, 2)
    logs.p("C", "1 2")
    logs.get(1, 2, 2)
    verdict = logs.verdict()
    assert (verdict.doubled, verdict.disordered, verdict.is_exact) == (1, 0, False)


def test_late_is_out_of_order(logs: Logs) -> None:
    logs.publish(1, 2, 3)
    logs.p("C", "1 3")
    logs.get(2, 1, 3)
    verdict = logs.verdict()
    assert (verdict.doubled, verdict.disordered, verdict.is_exact) == (0, 1, False)


def test_an_older_session_of_a_publisher_does_not_come_later(logs: Logs) -> None:
    logs.publish(1, 2)
    logs.loses("P")
    logs.p("L", "2 200")
    logs.publish(3)
    logs.p("C", "1 3")
    logs.get(1)
    logs.get(3, incarnation=200)
    logs.get(2)
    assert logs.verdict().disordered == 1


def test_what_was_unconfirmed_when_a_session_ended_may_come_again(logs: Logs) -> None:
    logs.publish(1, 2)
    logs.p("C", "1 1")
    logs.get(1, 2)
    logs.loses("P")
    logs.p("L", "2 200")
    logs.get(2, incarnation=200, less=1)
    logs.p("C", "2 2")
    assert logs.verdict().is_exact
    logs.get(1, incarnation=200, less=-5)
    verdict = logs.verdict()
    assert (verdict.doubled, verdict.is_exact) == (1, False)


def test_a_publishers_session_that_ends_without_reason_is_a_fault(logs: Logs) -> None:
    logs.publish(1)
    logs.p("C", "1 1")
    logs.get(1)
    logs.loses("S")
    logs.p("L", "2 200")
    verdict = logs.verdict()
    assert (verdict.sessions_lost, verdict.is_exact) == (1, False)


def test_a_session_of_which_nothing_came_need_not_go_on(logs: Logs) -> None:
    logs.p("L", "2 200")  # it has published nothing
    logs.s("L", "2 200")
    logs.s("L", "3 300")  # the subscription of the second session was not settled
    assert logs.verdict().sessions_lost == 1  # that of the first one was
    logs.s("T", "w 3")
    logs.s("L", "4 400")
    assert logs.verdict().sessions_lost == 2


def test_without_a_session_nothing_goes_on(logs: Logs) -> None:
    logs.sessions["p"] = False
    logs.p("L", "2 200")
    assert logs.verdict().is_exact


def test_a_home_that_forgot_excuses_the_end_of_a_life_but_no_gap(logs: Logs) -> None:
    logs.publish(1, 2, 3, 4)
    logs.p("C", "1 4")
    logs.get(1, 3)
    logs.loses("S")
    logs.s("L", "2 200")
    logs.s("T", "w 2")
    verdict = logs.verdict()
    assert verdict.told["lost"] == ["s.w lacks 1 of p, n from 2 to 2, in a life that ended"]
    assert verdict.lost == 1


def test_after_a_home_forgot_the_next_life_is_owed_everything_again(logs: Logs) -> None:
    logs.loses("S")
    logs.s("L", "2 200")
    logs.publish(1)
    logs.s("T", "w 2")
    logs.publish(2, 3)
    logs.p("C", "1 3")
    logs.get(3)
    verdict = logs.verdict()
    assert (verdict.lost, verdict.owed) == (1, 2)


def test_a_subscribers_session_that_ends_without_reason_is_a_fault(logs: Logs) -> None:
    logs.loses("P")
    logs.s("L", "2 200")
    logs.s("T", "w 2")
    assert logs.verdict().sessions_lost == 1


def test_a_process_that_was_killed_waits_for_nothing(logs: Logs) -> None:
    logs.publish(1, 2)
    logs.p("C", "1 1")
    logs.get(1)
    logs.p("S")
    logs.p("L", "1 200")
    logs.publish(3)
    logs.p("C", "3 3")
    logs.get(3, incarnation=200, less=2)
    verdict = logs.verdict()
    assert (verdict.unconfirmed, verdict.is_exact) == (0, True)


def test_an_unsubscription_ends_what_is_owed(logs: Logs) -> None:
    logs.publish(1)
    logs.get(1)
    logs.s("U", "w")
    logs.publish(2)
    logs.p("C", "1 2")
    assert logs.verdict().is_exact


def test_a_line_that_is_being_written_is_left_out(logs: Logs) -> None:
    with (logs.directory / "p.log").open("a") as file:
        file.write("P 12")
    assert logs.verdict().is_exact
