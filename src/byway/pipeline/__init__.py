"""The data pipeline on Spark: analyses traces, runs sweeps, makes, imports and matches workloads.

`spark_session` makes or takes a SparkSession, `schemas` and `workload_schemas` declare the tables,
`table_files` alone reads and writes them. `traces` analyses what brokers did, `sweeps` runs the
simulator many times, `claims` repeats the measurements of papers, `workloads`, `importing` and
`bulk_matching` make and match tables, `storm` is the demonstration. Between reading and writing
there are functions from DataFrames to DataFrames. All of it works unchanged on one machine, on a
cluster and over Spark Connect: there are no RDDs, broadcasts or contexts here.
"""
