"""The paper: its equations, references, flows, tables and figures."""

from .catalogue import CATALOGUE, find
from .flow import Flow, random_flow
from .flow_files import load_flow
from .operation_counts import count_operations
from .reproduce.showing import reproduce_rows
from .reproduce.tables import Table, brief, cells
from .step_time import compare

__all__ = [
    "CATALOGUE",
    "Flow",
    "Table",
    "brief",
    "cells",
    "compare",
    "count_operations",
    "find",
    "load_flow",
    "random_flow",
    "reproduce_rows",
]
