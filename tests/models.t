#!/bin/bash
# SPDX-License-Identifier: MIT
# The models of setting up (docs/upgrade.md), of mapped queue pairs (docs/mapped.md), of rings, of handing one on and back (docs/rings.md), and of going on without a device (docs/rnic.md): no octet lost, doubled or read
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
# A search that takes seconds is over before -O2 has compiled it, so that is for IW_LONG. With a fault it ends at once, nearly always, and with some of
# them when processes and their steps are taken in reverse order.
# shellcheck disable=SC2086
verify() {
	local model=$1 run=$dir/$2 how="$plain -DSAFETY" opt="-w$hash"
	shift 2
	case ${run##*/} in
	*:ends*) how="$plain -DNP" opt="$opt -l" ;;
	mapped:FAULT_ACK | mapped:FAULT_ADOPT | mapped:FAULT_CAS | mapped:FAULT_EARLY_KEEP | mapped:FAULT_LATE_VOID | mapped:FAULT_LOOK_FIRST | mapped:FAULT_OWNER_LATER | \
		switch:FAULT_CLOSE_PASSES | switch:FAULT_FIN_OF_DEATH | switch:FAULT_LATE_LINGER) how="-O0 -DSAFETY -DREVERSE -DT_REVERSE" ;;
	*:FAULT_*) how="-O0 -DSAFETY" ;;
	esac
	mkdir "$run" && cd "$run" || return
	echo "not verified" >result
	spin -a "$@" "$here/$model.pml" >log 2>&1 && cc -w -DMEMLIM=$memory $how -o pan pan.c >>log 2>&1 || return
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
memory=1900 time=900 hash=22 plain=-O0	# MiB, s of a processor; of each
[ -z "${IW_LONG-}" ] || memory=12000 time=7200 hash=24 plain="-O2 -DCOLLAPSE"

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
mapped whole holds
mapped bursts holds -DBURSTS
ring armed holds -DARMED -DN=3
mapped ends holds -DFEW
rest ends holds
ring armed-polled holds -DARMED -DPOLLED
switch whole holds
ring waiting holds
rest whole holds
upgrade whole holds
join whole holds
join ends holds -DN=1
switch ends holds -DFEW=1
direct ends holds
mapped burst-deaths holds -DBURSTS -DFINE
mapped deaths holds -DFINE
ring senders holds -DSECOND
ring others holds -DLEAVES
upgrade ends holds -DN=1
direct whole holds
switch slots holds -DFINE -DFEW=2
mapwake whole holds
mapwake ends holds
beside whole holds
EOF
for model in upgrade switch join mapped mapwake ring rest direct beside; do
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
