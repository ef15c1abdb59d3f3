"""Optimisers, one file each."""

from .adam import Adam

__all__ = ["Adam"]
