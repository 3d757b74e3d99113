"""Schemas of workloads, of imported tables, and of the results of matching them.

As in `schemas`, nothing is read, written or computed here.
"""

from __future__ import annotations

from typing import Final

from byway.pipeline.schemas import Column, ColumnType, TableSchema, integer, text

DESCRIPTION: Final = TableSchema(
    "workload",
    1,
    (
        text("kind", "the requested kind"),
        integer("seed", "the seed"),
        text("generator", "the generator that the kind stands for"),
        text("parameters", "all parameters of the generator, including defaults, as JSON"),
        text("tables", "for each table its schema `version` and its number of `rows`, as JSON"),
        text("byway", "the version of byway"),
    ),
)

SUBSCRIPTIONS: Final = TableSchema(
    "subscriptions",
    1,
    (
        integer("id", "number of the subscription"),
        text(
            "broker",
            "the broker where it is at first; null: none given, or it begins later",
            nullable=True,
        ),
        text("filter", "its filter, as text"),
    ),
)

PUBLICATIONS: Final = TableSchema(
    "publications",
    1,
    (
        integer("id", "number of the publication"),
        text("broker", "the broker where it is published; null: none given", nullable=True),
        Column("integers", ColumnType.COUNTS, False, "its attributes that are integers, by name"),
        Column("numbers", ColumnType.MEASURES, False, "those that are floating-point numbers"),
        Column("strings", ColumnType.WORDS, False, "those that are strings"),
        Column("booleans", ColumnType.FLAGS, False, "those that are booleans"),
    ),
)

SCHEDULE: Final = TableSchema(
    "schedule",
    1,
    (
        integer("t_us", "when the subscription begins, moves or ends"),
        integer("subscription", "number of the subscription"),
        text("leaves", "the broker where it ends; null: it was at none", nullable=True),
        text("joins", "the broker where it begins; null: at none", nullable=True),
    ),
)

REJECTS: Final = TableSchema(
    "rejects",
    2,
    (
        text("file", "the file of the rejected row"),
        integer("row", "number of the row in the file; the first after the header is 1"),
        text("reason", "why the row was rejected"),
        text("content", "text of the row, cut after 1,000 characters"),
    ),
)

PUBLICATION_MATCHES: Final = TableSchema(
    "publication_matches",
    1,
    (
        integer("publication", "number of the publication"),
        integer("matches", "subscriptions that it matches"),
    ),
)

SUBSCRIPTION_MATCHES: Final = TableSchema(
    "subscription_matches",
    1,
    (
        integer("subscription", "number of the subscription"),
        integer("matches", "publications that match it"),
    ),
)

PAIRS: Final = TableSchema(
    "pairs",
    1,
    (
        integer("publication", "the number of a publication"),
        integer("subscription", "the number of a subscription that it matches"),
    ),
)
