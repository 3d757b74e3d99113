"""The tables of a trace in Polars, as lazy frames; shares and rates are left out, as in
`engines.sql`."""

from __future__ import annotations

from typing import Any


def polars_tables(trace: Any) -> dict[str, Any]:
    """The tables of a lazy frame of the trace."""
    import polars as pl

    event, size, delay = pl.col("event"), pl.col("size_bytes"), pl.col("t_us") - pl.col("t_pub_us")
    handled, delivered, sent = event.is_in([1, 2]), event == 4, event.is_in([3, 8])
    matched = handled & (pl.col("matches") > 0)
    pure = (event == 2) & (pl.col("matches") == 0)
    unwanted = pure & (pl.col("copies") == 0)
    refused = (event == 5) & (pl.col("kind") == "duplicate")
    work = {
        "published": event == 1, "received": event == 2, "matched_brokers": matched,
        "pure_forwarders": pure, "false_positives": unwanted, "duplicates": refused,
        "delivered": delivered, "dropped": event == 5, "messages_out": sent,
    }  # fmt: skip
    delays = delay.filter(delivered)
    by_broker = trace.filter(~event.is_in([6, 7])).group_by("run", "broker").agg(
        *(rule.sum().alias(name) for name, rule in work.items()),
        size.filter(sent).sum().alias("bytes_out"),
    )  # fmt: skip
    received = trace.filter(sent).group_by("run", pl.col("link").alias("broker")).agg(
        pl.len().alias("messages_in"), size.sum().alias("bytes_in")
    )  # fmt: skip
    of_publisher = pl.col("kind").cast(pl.String).str.starts_with("publisher")
    last = trace.filter(event.is_in([6, 7]) & ~of_publisher).group_by(
        "run", (pl.col("t_us") // 1_000_000).alias("t_s"), "event", "kind", "broker", "link"
    ).agg(
        pl.col("count").sort_by("t_us").last().alias("entries"),
        size.sort_by("t_us").last().alias("bytes"),
    )  # fmt: skip
    whole = pl.col("link").is_null()
    of_brokers = last.group_by("run", "t_s", "event", "kind", "broker").agg(
        *(
            pl.coalesce(pl.col(name).filter(whole).max(), pl.col(name).sum()).alias(name)
            for name in ("entries", "bytes")
        )
    )
    return {
        "summary": trace.filter(~event.is_in([6, 7])).group_by("run").agg(
            pl.col("broker").n_unique().alias("brokers"),
            (event == 1).sum().alias("publications"),
            (event == 2).sum().alias("publication_hops"),
            delivered.sum().alias("deliveries"),
            matched.sum().alias("matched_brokers"),
            pure.sum().alias("pure_forwarders"),
            unwanted.sum().alias("false_positives"),
            pl.col("hop").filter(delivered).mean().alias("mean_hops"),
            (delays.mean() / 1000).alias("mean_delay_ms"),
            *(
                (delays.quantile(share / 100, "higher") / 1000).alias(f"p{share}")
                for share in (50, 95, 99)
            ),
            (delays.max() / 1000).alias("delay_ms_max"),
            size.filter(event == 3).sum().alias("publication_bytes"),
            size.filter(event == 8).sum().alias("control_bytes"),
        ),
        "hops": trace.filter(delivered).group_by("run", "hop").agg(pl.len().alias("deliveries")),
        "delays": trace.filter(delivered).group_by("run", delay.alias("delay_us")).agg(
            pl.len().alias("deliveries")
        ),
        "brokers": by_broker.join(received, on=["run", "broker"], how="full", coalesce=True),
        "links": trace.filter(sent).group_by("run", "broker", "link").agg(
            (event == 3).sum().alias("publications_sent"),
            size.filter(event == 3).sum().alias("publication_bytes"),
            (event == 8).sum().alias("control_messages"),
            pl.col("count").filter(event == 8).sum().alias("control_entries"),
            size.filter(event == 8).sum().alias("control_bytes"),
        ),
        "control": trace.filter(event == 8).group_by("run", "kind").agg(
            pl.len().alias("messages"), pl.col("count").sum().alias("entries"),
            size.sum().alias("bytes"),
        ),
        "sizes": of_brokers.group_by("run", "t_s", "event", "kind").agg(
            pl.len().alias("brokers"), pl.col("entries").sum().alias("count_total"),
            pl.col("entries").max().alias("count_max"), pl.col("bytes").sum().alias("bytes_total"),
        ),
        "trees": trace.filter(event.is_in([1, 2, 4, 5])).group_by(
            "run", "publisher", "incarnation", "sequence"
        ).agg(
            pl.col("broker").filter(event == 1).first().alias("home"),
            pl.col("t_pub_us").min(),
            handled.sum().alias("brokers"),
            pl.col("hop").filter(handled).max().alias("depth"),
            matched.sum().alias("matched_brokers"),
            pure.sum().alias("pure_forwarders"),
            unwanted.sum().alias("false_positives"),
            refused.sum().alias("duplicates"),
            (pl.col("span") - 1).filter(handled).sum().alias("bypassed"),
            delivered.sum().alias("deliveries"),
            delays.max().alias("delay_us_max"),
            pl.col("copies").filter(handled).sum().alias("copies"),
        ).filter(pl.col("brokers") > 0),
    }  # fmt: skip
