"""The paper: its equations, references, flows, tables and figures."""

from .catalogue import CATALOGUE, find
from .flows.files import load_flow
from .flows.flow import Flow, random_flow
from .operation_counts import table
from .reproduce.figures import save
from .reproduce.plan import left_out, plan
from .reproduce.records import collect
from .reproduce.running import Stopped, run_all
from .reproduce.showing import check_places, fill, log_command, rows_of, write_all
from .reproduce.tables import problem_table, rich_table, summary_table
from .step_time import compare

__all__ = [
    "CATALOGUE",
    "Flow",
    "Stopped",
    "check_places",
    "collect",
    "compare",
    "fill",
    "find",
    "left_out",
    "load_flow",
    "log_command",
    "plan",
    "problem_table",
    "random_flow",
    "rich_table",
    "rows_of",
    "run_all",
    "save",
    "summary_table",
    "table",
    "write_all",
]
