"""The compiled part of the matching index, as numba reads it. Only the process that compiles it
imports these modules (`compiling`); `byway.matching.native` loads what that wrote.
"""
