"""The data pipeline on Spark: it turns a network into knowledge.

`session` makes or takes a SparkSession, `schemas` declares the tables, `tables` alone reads and
writes them, `traces` asks what brokers did, `sweeps` runs the simulator many times. What is between
reading and writing is functions from DataFrames to DataFrames. All of it works unchanged on one
machine, on a cluster and over Spark Connect: there are no RDDs, broadcasts or contexts here.
"""
