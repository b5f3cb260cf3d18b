"""The command line: parse, call, print; one file per command.

What is heavy is imported by the command that needs it.
"""

from dcfsc.cli.app import app, main

__all__ = ["app", "main"]
