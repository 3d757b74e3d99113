"""`python -m byway` is the `byway` command."""

from byway.cli.main import app

if __name__ == "__main__":
    app(prog_name="byway")
