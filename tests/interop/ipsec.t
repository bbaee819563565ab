#!/bin/bash
# SPDX-License-Identifier: MIT
# On Linux 6.1, the oldest we run on, two hosts out of network namespaces in the guest: iwarpd and streams, then the same within ESP
# by strongSwan with the profiles of docs/ipsec.md word for word (SEC-IPSEC-1 to -7).
# IW_INTEROP_PARTS: "linux tunnel psk transport". IW_INTEROP_COUNT: below 1000, few socket programs, and each host deletes the SAs
# once instead of twice; all else is the same. IW_INTEROP_SOCK: which programs.
. "$(dirname "$0")/../lib/tap.sh"
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
: "${IW_BUILD:=$top/build/plain}" "${TMPDIR:=/tmp}"
short=$([ "${IW_INTEROP_COUNT:-1000}" -ge 1000 ]; echo $?)
parts=$(tr ' ' '\n' <<<"${IW_INTEROP_PARTS:-linux tunnel psk transport}" | grep -x 'linux\|tunnel\|transport\|psk')
[ -n "$parts" ] || skip_all "none of its parts is asked for"
some="echo halfclose_inflight msg_peek"
more="bulk_both bulk_sizes churn echo epoll_et fork_both halfclose_inflight iovecs mmsg msg_peek nonblock_fill scm_rights"
# all but those that want a daemon to kill, that of IPv6, which the profile leaves alone, and those that keep an emulated machine so
# busy with ESP that answers come too late
all=$(cd "$top/tests/sock" && echo */*.c | sed 's|[a-z]*/||g' | sed 's/\.c\>//g; s/\<kill_[a-z_]*//g; s/\<\(ipv6\|bulk_both\|churn\|close_both_bulk\|many_conns\|sendfile_cut\)\>//g')
variants=$some rounds="1 2" clear=1000
[ "$short" = 0 ] || { more=$some all=$some variants=echo rounds=1 clear=100; }
more=${IW_INTEROP_SOCK:-$more} all=${IW_INTEROP_SOCK:-$all}
dir=$(mktemp -d "$TMPDIR/ips.XXXXXX")
root=$dir/root
export IW_GUEST_RUN=$dir/guest IW_GUEST_OVERLAY=$root IW_GUEST_NICE=${IW_GUEST_NICE:-0}
guest() { "$here/guest" "$@"; }
trap 'guest down; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

# ---- what goes into the guest ----

# block N: the Nth piece of configuration in the document
block() { awk -v n="$1" '/^```/ { i++; next } i == 2 * n - 1' "$top/docs/ipsec.md"; }
# The mirror image, for the other host.
mirror() { sed -e 's/192\.0\.2\.1/@1/g; s/192\.0\.2\.2/192.0.2.1/g; s/@1/192.0.2.2/g; s/hostA/@A/g; s/hostB/hostA/g; s/@A/hostB/g'; }

profiles() {
	local d=$root/etc/swanctl.1/variants h
	mkdir -p "$d" "$root/etc/swanctl.2/variants"
	block 1 >"$d/tunnel.conf"
	sed 's/mode = tunnel/mode = transport/' "$d/tunnel.conf" >"$d/transport.conf"
	{
		awk '/^\t\tlocal \{/ { while ((getline line <part) > 0) print line; skip = 1 }
			!skip { print }
			/^\t\tremote \{/ { last = 1 }
			/^\t\t\}/ && last { skip = last = 0 }' part=<(block 2) "$d/tunnel.conf"
		block 3 | sed "s,0sWhatOpensslRandPrinted=,0s$(openssl rand -base64 32),"
	} >"$d/psk.conf"
	for h in tunnel transport psk; do
		mirror <"$d/$h.conf" >"$root/etc/swanctl.2/variants/$h.conf"
	done
	[ "$(grep -c 'auth = \|rekey_time\|secret = 0s.\|mode = transport\|CN=hostB' "$d"/*.conf | cut -d : -f 2 | tr '\n' ' ')" = "4 5 4 " ]
}

# A CA, a certificate for each host, and two revocation lists: empty, and with host B's.
certificates() {
	local h n
	cd "$dir" || return 1
	: >index.txt
	echo 01 >serial
	echo 01 >crlnumber
	cat >ca.cnf <<-'END'
		[ca]
		default_ca = d
		[d]
		database = index.txt
		serial = serial
		crlnumber = crlnumber
		new_certs_dir = .
		default_md = sha256
		default_days = 30
		default_crl_days = 30
		policy = p
		x509_extensions = x
		crl_extensions = e
		[p]
		commonName = supplied
		[x]
		basicConstraints = CA:FALSE
		subjectKeyIdentifier = hash
		authorityKeyIdentifier = keyid:always
		[e]
		authorityKeyIdentifier = keyid:always
	END
	openssl req -batch -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=ca -days 30 || return 1
	for h in 1 2; do
		n=host$(tr 12 AB <<<$h)
		mkdir -p "$root/etc/swanctl.$h"/{conf.d,x509,x509ca,x509crl,private}
		openssl req -newkey rsa:2048 -nodes -keyout "$n.key" -out "$n.csr" -subj "/CN=$n" &&
			openssl ca -batch -config ca.cnf -keyfile ca.key -cert ca.pem -in "$n.csr" -out "$n.pem" -notext || return 1
		cp "$n.pem" "$root/etc/swanctl.$h/x509/"
		cp "$n.key" "$root/etc/swanctl.$h/private/"
		cp ca.pem "$root/etc/swanctl.$h/x509ca/"
		echo 'include conf.d/*.conf' >"$root/etc/swanctl.$h/swanctl.conf"
	done
	openssl ca -config ca.cnf -gencrl -keyfile ca.key -cert ca.pem -out crl.pem &&
		openssl ca -config ca.cnf -revoke hostB.pem -keyfile ca.key -cert ca.pem &&
		openssl ca -config ca.cnf -gencrl -keyfile ca.key -cert ca.pem -out "$root/etc/revoked.pem" || return 1
	for h in 1 2; do cp crl.pem "$root/etc/swanctl.$h/x509crl/"; done
}

libraries() { # of files that the guest has
	local f
	for f in $(ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u); do
		[ -e "$root$f" ] || install -D "$f" "$root$f"
	done
}

fill() {
	local deb lib=usr/lib/x86_64-linux-gnu p
	deb=$(guest fetch strongswan-swanctl strongswan-charon strongswan-libcharon libstrongswan libstrongswan-standard-plugins libgmp10) || return 1
	# shellcheck disable=SC2086 # a list
	guest add "$root" -m bridge -m xfrm_user -m esp4 -m authenc -m authencesn -m echainiv -m gcm -m seqiv -m ctr -m ghash_generic \
		-m sha512_generic -m drbg socat nsenter dumpcap "$IW_BUILD/iwarpd" "$IW_BUILD/iwctl" || return 1
	mkdir -p "$root/usr/lib/ipsec" "$root/$lib" "$root/usr/sbin" "$root/etc/swanctl" "$root/var" "$root/usr/lib/sock"
	ln -s /run "$root/var/run"
	cp -a "$deb/usr/lib/ipsec/." "$root/usr/lib/ipsec/"
	cp -a "$deb/$lib"/libgmp.so.10* "$root/$lib/"
	cp -a "$deb/usr/sbin/swanctl" "$root/usr/sbin/"
	libraries "$deb"/usr/lib/ipsec/plugins/libstrongswan-openssl.so "$deb/usr/lib/ipsec/charon" "$deb/usr/lib/ipsec/libstrongswan.so.0"
	cp "$IW_BUILD/libiwsock.so" "$root/usr/lib/"
	for p in $some $more $all; do cp "$IW_BUILD/tests/sock/$p" "$root/usr/lib/sock/" || return 1; done
	cp "$IW_BUILD/tests/lib/echoer" "$root/usr/lib/sock/"
	libraries "$IW_BUILD/libiwsock.so" "$root/usr/lib/sock/"*
	strip "$root"/usr/lib/sock/* "$root/usr/bin/iwarpd" "$root/usr/bin/iwctl"
	# programs there live too short for the limits that are the default
	mkdir -p "$root/etc/iwsock"
	printf '%s\n' "upgrade_after 0" "upgrade_wait 100" >"$root/etc/iwsock/iwsock.conf"
	cat >"$root/etc/strongswan.conf" <<-'END'
		charon {
			load = random nonce aes sha1 sha2 hmac kdf gmp pem pkcs1 pkcs8 x509 pubkey constraints revocation openssl kernel-netlink socket-default vici
			filelog {
				run {
					path = /run/charon.log
					default = 1
					flush_line = yes
				}
			}
			retransmit_tries = 10
			retransmit_base = 1.2
		}
		swanctl {
			load = pem pkcs1 pkcs8 x509 openssl random nonce
		}
	END
	install -m 755 "$here/two-hosts" "$root/usr/bin/two-hosts"
}

certificates >"$dir/ca.log" 2>&1 && fill >"$dir/fill.log" 2>&1 && profiles && guest up >"$dir/up" 2>&1 && guest run -t 240 'two-hosts up' >>"$dir/up" 2>&1
if ! ok $? "a guest with two hosts and strongSwan is built and comes up"; then
	diag "$(tail -n 20 "$dir/ca.log" "$dir/fill.log" "$dir/up" 2>/dev/null)"
	diag "needs, as root: apt-get install $(guest packages)"
	done_testing
fi
diag "$(cat "$dir/up"; guest run 'uname -r')"

run() { guest run -t "${T-300}" "$@"; }
on() { run "two-hosts on $*"; }
start() { run "two-hosts start $*"; } # NAME HOST command ...
stop() { run two-hosts stop "$@"; }
# SECONDS of a machine with nothing else to do (until_true), 'command in the guest'
await() { local s=$(($1 * 6)); shift; run -t $((s + 60)) "two-hosts wait $s '$*'"; }
json() { python3 -c 'import json, sys; d = json.load(sys.stdin); print('"$1"')'; }
ctl() { local h=$1; shift; run "iwctl -r /tmp/h$h $*"; }
charon_logs() { run 'for h in 1 2; do echo "--- charon $h"; two-hosts on $h tail -n 25 /run/charon.log; done'; }

daemons_end() {
	local h
	for h in 1 2; do
		stop iwarpd $h
		ok $? "host $h: iwarpd ends" || diag "$(run "tail -n 20 /tmp/iwarpd.$h")"
	done
}
daemons() { # option ...
	local h
	for h in 1 2; do
		start iwarpd $h iwarpd --run-dir /tmp/h$h -o answer_timeout=1000 -o negative_cache=1 "$@"
		await 60 "iwctl -r /tmp/h$h status"
		ok $? "host $h: iwarpd${1+ $*} runs" || { diag "$(run "tail -n 20 /tmp/iwarpd.$h")"; done_testing; }
	done
}
switched() {
	local h n=0
	for h in 1 2; do n=$((n + $(ctl $h -j status | json "d['ends_switched']"))); done
	echo $n
}
# suite NAME MODE program ...: each must print the same with the library as on plain TCP. Most are over before an upgrade can be.
suite() {
	local name=$1 mode=$2 n before
	shift 2
	before=$(switched)
	n=$(now_ms)
	run "rm -f /tmp/suite; (two-hosts suite $mode $* >/tmp/suite 2>&1 </dev/null &) >/dev/null 2>&1"
	until_true 400 await 60 'grep -q "^end of the suite" /tmp/suite'
	run 'cat /tmp/suite' >"$dir/suite"
	is "$(grep -c '^not ok' "$dir/suite") $(tail -n 1 "$dir/suite")" "0 end of the suite" "$name, $mode: socket programs say the same as on plain TCP" ||
		diag "$(grep -v '^ok' "$dir/suite" | head -n 60)"
	at_least "$(grep -c '^ok' "$dir/suite")" $(($# * 9 / 10)) "$name, $mode: socket programs"
	at_least $(($(switched) - before)) $((($# + 3) / 4)) "$name, $mode: ends of connections that were switched"
	diag "$(($(now_ms) - n)) ms" "$(grep 'does not apply' "$dir/suite")"
}
# what the wire had besides ESP, IKE, ARP, the neighbours' IPv6 messages, and connections to an address that is neither host's
capture() { run two-hosts capture || fail "capture"; }
in_clear() {
	run two-hosts captured >"$dir/pcap"
	tshark -r "$dir/pcap" -Y '!(ip.proto == 50 or udp.port == 500 or udp.port == 4500 or arp or icmpv6 or ip.dst == 192.0.2.99)' 2>/dev/null >"$dir/clear"
	tshark -r "$dir/pcap" -Y 'ip.proto == 50' 2>/dev/null >"$dir/esp"
	wc -l <"$dir/clear"
}

# ---- Linux 6.1 without IPsec ----
part_linux() {
	capture
	daemons
	is "$(ctl 1 -j status | json "d['require_ipsec'], d['control_port']")" "off 874" "iwctl status" || diag "$(ctl 1 status)"
	diag "$(run 'head -n 3 /tmp/iwarpd.1')"
	# shellcheck disable=SC2086 # lists
	suite "Linux 6.1" local $more
	# shellcheck disable=SC2086
	suite "Linux 6.1" remote $more
	start echo 2 "$echo_server"
	await 60 'iwctl -r /tmp/h1 check 192.0.2.2:7600'
	lasting "Linux 6.1"
	stop echo 2
	at_least "$(in_clear)" $clear "without IPsec the wire shows packets in the clear"
	daemons_end
}

# ---- the profile ----
echo_server='env LD_PRELOAD=/usr/lib/libiwsock.so IWSOCK_RUNDIR=/tmp/h2 socat TCP-LISTEN:7600,bind=192.0.2.2,reuseaddr,fork PIPE'
profile() { # NAME: charon on both hosts, started with this one
	local h
	for h in 1 2; do
		start charon $h /usr/lib/ipsec/charon
		run "cp /etc/swanctl.$h/variants/$1.conf /etc/swanctl.$h/conf.d/iwsock.conf"
		await 60 "two-hosts on $h swanctl --stats"
		ok $? "$1, host $h: charon runs" || { charon_logs; done_testing; }
		on "$h" swanctl --load-all >"$dir/load" 2>&1
		is "$? $(grep -c "loaded connection 'iwsock'\|successfully loaded 1 connections" "$dir/load")" "0 2" "$1, host $h: swanctl takes the profile" ||
			diag "$(cat "$dir/load")"
	done
}
# Both at once: with the policies of one host only nothing gets through, and the daemons' sessions end when that lasts.
profile_end() {
	run 'two-hosts stop charon 1 & p=$!; two-hosts stop charon 2 && wait $p
		s=$?; for h in 1 2; do two-hosts on $h ip xfrm state flush; two-hosts on $h ip xfrm policy flush; done; exit $s'
	ok $? "both charons end"
}
checked() { # NAME: iwctl check says accelerated
	await 60 'iwctl -r /tmp/h1 check 192.0.2.2:7600 >/tmp/check 2>&1'
	ok $? "$1: iwctl check: accelerated; the traffic brought the SAs up" || { diag "$(run 'cat /tmp/check')"; diag "$(charon_logs)"; }
}
sas() { on "$1" swanctl --list-sas; }
esp_octets() { on 1 swanctl --list-sas --raw | grep -o 'bytes-out=[0-9]*' | cut -d = -f 2 | awk '{ n += $1 } END { print n + 0 }'; }

stream() { ctl 1 -j streams | json "[(r['id'], r['transport']) for r in d if r['peer'].endswith(':7600')]"; }
spis="two-hosts on 1 ip xfrm state list src 192.0.2.1 dst 192.0.2.2 | grep -o spi.0x[0-9a-f]*[1-9a-f][0-9a-f]*" # not 0, which is only asked for
spi() { run "$spis" | sort | tail -n 1; }
goes_on() { # NAME: 100,000 more octets come back
	await 90 "[ \$(stat -c %s /tmp/back) -gt $(($(run 'stat -c %s /tmp/back') + 100000)) ]"
	ok $? "$1" || { diag "$(run 'ls -l /tmp/sent /tmp/back')"; diag "$(charon_logs)"; }
}

# begin NAME; over NAME: a stream with the echo server, in $id
begin() {
	start load 1 two-hosts load
	await 60 '[ -s /tmp/back ]'
	goes_on "$1: a stream under load"
	await 120 'iwctl -r /tmp/h1 streams | grep -q " iwarp "'
	id=$(stream)
	is "$(grep -o "'[a-z]*')" <<<"$id")" "'iwarp')" "$1: over iWARP: $id" || diag "$(ctl 1 why 192.0.2.2:7600)"
}
over() {
	run 'touch /tmp/stop'
	await 90 '[ -s /tmp/result ]'
	is "$(run 'cat /tmp/result')" same "$1: every octet came back, in order" || diag "$(run 'ls -l /tmp/sent /tmp/back')"
	diag "$(run 'stat -c %s /tmp/back') octets"
}
lasting() { begin "$1" && over "$1"; }

# SEC-IPSEC-4: deleted under load
deleted() {
	local id old h round
	begin SEC-IPSEC-4
	for round in $rounds; do
		for h in 1 2; do
			old=$(spi)
			on $h swanctl --terminate --child hosts >"$dir/term" 2>&1
			ok $? "SEC-IPSEC-4: round $round: host $h deletes the SAs by IKE" || diag "$(cat "$dir/term")"
			await 60 "$spis | grep -v \"$old\""
			ok $? "SEC-IPSEC-4: round $round: the next packet brought new ones: $old, now $(spi)" || diag "$(charon_logs)"
			goes_on "SEC-IPSEC-4: round $round: the transfer goes on"
			is "$(stream)" "$id" "SEC-IPSEC-4: round $round: it is the same stream"
		done
	done
	over SEC-IPSEC-4
}

# SEC-IPSEC-7: the certificate is revoked
revoked() {
	local before
	before=$(run 'two-hosts on 1 grep -c "certificate was revoked" /run/charon.log')
	run 'cp /etc/revoked.pem /etc/swanctl.1/x509crl/crl.pem'
	on 1 swanctl --load-creds --clear >/dev/null 2>&1
	on 1 swanctl --flush-certs >/dev/null 2>&1
	on 1 swanctl --terminate --ike iwsock >/dev/null 2>&1
	on 1 socat -u OPEN:/dev/null TCP:192.0.2.2:7600,connect-timeout=5 >/dev/null 2>&1
	is $? 1 "SEC-IPSEC-7: host B's certificate is revoked: nothing gets to it"
	await 30 'two-hosts on 1 grep -q "certificate was revoked" /run/charon.log'
	is "$? $before $(sas 1 | grep -c INSTALLED)" "0 0 0" "SEC-IPSEC-7: charon says so, and there is no SA" || diag "$(charon_logs)"
}

without_policies() {
	for h in 1 2; do await 30 "iwctl -r /tmp/h$h status | grep -q \"^require_ipsec  *on, 0 policies\""; done
	ok $? "the policies are taken away, and iwarpd knows" || diag "$(ctl 2 status)"
	ctl 1 check 192.0.2.2:7600 >"$dir/check" 2>&1
	is "$? $(grep -c "Conclusion: plain TCP, no-ipsec" "$dir/check")" "1 1" "iwctl check: plain TCP, no-ipsec" || diag "$(cat "$dir/check")"
	is "$(run 'echo hello | LD_PRELOAD=/usr/lib/libiwsock.so IWSOCK_RUNDIR=/tmp/h1 two-hosts on 1 socat -t 20 - TCP:192.0.2.2:7600')" hello "a connection works"
	is "$(ctl 1 -j reasons | json "sum(r['as_client'] for r in d if r['reason'] == 'no-ipsec')")" 1 "plain, reason no-ipsec" || diag "$(ctl 1 reasons)"
	start talk 1 two-hosts talk
	await 30 'grep -q one /tmp/talk.1'
	ctl 1 why 192.0.2.2:7600 >"$dir/why" 2>&1
	at_least "$(grep -c no-ipsec "$dir/why")" 1 "iwctl why: no-ipsec" || diag "$(cat "$dir/why")"
	run 'touch /tmp/stop'
}

part_tunnel() {
	local h
	profile tunnel
	capture
	is "$(on 1 ip xfrm state | grep -c 'proto esp spi 0x[0-9a-f]*[1-9a-f]')" 0 "tunnel: start_action = trap: no SA yet"
	daemons -o require_ipsec=yes
	for h in 1 2; do
		is "$(ctl $h -j status | json "d['require_ipsec'], d['ipsec_policies'] >= 2")" "on True" "host $h: require_ipsec sees the trap policies" ||
			diag "$(on $h ip xfrm policy)"
	done
	start echo 2 "$echo_server"
	checked tunnel
	is "$(run 'grep -c "IPsec policies ask for ESP" /tmp/check')" 1 "and says that the policies ask for ESP"
	sas 1 >"$dir/sas"
	is "$(grep -c 'INSTALLED, TUNNEL, ESP:AES_CBC-128/HMAC_SHA2_256_128/ESN' "$dir/sas")" 1 "tunnel: mode, algorithms and ESN as in the profile" || diag "$(cat "$dir/sas")"
	is "$(on 1 ip xfrm state | grep -c 'replay_window 1024')" 1 "tunnel: the replay window is the profile's" || diag "$(on 1 ip xfrm state)"
	# shellcheck disable=SC2086 # a list
	suite tunnel remote $all
	at_least "$(esp_octets)" 20000 "tunnel: octets within ESP"
	deleted
	is "$(in_clear)" 0 "tunnel: nothing was on the wire but ESP, IKE and ARP" || diag "$(head -n 10 "$dir/clear")"
	at_least "$(wc -l <"$dir/esp")" 1000 "tunnel: packets of ESP"
	profile_end
	without_policies
	stop echo 2
	daemons_end
}

# The variants of the document. After the revocation nothing else runs: what TCP still holds for the other host would have IKE asked
# again and again while the next one starts.
variant() { # NAME MODE
	run 'cp /etc/swanctl.2/x509crl/crl.pem /etc/swanctl.1/x509crl/crl.pem'
	profile "$1"
	capture
	daemons -o require_ipsec=yes
	start echo 2 "$echo_server"
	checked "$1"
	sas 1 >"$dir/sas"
	is "$(grep -c "INSTALLED, $2, ESP:AES_CBC-128/HMAC_SHA2_256_128/ESN" "$dir/sas")" 1 "$1: the SA is what the profile says" || diag "$(cat "$dir/sas")"
	is "$(on 1 ip xfrm state | grep -c 'replay_window 1024')" 1 "$1: the replay window is the profile's" || diag "$(on 1 ip xfrm state)"
	# shellcheck disable=SC2086 # a list
	suite "$1" remote $variants
	lasting "$1"
	is "$(in_clear)" 0 "$1: nothing was on the wire but ESP, IKE and ARP" || diag "$(head -n 10 "$dir/clear")"
	[ "$1" = psk ] || revoked
	stop echo 2
	daemons_end
	profile_end
}
part_transport() { variant transport TRANSPORT; }
part_psk() { variant psk TUNNEL; }

for part in $parts; do "part_$part"; done
done_testing
