#!/bin/bash
# SPDX-License-Identifier: MIT
# Either daemon or either program is killed at random moments of many upgrades, on one host and between two: the programs see what TCP would
# have given them, and nothing is left behind. IW_SEED=n repeats what chance did; IW_LONG=1: ten thousand connections.
RIG_NO_DAEMON=1
. "$(dirname "$0")/lib/rig.sh"
command -v python3 >/dev/null || skip_all "needs python3"
rig_need
rig_up 2
: "${IW_SEED:=$RANDOM}"
diag "IW_SEED=$IW_SEED"
rounds=${IW_ROUNDS:-${IW_LONG:+2500}}
: "${rounds:=60}"
hosts=()
for h in 1 2; do hosts+=("$(host_ns $h),$(host_addr $h),$(host_dir $h)"); done
while read -r line; do
	case $line in
	"ok "*) pass "${line#ok }" ;;
	"not ok "*) fail "${line#not ok }" ;;
	*) diag "${line#\# }" ;;
	esac
done < <(PYTHONDONTWRITEBYTECODE=1 python3 "$RIG_TESTS/lib/kills.py" "$IW_BUILD" "$RIG_LIB" "$RIG_DIR" "$IW_SEED" "$rounds" "${hosts[@]}" 2>&1)
is $TAP_N 4 "it came to its end"
done_testing
