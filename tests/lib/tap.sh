# SPDX-License-Identifier: MIT
# TAP for shell tests (bash). A test ends with done_testing.

TAP_N=0
TAP_BAD=0

diag() { printf '%s\n' "$*" | sed 's/^/# /'; }
pass() { TAP_N=$((TAP_N + 1)); echo "ok $TAP_N - $*"; }
fail() { TAP_N=$((TAP_N + 1)); TAP_BAD=$((TAP_BAD + 1)); echo "not ok $TAP_N - $*"; }
# ok STATUS NAME
ok() { local s=$1; shift; if [ "$s" = 0 ]; then pass "$@"; else fail "$@"; fi; return "$s"; }
# is GOT WANTED NAME
is() {
	local got=$1 want=$2
	shift 2
	if [ "$got" = "$want" ]; then pass "$@"; return 0; fi
	fail "$@"
	diag "got:    $got"
	diag "wanted: $want"
	return 1
}
# at_most NUMBER LIMIT NAME
at_most() {
	local got=$1 max=$2
	shift 2
	if [ "$got" -le "$max" ] 2>/dev/null; then pass "$@ ($got <= $max)"; else fail "$@ ($got > $max)"; fi
}
at_least() {
	local got=$1 min=$2
	shift 2
	if [ "$got" -ge "$min" ] 2>/dev/null; then pass "$@ ($got >= $min)"; else fail "$@ ($got < $min)"; fi
}
# skip NAME REASON
skip() { TAP_N=$((TAP_N + 1)); echo "ok $TAP_N - $1 # SKIP $2"; }
skip_all() { echo "1..0 # SKIP $*"; exit 0; }
done_testing() {
	if declare -F rig_down >/dev/null; then rig_down; fi
	echo "1..$TAP_N"
	[ $TAP_BAD = 0 ]
	exit
}
now_ms() { local t=$EPOCHREALTIME; t=${t/[.,]/}; echo $((t / 1000)); }
# until_true SECONDS cmd...: try again and again, 0 as soon as cmd succeeds. The seconds are those of a machine with nothing else to
# do; nobody waits longer than it takes, so that a busy one gets six times as many before it is a failure.
until_true() {
	local end=$(($(now_ms) + $1 * ${IW_PATIENCE:-6000}))
	shift
	while ! "$@" >/dev/null 2>&1; do
		[ "$(now_ms)" -lt $end ] || return 1
		sleep 0.02
	done
}
# idle_begin; idle_less PERCENT: since then, the CPUs were idle for less than that
cpu_times() { awk '/^cpu / { for (i = 2; i <= 9; i++) s += $i; print $5 + $6, s; exit }' /proc/stat; }
idle_begin() { read -r IDLE0 TIMES0 <<<"$(cpu_times)"; }
idle_less() {
	local idle all
	read -r idle all <<<"$(cpu_times)"
	[ $(((idle - IDLE0) * 100)) -lt $(((all - TIMES0) * $1)) ]
}

# play cmd...: its lines "ok - name" and "not ok - name" become tests
play() {
	local line end=0
	while IFS= read -r line; do
		case $line in
		"ok - "*) pass "${line#ok - }" ;;
		"not ok - "*) fail "${line#not ok - }" ;;
		"exit "*) end=${line#exit } ;;
		*) echo "# ${line#\# }" ;;
		esac
	done < <("$@" 2>&1; echo "exit $?")
	[ "$end" = 0 ] || fail "$*: ended with status $end"
}
