#!/bin/bash
# SPDX-License-Identifier: MIT
# Against the Linux kernel's siw in a guest: rping, rdma_client/rdma_server, ucmatose, and every remote error, each in both roles.
# IW_INTEROP_PARTS: "rping programs errors". IW_INTEROP_COUNT: pings of each cell (1000); IW_INTEROP_SIZES: octets (64 4096 65535: rdma-core's rping has no more).
. "$(dirname "$0")/../lib/tap.sh"
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
: "${IW_BUILD:=$top/build/plain}" "${TMPDIR:=/tmp}"
count=${IW_INTEROP_COUNT:-1000}
parts=$(tr ' ' '\n' <<<"${IW_INTEROP_PARTS:-rping programs errors}" | grep -x 'rping\|programs\|errors')
[ -n "$parts" ] || skip_all "none of its parts is asked for"
read -ra sizes <<<"${IW_INTEROP_SIZES:-64 4096 65535}"
dir=$(mktemp -d "$TMPDIR/siw.XXXXXX")
export IW_GUEST_RUN=$dir/guest
guest() {
	"$here/guest" "$@" && return
	local status=$?
	[ $status != 125 ] || : >"$dir/silent"
	return $status
}
ours='' capture='' siw=()
limit=$((60 + count / 4)) # seconds for so many pings
trap 'kill $ours $capture 2>/dev/null; guest down; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

guest_up() {
	guest up >"$dir/up" 2>&1 && guest run -i 'cat >/usr/bin/iwerr && chmod +x /usr/bin/iwerr' <"$IW_BUILD/tests/interop/iwerr"
}
if ! guest_up; then
	fail "the guest builds and comes up"
	diag "$(tail -n 20 "$dir/up")"
	diag "needs, as root: apt-get install $(guest packages)"
	done_testing
fi
pass "the guest builds and comes up"
diag "$(cat "$dir/up"; guest run 'uname -r')"
host=$(guest host) addr=$(guest addr)

# cell FUNCTION...: what it says counts, unless the guest has stopped answering meanwhile. The first such is asked why, another takes its place, and
# all of the cell is done once more: a kernel that stands still has said nothing about us. The second one fails.
replaced=
cell() {
	local n=$TAP_N bad=$TAP_BAD
	rm -f "$dir/silent"
	"$@" >"$dir/said"
	if [ ! -e "$dir/silent" ] || guest run true 2>/dev/null; then
		cat "$dir/said"
		return
	fi
	diag "$*: the guest does not answer" "$(guest why 2>&1)"
	[ -z "$replaced" ] || { fail "a second guest has stopped answering"; done_testing; }
	replaced=1 TAP_N=$n TAP_BAD=$bad
	[ -z "$ours$capture" ] || { kill ${ours:+"$ours"} ${capture:+"$capture"}; wait ${ours:+"$ours"} ${capture:+"$capture"}; ours='' capture=''; }
	guest down
	guest_up || { fail "the guest comes up again"; diag "$(tail -n 20 "$dir/up")"; done_testing; }
	[ "$1" = siw ] || siw "${siw[@]}"
	"$@"
}

# siw PARAM=VALUE...: reload it so; it says which Terminates it sends
siw() {
	siw=("$@")
	guest siw "$@" >"$dir/siw" 2>&1 && guest run "echo 'func siw_send_terminate +p' >/proc/dynamic_debug/control" && return
	fail "siw $*"
	diag "$(cat "$dir/siw")"
}
onoff() { [ "$1" = 1 ] && echo on || echo off; }
truth() { [ "$1" = 1 ] && echo True || echo False; }

# ours_bg LOG READY cmd...: a server of ours on the host's side of the bridge, once its LOG says READY
ours_bg() {
	local log=$dir/$1 ready=$2
	shift 2
	rm -f "$log"
	"$here/guest" ns timeout $limit "$@" >"$log" 2>&1 & # not the function: $! is the program
	ours=$!
	until_true 10 grep -q "$ready" "$log"
}
ours_end() { # its exit status
	wait "$ours"
	local status=$?
	ours=
	return $status
}
# theirs_bg 'command': a server in the guest, once it listens
theirs_bg() {
	guest run "rm -f /tmp/rc; (timeout $limit $1 >/tmp/log 2>&1; echo \$? >/tmp/rc) >/dev/null 2>&1 </dev/null & n=0
		until rdma resource show cm_id | grep -q LISTEN; do n=\$((n + 1)); [ \$n -lt 200 ] || exit 1; sleep 0.05; done"
}
theirs_end() { # its exit status
	guest run -t 30 'until [ -e /tmp/rc ]; do sleep 0.05; done; exit $(cat /tmp/rc)'
}
theirs_log() { diag "theirs:" "$(guest run 'tail -n 5 /tmp/log | cut -c 1-300')"; }

# ---- rping ----
said() { # CRC P2P: how our summary ends
	echo "CRC $1$([ "$2" = 0 ] || echo ', peer-to-peer'), data verified"
}

# rping_content ROLE STATUS LOG: did rdma-core's rping verify all it got? Its status alone does not tell: it ends with 0 after a disconnect,
# whatever it found before; and having said good-bye it may trip over its own event channel, which one thread closes while another
# is about to read it, and end with 255 or 0. But it says each thing that goes wrong. So it may say nothing but what belongs to the end of a
# good conversation. How many pings it got is counted at our end.
rping_content() {
	local ebadf='rdma_get_cm_event: Bad file descriptor' bye="$1 DISCONNECT EVENT..."
	[ "$1" = client ] || bye+=$'\nwait for RDMA_READ_ADV state 10'	# its next step, when it is DISCONNECTED
	case $2:$(cat "$3") in
	"0:$bye" | "0:$bye"$'\n'"$ebadf" | "255:$bye"$'\n'"$ebadf") return 0 ;;
	0:) [ "$1" = client ] ;;	# its end came before the event's
	*) return 1 ;;
	esac
}
part_judge() {
	local role status log want
	while IFS=: read -r role status log want; do
		printf '%s' "$log" | tr '|@' '\n:' >"$dir/judged"
		rping_content "$role" "$status" "$dir/judged"
		is $? "$want" "rping, $role, status $status, '$log': content or not"
	done <<-END
		client:0:client DISCONNECT EVENT...|:0
		client:0::0
		client:0:client DISCONNECT EVENT...|rdma_get_cm_event@ Bad file descriptor|:0
		client:0:rdma_get_cm_event@ Bad file descriptor|:1
		client:255:client DISCONNECT EVENT...|rdma_get_cm_event@ Bad file descriptor|:0
		client:255:rdma_get_cm_event@ Bad file descriptor|:1
		client:255:client DISCONNECT EVENT...|:1
		client:255:client DISCONNECT EVENT...|rdma_get_cm_event@ No such device|:1
		client:255:data mismatch!|client DISCONNECT EVENT...|rdma_get_cm_event@ Bad file descriptor|:1
		client:0:data mismatch!|client DISCONNECT EVENT...|:1
		client:1:client DISCONNECT EVENT...|rdma_get_cm_event@ Bad file descriptor|:1
		client:124::1
		server:0:server DISCONNECT EVENT...|wait for RDMA_READ_ADV state 10|:0
		server:255:server DISCONNECT EVENT...|wait for RDMA_READ_ADV state 10|rdma_get_cm_event@ Bad file descriptor|:0
		server:0::1
		server:0:server DISCONNECT EVENT...|wait for RDMA_READ_COMPLETE state 10|:1
	END
}

theirs_to_ours() { # NAME P2P CRC SIZE CRC-WE-ASK: their client, our server
	ours_bg log listening "$IW_BUILD/iwctl" rping -s -a "$host" -V --crc "$5"
	guest run -t $limit "rping -c -a $host -V -C $count -S $4" >"$dir/theirs" 2>&1
	local status=$?
	rping_content client $status "$dir/theirs"
	ok $? "$1: their client is content" || diag "status $status" "$(tail -n 5 "$dir/theirs")"
	ours_end
	is "$? $(tail -n 1 "$dir/log")" "0 $count pings answered, $((count * $4)) octets, $(said "$3" "$2")" "$1: our server answered all" ||
		diag "$(cat "$dir/log")"
}

ours_to_theirs() { # NAME P2P CRC SIZE CRC-WE-ASK: our client, their server
	local p2p=
	[ "$2" = 0 ] || p2p=--p2p
	theirs_bg "rping -s -a $addr -V -C $count -S $4"
	# shellcheck disable=SC2086 # an option or nothing
	guest ns timeout $limit "$IW_BUILD/iwctl" rping -c -a "$addr" -V -C "$count" -S "$4" --crc "$5" $p2p >"$dir/log" 2>&1
	is "$? $(tail -n 1 "$dir/log" | sed 's/[0-9.]* us each/T/')" "0 $count pings of $4 octets, T, $(said "$3" "$2")" "$1: our client is content" ||
		diag "$(cat "$dir/log")"
	theirs_end
	local status=$?
	guest run 'cat /tmp/log' >"$dir/theirs"
	rping_content server $status "$dir/theirs"
	ok $? "$1: their server is content" || diag "status $status" "$(tail -n 5 "$dir/theirs")"
}

part_rping() {
	local p2p crc size what
	for p2p in 0 1; do
		for crc in 0 1; do
			cell siw peer_to_peer=$p2p mpa_crc_required=$crc
			for size in "${sizes[@]}"; do
				what="rping, $size octets, $([ $p2p = 1 ] && echo peer-to-peer || echo client first), CRC $(onoff $crc)"
				cell theirs_to_ours "$what, siw to iwsock" $p2p "$(onoff $crc)" "$size" "$(onoff $crc)"
				cell ours_to_theirs "$what, iwsock to siw" $p2p "$(onoff $crc)" "$size" "$(onoff $crc)"
			done
		done
	done
	local count=20
	cell siw mpa_crc_required=0
	cell theirs_to_ours "CRC asked by the Responder only, siw to iwsock" 0 on 4096 on
	cell ours_to_theirs "CRC asked by the Initiator only, iwsock to siw" 0 on 4096 on
	cell siw mpa_crc_required=1
	cell theirs_to_ours "CRC asked by the Initiator only, siw to iwsock" 0 on 4096 off
	cell siw mpa_version=1
	cell theirs_to_ours "MPA revision 1, siw to iwsock" 0 on 64 on
	cell siw mpa_crc_required=1
	cell ours_to_theirs "CRC that siw as Responder leaves to the Initiator, iwsock to siw" 0 off 4096 off
}

# ---- other programs of rdma_cm ----
talk_server() { # MODE 'their client' NAME
	ours_bg log listening "$IW_BUILD/tests/interop/peer" server "$host" 7471 "$1"
	guest run -t 30 "$2" >"$dir/theirs" 2>&1
	is $? 0 "$3, siw to iwsock: their client is content" || diag "$(tail -n 5 "$dir/theirs")"
	ours_end
	is $? 0 "$3, siw to iwsock: our server is content" || diag "$(cat "$dir/log")"
}
talk_client() { # MODE 'their server' NAME [option]
	theirs_bg "$2"
	guest ns timeout 60 "$IW_BUILD/tests/interop/peer" ${4+"$4"} client "$addr" 7471 "$1" >"$dir/log" 2>&1
	is $? 0 "$3, iwsock to siw: our client is content" || diag "$(cat "$dir/log")"
	theirs_end
	is $? 0 "$3, iwsock to siw: their server is content" || theirs_log
}
part_programs() {
	cell siw mpa_crc_required=0
	cell talk_server rdma_client "rdma_client -s $host -p 7471" rdma_client
	cell talk_client rdma_client "rdma_server -s $addr -p 7471" rdma_server
	cell siw peer_to_peer=1
	cell talk_server ucmatose "ucmatose -s $host -p 7471" "ucmatose, whose server sends first"
	cell talk_client ucmatose "ucmatose -b $addr -p 7471" "ucmatose, whose server sends first" --p2p
}

# ---- errors ----
hex() { [ $# -eq 0 ] || printf '%d/%d/%02x\n' "$@"; }
placed() { grep -hx placed "$@" | sort -u; }

at_iwsock() { # MODE WHAT TERMINATE PLACED: it happens at our end
	local got
	ours_bg log listening "$IW_BUILD/tests/interop/peer" server "$host" 7471 "$1"
	guest run -t 30 "iwerr client $host 7471 $1" >"$dir/theirs" 2>&1
	is $? 0 "$2: their end comes to an end" || diag "$(cat "$dir/theirs")"
	ours_end
	is "$(sed -n 's/^terminate-sent \([^ ]*\).*/\1/p' "$dir/log")" "$3" "$2: our Terminate" || diag "$(cat "$dir/log")"
	# siw reads layer and type the wrong way round
	got=$(guest run 'dmesg -c' | sed -n 's/.*got TERMINATE. layer \([0-9]*\), type \([0-9]*\), code \([0-9]*\).*/\2 \1 \3/p')
	# shellcheck disable=SC2086 # three numbers
	is "$(hex $got)" "$3" "$2: siw's log names it"
	is "$(placed "$dir/log" "$dir/theirs")" "$4" "$2: memory"
}

at_siw() { # MODE WHAT TERMINATE PLACED [option]: it happens at theirs
	local got
	theirs_bg "iwerr server $addr 7471 $1"
	guest ns timeout 60 "$IW_BUILD/tests/interop/peer" ${5+"$5"} client "$addr" 7471 "$1" >"$dir/log" 2>&1
	is "$(sed -n 's/^terminate-received \([^ ]*\).*(swapped)/\1/p' "$dir/log")" "$3" "$2: we understand its Terminate" ||
		diag "$(cat "$dir/log")"
	theirs_end
	is $? 0 "$2: their end comes to an end" || theirs_log
	got=$(guest run 'dmesg -c' | sed -n 's/.*sent TERM: success, layer \([0-9]*\), type \([0-9]*\), code \([0-9]*\).*/\1 \2 \3/p')
	# shellcheck disable=SC2086 # three numbers
	is "$(hex $got)" "$3" "$2: siw's log names it"
	guest run 'cat /tmp/log' >"$dir/theirs"
	is "$(placed "$dir/log" "$dir/theirs")" "$4" "$2: memory"
}

errors() { # PARAM [our client's option]
	local mode want placed siw_want siw_placed
	cell siw "$1"
	guest run 'dmesg -c >/dev/null'
	# what happens at our end; at siw's, which has no code for "too long" and serves Reads of what may not be read
	while read -r mode want placed siw_want siw_placed; do
		cell at_iwsock "$mode" "$mode at iwsock, $1" "${want#-}" "${placed#-}"
		cell at_siw "$mode" "$mode at siw, $1" "${siw_want#-}" "${siw_placed#-}" ${2+"$2"}
	done <<-END
		write - placed - placed
		read - placed - placed
		wstag 1/1/00 - 1/1/00 -
		wkey 1/1/00 - 1/1/00 -
		woob 1/1/01 - 1/1/01 -
		wright 1/1/00 - 1/1/00 -
		rstag 0/1/00 - 0/1/00 -
		rkey 0/1/00 - 0/1/00 -
		roob 0/1/01 - 0/1/01 -
		rright 0/1/02 - - placed
		toolong 1/2/05 - 1/2/02 -
		norecv 1/2/02 - 1/2/02 -
	END
}
# tshark looks at all that is said from here on
capture_start() {
	"$here/guest" ns dumpcap -q -i br0 -f 'tcp port 7471' -w "$dir/pcap" >"$dir/dumpcap" 2>&1 &
	capture=$!
	until_true 20 grep -q Capturing "$dir/dumpcap"
}
capture_end() { # WHAT FPDUS-AT-LEAST
	# until the last packets are in the file: the errors' last connection is over when its FIN is
	until_true 10 sh -c "tshark -r '$dir/pcap' -Y tcp.flags.fin==1 -T fields -e tcp.stream 2>/dev/null | tail -n 1 | grep -qx \
		\"\$(tshark -r '$dir/pcap' -T fields -e tcp.stream 2>/dev/null | sort -n | tail -n 1)\""
	kill "$capture"
	wait "$capture" 2>/dev/null
	capture=
	tshark -r "$dir/pcap" -V >"$dir/pcap.txt" 2>/dev/null
	is "$(grep -cE 'Malformed|Bad CRC' "$dir/pcap.txt")" 0 "$1: tshark finds nothing malformed and no bad CRC"
	at_least "$(grep -c 'CRC check: .*Good CRC32' "$dir/pcap.txt")" "$2" "$1: FPDUs with a CRC that tshark calls good"
}

part_errors() {
	capture_start
	errors mpa_crc_required=1
	capture_end "errors with CRC on" 60
	errors peer_to_peer=1 --p2p
}

case " $parts " in *rping*) part_judge ;; esac
for part in $parts; do "part_$part"; done
done_testing
