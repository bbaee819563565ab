#!/bin/bash
# SPDX-License-Identifier: MIT
# RDMA devices as iwctl tells of them: those of a kernel that has some are made up, for iwctl alone (/sys/class/infiniband); which may be used, and why not.
. "$(dirname "$0")/lib/rig.sh"
rig_up 1
ctl=$IW_BUILD/iwctl fake=$RIG_DIR/infiniband
unset IWSOCK_CONF

made_up() { # of one kernel: siw0 with an interface, a card of two ports of which one is up, an InfiniBand one that is down
	local d p
	for d in siw0:4:1 mlx5_0:1:1 mlx5_0:1:2 ib0:1:1; do
		p=${d##*:}
		mkdir -p "$fake/${d%%:*}/ports/$p/gid_attrs/ndevs"
	done
	echo "4: RNIC" >"$fake/siw0/node_type"
	echo "1: CA" | tee "$fake/mlx5_0/node_type" >"$fake/ib0/node_type"
	echo Ethernet | tee "$fake/siw0/ports/1/link_layer" "$fake/mlx5_0/ports/1/link_layer" >"$fake/mlx5_0/ports/2/link_layer"
	echo InfiniBand >"$fake/ib0/ports/1/link_layer"
	echo "4: ACTIVE" | tee "$fake/siw0/ports/1/state" >"$fake/mlx5_0/ports/2/state"
	echo "1: DOWN" | tee "$fake/ib0/ports/1/state" >"$fake/mlx5_0/ports/1/state"
	echo eth0 >"$fake/siw0/ports/1/gid_attrs/ndevs/0"
	mkdir -p "$fake/mlx5_0/device/net/ens1f1"
}
with() { # as iwctl says it of these: ARGUMENT...
	host_exec 1 unshare -m --propagation private sh -c 'mount -t tmpfs none /sys/class && cp -r "$1" /sys/class/infiniband && shift && exec "$@"' \
		sh "$fake" "$ctl" --run-dir "$(host_dir 1)" "$@"
}
without() { host_exec 1 unshare -m --propagation private sh -c 'mount -t tmpfs none /sys/class && exec "$@"' sh "$ctl" --run-dir "$(host_dir 1)" "$@"; }
told() { with devices --json | json "' '.join('%s %s %s %s %s' % (r['device'], r['kind'], r['state'], r.get('interface', '-'), r.get('why_not', 'yes').replace(' ', '_')) for r in d)"; }
checks() { "$@" doctor --json | json "['%s %s' % (c['verdict'], c['text']) for c in d['checks'] if c['check'] == 'devices']"; }
made_up

# ---- provider = soft, the default ----
built=$(host_ctl 1 status --json | json "d['verbs']")
soft="provider_=_soft"
[ "$built" = True ] || soft="this_iwarpd_was_built_without_libibverbs_and_librdmacm"
is "$(told)" "ib0 infiniband down - $soft mlx5_0 roce active ens1f1 $soft siw0 iwarp active eth0 $soft" "each with its kind, its best port, its interface, and why it is not used"
is "$(with devices | awk 'NR == 1 { print $1, $NF } /^siw0/ { print $2, $3, $4 }' | tr '\n' ' ')" "DEVICE USED iwarp eth0 active " "the same for people" || diag "$(with devices)"
is "$(without devices --json)" "[]" "none where the kernel has none"
is "$(checks without)" "[]" "which is nothing to a doctor"
is "$(checks with | grep -o "'ok siw0 (iwarp) is not used: [a-z ]*" | head -n 1 | cut -c 1-30)" "'ok siw0 (iwarp) is not used: " "nor is one that is not used" || diag "$(checks with)"
if [ "$built" = True ]; then
	# ---- provider = auto ----
	daemon_stop 1 && daemon_start 1 -o provider=auto
	is "$(told)" "ib0 infiniband down - its_port_is_down mlx5_0 roce active ens1f1 yes siw0 iwarp active eth0 yes" "provider = auto: those whose port is up"
	is "$(checks without)" "['warn provider = auto, and this host has no RDMA device']" "provider = auto, and none is there: the doctor says so"
	is "$(checks with | grep -o "ok mlx5_0 (roce) is used where it reaches the other host\|warn ib0 (infiniband) is not used: its port is down" | wc -l)" 2 "and which is not used" || diag "$(checks with)"
	daemon_stop 1 && daemon_start 1 -o provider=auto -o 'device=mlx5_?'
	is "$(told)" "ib0 infiniband down - device_=_mlx5_? mlx5_0 roce active ens1f1 yes siw0 iwarp active eth0 device_=_mlx5_?" "device: those that it fits"
fi
is "$(host_ctl 1 metrics | grep -c iwsock_device)" 0 "no metrics of devices that have carried nothing"

# ---- names that are none ----
for bad in "" "a b" "../x" "$(printf '%064d' 0)"; do
	err=$("$IW_BUILD/iwarpd" --check -o "device=$bad" 2>&1)
	is "$? $(grep -c "device.*iwctl devices" <<<"$err")" "2 1" "device = '${bad:0:8}': refused, with what it takes" || diag "$err"
done
done_testing
