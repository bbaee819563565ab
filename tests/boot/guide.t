#!/bin/bash
# SPDX-License-Identifier: MIT
# The commands of docs/operating.md, from the packages to the first accelerated redis and back: its marked blocks, in their order, on two machines.
. "$(dirname "$0")/machine.sh"
[ -f "$RIG_TESTS/../build/deb/stamp" ] || skip_all "needs packages; make deb"
machines_up 2

# a line for each block: where, and its text with \n for the end of a line
blocks=$(python3 -c '
import re, sys
text = open("docs/operating.md").read()
for where, code in re.findall(r"<!-- run: (\w+) -->\n```sh\n(.*?)```", text, re.S):
    print(where, code.encode("unicode_escape").decode())')
at_least "$(wc -l <<<"$blocks")" 11 "docs/operating.md has marked blocks"
is "$(grep -c '<!-- run:' docs/operating.md)" "$(wc -l <<<"$blocks")" "and each mark has one"
for h in 1 2; do
	sh_in $h 'printf "10.77.0.1 server\n10.77.0.2 client\n" >>/etc/hosts; cp /src/build/deb/*_*.deb /root'
	ok $? "machine $h: packages and names are there"
done
# nobody's business: iwctl report is not to have it
sh_in 1 'mkdir -p /etc/systemd/system/iwarpd.service.d; printf "# canary-1\n[Service]\nEnvironment=SECRET=canary-2\n" >/etc/systemd/system/iwarpd.service.d/own.conf'

begun=$(now_ms)
run() { # HOST CODE: as a shell of root's
	local out
	out=$(MACHINE_TIMEOUT=300 m "$1" env DEBIAN_FRONTEND=noninteractive bash -eo pipefail -c "cd /root; $2" 2>&1)
	ok $? "machine $1: $(tail -n 1 <<<"${2%$'\n'}")" || diag "$2" "$out"
}
# what is true behind a block
accelerated() { [ "$(m "$1" iwctl -j reasons | json "sum(r['as_client'] + r['as_server'] for r in d if r['reason'] == 'accelerated') > 0")" = True ]; }
maps() { sh_in 1 'grep -c libiwsock /proc/$(systemctl show -P MainPID redis-server)/maps'; }
while read -r where code; do
	code=$(printf '%b' "$code")
	case $where in
	server) run 1 "$code" ;;
	client) run 2 "$code" ;;
	both) run 1 "$code" && run 2 "$code" ;;
	*) fail "run: $where" ;;
	esac
	case $code in
	*redis-benchmark*)
		accelerated 1 && accelerated 2
		ok $? "redis is accelerated, $((($(now_ms) - begun) / 1000)) s after the beginning"
		;;
	*"restart iwarpd"*) for h in 1 2; do clean $h "machine $h, restarted"; done ;;
	*"iwctl report"*)
		sh_in 1 'tar -xzf /root/iwsock-report.tar.gz -C /root'
		is "$(sh_in 1 'grep "^units\|^journal\|^status.txt" /root/iwsock-report/index.txt | tr -s " " | sort | tr "\n" " "')" "journal.txt ok status.txt ok units.txt ok " \
			"the report has what systemd and the journal say" || m 1 cat /root/iwsock-report/index.txt | sed 's/^/# /'
		is "$(sh_in 1 'cd /root/iwsock-report; grep -r canary .; grep -c "^Environment= SECRET=(removed)$" units.txt; grep -c "started\|stopping" journal.txt | grep -c "^[1-9]"' | tr "\n" " ")" "1 1 " \
			"and no secret of a unit" || m 1 cat /root/iwsock-report/units.txt | sed 's/^/# /'
		;;
	*"service redis-server off"*) is "$(maps)" 0 "redis has the library no more" ;;
	*purge*) is "$(sh_in 1 'ls -d /etc/iwsock /run/iwarpd /usr/sbin/iwarpd' 2>/dev/null)" "" "nothing is left" ;;
	esac
done <<<"$blocks"
machines_down
done_testing
