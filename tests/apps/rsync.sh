# SPDX-License-Identifier: MIT
# rsync to and from its daemon: a tree each way, and again with a few changes.
need rsync || return 0
mkdir "$D/src" "$D/module"
for i in $(seq 200); do
	head -c $((i * 500)) /dev/urandom >"$D/src/file$i"
done
head -c 40000000 /dev/urandom >"$D/src/large"
cat >"$D/rsyncd.conf" <<-END
	use chroot = no
	address = $A
	port = 873
	pid file = $D/pid
	[files]
	path = $D/module
	read only = no
	uid = root
	gid = root
END
host_bg_iw $S rsync.log rsync --daemon --no-detach --config="$D/rsyncd.conf"
pid=$!
host_port $S 873 || { fail "$T: starts"; sed 's/^/# /' "$RIG_DIR/rsync.log"; return; }
counts_begin $S $C
rsync_run() {
	local name=$1
	shift
	host_exec_iw $C timeout 300 rsync -a --delete "$@" >"$D/out" 2>&1 </dev/null
	ok $? "$T: $name" || tail -n 5 "$D/out" | sed 's/^/# /'
}
rsync_same() {
	diff -r "$D/src" "$1" >"$D/diff" 2>&1
	ok $? "$T: $2 is the same" || head -n 5 "$D/diff" | sed 's/^/# /'
}
rsync_run up "$D/src/" "rsync://$A/files/"
rsync_same "$D/module" "what was sent"
for i in 3 50 199; do
	echo changed >>"$D/src/file$i"
done
rm "$D/src/file7"
printf x | dd of="$D/src/large" bs=1 seek=20000000 conv=notrunc 2>/dev/null
rsync_run "changes, compressed" -zc "$D/src/" "rsync://$A/files/"
rsync_same "$D/module" "what was sent again"
rsync_run down "rsync://$A/files/" "$D/back/"
rsync_same "$D/back" "what came back"
# shellcheck disable=SC2086
counts_end "$T" 3 inherited $SHORT
host_end $pid
