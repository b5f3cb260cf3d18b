"""Runs: the request, its execution, and its folder on disk.

``request`` says what was asked, ``executor`` carries it out in one process or under torchrun,
``folder`` and ``checkpoint`` know where things lie. Nothing is imported here, so that what only
reads a run starts at once.
"""
