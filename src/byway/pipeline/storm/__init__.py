"""The story: one storm of unsubscriptions, under two policies, live and simulated, analysed by
Spark.

`script` decides what happens, `live` and `simulated` let it happen, `telling` asks Spark what it
was like and makes the page.
"""
