# SPDX-License-Identifier: MIT
# Machines with a systemd of their own on the hosts of rig.sh (bash, root): a Debian root (tests/boot/root) booted by systemd-nspawn in the
# host's network namespace and in control groups that are ours. What they write goes away with them.
#
#	. "$(dirname "$0")/machine.sh"
#	machines_up 2		hosts 1 and 2, booted; the checkout is /src in them, read-only
#	machines_up 2 1		and one host more, with an iwarpd of it: MACHINE_RUNDIR is where they have its run directory
#	in_machine 1 command ...	as root, bounded; no standard input. Shorter: m; sh_in 1 'lines of a shell'
#	servers_with_library 1 LINE...	redis-server and nginx under their own units, with the library, by iwctl service; the lines are for nginx's
#	servers_without_library 1	as before
#	older_packages 1	of the packages of `make deb`, in /root/old, the same as an older version
#	apt 1 ARGUMENT...	apt-get, which may take its time; what it said is in RIG_DIR/apt.1
#	state 1		everything that an installation could leave, line by line
#	clean 1 NAME	the daemon's units are active, and systemd has nothing against them
#	done_testing		ends them, too

. "$(dirname "${BASH_SOURCE[0]}")/../lib/rig.sh"
declare -a MACHINE=()		# pid of the systemd-nspawn of host N
declare -a MACHINE_INIT=()	# pid of its systemd
MACHINE_GROUPS=()		# control groups that we made

machines_need() {
	local p
	for p in mmdebstrap systemd-nspawn unshare pgrep; do
		command -v "$p" >/dev/null || skip_all "needs $p"
	done
	rig_need
	if [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]; then
		MACHINE_TREES=(/sys/fs/cgroup)
	else
		MACHINE_TREES=(/sys/fs/cgroup/systemd /sys/fs/cgroup/unified)
	fi
	for p in "${MACHINE_TREES[@]}"; do
		[ -w "$p/cgroup.procs" ] && mkdir "$p/$RIG_ID" 2>/dev/null && rmdir "$p/$RIG_ID" || skip_all "no control groups can be made in $p"
	done
}

machine_start() { # HOST ROOT
	local h=$1 t dir=$RIG_DIR/m$1 groups=()
	mkdir -p "$dir/up/etc" "$dir/work" "$dir/root"
	printf '%s%08x\n' "$(printf '%024x' $$)" "$h" >"$dir/up/etc/machine-id"	# else its first boot would enable every unit there is
	for t in "${MACHINE_TREES[@]}"; do
		mkdir "$t/$RIG_ID.$h" || return 1
		MACHINE_GROUPS+=("$t/$RIG_ID.$h")
		groups+=("$t/$RIG_ID.$h/cgroup.procs")
	done
	# the mount goes with the last process
	# shellcheck disable=SC2016 # that shell's
	bash -c 'for g in "${@:6}"; do echo $$ >"$g" || exit 1; done
		exec unshare -m --propagation private bash -c '\''mount -t overlay -o "lowerdir=$2,upperdir=$1/up,workdir=$1/work" overlay "$1/root" &&
			exec systemd-nspawn -q -D "$1/root" --boot --register=no --keep-unit --machine="$3" --console=read-only \
				--network-namespace-path="$4" --bind-ro="$PWD:/src" ${5:+"--bind=$5"} --resolv-conf=off --timezone=off --link-journal=no \
				--system-call-filter="io_uring_setup io_uring_enter io_uring_register" systemd.log_target=journal'\'' bash "${@:1:5}"' \
		bash "$dir" "$2" "$RIG_ID-$h" "$(host_ns "$h")" "${MACHINE_RUNDIR:+$(host_dir $((RIG_HOSTS))):$MACHINE_RUNDIR}" "${groups[@]}" >"$dir.log" 2>&1 </dev/null &
	MACHINE[h]=$!
}

machine_booted() { # HOST
	if rig_ended "${MACHINE[$1]}"; then return 0; fi
	MACHINE_INIT[$1]=$(pgrep -P "${MACHINE[$1]}" -x systemd) || return 1
	case $(in_machine "$1" systemctl is-system-running) in running | degraded) ;; *) return 1 ;; esac
}

machines_up() { # N [1]
	local h root
	machines_need
	root=$("$RIG_TESTS/boot/root" build) || { echo "Bail out! tests/boot/root build failed"; exit 1; }
	cd "$RIG_TESTS/.." || exit 1
	RIG_NO_DAEMON=1 rig_up $(($1 + ${2-0}))
	trap 'machine_status=$?; machines_down; (exit $machine_status); rig_trap' EXIT
	[ -z "${2-}" ] || daemon_start $(($1 + 1)) || exit 1
	for h in $(seq "$1"); do
		machine_start "$h" "$root" || { echo "Bail out! no control group"; exit 1; }
	done
	for h in $(seq "$1"); do
		until_true 60 machine_booted "$h" && rig_ours "${MACHINE[h]}"
		ok $? "machine $h boots" || { tail -n 20 "$RIG_DIR/m$h.log" | sed 's/^/# /'; exit 1; }
	done
}

in_machine() {
	local h=$1
	shift
	timeout -k 5 "${MACHINE_TIMEOUT:-60}" nsenter -t "${MACHINE_INIT[h]}" -m -u -i -n -p -C -r -w env -i HOME=/root LC_ALL=C.UTF-8 \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" </dev/null
}

m() { in_machine "$@"; }
sh_in() { in_machine "$1" bash -c "$2"; }

older_packages() {
	sh_in "$1" 'mkdir /root/old && cd /root/old && for p in iwarpd libiwsock; do
		dpkg-deb -R /src/build/deb/${p}_*.deb $p && sed -i "s/^Version: .*/&~older/" $p/DEBIAN/control && dpkg-deb -Znone -b $p $p.deb || exit 1; done' >"$RIG_DIR/older.$1" 2>&1
	ok $? "machine $1: an older version" || sed 's/^/# /' "$RIG_DIR/older.$1"
}
apt() {
	MACHINE_TIMEOUT=300 m "$1" env DEBIAN_FRONTEND=noninteractive apt-get -q -y "${@:2}" >"$RIG_DIR/apt.$1" 2>&1
}
apt_said() { sed 's/^/# /' "$RIG_DIR/apt.$1"; }

# everything that an installation could leave
state() {
	sh_in "$1" 'find / -xdev \( -type f -o -type l \) ! -path "/var/log/*" ! -path "/var/cache/*" ! -path "/var/lib/systemd/*" ! -path "/var/lib/redis/*" \
			! -path "/etc/*-" ! -name .pwd.lock
		getent passwd; getent group; ls -d /run/iwarpd; systemctl list-unit-files --no-legend; systemctl list-units --all --no-legend "iwarp*"
		cat /proc/[0-9]*/comm | grep iwarp' 2>/dev/null | sort
}
active() { [ "$(m "$1" systemctl is-active iwarpd.service iwarpd.socket | tr '\n' ' ')" = "active active " ]; }
main_pid() { m "$1" systemctl show -P MainPID iwarpd.service; }
# after each thing that was done to it
clean() { # HOST NAME
	until_true 20 active "$1"
	ok $? "$2: service and socket are active" || m "$1" systemctl status --no-pager iwarpd.service iwarpd.socket | sed 's/^/# /'
	m "$1" systemctl status --no-pager iwarpd.service >"$RIG_DIR/status" 2>&1
	is "$? $(m "$1" systemctl is-failed iwarpd.service)" "0 active" "$2: systemctl status is content" || sed 's/^/# /' "$RIG_DIR/status"
}
# what the units and the bus had to say, but for dialling and hanging up, which tests do
complaints() { m "$1" journalctl -q -o cat -p warning -u iwarpd.service -u iwarpd.socket | grep -v 'session from .* failed to start'; m "$1" journalctl -q -o cat -u dbus.service | grep -i iwarp; }

# unit_files HOST: all that "iwctl service" may change, to the last octet
unit_files() {
	sh_in "$1" 'cd /etc && find systemd/system postgresql -printf "%M %u %g %p %l\n" | sort && find systemd/system postgresql -type f -exec sha256sum {} + | sort -k 2'
}
# with all that their units forbid, nginx's with more; and a file of 8 MiB for nginx, which ends a connection after a thousand requests else
servers_with_library() {
	local h=$1
	shift
	sh_in "$h" 'dd if=/dev/urandom of=/var/www/html/blob bs=1M count=8 status=none
		echo "keepalive_requests 100000;" >/etc/nginx/conf.d/lasting.conf
		sed -i "s/^bind .*/bind '"$(host_addr "$h")"'/; s/^protected-mode .*/protected-mode no/" /etc/redis/redis.conf
		mkdir -p /etc/systemd/system/nginx.service.d
		printf "[Service]\n'"$(printf '%s\\n' "$@")"'" >/etc/systemd/system/nginx.service.d/strict.conf
		systemctl daemon-reload'
	unit_files "$h" >"$RIG_DIR/units"
	sh_in "$h" 'iwctl service redis-server on --restart && iwctl service nginx on --restart' >"$RIG_DIR/service" 2>&1
	ok $? "redis-server and nginx under their own units, with the library" || { cat "$RIG_DIR/service"; m "$h" journalctl -q --no-pager -n 30; } | sed 's/^/# /'
}
servers_without_library() {
	sh_in "$1" 'iwctl service redis-server off --restart && iwctl service nginx off --restart' >"$RIG_DIR/service" 2>&1
	ok $? "redis-server and nginx without it again" || sed 's/^/# /' "$RIG_DIR/service"
	is "$(unit_files "$1" | diff "$RIG_DIR/units" -)" "" "their unit files are as before, to the last octet"
	sh_in "$1" 'rm -r /etc/systemd/system/nginx.service.d /var/www/html/blob /etc/nginx/conf.d/lasting.conf; systemctl daemon-reload; systemctl restart nginx'
}

# What a machine runs goes with its first process, and with that systemd-nspawn.
machines_down() {
	local h g
	for h in "${!MACHINE[@]}"; do
		! machine_lives "$h" || kill -9 "${MACHINE_INIT[h]}" 2>/dev/null
		until_true 5 rig_ended "${MACHINE[h]}" || kill -9 "${MACHINE[h]}"
		wait "${MACHINE[h]}" 2>/dev/null
	done
	MACHINE=() MACHINE_INIT=()
	for g in "${MACHINE_GROUPS[@]}"; do
		until_true 5 machine_group_gone "$g" || diag "left: $g"
	done
	MACHINE_GROUPS=()
}
machine_lives() { # HOST: its first process is still what systemd-nspawn started
	rig_ours "${MACHINE[$1]}" && [ -n "${MACHINE_INIT[$1]-}" ] && pgrep -P "${MACHINE[$1]}" | grep -qx "${MACHINE_INIT[$1]}"
}
machine_group_gone() {
	[ ! -d "$1" ] || find "$1" -depth -type d -exec rmdir {} + 2>/dev/null
	[ ! -d "$1" ]
}
