"""`byway topology`: look at the network through a broker.

Exit codes: 0 it told, 1 it cannot be reached, 2 the input cannot be understood.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from byway.cli.app import new_app
from byway.cli.network import BROKER, BrokerOption, TimeoutOption, explained
from byway.runtime import blocking
from byway.runtime.status import (
    BrokerLoad,
    BrokerStatus,
    LinkStatus,
    SetAsideStatus,
    StandIn,
)

app = new_app(help="Look at the network through a broker.")

_COLOURS = {"up": "green", "agreeing": "yellow", "down": "red"}


@app.callback()
def topology() -> None:
    """Look at the network through a broker."""


@app.command()
def show(
    broker: BrokerOption = BROKER,
    timeout: TimeoutOption = 10.0,
    preserved: Annotated[
        bool,
        typer.Option(
            "--preserved", help="List what stands for other subscriptions though nobody has it."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show a broker, its links, and what it knows of the brokers behind them.

    Brokers behind its neighbours are known if loads are exchanged (core.load_interval_us).
    Subscriptions that ended are preserved if core.covering is incremental or selective; filters
    that stand for several are there with core.merging.
    """
    with explained(), blocking.connect(broker, timeout=timeout) as client:
        status = client.broker_status()
    if as_json:
        typer.echo(msgspec.json.encode(status))
    else:
        Console(highlight=False).print(_tree(status, preserved))


def _tree(status: BrokerStatus, preserved: bool) -> Tree:
    away = f" and {status.sessions_away:,} away" if status.sessions_away else ""
    queued = f", {status.queued:,} messages queued" if status.queued else ""
    facts = (
        f"  {status.listen}, clients {status.clients:,}{away}, "
        f"advertisements {status.advertisements:,}, subscriptions {status.subscriptions:,}"
        f"{_standing(status)}{queued}"
    )
    tree = Tree(Text.assemble((status.broker, "bold cyan"), facts))
    for link in status.links:
        branch = tree.add(_link(link))
        for stand_in in status.stand_ins if preserved else ():
            if link.broker in stand_in.links:
                branch.add(_stand_in(stand_in))
        for load in link.behind:
            if load.hops > 1:
                branch.add(_load(load))
    for aside in status.inputs_set_aside:
        tree.add(_set_aside(aside))
    if status.set_aside > len(status.inputs_set_aside):
        tree.add(f"{status.set_aside - len(status.inputs_set_aside):,} more are set aside")
    left_out = status.preserved + status.mergers - len(status.stand_ins)
    if preserved and left_out:
        tree.add(f"{left_out:,} more that stand for others are not listed")
    return tree


def _standing(of: BrokerStatus | LinkStatus) -> str:
    preserved = f", preserved {of.preserved:,}" if of.preserved else ""
    return preserved + (f", mergers {of.mergers:,}" if of.mergers else "")


def _link(link: LinkStatus) -> Text:
    facts = [
        f"advertisements {link.advertisements:,} in {link.advertisements_sent:,} out",
        f"subscriptions {link.subscriptions:,} in {link.subscriptions_sent:,} out{_standing(link)}",
    ]
    if link.unconfirmed:
        facts.append(f"{link.unconfirmed:,} publications unconfirmed")
    if link.waiting:
        facts.append(f"{link.waiting:,} messages ({link.waiting_bytes:,} bytes) wait for it")
    facts += [_rates(load) for load in link.behind if load.hops == 1]
    state = (link.state, _COLOURS.get(link.state, ""))
    return Text.assemble((link.broker, "bold"), "  ", state, f"  {', '.join(facts)}")


def _stand_in(stand_in: StandIn) -> Text:
    came = f" from {stand_in.origin}" if stand_in.origin else ""
    name = (f"{stand_in.client}/{stand_in.name}", "bold")
    return Text.assemble(name, f"  {stand_in.state}{came}  {stand_in.filter}")


def _set_aside(aside: SetAsideStatus) -> Text:
    out = ", which stays out until it is given up" if aside.barred else ""
    facts = f"  {aside.what} from {aside.origin}{out}: {aside.error}"
    return Text.assemble((f"set aside {aside.digest}", "red"), facts)


def _load(load: BrokerLoad) -> Text:
    return Text.assemble((load.broker, "bold"), f"  {load.hops} hops away, {_rates(load)}")


def _rates(load: BrokerLoad) -> str:
    rates = f"{load.publications_in:,.0f}/s in, {load.publications_out:,.0f}/s out"
    return f"{rates}, {load.deliveries:,.0f}/s delivered"
