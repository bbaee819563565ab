#!/bin/bash
# SPDX-License-Identifier: MIT
# The manual says what the programs do: every reason, every key of iwarpd.conf, every sub-command; and it formats cleanly.
cd "$(dirname "$0")/.." || exit 1
n=0
same() { # NAME FROM-SOURCE FROM-MANUAL
	n=$((n + 1))
	if [ -n "$2" ] && [ "$2" = "$3" ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		diff <(printf '%s\n' "$2") <(printf '%s\n' "$3") | sed 's/^/# /'
	fi
}
# "5 policy: sentence advice" on one line each
table=$(sed -n '/define IW_REASONS/,/^$/p' proto/reason.h | tr -d '\\\n' | sed 's/X(/\n/g' |
	sed -n 's/^\([0-9]*\), [A-Z_]*, "\([^"]*\)", *"\([^"]*\)", *"\([^"]*\)".*/\1 \2: \3 \4/p' | grep -v '^0 ')
manual=$(sed -n '/^\.SH REASONS/,/^\.SH D-BUS/p' man/iwctl.8 | sed 's/\\-/-/g' | awk '
	/^\.B /{ if (h) print h ": " t; h = $2 " " $3; t = ""; next } /^\./{ next }
	{ t = t (t ? " " : "") $0 } END { print h ": " t }')
same "iwctl(8) has the table of reasons" "$(sed 's/ *$//' <<<"$table")" "$(grep '^[0-9]' <<<"$manual")"

same "README.md says how many there are" "$(wc -l <<<"$table")" "$(sed -n 's/.* has one of \([0-9]*\) numbered reasons.*/\1/p' README.md)"

heads=$(sed -n '/^\t{ "streams"/,/^\t{ "peers"/p' iwctl/lists.c | grep -o '{ ">*[A-Z]*",' | tr -dc 'A-Z\n' | tr '\n' ' ' | sed 's/ $//')
same "README.md shows the columns of iwctl streams" "$heads" "$(grep '^ *PID  PROGRAM' README.md | tr -s ' ' | sed 's/^ //' | sort -u)"
same "iwarpd(8) has every MESSAGE_ID" "$(sed -n 's/^#define LOG_ID_[A-Z]*\t"\([0-9a-f]\{32\}\)".*/\1/p' daemon/base/log.h | sort)" \
	"$(sed -n 's/^\.B \([0-9a-f]\{32\}\)$/\1/p' man/iwarpd.8 | sort)"

keys=$(sed -n 's/^\t{ "\([a-z_]*\)", K_.*/\1/p' daemon/base/conf.c | sort)
manual=$(sed -n '/^\.SH KEYS/,/^\.SH EXAMPLE/p' man/iwarpd.conf.5 | sed -n 's/^\.BR \([a-z_ \\,]*\) ".*/\1/p' | sed 's/ ,\\ / /g' | tr ' ' '\n' | grep . | sort)
same "iwarpd.conf(5) has every key" "$keys" "$manual"
manual=$(sed -n '/^\.SH RELOAD/,/^\.SH KEYS/p' man/iwarpd.conf.5 | sed -n '/^\.TP/{n;s/^\.B //p}' | tr ' ",' '\n' | grep . | sort)
same "and says of each what it takes to change it" "$keys" "$manual"

commands=$(sed -n 's/^\t{ "\([a-z-]*\)", .*_main, [a-z]* },/\1/p' iwctl/main.c | sort)
manual=$(sed -n '/^\.SH COMMANDS/,/^\.SH OPTIONS/p' man/iwctl.8 | sed 's/\\-/-/g' | sed -n 's/^\.BR* \([a-z-]*\).*/\1/p' | sort -u)
same "iwctl(8) has every command" "$commands" "$(grep -xF "$commands" <<<"$manual")"
bash=$(sed -n 's/.*local commands="\(.*\)"/\1/p' conf/iwctl.bash | tr ' ' '\n' | sort)
same "the completion has every command" "$commands" "$bash"

section() { # NAME WORD
	awk -v s="$1" '/^\.SH/ { on = $2 == s } on' man/org.iwsock.Daemon1.5 | sed 's/\\-/-/g' | sed -n "s/^\.B \([A-Z][A-Za-z]*[( ].*\)\$/$2 \1/p"
}
same "org.iwsock.Daemon1(5) has every method, property and signal" "$(sort tests/bus_interface.list)" \
	"$( (section METHODS method; section PROPERTIES property; section SIGNALS signal) | sort)"
keys=$(cat daemon/bus/*.c | grep -o 'put(&*o, "[a-z_0-9]*", "[a-z]"' | sed 's/.*"\(.*\)", "\(.\)"/\1 \2/'
	cat daemon/bus/*.c | grep -o 'put_\(ip\|addr\|program\)(o, "[a-z]*"' | sed 's/.*"\(.*\)"/\1 s/')
manual=$(sed -n '/^\.SH DICTIONARIES/,/^\.SH ERRORS/p' man/org.iwsock.Daemon1.5 | grep -o '\\fB[a-z_0-9]*\\fR [a-z]\+' | sed 's/\\fB\(.*\)\\fR/\1/' | sort -u)
same "and every key of its dictionaries" "$(printf '%s\nupgrade_log2_ms at\ntx_sizes_log4 at\nused_streams t\nrefused_streams t\n' "$keys" | sort -u)" "$manual"

for page in man/*.[1-8]; do
	n=$((n + 1))
	if ! command -v man >/dev/null; then
		echo "ok $n - $page # SKIP no man"
		continue
	fi
	out=$(MANROFFOPT='' MANWIDTH=100 man --warnings -l -Tutf8 "$page" 2>&1 >/dev/null)
	[ -z "$out" ] && echo "ok $n - $page formats without warnings" || { echo "not ok $n - $page formats without warnings"; printf '%s\n' "$out" | sed 's/^/# /'; }
done
echo "1..$n"
