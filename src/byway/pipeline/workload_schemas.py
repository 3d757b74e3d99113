"""Schemas of workloads, of tables that people bring, and of what is made of both by matching.

As in `schemas`, nothing is read, written or computed here.
"""

from __future__ import annotations

from typing import Final

from byway.pipeline.schemas import Column, ColumnType, TableSchema

DESCRIPTION: Final = "workload.json"
"""The file beside the tables of a workload that tells how they were made."""

_INT64, _STRING = ColumnType.INT64, ColumnType.STRING

SUBSCRIPTIONS: Final = TableSchema(
    "subscriptions",
    1,
    (
        Column("id", _INT64, False, "its number"),
        Column("broker", _STRING, True, "where it is, at first; null: not said, or nowhere yet"),
        Column("filter", _STRING, False, "what it asks for, as a filter text"),
    ),
)

PUBLICATIONS: Final = TableSchema(
    "publications",
    1,
    (
        Column("id", _INT64, False, "its number"),
        Column("broker", _STRING, True, "where it is published; null: not said"),
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
        Column("t_us", _INT64, False, "when it happens"),
        Column("subscription", _INT64, False, "whose subscription, by its number"),
        Column("leaves", _STRING, True, "the broker where it ends; null: it was at none"),
        Column("joins", _STRING, True, "the broker where it begins; null: at none"),
    ),
)

REJECTS: Final = TableSchema(
    "rejects",
    1,
    (
        Column("file", _STRING, False, "the file it was in"),
        Column("row", _INT64, False, "its number there; the first one after the header is 1"),
        Column("line", _INT64, True, "the line on which it ends; null where there are none"),
        Column("reason", _STRING, False, "why it was rejected"),
        Column("content", _STRING, False, "what is there, cut after 1,000 characters"),
    ),
)

PUBLICATION_MATCHES: Final = TableSchema(
    "publication_matches",
    1,
    (
        Column("publication", _INT64, False, "its number"),
        Column("matches", _INT64, False, "subscriptions that it matches"),
    ),
)

SUBSCRIPTION_MATCHES: Final = TableSchema(
    "subscription_matches",
    1,
    (
        Column("subscription", _INT64, False, "its number"),
        Column("matches", _INT64, False, "publications that match it"),
    ),
)

PAIRS: Final = TableSchema(
    "pairs",
    1,
    (
        Column("publication", _INT64, False, "the number of a publication"),
        Column("subscription", _INT64, False, "the number of a subscription that it matches"),
    ),
)
