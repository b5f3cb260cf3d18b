"""What the command line does with errors and warnings: one line on stderr, and an exit code."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import sys
import warnings
from typing import Any, NoReturn, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from dcfsc.cli.output import say
from dcfsc.cli.watching import watching
from dcfsc.errors import DcfscError, InputError, OptionNeeded, writable

# Recent releases of typer carry click inside, earlier ones import it: its errors are reached
# through the one that both make public.
UsageError: type[Any] = typer.BadParameter.__mro__[1]

HINTS = {  # to what the parser says of a command line
    "unexpected extra argument": "A path with spaces needs quotes, as in 'my photos'.",
    "Missing option '--clusters'": "Give the number of clusters, as in -k 12, or -k auto; "
    "'dcfsc suggest-k DATA' lists candidates.",
    "--skip-broken": "Broken images are skipped anyway; --strict stops at them.",
}


class CommandLine(TyperGroup):
    """The commands, with one line on stderr for whatever is the input's fault.

    Exit codes: 2 for bad input and usage, 1 where memory ran out or another process was lost, 130
    for Ctrl-C. Any other exception is a bug and keeps its traceback.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.obj = writable(shlex.join(["dcfsc", *args]))
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt as error:
                if os.environ.get("RANK", "0") != "0":
                    raise typer.Exit(130) from None  # the first process knows how to go on
                _fail(str(error) or "interrupted", 130)
            except OptionNeeded as error:
                command = f" To go on: {ctx.obj} {error.options}" if error.options else ""
                _fail(f"{error.message}{command}", 2)
            except InputError as error:
                _fail(error, 2)
            except OSError as error:
                if error.filename is None:
                    raise
                # a name too long, a folder that may not be looked into: whatever was to be done
                _fail(f"cannot use {error.filename}: {error.strerror or error}.", 2)
            except DcfscError as error:
                _fail(error, 1)
            except (MemoryError, RuntimeError, ValueError) as error:
                if _raised_in(error, "sklearn.utils"):
                    _fail(str(error).strip().splitlines()[0], 2)
                if _is_out_of_memory(error):
                    _fail(f"out of memory: {error}; use fewer samples or features.", 1)
                raise

    def main(self, args: Any = None, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")  # names may be no text
        try:
            code = super().main(args=args, standalone_mode=False, **extra)
        except UsageError as error:
            message = error.format_message()
            hints = [
                f"{message.rstrip('.')}. {hint}" for said, hint in HINTS.items() if said in message
            ]
            say(one_line(f"error: {(hints or [message])[0]}"), error=True)
            code = error.exit_code
        if standalone_mode:
            sys.exit(code)
        return code


class Command(TyperCommand):
    """A command that shows its progress, and whose numbers are plain.

    Python, and so typer, would take 1_000 for a number.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        hints = get_type_hints(self.callback)  # Typer's releases keep the types in many places
        numeric = {
            word
            for option in self.params
            if hints.get(option.name or "") in (int, float, int | None, float | None)
            for word in option.opts
        }
        words = [word for arg in args for word in arg.split("=", 1)]
        for name, value in itertools.pairwise(words):
            if name in numeric and ("_" in value or not value.isascii()):
                raise InputError(f"{name} takes a number; got {value[:40]!r}.")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with watching(ctx.params):
            return super().invoke(ctx)


def one_line(message: object) -> str:
    return " ".join(str(message).split())


def _fail(message: object, code: int) -> NoReturn:
    if "RANK" in os.environ:
        from dcfsc.processes import first_to_tell

        if not first_to_tell():
            raise typer.Exit(code)
    say(one_line(f"error: {message}"), error=True)
    raise typer.Exit(code)


def _show_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    say(one_line(f"warning: {message}"), error=True)


def _raised_in(error: BaseException, package: str) -> bool:
    """Whether the error comes from a module of the package itself, not from what it called."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(package)


def _is_out_of_memory(error: Exception) -> bool:
    # PyTorch has a class for the GPU's memory alone; the CPU's allocator only says it in words
    return isinstance(error, MemoryError) or bool(
        re.search(r"out of memory|not enough memory|can't allocate memory", str(error))
    )
