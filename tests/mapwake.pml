/* SPDX-License-Identifier: MIT */
/*
 * Who wakes whom while a queue pair is mapped (docs/mapped.md): three threads of one process wait for different things on one T. R is in a blocked
 * read, W in a poll or an epoll_wait and reads what it is told of, S sends more than it has credits for. What one of them parses may be what
 * another one sleeps for. X forks, so that the agent goes on: T is drained by it, and what was waited for comes in C.
 *
 * Every step under the stream's lock is one step here; nobody holds the lock, or anything else, while asleep. A sleep is two: the number is looked
 * up, then its file is slept on. kicked is the waiter's edge-triggered watch of the process's kick object, beside T in each wait.
 * Left to others: death and whose it is (tests/mapped.pml); ONESHOT, EXCLUSIVE and edge-triggered entries (tests of sockets).
 *
 * An end in which somebody waits is an error, and there is no cycle: nobody spins. The cut: two FPDUs of two octets in, two octets out, one unit in
 * T each way. FAULT_*: ways to get it wrong, each of which must be found.
 */
mtype = { DATA, CREDIT, OCTET, ACK };
mtype = { T, WAKE, CLOSED };
#define R 0
#define W 1
#define S 2

chan tin = [2] of { mtype };
chan tout = [1] of { mtype };
chan framed = [4] of { mtype };		/* in the map: what T has not taken yet */
chan cin = [1] of { bit };
chan cout = [1] of { bit };
byte unread, taken, credit = 1;		/* in the map: octets parsed and not read; read; credits to send with */
bool mapped = true;
bool kicked[3];
bool watched;				/* S sleeps until T takes what is framed */
mtype number = T;			/* what T's hidden number means */

inline kick() { kicked[0] = true; kicked[1] = true; kicked[2] = true }
inline flush() { do :: nempty(framed) && nfull(tout) -> framed?x; tout!x :: empty(framed) || full(tout) -> break od; x = 0 }
inline parse() {
	if
	:: nempty(tin) ->
		do :: tin?DATA -> unread = unread + 2 :: tin?CREDIT -> credit++ :: empty(tin) -> break od;
#ifndef FAULT_KICK
		if :: unread || credit -> kick() :: else fi	/* somebody else may sleep for what this one does not take */
#endif
	:: empty(tin)
	fi
}
inline unmap() {
	mapped = false;
#ifdef FAULT_CLOSED
	number = CLOSED;
#else
	number = WAKE;			/* who has looked, and is about to sleep, may still use it */
#endif
#ifndef FAULT_TAKEOVER
	kick()
#endif
}
/* Before a call ends: what is framed is T's, or somebody sleeps until it is, or the agent has it. */
inline ends() {
#ifndef FAULT_FRAMED
	if :: mapped && nempty(framed) && !watched -> unmap() :: else fi
#else
	skip
#endif
}
inline take() { unread--; taken++; if :: taken % 2 == 0 -> framed!ACK :: else fi; flush() }
#ifdef FAULT_LATE
#define before skip
#define after kicked[me] = false
#else
#define before kicked[me] = false	/* the watch begins before the last look ends */
#define after skip
#endif
inline sleep_in() {
	atomic { after; on = number; assert(on != CLOSED) };
	atomic { (on == T && nempty(tin)) || on == WAKE || kicked[me] -> on = 0 }
}

proctype Reader()
{
	byte me = R;
	mtype x, on;

	do
	:: atomic { mapped ->
		if :: !unread -> parse() :: else fi;
		if
		:: unread -> take(); ends(); break
		:: !unread -> before
		fi };
		sleep_in()
	:: atomic { !mapped && nempty(cin) -> cin?_; break }
	od
}

proctype Waiter()
{
	byte me = W, got;
	mtype x, on;

	do
	:: got == 3 -> break
	:: atomic { got < 3 && mapped ->
		if :: !unread -> parse() :: else fi;
#ifdef FAULT_LOOK
		before };		/* T is asked alone */
		sleep_in();
		atomic { skip;
#else
		if
		:: unread
		:: !unread -> before; goto asleep
		fi };
		/* told of it, it reads, if nobody else has */
		atomic { if :: mapped && !unread -> parse() :: else fi;
#endif
			if :: mapped && unread -> take(); got++; ends() :: else fi }
	:: atomic { got < 3 && !mapped && nempty(cin) -> cin?_; got++ }
	:: false ->
asleep:		sleep_in()
	od
}

proctype Sender()
{
	byte me = S, n;
	mtype x, on;

	do
	:: n == 2 -> break
	:: atomic { n < 2 && mapped && credit -> credit--; framed!OCTET; n++; flush() };
		/* until T has taken it, or the agent has it */
		do
		:: atomic { !mapped || empty(framed) -> break }
		:: atomic { mapped && nempty(framed) -> before;
#ifndef FAULT_IN_ONLY
			watched = true
#endif
			};
#ifdef FAULT_IN_ONLY
			sleep_in();
#else
			atomic { after; on = number; assert(on != CLOSED) };
			atomic { (on == T && nfull(tout)) || on == WAKE || kicked[me] -> on = 0 };
#endif
			atomic { watched = false; if :: mapped -> flush() :: else fi }
		od
	:: atomic { n < 2 && mapped && !credit -> parse(); if :: credit -> skip :: else -> before fi };
#ifdef FAULT_SPIN
		atomic { on = number };
		atomic { (on == T && (nempty(tin) || nfull(tout))) || on == WAKE || kicked[me] ->
			assert(!mapped || credit || nempty(tin) || kicked[me]); on = 0 }
#else
		sleep_in()
#endif
	:: atomic { n < 2 && !mapped && nfull(cout) -> cout!1; n++ }
	od
}

proctype Agent()
{
	mtype x;

end:	do
	:: atomic { !mapped && nempty(framed) && nfull(tout) -> flush() }
	:: atomic { !mapped && tin?[DATA] -> tin?DATA; unread = unread + 2 }
	:: atomic { !mapped && tin?[CREDIT] -> tin?CREDIT; credit++ }
	:: atomic { !mapped && unread && nfull(cin) -> take(); cin!1 }
	:: atomic { !mapped && nempty(cout) && credit && nfull(framed) -> cout?_; credit--; framed!OCTET; flush() }
	od
}

proctype Peer()
{
	byte sent, acks, octets, owed;

	do
	:: atomic { sent < 2 && (sent == 0 || acks) && nfull(tin) -> tin!DATA; sent++ }
	:: atomic { owed && nfull(tin) -> tin!CREDIT; owed-- }
	:: atomic { tout?ACK -> acks++ }
	:: atomic { tout?OCTET -> octets++; owed++ }
	:: acks == 2 && octets == 2 && !owed -> break
	od
}

init {
	atomic { run Reader(); run Waiter(); run Sender(); run Agent(); run Peer() };
	if
	:: true
	:: atomic { mapped -> unmap() }		/* X */
	fi
}
