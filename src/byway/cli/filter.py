"""`byway filter`: check, try and compare filters without a network.

Exit codes: 0 yes, 1 no, 2 the input is not valid.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from byway.cli.app import answer, new_app, refuse
from byway.model import Attributes, BywayError, Filter, check_attributes, covers, parse
from byway.model.decoding_words import decoding_reason

app = new_app(help="Check, try and compare filters without a network.")


@app.command()
def check(
    text: Annotated[str, typer.Argument(metavar="FILTER")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the normal form of FILTER, its size and its attributes."""
    parsed = _parsed(text)
    alternatives, attributes = len(parsed.conjunctions), parsed.attributes()
    if as_json:
        facts = {"filter": str(parsed), "alternatives": alternatives, "attributes": attributes}
        typer.echo(msgspec.json.encode(facts))
    else:
        typer.echo(f"filter        {parsed}")
        typer.echo(f"alternatives  {alternatives}")
        typer.echo(f"attributes    {', '.join(attributes) or 'none'}")
    if not alternatives:
        typer.echo("warning: this filter can never match", err=True)


@app.command()
def match(
    text: Annotated[str, typer.Argument(metavar="FILTER")],
    attributes: Annotated[str, typer.Argument(metavar="JSON")],
) -> None:
    """Tell whether FILTER matches the attributes in JSON."""
    answer(_parsed(text).matches(_attributes(attributes)), yes="match", no="no match")


@app.command("covers")
def covers_(
    wide: Annotated[str, typer.Argument(metavar="F")],
    narrow: Annotated[str, typer.Argument(metavar="G")],
) -> None:
    """Tell whether filter F matches whatever filter G matches.

    The answer is the network's own: a yes is certain; a no may mean that G's alternatives lie only
    in several of F's together.
    """
    answer(covers(_parsed(wide), _parsed(narrow)), yes="covers", no="does not cover")


def _parsed(text: str) -> Filter:
    try:
        return parse(text)
    except BywayError as error:
        refuse(error)


def _attributes(text: str) -> Attributes:
    try:
        attributes = msgspec.json.decode(text, type=dict[str, bool | int | float | str])
        check_attributes(attributes)
    except msgspec.ValidationError as error:
        refuse(f"not the attributes of a publication: {decoding_reason(error)}")
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        refuse(f"not JSON: {decoding_reason(error)}")
    except BywayError as error:
        refuse(f"not the attributes of a publication: {error}")
    return attributes
