"""U1: how late publications are after an unsubscription storm."""

from byway.pipeline.claims.catalogue._pruning import (
    LONGEST_DELAY,
    MEAN_DELAY,
    SMALL_CONTROLLED,
    policies,
)
from byway.pipeline.claims.claim import Claim, Gain, Order, PaperStatement, PaperValue
from byway.pipeline.papers import Paper

_DELAY = MEAN_DELAY.name

CLAIM = Claim(
    id="U1",
    title="Publications are hardly late under incremental pruning",
    paper=Paper.INCREMENTAL,
    section="section V-A2",
    setup="49 brokers, 80,000 subscriptions; 20 broad ones end, one every 0.5 s, each of which "
    "stands for about 2,100 others; a publication every 10 ms.",
    scenario="pruning/003-controlled",
    contenders=policies("active", "lazy", "packing", "incremental"),
    measures=(MEAN_DELAY, LONGEST_DELAY),
    paper_values=(
        PaperValue(_DELAY, "active", 1_000, text="> 1,000"),
        PaperValue(_DELAY, "lazy", 600, text="about 60 % of active's"),
        PaperValue(_DELAY, "packing", 600, text="about 60 % of active's"),
        PaperValue(_DELAY, "incremental", 0.4),
        PaperValue(LONGEST_DELAY.name, "active", 2_400, text="> 2,400"),
    ),
    statements=(
        PaperStatement(
            statement=Order(_DELAY, (("incremental",), ("lazy", "packing"), ("active",)))
        ),
        PaperStatement(statement=Gain(_DELAY, "lazy", "active", 0.4)),
        PaperStatement(statement=Gain(_DELAY, "packing", "active", 0.4)),
        PaperStatement(statement=Gain(_DELAY, "incremental", "active", 0.9996)),
    ),
    assumed=(
        "which subscriptions are broad, where they are and in which order they come: chosen so "
        "that the published numbers of messages and entries come out",
        "half of all subscriptions come before the first broad one: what lazy saves depends on it "
        "(36 % with 15 % before, 37 with 30, 46 with 50, 53 with 60; one seed), and the half was "
        "chosen when the first two were known",
        "service times: table II of the paper, growing with the table",
        "the setup was changed four times after incremental had been run, towards more likeness "
        "between a broad subscription and what it covers",
        "publishers hold back publications while 1,024 are unconfirmed; a delay begins when a "
        "publisher asks",
    ),
    quick=SMALL_CONTROLLED,
)
