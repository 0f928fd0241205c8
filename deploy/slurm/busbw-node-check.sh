#!/bin/sh
# Drains this node if `busbw doctor` finds that jobs fail here. In slurm.conf, as one of these or both:
#
#   HealthCheckProgram=/etc/slurm/busbw-node-check.sh
#   HealthCheckInterval=600
#   Prolog=/etc/slurm/busbw-node-check.sh
#   PrologFlags=Alloc
#
# Copy deploy/doctor-line.sh to the same folder. As a prolog, the script fails on a broken node, and Slurm requeues the
# job. If doctor cannot examine the node, the script leaves the node and the job alone.

# slurmd starts HealthCheckProgram without PATH and SLURM_CONF. Add the folders of busbw and scontrol if they are others,
# and SLURM_CONF if slurm.conf is in no default place.
PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
export PATH

problem=$(sh "$(dirname "$0")/doctor-line.sh")
[ $? = 1 ] || exit 0

node=${SLURMD_NODENAME:-$(hostname -s)}
# A node that is drained already keeps its reason.
if ! scontrol show node "$node" | grep -q '^ *State=[^ ]*DRAIN'; then
    scontrol update "NodeName=$node" State=DRAIN "Reason=busbw doctor: $problem"
fi
echo "busbw doctor: $problem" >&2

# Only prologs belong to a job.
[ -z "${SLURM_JOB_ID:-}" ]
