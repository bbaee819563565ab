# SPDX-License-Identifier: MIT
# OpenSSH: a command, a file each way by scp, a tree by rsync. Its server is started anew for each connection, with the socket inherited.
need ssh scp ssh-keygen rsync || return 0
[ -x /usr/sbin/sshd ] && id sshd >/dev/null 2>&1 || { skip "ssh" "needs openssh-server"; return 0; }
ssh-keygen -q -t ed25519 -N '' -f "$D/host" && ssh-keygen -q -t ed25519 -N '' -f "$D/user" || fail "$T: keys"
cat >"$D/sshd_config" <<-END
	Port 22
	ListenAddress $A
	HostKey $D/host
	PidFile $D/pid
	AuthorizedKeysFile $D/user.pub
	StrictModes no
	UsePAM no
	Subsystem sftp internal-sftp
END
cat >"$D/ssh_config" <<-END
	Host *
	IdentityFile $D/user
	IdentitiesOnly yes
	UserKnownHostsFile $D/known
	StrictHostKeyChecking accept-new
	BatchMode yes
	LogLevel ERROR
END
mib=40
head -c $((mib << 20)) /dev/urandom >"$D/data"
want=$(sha256sum <"$D/data")
# Debian's sshd shuts its unprivileged part in there, and the machine's own may be another run's
host_bg_iw $S sshd.log unshare --mount sh -c 'mount -t tmpfs -o mode=755 tmpfs /run && mkdir /run/sshd && exec "$@"' - /usr/sbin/sshd -D -e -f "$D/sshd_config"
pid=$!
host_port $S 22 || { fail "$T: sshd starts"; sed 's/^/# /' "$RIG_DIR/sshd.log"; }
counts_begin $S $C
got=$(host_exec_iw $C timeout 300 ssh -F "$D/ssh_config" "$A" 'echo "hello $((6 * 7))"' </dev/null 2>&1)
is "$got" "hello 42" "$T: a command" || sed 's/^/# /' "$RIG_DIR/sshd.log"
got=$(host_exec_iw $C timeout 300 ssh -F "$D/ssh_config" "$A" sha256sum <"$D/data" 2>&1)
is "$got" "$want" "$T: $mib MiB through ssh, half-close, the answer after it"
host_exec_iw $C timeout 300 scp -q -F "$D/ssh_config" "$D/data" "$A:$D/up" </dev/null >"$D/scp" 2>&1
ok $? "$T: scp up" || sed 's/^/# /' "$D/scp"
is "$(sha256sum <"$D/up")" "$want" "$T: scp up, sha256"
host_exec_iw $C timeout 300 scp -q -F "$D/ssh_config" "$A:$D/data" "$D/down" </dev/null >"$D/scp" 2>&1
ok $? "$T: scp down" || sed 's/^/# /' "$D/scp"
is "$(sha256sum <"$D/down")" "$want" "$T: scp down, sha256"
mkdir "$D/tree"
for i in 1 2 3 4 5; do
	head -c $((i * 100000)) "$D/data" >"$D/tree/file$i"
done
host_exec_iw $C timeout 300 rsync -az -e "ssh -F $D/ssh_config" "$D/tree/" "$A:$D/copy/" </dev/null >"$D/rsync" 2>&1
ok $? "$T: rsync up" || sed 's/^/# /' "$D/rsync"
host_exec_iw $C timeout 300 rsync -a -e "ssh -F $D/ssh_config" "$A:$D/copy/" "$D/back/" </dev/null >"$D/rsync" 2>&1
ok $? "$T: rsync down" || sed 's/^/# /' "$D/rsync"
diff -r "$D/tree" "$D/back" >"$D/diff" 2>&1
ok $? "$T: rsync, the tree is the same" || head -n 5 "$D/diff" | sed 's/^/# /'
# the server's programs have the socket from their parent's exec
# shellcheck disable=SC2086
counts_end "$T" 0 inherited $SHORT
diag "$(plain_reasons $S); $(plain_reasons $C)"
host_end $pid
