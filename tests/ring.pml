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
#ifdef FAULT_SOON
#define N 3
#endif
#ifdef FAULT_FULL
#define N 3
#define R 1
#define LEAVES
#endif
#ifdef FAULT_REST
#define LEAVES
#endif
#if defined(FAULT_MORE) || defined(FAULT_STILL) || defined(FAULT_EMPTY)
#define N 3
#define R 1
#define LEAVES
#endif
#ifndef N
#define N 2		/* octets of the first sender; the second, which is there with SECOND, has one */
#endif
#ifndef R
#define R 2		/* octets of the ring */
#endif
#if defined(FAULT_FILL) || defined(FAULT_FRESH) || defined(FAULT_ANEW) || defined(FAULT_SOON)
#define ARMED
#endif
#if defined(FAULT_LAST) || defined(FAULT_WET)
#define ARMED
#define SECOND
#endif
#if defined(ARMED) && !defined(POLLED)
#define ALONE
#endif
#ifdef SECOND
#define most(who) (who -> 1 : N)
#define stages false
#else
#define most(who) (who -> 0 : N)
#define stages offers
#endif
#ifdef ARMED
#define offers false
#else
#define offers true
#endif
#define K 2		/* octets of the carrier */
#define ARMS 3		/* how often it is armed */

byte ring[R];		/* octets, + 1; 0 once taken: what lies there then is nobody's */
byte pos, tail;		/* the producer's position and flags are one word: changed in one step only */
bool open, offered, armed, behind;
byte arms;		/* each arm's position is another one; a part of the word as that is */
chan carrier = [K] of { byte };
bool eof, broken;	/* the producer's end is closed; the consumer's is */

bool plock, clock;	/* within either process */
byte senders;		/* calls that are in the carrier */
bit last;		/* who went there last */
bool kicked, polls;	/* who polls is to be told; it is not done yet */
bool has_armed;		/* under the consumer's lock: it did, and has not looked since */
byte sleepers, calls;	/* threads that sleep for it in the kernel, or are about to; those in a call that receives, which cannot be told of anything but by it */
byte sent[2], got[2];
byte ended;		/* senders that will send no more */
bool dead;		/* the producer; who has closed is as good as that */
bool let_go;
chan front = [R] of { byte };	/* octets that the agent has for those who read without the library */

inline take(v)
{
	assert(v / 8 < 2);
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
#ifdef FAULT_ANEW
#define same (pos == h && open == o && offered == w && armed == a)
#else
#define same (pos == h && open == o && offered == w && armed == a && arms == g)
#endif
#ifdef FAULT_LAST
#define alone (senders == 0)
#else
#define alone (senders == 0 && last == who && !before)
#endif
#ifdef FAULT_FRESH
#define fresh true
#else
#define fresh (g == was -> first : len(carrier) > 0)
#endif
#ifdef FAULT_WET
#define wet false
#else
#define wet (len(carrier) > 0)
#endif

#ifdef FAULT_EMPTY
#define none true
#else
#define none (tail == h)
#endif
#ifdef FAULT_STILL
#define still true
#else
#define still same
#endif
#ifdef FAULT_MORE
#define more (nempty(carrier))
#else
#define more (n > 0)
#endif

/* Nothing will come any more, and nothing is there: who sleeps may. */
#define idle (ended == 2 && tail == pos && empty(carrier))

/* The consumer, before anything else: what was put behind the octets that are in the carrier comes behind them. One it is in this model. */
#ifdef FAULT_FILL
#define fills false
#else
#define fills behind
#endif
inline disarm()
{
	if
	:: has_armed ->
		assert(calls == 0);
		d_step { armed = false; b = fills; behind = false };
		if
		:: b -> d_step { carrier?v; ring[tail % R] = v + 1; v = 0; b = false }
		:: else
		fi;
		has_armed = false;
		if
		:: sleepers > 0 -> d_step { open = false; offered = false }; kicked = polls	/* who sleeps is told, and woken by the carrier from now on */
		:: else
		fi
	:: else
	fi
}

/* Shut and empty, and about to sleep: another position, a look into the carrier, and it says that it has nothing. Alone, or where it can be told. */
inline arm()
{
	tail = 0;
	d_step { if :: same -> pos = 0; arms++ :: else -> assert(false) fi };
#ifdef FAULT_SOON
	d_step { armed = true; has_armed = true };
#endif
	if
	:: nempty(carrier)
	:: empty(carrier) -> d_step { armed = true; has_armed = true }
	fi
}

/* What a sender, or who receives, has read, and needs no more: fewer states. */
inline forget()
{
	h = 0; t = 0; o = false; w = false; a = false; g = 0; was = 0; first = false; before = false
}
inline leaves()
{
	h = 0; v = 0; n = 0; g = 0; o = false; w = false; a = false; b = false
}
inline unlock()
{
	d_step { leaves(); clock = false }
}
inline told_so()	/* who polled */
{
	h = 0; v = 0; g = 0; o = false; w = false; a = false; b = false; polls = false; kicked = false
}

/* Before anything is left to the kernel; then it is looked once more. */
inline shut()
{
	d_step { open = false; offered = false; o = false; w = false; h = pos }
}

proctype Sender(bit who)
{
	byte h, t, g, was;
	bool o, w, a, first, before;

	{
	skip;
again:	if
	:: sent[who] == most(who) -> goto out
	:: true -> goto out	/* it may send less */
	:: atomic { sent[who] < most(who) && !plock -> plock = true }
	fi;
try:	atomic { o = open; w = offered; a = armed; g = arms; h = pos };
	t = tail;
	if
	:: d_step { o && h - t < R -> ring[h % R] = who * 8 + sent[who] + 1; t = 0 };
		d_step {
			if
#ifdef FAULT_PUBLISH
			:: true -> pos = h + 1; sent[who]++; o = false
#else
			:: same -> pos = h + 1; sent[who]++; o = false
			:: else -> ring[h % R] = 0
#endif
			fi
		};
		if
		:: d_step { !o -> forget(); plock = false }; goto again
		:: d_step { o -> forget() }; goto try
		fi
	:: o && h - t == R ->
#ifdef FAULT_FULL
		goto send	/* it stays open, and they go into the carrier all the same */
#else
		d_step { if :: same -> open = false :: else fi; forget() };
		goto try
#endif
	:: !o && w && h == t ->
		if
		:: !unread && !inside -> d_step { if :: same -> open = true :: else fi; forget() }; goto try
		:: unread || inside -> goto send
		fi
	:: else -> goto send
	fi;
send:	atomic {
#ifdef ARMED
		was = g;
		first = !wet;
		before = inside;
		last = who;
#endif
		h = 0; t = 0; o = false; w = false; a = false; g = 0;
		senders++
	};
	plock = false;
end_full:	/* nobody reads any more */
	if
	:: atomic { !broken && nfull(carrier) -> carrier!(who * 8 + sent[who]); sent[who]++ };
#ifdef ARMED
		atomic { !plock -> plock = true };
		d_step { senders--; o = open; w = offered; a = armed; g = arms; h = pos };
		t = tail;
		if	/* the consumer sleeps, and had nothing before: what follows may follow in the ring */
		:: a && h == t && alone && fresh -> d_step { if :: same -> pos = h + 1; open = true; armed = false; behind = true :: else fi }
		:: else
		fi;
		d_step { forget(); plock = false };
#else
		d_step { forget(); senders-- };
#endif
		goto again
	:: broken
	fi;
out:	skip
	} unless { dead };
	atomic {
		forget();
		ended++;
		if
		:: ended == 2 -> eof = true
		:: ended == 2 && !dead -> skip	/* it stays there */
		:: else
		fi
	}
}

/* Who receives alone works on tail, under the lock: to look there is no step for anybody else. */
#ifdef FAULT_LOOK
#define there (tail < h && open)
#else
#define there (tail < h)
#endif

proctype Reader()
{
	byte h, v, n, g;
	bool o, w, a, b;

	{
	skip;
again:	atomic { !clock -> clock = true };
#ifdef ARMED
	disarm();
#endif
	atomic {
		o = open; w = offered; a = armed; g = arms; h = pos;
		if	/* while it is offered, of the carrier what was there before it can have been opened */
		:: !o && w && none
		:: else -> goto look
		fi
	};
	n = len(carrier);
	if
	:: still && n > 0 ->
		do
		:: more -> d_step { carrier?v; take(v); v = 0; if :: n > 0 -> n-- :: else fi }
		:: else -> break
		od;
		atomic { leaves(); clock = false };
		goto again
	:: else -> n = 0
	fi;
look:	if
	:: d_step { o || w -> open = false; offered = false; o = false; w = false; h = pos }	/* shut */
	:: o || w	/* it looks only, as who does not wait */
	:: !o && !w
	fi;
	if
	:: atomic { there -> v = ring[tail % R] - 1 }; d_step { ring[tail % R] = 0; tail++; take(v); leaves(); clock = false }; goto again
#ifdef LEAVES
	:: !there && sleepers == 0 && !let_go -> goto leave
#endif
	:: d_step { true -> leaves(); clock = false }; goto out	/* it reads no more */
	:: d_step { !there && (o || w) -> leaves(); clock = false }; goto again
	:: !there && !o && !w
	fi;
	if
	:: atomic { carrier?v -> take(v); v = 0 };
		if
		:: offers && sleepers == 0 -> goto offer	/* whatever else is in the carrier: it is looked into as long as the ring is not open */
		:: true -> unlock(); goto again
		fi
	:: nempty(carrier) && stages ->
		tail = 0;	/* at once more than is asked for: it is in the ring then, as if the producer had put it there */
		n = 0;
		do
		:: n < R && nempty(carrier) -> d_step { carrier?v; ring[n] = v + 1; v = 0; n++ }
		:: n > 0 -> break
		od;
		atomic { if :: same -> pos = n :: else -> assert(false) fi; n = 0 };
#ifndef FAULT_STAGE
		kicked = polls;	/* who sleeps for it is told */
#endif
		unlock();
		goto again
	:: empty(carrier) && eof -> goto end
	:: empty(carrier) && !eof
	fi;
	if
#ifdef ALONE
	:: arms < ARMS -> arm()
#endif
	:: true
	fi;
	if
	:: nempty(carrier) || has_armed -> unlock(); goto again	/* without a sleep */
	:: empty(carrier)
	fi;
	if
	:: d_step { sleepers++; calls++ }; unlock(); (nempty(carrier) || eof || idle); sleepers--; calls--;
		if
		:: empty(carrier) && !eof -> goto out
		:: nempty(carrier) || eof -> goto again
		fi
#ifndef FAULT_SLEEPER
	:: offers && sleepers == 0 ->
#else
	:: true ->
#endif
offer:		tail = 0;	/* it begins anew, on its first page */
		d_step { if :: same -> pos = 0; offered = true :: else fi };
		unlock();
		goto again
	fi;
leave:	/* what is left in the ring comes before what others read of the carrier; nothing comes behind it there */
	let_go = true;
	shut();
	do
#ifndef FAULT_REST
	:: tail < h -> d_step { front!(ring[tail % R] - 1); ring[tail % R] = 0; tail++ }
	:: tail == h -> break
#else
	:: true -> break
#endif
	od;
	do
	:: d_step { front?v; take(v); v = 0 }
	:: empty(front) -> unlock(); goto again	/* it has it for itself again */
	:: d_step { empty(front) && nempty(carrier) -> carrier?v; take(v); v = 0 }
	:: empty(front) && empty(carrier) && eof -> goto end
	od;
end:
	assert(tail == pos);
	assert(got[0] == sent[0] && got[1] == sent[1]);
	unlock();
out:	skip
	} unless { d_step { broken -> leaves() } }
}

proctype Poller()
{
	byte h, v, g;
	bool o, w, a, b;

	{
	atomic { !clock -> clock = true };
#ifdef ARMED
	disarm();
#endif
	shut();
	if
	:: d_step { tail < h -> told_so(); clock = false }; goto told
#ifdef ARMED
	:: tail >= h && calls == 0 && arms < ARMS -> d_step { a = armed; g = arms }; arm()
#endif
	:: tail >= h
	fi;
	if
	:: nempty(carrier) -> d_step { told_so(); clock = false }; goto told
	:: empty(carrier)
	fi;
	sleepers++;
	d_step { h = 0; g = 0; o = false; w = false; a = false; clock = false };
	(nempty(carrier) || eof || idle || kicked);
	d_step { sleepers--; told_so() };
told:	skip
	} unless { d_step { broken -> told_so() } }
}

init {
	atomic {
		run Sender(0);
		run Sender(1);
		run Reader();
#if !defined(SECOND) && !defined(LEAVES) && !defined(ALONE)
		polls = true;
		run Poller()
#endif
	}
	if
	:: d_step { dead = true; plock = false; senders = 0; last = 0 }
	:: d_step { broken = true; clock = false; kicked = false; has_armed = false; sleepers = 0; calls = 0; got[0] = 0; got[1] = 0; do :: nempty(front) -> front?_ :: empty(front) -> break od; skip }
	:: true
	fi
}
