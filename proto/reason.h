/* SPDX-License-Identifier: MIT */
/*
 * The one table of reasons why a connection is plain TCP (iwctl(8)). A number that is not in it comes from another version of
 * iwsock, of this host or another: it is carried on, counted and shown as a number, and changes nothing else.
 */
#ifndef IW_PROTO_REASON_H
#define IW_PROTO_REASON_H

#include <stdbool.h>
#include <stdint.h>

/* X(number, SYMBOL, "name", "sentence", "advice"); numbers never change, new ones go at the end, and one that has left is never used again. */
#define IW_REASONS(X) \
X(0, ACCELERATED, "accelerated", \
  "The connection runs over iWARP, or directly between two processes of this host.", "") \
X(2, PEER_NO_IWARP, "peer-no-iwarp", \
  "The other host has no iwarpd: its control port refused, or its daemon has not made contact.", \
  "Run iwarpd on the other host and load the library into the program there.") \
X(3, PEER_UNREACHABLE, "peer-unreachable", \
  "The other host's control port cannot be reached: no answer in time, or no way there.", \
  "Open the control port (default 874/tcp) in both directions; see 'iwctl check'.") \
X(5, POLICY, "policy", \
  "A rule of iwsock.conf says tcp.", \
  "See 'man 5 iwsock.conf'.") \
X(6, TUPLE_UNKNOWN, "tuple-unknown", \
  "The other host does not know this connection: an address translator or a proxy stands between.", \
  "Nothing to do; such connections stay plain TCP.") \
X(8, EPOLL_UNKNOWN, "epoll-unknown", \
  "It could not be told which epoll sets the socket is in.", \
  "Nothing to do.") \
X(9, QUOTA, "quota", \
  "The quota of the user, or a limit of the daemon, is used up.", \
  "Raise it in iwarpd.conf.") \
X(11, VERSION, "version", \
  "The library and the daemon, or the two daemons, speak no common version.", \
  "Install the same release on both sides.") \
X(12, IO_URING_USER, "io_uring-user", \
  "An operation of an io_uring is under way on the socket.", \
  "Nothing to do.") \
X(14, NETNS, "netns", \
  "The socket lives in another network namespace than the daemon.", \
  "Run an iwarpd in that namespace, or see 'join_namespaces' in iwarpd.conf(5).") \
X(16, OPTION, "option", \
  "The program uses a socket option that only kernel TCP can give.", \
  "Nothing to do.") \
X(17, PEER_REFUSED, "peer-refused", \
  "The other host's daemon does not serve this address or user.", \
  "See 'allow' and 'require_ipsec' in iwarpd.conf of the other host.") \
X(18, RESOURCES, "resources", \
  "The daemon, or the program, ran out of memory or descriptors.", \
  "See the journal: journalctl -u iwarpd.") \
X(21, TIMEOUT, "timeout", \
  "The two daemons have not agreed yet, or one of them does not answer.", \
  "Look at the load of both daemons.") \
X(23, DAEMON_GONE, "daemon-gone", \
  "The daemon, here or on the other host, went away.", \
  "See the journal: journalctl -u iwarpd.") \
X(24, NOT_STREAM, "not-stream", \
  "The socket is not a TCP stream that iwsock can carry.", \
  "Nothing to do.") \
X(25, PEER_UNTRUSTED, "peer-untrusted", \
  "The server's daemon cannot reach the control port of this host, so it must not act on our word.", \
  "Open the control port (default 874/tcp) in both directions.") \
X(27, NO_IPSEC, "no-ipsec", \
  "iwarpd.conf says require_ipsec, and no IPsec policy of the kernel asks for ESP on this connection in both directions.", \
  "Set up IPsec between the two hosts; see 'ip xfrm policy' and the journal: journalctl -u iwarpd.") \
X(28, YOUNG, "young", \
  "The connection has not yet carried what makes the switch worth it.", \
  "Nothing to do; upgrade_after in iwsock.conf sets when.") \
X(29, UNANSWERED, "unanswered", \
  "The program at the other end has not proposed this connection: it has no libiwsock.so, or has not seen as much of it.", \
  "Load the library into the program there.") \
X(30, OTHER_END, "other-end", \
  "The other end has the library and cannot switch, for a reason of its own.", \
  "See 'iwctl why' on the other host.") \
X(31, BUSY, "busy", \
  "A thread of the program sits in a blocked call on the socket; it is switched when that returns.", \
  "Nothing to do.") \
X(32, INHERITED, "inherited", \
  "Another process may hold the socket: it was inherited, passed on, or shared by a fork.", \
  "Nothing to do; the connection is switched where one process alone has it.") \
X(33, ALIAS, "alias", \
  "The socket has more descriptors than could be switched together.", \
  "Nothing to do.") \
X(34, URGENT, "urgent", \
  "The program uses urgent data.", \
  "Nothing to do.") \
X(35, HALF_CLOSED, "half-closed", \
  "One direction of the connection has ended.", \
  "Nothing to do.") \
X(36, DOWNGRADED, "downgraded", \
  "Somebody asked for plain TCP by 'iwctl downgrade'.", \
  "Undo it by 'iwctl upgrade'.") \
X(37, MATCHED, "matched", \
  "The programs at both ends have proposed this connection; each end is switched at one of its program's next calls on it, when the daemon has come to it.", \
  "Nothing to do; if it lasts, see 'iwctl why' on the other host.") \
X(38, NO_GAIN, "no-gain", \
  "The program sends large pieces one way, which plain TCP does as fast or faster between these hosts, but for a few connections at a time; it is looked at again as it goes on.", \
  "Nothing to do; a line upgrade_after_far in iwsock.conf has it upgraded all the same.") \
X(39, UNSEEN, "unseen", \
  "The program has several threads, and moves octets in ways that the library does not see: by stdio, dprintf, io_uring or system calls of its own.", \
  "Nothing to do; one that uses send, recv, read and write of the C library on its sockets is switched.")

enum iw_reason {
#define X(num, sym, name, sentence, advice) IW_REASON_##sym = (num),
	IW_REASONS(X)
#undef X
	IW_REASON_MAX,			/* above those in the table */
	IW_REASON_OTHER = 0xffff	/* where there is no room for the number: one that is not in the table. No message has a larger one */
};

/* Texts of a reason, never NULL. The name of one that is not in the table is "reason-57"; it lives as long as the block it is asked for in. */
#define IW_REASON_NAME 24
#define iw_reason_name(reason) iw_reason_name_in(reason, (char[IW_REASON_NAME]){ 0 })
const char *iw_reason_name_in(unsigned int reason, char name[IW_REASON_NAME]);
const char *iw_reason_sentence(unsigned int reason);
const char *iw_reason_advice(unsigned int reason);
bool iw_reason_known(unsigned int reason);	/* it is in the table */

#endif
