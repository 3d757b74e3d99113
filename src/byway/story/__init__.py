"""The story of one subscription, advertisement or publication: what touched it, broker by broker.

It reads trace files and the data directories of brokers, and writes nothing: a broker that runs is
not disturbed. `subject` understands ids, `steps` is the vocabulary of the answer, `trace_steps` and
`journal_steps` read one source each, `reading` finds the sources and puts the steps in order.
"""

from byway.story.reading import read_story
from byway.story.steps import Source, Story, StoryError, StoryStep

__all__ = ["Source", "Story", "StoryError", "StoryStep", "read_story"]
