#!/bin/bash
# SPDX-License-Identifier: MIT
# Daemons are killed at random moments under streams whose maps come and go, with bursts and relayed octets on the way: they go on or are reset, and
# nothing is left behind. IW_SEED=n repeats what chance did; IW_LONG=1: ten thousand kills.
RIG_NO_DAEMON=1
. "$(dirname "$0")/lib/rig.sh"
python3 -c 'import os; os.pidfd_open' 2>/dev/null || skip_all "needs python3 with pidfd_open"
rig_need
rig_up 2
: "${IW_SEED:=$RANDOM}"
diag "IW_SEED=$IW_SEED"
kills=${IW_ROUNDS:-${IW_LONG:+10000}}
: "${kills:=200}"
hosts=()
for h in 1 2; do hosts+=("$(host_ns $h),$(host_addr $h),$(host_dir $h)"); done
while read -r line; do
	case $line in
	"ok "*) pass "${line#ok }" ;;
	"not ok "*) fail "${line#not ok }" ;;
	*) diag "${line#\# }" ;;
	esac
done < <(PYTHONDONTWRITEBYTECODE=1 python3 "$RIG_TESTS/lib/kills_mapped.py" "$IW_BUILD" "$RIG_LIB" "$RIG_DIR" "$IW_SEED" "$kills" "${hosts[@]}" 2>&1)
is $TAP_N 8 "it came to its end"
done_testing
