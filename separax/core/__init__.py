"""Foundations: errors, calls of user functions, devices, memory, compilation, precision, tuning."""

from . import tuning
from .compilation import (
    NotAwaited,
    Options,
    cache_folder,
    compiled_unless,
    forget_oldest,
    keep_programs,
    options_for_few_runs,
    options_for_one_run,
    options_for_training,
)
from .devices import (
    available,
    check_fits,
    default_device,
    device_name,
    in_bytes,
    on_cpu,
    threads_for,
    to_device,
)
from .errors import (
    DerivativeError,
    Diverged,
    InputError,
    MemoryPrediction,
    doing,
    finite,
    listed,
    nearest,
    one_of,
    say,
    shown,
    shown_by,
    whole,
)
from .parts import data_to_part, difference, part_to_data
from .precision import (
    PRECISION,
    across,
    add_up,
    as_varying,
    in_callers_precision,
    in_float64,
    in_tf32,
    is_traced,
    precision_for,
    product,
    rounded,
    with_types_of,
)
from .user_functions import as_array, call, fits, parameters

__all__ = [
    "PRECISION", "DerivativeError", "Diverged", "InputError", "MemoryPrediction", "NotAwaited",
    "Options", "across", "add_up", "as_array", "as_varying", "available", "cache_folder", "call",
    "check_fits", "compiled_unless", "data_to_part", "default_device", "device_name",
    "difference", "doing", "finite", "fits", "forget_oldest", "in_bytes", "in_callers_precision",
    "in_float64", "in_tf32", "is_traced", "keep_programs", "listed", "nearest", "on_cpu",
    "one_of", "options_for_few_runs", "options_for_one_run", "options_for_training", "parameters",
    "part_to_data", "precision_for", "product", "rounded", "say", "shown", "shown_by",
    "threads_for", "to_device", "tuning", "whole", "with_types_of",
]  # fmt: skip
