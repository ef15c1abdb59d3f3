"""`python -m separax`."""

from .cli import main

main()
