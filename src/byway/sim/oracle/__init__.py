"""The oracle: what clients are owed, and checkers that find what is wrong with a run.

`account` and `client_account`, with their `account_records`, observe the engine and judge every
delivery as it happens. `checkers` compare brokers at rest with a `reference_network`. `violations`
counts what they find.
"""
