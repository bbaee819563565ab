/* SPDX-License-Identifier: MIT */
/*
 * A stream whose messages go by a device, beside the TCP connection T (docs/rnic.md), and the device is lost at whatever step: by both ends at once or
 * one after the other, with messages under way that come or do not. Each end then says on T how many have come, sends what the other end lacks again,
 * and all that follows on T (daemon/rnic/verbs_lost.c).
 *
 * End 0 sends N octets, which it takes from a ring of SLOTS when a message goes out; end 1 acknowledges what it has used, by messages of its own. Covered:
 * the loss at any step, noticed in any order, a count heard before one's own loss is noticed, everything to be sent again or nothing.
 * Left to others: that T ends (as ever), that its octets are in order (TCP), and what a message consists of (tests/unit/rs_test.c): one here is all
 * the Writes before a Send, and that.
 *
 * No octet is lost, doubled or another one; and when nothing can be done any more all have been used and acknowledged. FAULT_*: ways to get it wrong, each of
 * which must be found.
 */
#define N 5
#define SLOTS 2
#define OTHER (1 - e)

mtype = { CAME, MESSAGE };

typedef to { chan c = [2] of { byte } };
typedef on_t { chan c = [2] of { mtype, byte } };
to dev[2];			/* to each end */
on_t t[2];
bool cut;			/* what is posted from now on does not come */
bool up[2] = true;		/* a queue pair */
byte sends[2], came[2];
bool told[2], heard[2], onT[2];
byte theirs[2], next[2];

byte slot[SLOTS], acks[2 * N + 2];	/* what messages are made of: end 0's octets, end 1's words */
byte acked, used, said;		/* end 0: used by the other end; end 1: so many, and said so */

inline destroy(e)
{
	up[e] = false;
	cut = true;
	do
	:: dev[e].c?_
	:: empty(dev[e].c) -> break
	od
}

inline deliver(e, v)
{
	came[e]++;
	if
	:: e == 0 -> acked = v
	:: else -> assert(v == used + 1); used++
	fi
}

/* It is posted: by the device, if there is one, or on T when all before is there. */
inline post(e, v)
{
	sends[e]++;
	if
	:: onT[e] -> t[OTHER].c!MESSAGE, v; next[e]++
	:: !onT[e] && !cut -> dev[OTHER].c!v
	:: !onT[e] && cut
	fi
}

#define MAY_POST(e) ((up[e] && nfull(dev[1 - e].c)) || (onT[e] && next[e] == sends[e] && nfull(t[1 - e].c)))
#ifdef FAULT_FREED		/* by a completion, of which the other end knows nothing */
#define IS_FREE true
#else
#define IS_FREE (sends[0] - acked < SLOTS)
#endif

inline go_on(e)
{
	assert(theirs[e] <= sends[e]);
	onT[e] = true;
	next[e] = theirs[e]
}

proctype End(byte e)
{
	byte v;
	mtype what;

end:	do
	:: atomic { e == 0 && sends[0] < N && IS_FREE && MAY_POST(0) -> v = sends[0] + 1; slot[sends[0] % SLOTS] = v; post(0, v) }
	:: atomic { e == 1 && said < used && MAY_POST(1) -> said = used; acks[sends[1]] = used; post(1, said) }
	:: atomic { up[e] && nempty(dev[e].c) -> dev[e].c?v; deliver(e, v) }
	:: atomic { up[e] -> destroy(e) }		/* for a reason of its own, or as the other end did */
#ifdef FAULT_COUNT		/* while something may still come */
	:: atomic { up[e] && cut && !told[e] && nfull(t[OTHER].c) -> told[e] = true; t[OTHER].c!CAME, came[e] }
#endif
	:: atomic { !up[e] && !told[e] && nfull(t[OTHER].c) -> told[e] = true; t[OTHER].c!CAME, came[e];
		if
		:: heard[e] -> go_on(e)
		:: else
		fi
	}
	:: atomic { nempty(t[e].c) -> t[e].c?what, v;
		if
		:: what == CAME ->
			assert(!heard[e]);
			heard[e] = true;
			theirs[e] = v;
			if
			:: up[e] -> destroy(e)
			:: else
			fi;
#ifndef FAULT_LATER		/* in another step, and what comes before is taken for nothing */
			if
			:: told[e] -> go_on(e)
			:: else
			fi
#endif
		:: what == MESSAGE && onT[e] -> deliver(e, v)
		:: what == MESSAGE && !onT[e] ->
#ifndef FAULT_LATER
			assert(false)
#else
			skip
#endif
		fi
	}
#ifdef FAULT_LATER
	:: atomic { told[e] && heard[e] && !onT[e] -> go_on(e) }
#endif
#ifdef FAULT_ANEW		/* what is new goes before what is sent again */
	:: atomic { e == 0 && sends[0] < N && IS_FREE && onT[0] && nfull(t[1].c) -> slot[sends[0] % SLOTS] = sends[0] + 1; sends[0]++; t[1].c!MESSAGE, sends[0] }
#endif
	:: atomic { onT[e] && next[e] < sends[e] && nfull(t[OTHER].c) ->
		if
		:: e == 0 -> t[1].c!MESSAGE, slot[next[0] % SLOTS]
		:: else -> t[0].c!MESSAGE, acks[next[1]]
		fi;
		next[e]++
	}
	od
}

init {
	atomic { run End(0); run End(1) };
	timeout -> assert(used == N && acked == N)
}
