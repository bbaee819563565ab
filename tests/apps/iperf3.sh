# SPDX-License-Identifier: MIT
# iperf3: both directions, alone and with eight parallel streams.
need iperf3 || return 0
host_bg_iw $S iperf3.log iperf3 -s -B "$A"
pid=$!
host_port $S 5201 || { fail "$T: iperf3 -s starts"; return; }
iperf_run() {
	# shellcheck disable=SC2086
	host_exec_iw $C timeout 600 iperf3 -c "$A" -t $((2 * $1)) -J $args >"$D/json" 2>&1
	status=$?
}
for args in "" "-R" "-P 8" "-P 8 -R" "--bidir"; do
	[ $LONG ] || [[ $args != "-P 8" && ($mode = two || $args != *8*) ]] || continue
	case $args in
	*8*) n=8 ;;
	--bidir) n=2 ;;
	*) n=1 ;;
	esac
	longer $n iperf_run
	ok $status "$T $args: ends well" || grep error "$D/json" | sed 's/^/# /'
	got=$(json "d['end']['sum_sent']['bytes'] > 10**7 and d['end']['sum_received']['bytes'] > 10**7" <"$D/json" 2>&1)
	is "$got" True "$T $args: moves data"
	diag "$T $args: $(json "'%.2f Gb/s' % (d['end']['sum_received']['bits_per_second'] / 1e9)" <"$D/json" 2>/dev/null)"
	# the control connection has little to say
	# shellcheck disable=SC2086
	counts_end "$T $args" $n $SHORT
done
host_end $pid
