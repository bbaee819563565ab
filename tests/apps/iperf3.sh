# SPDX-License-Identifier: MIT
# iperf3: both directions, alone and with eight parallel streams.
need iperf3 || return 0
host_bg_iw $S iperf3.log iperf3 -s
pid=$!
host_port $S 5201 || { fail "iperf3 -s starts"; return; }
for args in "" "-R" "-P 8" "-P 8 -R" "--bidir"; do
	counts_begin $S $C
	# shellcheck disable=SC2086
	host_exec_iw $C timeout 600 iperf3 -c "$A" -t 3 -J $args >"$RIG_DIR/iperf3.json" 2>&1
	ok $? "iperf3 $args ends well" || grep error "$RIG_DIR/iperf3.json" | sed 's/^/# /'
	got=$(json "d['end']['sum_sent']['bytes'] > 10**7 and d['end']['sum_received']['bytes'] > 10**7" <"$RIG_DIR/iperf3.json" 2>&1)
	is "$got" True "iperf3 $args moves data"
	diag "iperf3 $args: $(json "'%.2f Gb/s' % (d['end']['sum_received']['bits_per_second'] / 1e9)" <"$RIG_DIR/iperf3.json" 2>/dev/null)"
	case $args in *8*) counts_end "iperf3 $args" 9 ;; *) counts_end "iperf3 $args" 2 ;; esac
done
host_end $pid
