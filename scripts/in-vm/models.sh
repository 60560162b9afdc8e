#!/usr/bin/env bash
# Runs timerlat, without a load and beside load.sh, and osnoise, beside load.sh, on a real kernel under each preemption model, in a virtual machine of one
# CPU in virtual time; models.py prints them beside simulations.
#
#   scripts/in-vm/models.sh STOCK_IMAGE RT_IMAGE OUT [SECONDS [MODEL ...]]
#   ZEROLAG=zerolag scripts/in-vm/models.py OUT [--costs PROFILE ...]
#
# The images are those of kernel-with-timerlat.sh, of one version: `preempt=` chooses the model of the first, RT_IMAGE is the one with PREEMPT_RT.
# Results: docs/lab/preempt-rt.md.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
stock=${1:?image of the stock kernel}
rt=${2:?image of the kernel with PREEMPT_RT}
out=${3:?directory of the results}
seconds=${4:-10}
shift $(($# < 4 ? $# : 4))
[ $# != 0 ] || set -- none voluntary full rt
for model; do
    image=$stock
    [ "$model" != rt ] || image=$rt
    OUT=$out/$model PREEMPT=$model "$here/run.sh" "$image" models "$seconds"
done
