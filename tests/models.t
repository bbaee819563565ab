#!/bin/bash
# SPDX-License-Identifier: MIT
# The models of setting up (docs/upgrade.md), of mapped queue pairs (docs/mapped.md), of rings, and of handing one on and back (docs/rings.md): no octet lost, doubled or read
# as the wrong kind, and nobody waits for ever, whatever is slow, breaks, dies or closes at whatever step; and each way to get it wrong that a
# model knows (FAULT_*) is found. IW_LONG: larger ones, too.
. "$(dirname "$0")/lib/tap.sh"
here=$(cd "$(dirname "$0")" && pwd)
for p in spin cc; do
	command -v $p >/dev/null || skip_all "needs $p"
done
dir=$(mktemp -d "${TMPDIR:-/tmp}/m.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT

# verify MODEL NAME [-D...]: one run in a directory of its own, its outcome in the file "result": holds, fault, or what went wrong.
# ends: it is looked for a cycle, whatever the fairness (the others look for assertions and ends that are none).
# What takes seconds to compile with -O2 is worth it where the search is long; with a fault it ends at once, nearly always, and with some of
# them when processes and their steps are taken in reverse order.
verify() {
	local model=$1 run=$dir/$2 how="-O2 -DSAFETY" opt=
	shift 2
	case ${run##*/} in
	*:ends*) how="-O2 -DNP" opt=-l ;;
	mapped:FAULT_BELL_UNSAID | ring:FAULT_LAST | ring:FAULT_WET) ;;
	mapped:FAULT_ACK | mapped:FAULT_ADOPT | mapped:FAULT_CAS | mapped:FAULT_EARLY_KEEP | mapped:FAULT_LATE_VOID | mapped:FAULT_LOOK_FIRST | mapped:FAULT_OWNER_LATER | \
		switch:FAULT_CLOSE_PASSES | switch:FAULT_FIN_OF_DEATH | switch:FAULT_LATE_LINGER) how="-O0 -DSAFETY -DREVERSE -DT_REVERSE" ;;
	*:FAULT_*) how="-O0 -DSAFETY" ;;
	esac
	mkdir "$run" && cd "$run" || return
	echo "not verified" >result
	spin -a "$@" "$here/$model.pml" >log 2>&1 && cc -w -DCOLLAPSE -DMEMLIM=$memory $how -o pan pan.c >>log 2>&1 || return
	(ulimit -t $time && exec ./pan -m1000000 $opt) >>log 2>&1
	if grep -qE 'max search depth too small|reached -DMEMLIM|search was not completed' log; then
		grep -q 'errors: [1-9]' log || return
	fi
	case $(grep -o 'errors: [0-9]*' log) in
	'errors: 0') echo holds >result ;;
	'errors: '*) echo fault >result ;;
	esac
	rm -f pan pan.[bchmpt]
}

at_a_time=$((${IW_JOBS:-2} < 2 ? 1 : 2))
memory=1900 time=900	# MiB, s of a processor; of each
[ -z "${IW_LONG-}" ] || memory=12000 time=7200

# what is to be run: model, name, wanted result, defines; the longest first
[ -z "${IW_LONG-}" ] || cat >"$dir/list" <<EOF
switch more holds -DMORE
upgrade longer holds -DN=3
join longer holds -DN=3
ring longer holds -DN=3
ring armed-two holds -DARMED -DSECOND
switch ends-by-death holds -DFEW=3
upgrade ends-whole holds
join ends-whole holds
EOF
cat >>"$dir/list" <<EOF
switch whole holds
upgrade whole holds
join whole holds
switch ends holds -DFEW=1
upgrade ends holds -DN=1
join ends holds -DN=1
switch slots holds -DFINE -DFEW=2
mapped whole holds
mapped ends holds -DFEW
mapped deaths holds -DFINE
mapped bursts holds -DBURSTS
mapped burst-deaths holds -DBURSTS -DFINE
mapwake whole holds
mapwake ends holds
ring senders holds -DSECOND
ring waiting holds
ring others holds -DLEAVES
ring armed holds -DARMED -DN=3
ring armed-polled holds -DARMED -DPOLLED
rest whole holds
rest ends holds
direct whole holds
direct ends holds
EOF
for model in upgrade switch join mapped mapwake ring rest direct; do
	grep -oE 'FAULT_[A-Z0-9_]+[A-Z0-9]' "$here/$model.pml" | sort -u | sed "s/.*/$model & fault -D&/"
done >>"$dir/list"
while read -r model name wanted defines; do
	[ "$(jobs -rp | wc -l)" -lt $at_a_time ] || wait -n
	# shellcheck disable=SC2086
	verify "$model" "$model:$name" $defines &
done <"$dir/list"
wait
while read -r model name wanted defines; do
	if [ "$wanted" = holds ]; then text="$model: holds ($name)"; else text="$model: $name is found"; fi
	is "$(cat "$dir/$model:$name/result" 2>/dev/null)" "$wanted" "$text" || tail -n 30 "$dir/$model:$name/log" | sed 's/^/# /'
	[ "$wanted" = fault ] || diag "$(grep -oE '[0-9]+ states, stored|elapsed time.*|[0-9.]+.total actual memory' "$dir/$model:$name/log" | tr '\n\t' '; ')"
done <"$dir/list"
done_testing
