"""`byway topology`: show the network as a broker knows it, and change its neighbours.

Exit codes: 0 done, 1 the broker cannot be reached or refuses, 2 the input is not valid.
"""

from __future__ import annotations

import os
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from byway.cli.app import Seconds, counted, fail, new_app, refuse, time_option
from byway.cli.connecting import (
    BROKER,
    HTTP,
    BrokerOption,
    HttpOption,
    JsonOption,
    TimeoutOption,
    explained,
)
from byway.client import blocking
from byway.model.status import (
    BrokerLoad,
    BrokerStatus,
    LinkStatus,
    MeshLinkStatus,
    MeshStatus,
    MissingTables,
    PlaceholderStatus,
    PublisherStatus,
    SetAsideStatus,
    SlowSubscriberStatus,
    UnsettledEntry,
    mismatch_words,
    succession_words,
)

app = new_app(help="Look at the network, and change who is a neighbour.")

ENTRIES_MAX = 20
"""Unsettled entries that are shown one by one; `--json` has more."""
LINE_LENGTH = 10_000
"""Where no person reads lines from a terminal."""
SLOW_S = 1.0
"""What has waited for less is no news; `--json` has it too."""
_COLOURS = {"up": "green", "agreeing": "yellow", "down": "red"}


@app.callback()
def topology() -> None:
    """Look at the network through a broker, and change who is a neighbour.

    Commands that change something go to the operations port (http) of a broker on this machine.
    """


@app.command()
def show(
    broker: BrokerOption = BROKER,
    timeout: TimeoutOption = Seconds(10),
    preserved: Annotated[
        bool,
        typer.Option(
            "--preserved", help="List what stands for other subscriptions though nobody has it."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a broker, its links, and what it knows of the brokers behind them.

    Brokers behind its neighbours are known if loads are exchanged (core.load_interval).
    Subscriptions that ended are preserved if core.covering is incremental or selective; filters
    that stand for several are there with core.merging.
    """
    with explained(), blocking.connect(broker, timeout=timeout) as client:
        status = client.broker_status()
    if as_json:
        typer.echo(msgspec.json.encode(status))
    else:
        _show_tree(_tree(status, preserved))


@app.command()
def forget(
    neighbour: Annotated[str, typer.Argument(metavar="NEIGHBOUR")],
    http: HttpOption = HTTP,
    timeout: TimeoutOption = Seconds(10),
    as_json: JsonOption = False,
) -> None:
    """Have a broker forget a neighbour that does not come back, and wait for it no longer.

    Publications that waited for it and entries that came from it are dropped, and their numbers
    printed. Do not forget a neighbour that is only away: what waits for it is lost.
    """
    from byway.runtime.command_client import send_forget

    with explained():
        report = send_forget(http, neighbour, timeout)
    if as_json:
        typer.echo(msgspec.json.encode(report))
        return
    typer.echo(f"{report.broker} has forgotten {report.neighbour}")
    typer.echo(f"dropped: {report.publications:,} publications that waited for it")
    for publisher, count in report.by_publisher.items():
        typer.echo(f"  {count:,} of {publisher}")
    others = report.publications - sum(report.by_publisher.values())
    if others:
        typer.echo(f"  {others:,} of other publishers")
    typer.echo(f"dropped: {report.advertisements:,} advertisements that came from it")
    typer.echo(f"dropped: {report.subscriptions:,} subscriptions that came from it")
    if report.listed:
        typer.echo(
            f"{report.broker} still lists {report.neighbour} as a neighbour: it comes back when it "
            "is reached, and is waited for after the next start"
        )


@app.command()
def replace(
    neighbour: Annotated[str, typer.Argument(metavar="NEIGHBOUR")],
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="ID[@HOST:PORT]",
            help="The broker that takes its place, and where it can be dialled. It has no other "
            "neighbours, and had none since it started without state.",
        ),
    ],
    http: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT",
            envvar="BYWAY_HTTP",
            help="The operations port of a neighbour of the broker that is gone. Give it several "
            "times for all of them that are on this machine.",
        ),
    ] = None,
    wait: Annotated[
        float,
        time_option("--wait", help="How long to wait until the successor has told what it wants."),
    ] = Seconds(0),
    timeout: TimeoutOption = Seconds(10),
    as_json: JsonOption = False,
) -> None:
    """Have another broker take the place of a neighbour that does not come back.

    Each broker that was a neighbour of it has to be told. From then on it holds from the successor
    what it held from the broker that is gone, publications that wait included; they are sent once
    all of these neighbours are linked with the successor. What nobody wants then is lost, and
    printed by publisher and number. The same command once more changes nothing and tells how far
    that is.
    """
    from byway.cli.replace_verb import replace_everywhere

    replace_everywhere(neighbour, by, http or [HTTP], wait, timeout, as_json=as_json)


@app.command()
def discard(
    digest: Annotated[str | None, typer.Argument(metavar="[DIGEST]", show_default=False)] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Discard everything that is set aside.")
    ] = False,
    http: HttpOption = HTTP,
    timeout: TimeoutOption = Seconds(10),
    as_json: JsonOption = False,
) -> None:
    """Discard an input that a broker could not handle and has set aside; it is lost.

    The link or client that it came from is let in again.
    """
    if (digest is None) is not everything:
        refuse("expected the digest of what is to be discarded, or --all")
    from byway.runtime.command_client import send_discard

    with explained():
        report = send_discard(http, "all" if digest is None else digest, timeout)
    if as_json:
        typer.echo(msgspec.json.encode(report))
    elif not report.discarded:
        typer.echo(f"nothing is set aside at {report.broker}")
    for lost in report.discarded if not as_json else ():
        typer.echo(f"{report.broker} has discarded {lost}: it is lost")


@app.command()
def reload(
    traffic_stopped: Annotated[
        bool,
        typer.Option("--traffic-stopped", help="All publishers have stopped: links may be moved."),
    ] = False,
    http: HttpOption = HTTP,
    timeout: TimeoutOption = Seconds(10),
    as_json: JsonOption = False,
) -> None:
    """Have a broker read its settings again, as SIGHUP does, and print what has changed.

    A broker refuses to lose a connected neighbour and gain another one in its place, because
    publications under way would be lost. With --traffic-stopped it does so, if nothing is under way
    at this broker.
    """
    from byway.runtime.command_client import send_reload

    with explained():
        report = send_reload(http, traffic_stopped, timeout)
    if as_json:
        typer.echo(msgspec.json.encode(report))
        return
    nothing = "nothing takes effect now" if report.later else "nothing has changed"
    typer.echo(f"{report.broker} has reloaded: {', '.join(report.taken) or nothing}")
    for key in report.later:
        typer.echo(f"{key} has changed: that takes effect at the next start")


@app.command()
def leave(
    http: HttpOption = HTTP,
    timeout: TimeoutOption = Seconds(30),
    as_json: JsonOption = False,
) -> None:
    """Have a broker with at most two neighbours leave the network for good, and end.

    A single neighbour forgets it at once, so that nothing waits for it. Two are linked with each
    other, and nothing that passes between them is lost. Sessions of its clients end. A broker that
    is only to be stopped for a while gets SIGTERM instead.
    """
    from byway.runtime.command_client import send_leave

    with explained():
        report = send_leave(http, timeout)
    if as_json:
        typer.echo(msgspec.json.encode(report))
    else:
        typer.echo(f"{report.broker} has left for good")
        typer.echo(
            f"{report.clients:,} clients were connected; {report.sessions:,} sessions have ended, "
            f"with {report.deliveries:,} deliveries that were not acknowledged"
        )
    here, neighbours = report.broker, report.neighbours or [report.neighbour]
    if len(neighbours) > 1:
        one, other = neighbours
        if report.silent:
            there = [
                f"{name} has not confirmed that it has taken note: if it waits for {here}, run "
                f"there: byway topology replace {here} --by {other if name == one else one}"
                for name in report.silent
            ]
            fail("\n".join(there))
        if not as_json:
            typer.echo(
                f"{one} and {other} hold from each other what they held from {here}, and link; if "
                f"one lists {here} as a neighbour, take it off the list"
            )
        return
    if not report.confirmed:
        fail(
            f"{report.neighbour} has not confirmed that it has forgotten {report.broker}: if it "
            f"waits, let it forget it there (byway topology forget {report.broker})"
        )
    if report.neighbour and not as_json:
        typer.echo(
            f"{report.neighbour} has forgotten it; if {report.neighbour} lists it as a neighbour, "
            "take it off the list"
        )


def _show_tree(tree: Tree) -> None:
    """Print a tree, with whole lines where no person reads them from a terminal."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = LINE_LENGTH
    console.print(tree)


def _tree(status: BrokerStatus, preserved: bool) -> Tree:
    away = f" and {status.sessions_away:,} away" if status.sessions_away else ""
    queued = f", {status.queued:,} messages queued" if status.queued else ""
    facts = (
        f"  {status.listen}, clients {status.clients:,}{away}, "
        f"advertisements {status.advertisements:,}, subscriptions {status.subscriptions:,}"
        f"{_standing(status)}{queued}"
    )
    tree = Tree(Text.assemble((status.broker, "bold cyan"), facts))
    for line in (*_waits(status), *_backlogs(status)):
        tree.add(Text(line, "yellow"))
    mesh = {} if status.mesh is None else {link.broker: link for link in status.mesh.links}
    if status.mesh is not None:
        tree.add(_mesh(status.mesh))
    for link in status.links:
        branch = tree.add(_link(link, mesh.get(link.broker)))
        for placeholder in status.placeholders if preserved else ():
            if link.broker in placeholder.links:
                branch.add(_placeholder(placeholder))
        for load in link.behind:
            if load.hops > 1:
                branch.add(_load(load))
    for candidate in mesh.values():
        if candidate.kind == "candidate":
            tree.add(_candidate(candidate))
    for aside in status.inputs_set_aside:
        tree.add(_set_aside(aside))
    if status.set_aside > len(status.inputs_set_aside):
        tree.add(f"{status.set_aside - len(status.inputs_set_aside):,} more are set aside")
    left_out = status.preserved + status.mergers - len(status.placeholders)
    if preserved and left_out:
        tree.add(f"{left_out:,} more that stand for others are not listed")
    return tree


def _waits(status: BrokerStatus) -> list[str]:
    """One line for each thing that the broker or its clients wait for, perhaps in vain."""
    lines = [_missing(tables, status.restarting) for tables in status.missing]
    lines += [_unsettled(entry) for entry in status.unsettled_entries[:ENTRIES_MAX]]
    if status.unsettled > ENTRIES_MAX:
        lines.append(f"{status.unsettled - ENTRIES_MAX:,} more entries of clients are not settled")
    if status.held:
        lines.append(f"{status.held:,} deliveries wait for room in sessions of clients")
    lines += map(mismatch_words, status.kind_mismatches[:ENTRIES_MAX])
    lines += map(succession_words, status.successions[-ENTRIES_MAX:])
    return lines


def _backlogs(status: BrokerStatus) -> list[str]:
    """Who holds up whom: one line for each slow subscriber, slow link, and publisher that waits."""
    lines = [_slow_subscriber(one) for one in status.subscribers if one.blocked_s >= SLOW_S]
    more = status.slow_subscribers - len(status.subscribers)
    if more > 0:
        lines.append(f"{more:,} more subscribers do not read")
    if status.publications_held:
        lines.append("publications of clients wait until slow subscribers have read")
    mesh = [] if status.mesh is None else status.mesh.links
    rounded = {link.round[0] for link in mesh if link.round and link.use == "in use"}
    lines += [_bypassed(x, x.broker in rounded) for x in status.links if x.bypassed_s]
    lines += [_slow_link(link) for link in status.links if link.oldest_s >= SLOW_S]
    lines += [_publisher(one) for one in status.publishers if _waits_long(one)]
    lines += [_kept_back(name) for name in ([] if status.mesh is None else status.mesh.kept_back)]
    more = status.publishers_waiting - len(status.publishers)
    if more > 0:
        lines.append(f"{more:,} more publishers have unconfirmed publications")
    return lines


def _waits_long(publisher: PublisherStatus) -> bool:
    known = publisher.links or publisher.unlisted or publisher.parked
    return publisher.oldest_s >= SLOW_S or not known


def _slow_subscriber(slow: SlowSubscriberStatus) -> str:
    return (
        f"subscriber {slow.client} has not read for {slow.blocked_s:,.0f} s: {slow.waiting:,} "
        f"deliveries ({slow.waiting_bytes:,} bytes) wait for it"
    )


def _bypassed(link: LinkStatus, has_way: bool) -> str:
    parked = (
        f"{link.parked:,} {'waits' if link.parked == 1 else 'wait'} for it or for a way round, "
        f"the oldest for {link.oldest_parked_s:,.0f} s"
        if link.parked
        else "none wait for it"
    )
    time = f"{link.bypassed_s:,.0f} s"
    if has_way:
        return f"{link.broker} is away: for {time} publications have gone round it, and {parked}"
    return f"{link.broker} is away for {time}: no link leads round it now, and {parked}"


def _slow_link(link: LinkStatus) -> str:
    reads = f", it has not read for {link.blocked_s:,.0f} s" if link.blocked_s >= SLOW_S else ""
    return (
        f"link {link.broker} is slow: {_unconfirmed(link.unconfirmed, 'message')}, the oldest "
        f"for {link.oldest_s:,.0f} s{reads}"
    )


def _unconfirmed(number: int, what: str) -> str:
    return f"{counted(number, what)} {'is' if number == 1 else 'are'} not confirmed"


def _publisher(publisher: PublisherStatus) -> str:
    where = [*publisher.links, *(f"{link}, which is away" for link in publisher.parked)]
    if publisher.unlisted:
        where.append("neighbours that are not listed and may connect")
    age = f", the oldest for {publisher.oldest_s:,.0f} s" if where else ""
    if not where:
        where.append("its turn in a branch" if publisher.held else "sessions of clients")
    counts = (publisher.held, "held back"), (sum(publisher.parked.values()), "parked")
    found = ", ".join(f"{count:,} {how}" for count, how in counts if count)
    held = f" ({found})" if found else ""
    return (
        f"publisher {publisher.publisher} waits for {', '.join(where)}: "
        f"{_unconfirmed(publisher.unconfirmed, 'publication')}{held}{age}"
    )


def _kept_back(publisher: str) -> str:
    return (
        f"publisher {publisher} is held until what it has sent the long way is confirmed, so that "
        "it can take soft links; if nothing is, it goes on (mesh.detour_max)"
    )


def _missing(tables: MissingTables, restarting: bool) -> str:
    what = "subscriptions" if tables.lacks == "subscriptions" else "tables"
    until = ", until it comes or is forgotten" if restarting else ""
    return f"waits for the {what} of {tables.broker} (since {tables.since}{until})"


def _unsettled(entry: UnsettledEntry) -> str:
    waits = f": waits for {', '.join(entry.brokers)}" if entry.brokers else ""
    return f"{entry.kind} {entry.client}/{entry.name} is not settled{waits}"


def _standing(of: BrokerStatus | LinkStatus) -> str:
    preserved = f", preserved {of.preserved:,}" if of.preserved else ""
    return preserved + (f", mergers {of.mergers:,}" if of.mergers else "")


def _mesh(mesh: MeshStatus) -> str:
    held = f", {counted(mesh.held, 'publication')} held back" if mesh.held else ""
    parked = f", {mesh.parked:,} parked" if mesh.parked else ""
    return f"mesh: Δ {mesh.delta}, strategy {mesh.strategy}{held}{parked}"


def _candidate(link: MeshLinkStatus) -> Text:
    return Text.assemble((link.broker, "bold"), f"  candidate  {_worth(link)}")


def _worth(link: MeshLinkStatus) -> str:
    """What the mesh knows of a link: the gain of one of the tree is 0 by definition."""
    rate = f"{link.rate:,.1f} publications/s"
    if link.kind == "primary":
        return rate
    use = f"{link.use}, " if link.use else ""
    if link.round:
        use += f"round {', '.join(link.round)}, "
    span = f"{link.span} hops of the tree" if link.span else "not on the map"
    return f"{use}{span}, {rate}, gain {link.gain:,.1f}"


def _link(link: LinkStatus, mesh: MeshLinkStatus | None = None) -> Text:
    facts = [link.listen or link.address] if link.listen or link.address else []
    if mesh is not None:
        facts.append(_worth(mesh))
    if link.kind == "primary":
        facts += [
            f"advertisements {link.advertisements:,} in {link.advertisements_sent:,} out",
            f"subscriptions {link.subscriptions:,} in {link.subscriptions_sent:,} out"
            f"{_standing(link)}",
        ]
    if link.state == "up" and link.unreachable:
        facts.append(f"{', '.join(link.unreachable)} out of reach")
    if link.unconfirmed:
        facts.append(f"{counted(link.unconfirmed, 'message')} unconfirmed")
    if link.held:
        facts.append(f"{link.held:,} held back")
    if link.bypassed_s:
        facts.append(f"bypassed for {link.bypassed_s:,.0f} s")
    if link.parked:
        facts.append(f"{link.parked:,} parked")
    if link.waiting:
        facts.append(f"{link.waiting:,} messages ({link.waiting_bytes:,} bytes) wait for it")
    facts += [_rates(load) for load in link.behind if load.hops == 1]
    state = (link.state, _COLOURS.get(link.state, ""))
    kind = "" if link.kind == "primary" else f"{link.kind} link "
    return Text.assemble((link.broker, "bold"), f"  {kind}", state, f"  {', '.join(facts)}")


def _placeholder(placeholder: PlaceholderStatus) -> Text:
    came = f" from {placeholder.origin}" if placeholder.origin else ""
    name = (f"{placeholder.client}/{placeholder.name}", "bold")
    return Text.assemble(name, f"  {placeholder.state}{came}  {placeholder.filter}")


def _set_aside(aside: SetAsideStatus) -> Text:
    out = ", which stays out until it is given up" if aside.barred else ""
    facts = f"  {aside.what} from {aside.origin}{out}: {aside.error}"
    return Text.assemble((f"set aside {aside.digest}", "red"), facts)


def _load(load: BrokerLoad) -> Text:
    return Text.assemble((load.broker, "bold"), f"  {load.hops} hops away, {_rates(load)}")


def _rates(load: BrokerLoad) -> str:
    rates = f"{load.publications_in:,.0f}/s in, {load.publications_out:,.0f}/s out"
    return f"{rates}, {load.deliveries:,.0f}/s delivered"
