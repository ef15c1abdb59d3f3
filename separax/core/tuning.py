"""Thresholds of speed, in one table: `from ..core import tuning`, then `tuning.WIDE_NETWORK`.

Below such a number one way of computing something is quicker, above it another one. What comes out
is the same, but for rounding and for what is not worth its time. "H200" is one NVIDIA H200, "two
cores" are those of an x86 processor; every number was measured where its line says.
"""

# --- compiling ----------------------------------------------------------------------------------
WIDE_NETWORK = 200  # columns of all fields: of more, XLA takes minutes to try kernels out (H200)
CPU_SOLVE = 1e9  # numbers in the Jacobians of a solve: a CPU is done before a GPU has compiled.
# The catalogue's solves with 1e7 to 4e8 take 0.3 to 4 s on two cores after 3 to 6 s of compiling;
# 0.2 to 0.7 s on an H200 after 6 to 16 s. The next ones have 4e9.

# --- networks -----------------------------------------------------------------------------------
BIAS_KERNEL = 96  # points per order: with more, a bias' gradient has a kernel of its own (H200)
GPU_TILE = 64  # rows and columns of a product that one processor of a GPU does (H200)
GPU_SUMMANDS = 128  # numbers that a processor of a GPU should add up at least (H200)
GPU_PROCESSORS = 132  # of an H200: a sum is cut into parts until all of them have something to do

# --- sums of products on lattices ---------------------------------------------------------------
SUMMED_IN_KERNEL = 32  # arrays that one kernel adds up (H200)
MERGE_START = 15e-6  # seconds in which the products of a merge and of its gradient start (H200)
BATCHED_RATE = {False: 1.5e13, True: 1e14}  # operations of a batched product a second; True: TF32
GRAM_ADVANTAGE = 3.0  # operations on a Gram matrix that take as long as one on a lattice (H200)
LATTICE_START = 1e5  # operations on a lattice that take as long as starting them (H200)
POINTS_AT_ONCE = {True: 2**22, False: 2**15}  # evaluated, separable or not (both)

# --- solving for coefficients -------------------------------------------------------------------
# A Jacobian is written out while its square takes at most so many operations for a pair of axes and
# while it has so many numbers: a cleverer program takes longer to compile than about twenty steps
# of a solve save (two cores; a guess for GPUs, by what they multiply in a second).
JACOBIAN_WORK = {"cpu": 3e8, "gpu": 5e11}
JACOBIAN_NUMBERS = {"cpu": 2e7, "gpu": 2.5e8}
MATRIX_IN_3D = 2_000  # coefficients of three axes: of more, conjugate gradients win (two cores)
CHECKED_SOLVE = 6_000  # coefficients: of more, estimating an error takes longer than a solve (both)
