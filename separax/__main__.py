"""`python -m separax`."""

from .cli.app import main

main()
