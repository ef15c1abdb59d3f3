#!/usr/bin/env bash
# Makes the records of results/h200 anew, one part at a time: minutes each on one NVIDIA H200, the flows up to half an hour.
#
#     benchmarks/h200.sh PART [FOLDER]      # parts: solves steps tables small flow large-flow vortex ranks baselines
#
# Rows that FOLDER (results/h200/rows unless given) holds already are not run again; Ctrl-C and the same command go on.
# Times are only worth recording while nothing else uses the GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
rows=${2:-results/h200/rows}
export PYTHONPATH=.
reproduce() { python3 -m separax reproduce "$@" --out "$rows"; }

case ${1:-} in
solves)
    for problem in helmholtz klein-gordon klein-gordon-3d diffusion-5d poisson-lshape diffusion flow-mixing navier-stokes navier-stokes-3d; do
        python3 -m separax solve "$problem" --json --out "$(mktemp -d)/run" > "$rows/../solve_${problem//-/_}.json"
    done ;;
steps) python3 benchmarks/step_time.py --seconds 1.5 --out "$rows/../step_time.json" ;;
tables) reproduce diffusion helmholtz klein-gordon klein-gordon-3d --networks spinn,spinn-mod,spinn-mod+lbfgs ;;
small) reproduce diffusion-5d poisson-lshape flow-mixing --networks spinn,spinn-mod ;;
flow) reproduce navier-stokes --networks spinn-mod --points 64 ;;
large-flow) reproduce navier-stokes --networks spinn-mod --points 128 ;;
vortex) reproduce navier-stokes-3d --networks spinn-mod ;;
ranks)
    reproduce diffusion --networks spinn-mod --points 64 --ranks 4,8,16,32,64
    reproduce navier-stokes --networks spinn-mod --points 64 --ranks 8,16,32,64,128,256 --seeds 1 --steps 5000 ;;
baselines)
    JAX_COMPILATION_CACHE_DIR=$(mktemp -d) && export JAX_COMPILATION_CACHE_DIR  # seeds trained one after the other share their program
    reproduce --networks pinn,pinn-mod --baselines timed
    reproduce diffusion helmholtz klein-gordon klein-gordon-3d --networks pinn,pinn-mod --baselines smallest ;;
*) sed -n '2,8s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac
