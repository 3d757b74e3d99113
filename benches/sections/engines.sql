-- The tables of a trace as one query each, for Spark and DuckDB alike; shares and rates are left out.

-- summary
SELECT run, count(DISTINCT broker) AS brokers,
  count(CASE WHEN event = 1 THEN 1 END) AS publications,
  count(CASE WHEN event = 2 THEN 1 END) AS publication_hops,
  count(CASE WHEN event = 4 THEN 1 END) AS deliveries,
  count(CASE WHEN event IN (1, 2) AND matches > 0 THEN 1 END) AS matched_brokers,
  count(CASE WHEN event = 2 AND matches = 0 THEN 1 END) AS pure_forwarders,
  count(CASE WHEN event = 2 AND matches = 0 AND copies = 0 THEN 1 END) AS false_positives,
  avg(CASE WHEN event = 4 THEN hop END) AS mean_hops,
  avg(CASE WHEN event = 4 THEN t_us - t_pub_us END) / 1000 AS mean_delay_ms,
  percentile_disc(0.5) WITHIN GROUP (ORDER BY CASE WHEN event = 4 THEN t_us - t_pub_us END) / 1000 AS p50,
  percentile_disc(0.95) WITHIN GROUP (ORDER BY CASE WHEN event = 4 THEN t_us - t_pub_us END) / 1000 AS p95,
  percentile_disc(0.99) WITHIN GROUP (ORDER BY CASE WHEN event = 4 THEN t_us - t_pub_us END) / 1000 AS p99,
  max(CASE WHEN event = 4 THEN t_us - t_pub_us END) / 1000 AS delay_ms_max,
  sum(CASE WHEN event = 3 THEN size_bytes END) AS publication_bytes,
  sum(CASE WHEN event = 8 THEN size_bytes END) AS control_bytes
FROM trace WHERE event NOT IN (6, 7) GROUP BY run;

-- hops
SELECT run, hop, count(*) AS deliveries FROM trace WHERE event = 4 GROUP BY run, hop;

-- delays
SELECT run, t_us - t_pub_us AS delay_us, count(*) AS deliveries
FROM trace WHERE event = 4 GROUP BY run, t_us - t_pub_us;

-- brokers
SELECT coalesce(a.run, b.run) AS run, coalesce(a.broker, b.broker) AS broker, a.published,
  a.received, a.matched_brokers, a.pure_forwarders, a.false_positives, a.duplicates, a.delivered,
  a.dropped, a.messages_out, a.bytes_out, b.messages_in, b.bytes_in
FROM (
  SELECT run, broker, count(CASE WHEN event = 1 THEN 1 END) AS published,
    count(CASE WHEN event = 2 THEN 1 END) AS received,
    count(CASE WHEN event IN (1, 2) AND matches > 0 THEN 1 END) AS matched_brokers,
    count(CASE WHEN event = 2 AND matches = 0 THEN 1 END) AS pure_forwarders,
    count(CASE WHEN event = 2 AND matches = 0 AND copies = 0 THEN 1 END) AS false_positives,
    count(CASE WHEN event = 5 AND kind = 'duplicate' THEN 1 END) AS duplicates,
    count(CASE WHEN event = 4 THEN 1 END) AS delivered,
    count(CASE WHEN event = 5 THEN 1 END) AS dropped,
    count(CASE WHEN event IN (3, 8) THEN 1 END) AS messages_out,
    sum(CASE WHEN event IN (3, 8) THEN size_bytes END) AS bytes_out
  FROM trace WHERE event NOT IN (6, 7) GROUP BY run, broker
) a FULL JOIN (
  SELECT run, link AS broker, count(*) AS messages_in, sum(size_bytes) AS bytes_in
  FROM trace WHERE event IN (3, 8) GROUP BY run, link
) b ON a.run = b.run AND a.broker = b.broker;

-- links
SELECT run, broker, link, count(CASE WHEN event = 3 THEN 1 END) AS publications_sent,
  sum(CASE WHEN event = 3 THEN size_bytes END) AS publication_bytes,
  count(CASE WHEN event = 8 THEN 1 END) AS control_messages,
  sum(CASE WHEN event = 8 THEN count END) AS control_entries,
  sum(CASE WHEN event = 8 THEN size_bytes END) AS control_bytes
FROM trace WHERE event IN (3, 8) GROUP BY run, broker, link;

-- control
SELECT run, kind, count(*) AS messages, sum(count) AS entries, sum(size_bytes) AS bytes
FROM trace WHERE event = 8 GROUP BY run, kind;

-- sizes
SELECT run, t_s, event, kind, count(*) AS brokers, sum(entries) AS count_total,
  max(entries) AS count_max, sum(bytes) AS bytes_total
FROM (
  SELECT run, t_s, event, kind, broker,
    coalesce(max(CASE WHEN link IS NULL THEN entries END), sum(entries)) AS entries,
    coalesce(max(CASE WHEN link IS NULL THEN bytes END), sum(bytes)) AS bytes
  FROM (
    SELECT run, floor(t_us / 1000000) AS t_s, event, kind, broker, link,
      max_by(count, t_us) AS entries, max_by(size_bytes, t_us) AS bytes
    FROM trace WHERE event IN (6, 7) AND kind NOT LIKE 'publisher%'
    GROUP BY run, floor(t_us / 1000000), event, kind, broker, link
  ) last GROUP BY run, t_s, event, kind, broker
) of_brokers GROUP BY run, t_s, event, kind;

-- trees
SELECT * FROM (
  SELECT run, publisher, incarnation, sequence, max(CASE WHEN event = 1 THEN broker END) AS home,
    min(t_pub_us) AS t_pub_us, count(CASE WHEN event IN (1, 2) THEN 1 END) AS brokers,
    max(CASE WHEN event IN (1, 2) THEN hop END) AS depth,
    count(CASE WHEN event IN (1, 2) AND matches > 0 THEN 1 END) AS matched_brokers,
    count(CASE WHEN event = 2 AND matches = 0 THEN 1 END) AS pure_forwarders,
    count(CASE WHEN event = 2 AND matches = 0 AND copies = 0 THEN 1 END) AS false_positives,
    count(CASE WHEN event = 5 AND kind = 'duplicate' THEN 1 END) AS duplicates,
    sum(CASE WHEN event IN (1, 2) THEN span - 1 END) AS bypassed,
    count(CASE WHEN event = 4 THEN 1 END) AS deliveries,
    max(CASE WHEN event = 4 THEN t_us - t_pub_us END) AS delay_us_max,
    sum(CASE WHEN event IN (1, 2) THEN copies END) AS copies
  FROM trace WHERE event IN (1, 2, 4, 5) GROUP BY run, publisher, incarnation, sequence
) t WHERE brokers > 0;
