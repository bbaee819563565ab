/* SPDX-License-Identifier: MIT */
/*
 * One direction of a pair on one host: a ring in front of the carrier (docs/rings.md). It is shut, offered or open; that and the producer's
 * position are one word. There is no wake-up but the carrier's own.
 *
 * Covered: two threads that send, one that reads, one that only waits, as in poll(), and has to find what the other left; a full ring, a full
 * carrier; who lets go with octets in the ring, which an agent puts before the rest, and has it back; death of the producer and of the consumer at
 * every step. Who is stopped at a step is who goes on late. Two locks are each in one process, and die with it.
 * Left to others: which wait is for which stream (preload/ready.h), and how descriptors change hands (tests/switch.pml).
 *
 * The cut is in the sizes: two octets in the ring and in the carrier, two sent (three with IW_LONG), and one by another thread; no rule counts anything.
 */
#ifdef FAULT_SENDERS
#define SECOND
#endif
#ifdef FAULT_FULL
#define N 3
#define R 1
#define LEAVES
#endif
#ifdef FAULT_REST
#define LEAVES
#endif
#ifndef N
#define N 2		/* octets of the first sender; the second, which is there with SECOND, has one */
#endif
#ifndef R
#define R 2		/* octets of the ring */
#endif
#ifdef SECOND
#define most(who) (who -> 1 : N)
#define stages false
#else
#define most(who) (who -> 0 : N)
#define stages true
#endif
#define K 2		/* octets of the carrier */

byte ring[R];
byte pos, tail;		/* the producer's position and flags are one word: changed in one step only */
bool open, offered;
chan carrier = [K] of { byte };
bool eof, broken;	/* the producer's end is closed; the consumer's is */

bool plock, clock;	/* within either process */
byte senders;		/* calls that are in the carrier */
bool kicked;
byte sleepers;		/* threads that sleep for it in the kernel, or are about to */
byte sent[2], got[2];
byte ended;		/* senders that will send no more */
bool dead;		/* the producer; who has closed is as good as that */
bool let_go;
chan front = [R] of { byte };	/* octets that the agent has for those who read without the library */

inline take(v)
{
	assert(v % 8 == got[v / 8]);	/* in order, none lost, none twice */
	got[v / 8]++
}

/* The rules that FAULT_* break */
#ifdef FAULT_UNREAD
#define unread false
#else
#define unread (len(carrier) > 0)
#endif
#ifdef FAULT_SENDERS
#define inside false
#else
#define inside (senders > 0)
#endif

/* The word as it was read is still the same: a compare-and-swap. */
#define same (pos == h && open == o && offered == w)

/* Nothing will come any more, and nothing is there: who sleeps may. */
#define idle (ended == 2 && tail == pos && empty(carrier))

/* Before anything is left to the kernel; then it is looked once more. */
inline shut()
{
	d_step { open = false; offered = false; o = false; w = false; h = pos }
}

proctype Sender(bit who)
{
	byte h, t;
	bool o, w;

	{
	skip;
again:	skip;
	if
	:: sent[who] == most(who) -> goto out
	:: true -> goto out	/* it may send less */
	:: sent[who] < most(who) -> atomic { !plock -> plock = true }
	fi;
try:	skip;
	d_step { o = open; w = offered; h = pos };
	t = tail;
	if
	:: o && h - t < R ->
		ring[h % R] = who * 8 + sent[who];
		d_step {
			if
#ifdef FAULT_PUBLISH
			:: true -> pos = h + 1; sent[who]++; o = false
#else
			:: same -> pos = h + 1; sent[who]++; o = false
			:: else
#endif
			fi
		};
		if
		:: !o -> plock = false; goto again
		:: else -> goto try
		fi
	:: o && h - t == R ->
#ifdef FAULT_FULL
		skip;		/* it stays open, and they go into the carrier all the same */
		goto send
#else
		d_step { if :: same -> open = false :: else fi };
		goto try
#endif
	:: !o && w && h == t ->
		if
		:: !unread && !inside -> d_step { if :: same -> open = true :: else fi }; goto try
		:: unread || inside -> goto send
		fi
	:: else -> goto send
	fi;
send:
	senders++;
	plock = false;
end_full:	/* nobody reads any more */
	if
	:: atomic { !broken && nfull(carrier) -> carrier!(who * 8 + sent[who]); sent[who]++ }; senders--; goto again
	:: broken
	fi;
out:	skip
	} unless { dead };
	atomic {
		ended++;
		if
		:: ended == 2 -> eof = true
		:: ended == 2 && !dead -> skip	/* it stays there */
		:: else
		fi
	}
}

proctype Reader()
{
	byte h, v, n;
	bool o, w;

	{
	skip;
again:	skip;
	atomic { !clock -> clock = true };
	d_step { o = open; w = offered; h = pos };
	if
	:: o || w ->
		if
		:: shut()
		:: true		/* it looks only, as who does not wait */
		fi
	:: else
	fi;
#ifdef FAULT_LOOK
	if
	:: tail < h && open ->
#else
	if
	:: tail < h ->
#endif
		if
		:: v = ring[tail % R]; d_step { tail++; take(v) }; clock = false; goto again
		:: clock = false; goto out
		fi
	:: else
	fi;
	if
#ifdef LEAVES
	:: sleepers == 0 && !let_go -> goto leave
#endif
	:: true -> clock = false; goto out	/* it reads no more */
	:: o || w -> clock = false; goto again
	:: !o && !w
	fi;
	if
	:: atomic { carrier?v -> take(v) };
		if
		:: sleepers == 0 -> goto offer	/* whatever else is in the carrier: it is looked into as long as the ring is not open */
		:: true -> clock = false; goto again
		fi
	:: nempty(carrier) && stages ->
		tail = 0;	/* at once more than is asked for: it is in the ring then, as if the producer had put it there */
		n = 0;
		do
		:: n < R && nempty(carrier) -> d_step { carrier?v; ring[n] = v; n++ }
		:: n > 0 -> break
		od;
		skip;
		d_step { if :: same -> pos = n :: else -> assert(false) fi };
#ifndef FAULT_STAGE
		kicked = true;	/* who sleeps for it is told */
#endif
		clock = false;
		goto again
	:: empty(carrier) && eof -> goto end
	:: empty(carrier) && !eof
	fi;
	if
	:: sleepers++; clock = false; (nempty(carrier) || eof || idle); sleepers--;
		if
		:: empty(carrier) && !eof -> goto out
		:: nempty(carrier) || eof -> goto again
		fi
#ifndef FAULT_SLEEPER
	:: sleepers == 0 ->
#else
	:: true ->
#endif
offer:		tail = 0;	/* it begins anew, on its first page */
		d_step { if :: same -> pos = 0; offered = true :: else fi };
		clock = false;
		goto again
	fi;
leave:	/* what is left in the ring comes before what others read of the carrier; nothing comes behind it there */
	let_go = true;
	shut();
	do
#ifndef FAULT_REST
	:: tail < h -> d_step { front!ring[tail % R]; tail++ }
	:: tail == h -> break
#else
	:: true -> break
#endif
	od;
	do
	:: d_step { front?v; take(v) }
	:: empty(front) -> clock = false; goto again	/* it has it for itself again */
	:: d_step { empty(front) && nempty(carrier) -> carrier?v; take(v) }
	:: empty(front) && empty(carrier) && eof -> goto end
	od;
end:
	assert(tail == pos);
	assert(got[0] == sent[0] && got[1] == sent[1]);
	clock = false;
out:	skip
	} unless { broken }
}

proctype Poller()
{
	byte h;
	bool o, w;

	{
	skip;
	atomic { !clock -> clock = true };
	shut();
	if
	:: tail < h -> clock = false; goto told
	:: else
	fi;
	sleepers++;
	clock = false;
	(nempty(carrier) || eof || idle || kicked);
	sleepers--;
told:	skip
	} unless { broken }
}

init {
	atomic {
		run Sender(0);
		run Sender(1);
		run Reader();
#if !defined(SECOND) && !defined(LEAVES)
		run Poller()
#endif
	}
	if
	:: true -> dead = true
	:: true -> broken = true
	:: true
	fi
}
