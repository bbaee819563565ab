/* SPDX-License-Identifier: MIT */
/*
 * The one table of reasons why a connection is plain TCP (iwctl(8)). A number that is not in it comes from a newer iwsock, of this
 * host or another: it is carried on, counted and shown as a number, and changes nothing else.
 */
#ifndef IW_PROTO_REASON_H
#define IW_PROTO_REASON_H

#include <stddef.h>
#include <stdint.h>

/* X(number, SYMBOL, "name", "sentence", "advice"); numbers never change, new ones go at the end. */
#define IW_REASONS(X) \
X(0, ACCELERATED, "accelerated", \
  "The connection runs over iWARP, or directly between two processes of this host.", "") \
X(1, NO_DAEMON, "no-daemon", \
  "No iwarpd answers on this host.", \
  "Start it: systemctl start iwarpd.") \
X(2, PEER_NO_IWARP, "peer-no-iwarp", \
  "The other host has no iwarpd: its control port refused, or its daemon has not made contact.", \
  "Run iwarpd on the other host and load the library into the program there.") \
X(3, PEER_UNREACHABLE, "peer-unreachable", \
  "The other host's control port cannot be reached: no answer in time, or no way there.", \
  "Open the control port (default 874/tcp) in both directions; see 'iwctl check'.") \
X(4, LISTENER_NOT_REGISTERED, "listener-not-registered", \
  "The daemon of the server's host knows no program with libiwsock.so that listens there.", \
  "Start the server with LD_PRELOAD=libiwsock.so. One that has it and is older than its daemon is known again when it next accepts.") \
X(5, POLICY, "policy", \
  "A rule of iwsock.conf says tcp.", \
  "See 'man 5 iwsock.conf'.") \
X(6, TUPLE_UNKNOWN, "tuple-unknown", \
  "The other host does not know this connection: it was not offered, or an address translator stands between.", \
  "Load the library on both sides; connections through NAT or a proxy stay plain TCP.") \
X(7, FD_SHARED, "fd-shared", \
  "The socket was duplicated, passed on or shared by a fork before it was connected.", \
  "Nothing to do; connect first, then share.") \
X(8, EPOLL_UNKNOWN, "epoll-unknown", \
  "The socket may be in an epoll set that the library did not see being filled.", \
  "Nothing to do.") \
X(9, QUOTA, "quota", \
  "The quota of the user, or a limit of the daemon, is used up.", \
  "Raise it in iwarpd.conf.") \
X(10, UNCLAIMED, "unclaimed", \
  "The server accepted the connection without the library, or did not claim it in time.", \
  "Load the library into every process that accepts on that listener.") \
X(11, VERSION, "version", \
  "The library and the daemon, or the two daemons, speak no common version.", \
  "Install the same release on both sides.") \
X(12, IO_URING_USER, "io_uring-user", \
  "The program drives this socket through io_uring, which no library can see.", \
  "Nothing to do.") \
X(13, SECURE_EXEC, "secure-exec", \
  "The program is set-user-ID, set-group-ID or has file capabilities.", \
  "Nothing to do; such programs are never accelerated.") \
X(14, NETNS, "netns", \
  "The socket lives in another network namespace than the daemon.", \
  "Run an iwarpd in that namespace.") \
X(15, FASTOPEN, "fastopen", \
  "TCP Fast Open sends data before the connection exists.", \
  "Turn TCP Fast Open off in the program to have it accelerated.") \
X(16, OPTION, "option", \
  "The program uses a socket option that only kernel TCP can give.", \
  "Nothing to do.") \
X(17, PEER_REFUSED, "peer-refused", \
  "The other host's daemon does not serve this address or user.", \
  "See 'allow' and 'require_ipsec' in iwarpd.conf of the other host.") \
X(18, RESOURCES, "resources", \
  "The daemon ran out of memory or descriptors.", \
  "See the journal: journalctl -u iwarpd.") \
X(19, NOT_MPA, "not-mpa", \
  "The server sent bytes before it claimed the connection, so it does not use the library.", \
  "Load the library into the server program.") \
X(20, LISTENER_GONE, "listener-gone", \
  "The listener went away between offer and claim.", \
  "Nothing to do.") \
X(21, TIMEOUT, "timeout", \
  "The daemons could not agree within the time the application may be kept waiting.", \
  "Look at the load of both daemons; raise 'answer_timeout' in iwarpd.conf.") \
X(22, SWAP_UNSAFE, "swap-unsafe", \
  "Another thread was already using the socket when it became connected.", \
  "Nothing to do.") \
X(23, DAEMON_GONE, "daemon-gone", \
  "The daemon went away while the connection was being set up.", \
  "See the journal: journalctl -u iwarpd.") \
X(24, NOT_STREAM, "not-stream", \
  "The socket is not a TCP stream that iwsock can carry.", \
  "Nothing to do.") \
X(25, PEER_UNTRUSTED, "peer-untrusted", \
  "The server's daemon cannot reach the control port of this host, so it must not act on our word.", \
  "Open the control port (default 874/tcp) in both directions.") \
X(26, DISABLED, "disabled", \
  "Acceleration is switched off by the environment or the configuration.", \
  "Unset IWSOCK_DISABLE, or see iwarpd.conf.") \
X(27, NO_IPSEC, "no-ipsec", \
  "iwarpd.conf says require_ipsec, and no IPsec policy of the kernel asks for ESP on this connection in both directions.", \
  "Set up IPsec between the two hosts; see 'ip xfrm policy' and the journal: journalctl -u iwarpd.")

enum iw_reason {
#define X(num, sym, name, sentence, advice) IW_REASON_##sym = (num),
	IW_REASONS(X)
#undef X
	IW_REASON_MAX,			/* of those in the table */
	IW_REASON_OTHER = 0xffff	/* where there is no room for the number: one that is not in the table. No message has a larger one */
};

/* Texts of a reason, never NULL. The name of one that is not in the table is "reason-57"; it lives as long as the block it is asked for in. */
#define IW_REASON_NAME 24
#define iw_reason_name(reason) iw_reason_name_in(reason, (char[IW_REASON_NAME]){ 0 })
const char *iw_reason_name_in(unsigned int reason, char name[IW_REASON_NAME]);
const char *iw_reason_sentence(unsigned int reason);
const char *iw_reason_advice(unsigned int reason);
/* Number of a name in the table, or -ENOENT. */
int iw_reason_parse(const char *name);

#endif
