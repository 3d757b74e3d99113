"""The storm: many unsubscriptions at once, under two policies, live and simulated.

`script` decides what happens, `live` and `simulated` run it, `time_series` asks the traces with
Spark, `storm_report` does all of it and writes the page.
"""
