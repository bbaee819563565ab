/* SPDX-License-Identifier: MIT */
/*
 * One host: application 1 is relayed (its carrier C, whose other end is the daemon's, and its socket T1), and the library of application 2, which has
 * the other end of the same connection, T2, says SWITCH. The daemon lets C run dry of what it would have to overtake and gives application 2 its
 * own end of C (docs/upgrade.md). T is two queues each way, sent and received, with FIN behind them.
 *
 * Covered: the join at every step of what the two say to each other, with unread octets, full queues and applications that take no more; not now,
 * and again; a library that gives up before or after it was granted, also because the daemon is slow, or for another thread of its; half-close and close at every step; death
 * of the daemon and of either application at every step; who sees which end of stream.
 * Left to others: how 1 was switched, threads inside of calls, and T given back (tests/switch.pml): 2's library does the same steps there whatever it
 * is granted, and no other thread is inside of a call meanwhile; the threads of an application are its choices here. BACK and join refuse each other
 * in the daemon, which does one thing at a time.
 *
 * The graph of states has no cycle, and every end is a proper one. The cut is in the sizes: an octet in each of six queues, two octets and a FIN
 * each way, two joins begun; no rule counts anything. N=3 with IW_LONG.
 */
#ifndef N
#define N 2		/* octets each way, at most, and then the FIN */
#endif
#define TRIES 2		/* SWITCH is said at most so often */
#define NONE 255

mtype = { SWITCH, SWITCHED, ABANDON, STREAM, NO, ACK };
mtype = { RELAY, JOINING, GRANTED, LOCAL, OVER };
mtype = { T, C, CLOSED };
mtype = { OFFERED, TAKEN, VOID };

chan cout = [1] of { byte };	/* what 1 wrote into C, and is to read */
chan cin = [1] of { byte };
chan s12 = [1] of { byte };	/* sent by T1, not yet received by T2 */
chan r12 = [1] of { byte };	/* unread in T2 */
chan s21 = [1] of { byte };
chan r21 = [1] of { byte };
byte fin12, fin21;		/* FIN behind them: its number */
bool reset;			/* of T */
bool shut1, shut2, pageFin;	/* C: 1 shut its half; 2 did; the daemon did, and says FIN */
mtype hand = VOID;		/* in the page: the other end of C is 2's to take, or the daemon's to take back */
chan toD = [3] of { mtype };
chan toL = [3] of { mtype };
bool ctlGone, deadD, dead1, dead2;

bool c1 = true;			/* 1 has its end of C */
bool cD = true, cToL, c2;	/* the daemon has the other, a message, application 2 */
bool tD, tToD, t2 = true;	/* the same of T2 */
bool t2Gone;
byte nR1, nW1, nR2, nW2;
bool end1, end2, endR1, endR2, done2;	/* no more writing, no more reading */
bool answers, slow, early, mortal;	/* application 2 answers; waits may time out; applications may close early; one may die, or the daemon */
byte moved;
#if defined(FAULT_LOCAL_EARLY) || defined(FAULT_LOCAL_LATE)
mtype d2 = RELAY;		/* of the daemon */
#define noted d2 = d
#else
#define noted skip
#endif
bool pardoned;			/* a reset may be seen */

/* The rules that FAULT_* break */
#ifdef FAULT_WET12
#define nothing12 true
#else
#define nothing12 (empty(s12) && empty(r12))	/* T1 has everything sent, T2 nothing unread */
#endif
#ifdef FAULT_WET21
#define nothing21 true
#else
#define nothing21 (empty(s21) && empty(r21))
#endif
#ifdef FAULT_GOES_ON
#define relay12 (d == RELAY || d == JOINING || d == GRANTED)
#else
#define relay12 (d == RELAY)			/* C is not read from here on, so that it is 2's to read */
#endif
#ifdef FAULT_WAITS
#define mayWait true
#else
#define mayWait false
#endif

#ifdef FAULT_UNDECIDED
#define taken false		/* who says nothing has not switched */
#else
#define taken (hand == TAKEN)
#endif
#ifdef FAULT_LOCAL_EARLY
#define paired (d2 == GRANTED || d2 == LOCAL)
#else
#ifdef FAULT_LOCAL_LATE
#define paired (d2 == LOCAL)
#else
#define paired (hand == TAKEN)	/* both ends of C are applications' */
#endif
#endif

#define dOpen (cD || cToL || c2)

/* What nobody looks at any more is forgotten where it was looked at last, in the same step: fewer states. Who has read to the end counts no more,
 * and of a FIN that was read it is known that there is one; who has written to the end waits for no answers. */
inline over1() {
	endR1 = true; nR1 = 0;
	if :: fin21 -> fin21 = 1; if :: end2 || dead2 -> nW2 = 0 :: else fi :: else fi
}
inline over2() {
	endR2 = true; nR2 = 0;
	if :: fin12 -> fin12 = 1; if :: end1 || dead1 -> nW1 = 0 :: else fi :: else fi
}
inline said2() { end2 = true; answers = false }
inline fins12() { if :: endR2 -> fin12 = 1; nW1 = 0 :: else -> fin12 = nW1 + 1 fi }
inline fins21() { if :: endR1 -> fin21 = 1; nW2 = 0 :: else -> fin21 = nW2 + 1 fi }
inline drain(ch) { do :: nempty(ch) -> ch?_ :: empty(ch) -> break od }

inline t2Drop() {	/* the last holder of T2 lets go */
	if
	:: !t2 && !tD && !tToD && !t2Gone ->
		t2Gone = true;
		if
		:: len(r12) > 0 -> reset = true; drain(r12)
		:: else -> if :: !fin21 && !reset -> fin21 = (endR1 -> 1 : (dead2 || end2 -> nW2 + 1 : NONE)) :: else fi
		fi
	:: else
	fi
}
inline dropControl() {
	ctlGone = true; cToL = false;
	do :: nempty(toL) -> toL?_ :: empty(toL) -> break od
}

#define tell(what) if :: !dead2 && !deadD && !ctlGone -> toD!what :: else fi
#define unheard ((deadD || ctlGone) && empty(toL))	/* nobody will answer */

proctype App1()
{
	byte n;

	do
	:: dead1 -> break
	:: atomic { !dead1 && c1 && !end1 && nW1 < N && dOpen && nfull(cout) -> nW1++; cout!nW1 }
	:: atomic { !dead1 && c1 && !end1 -> end1 = true; shut1 = true }
	:: atomic { !dead1 && c1 && !endR1 && nempty(cin) -> cin?n; assert(n == nR1 + 1); nR1++; n = 0 }
	:: atomic { !dead1 && c1 && !endR1 && empty(cin) && (pageFin || shut2 || !dOpen) ->
		if
		:: pageFin -> assert(fin21 == nR1 + 1)
		:: !pageFin && paired -> assert(dead2 || (end2 && nW2 == nR1))
		:: !pageFin && !paired -> assert(pardoned); end1 = true	/* ECONNRESET */
		fi;
		over1() }
	:: atomic { !dead1 && c1 && early && !(end1 && endR1) -> pardoned = true; end1 = true; over1() }
	:: atomic { !dead1 && c1 && end1 && endR1 -> c1 = false }
	:: !c1 -> break
	od
}

proctype App2()
{
	mtype fd = T;
	byte n, tries;

	do
	:: atomic { dead2 -> fd = T; tries = 0; break }
	:: atomic { !dead2 && fd == T && !end2 && nW2 < N && (!answers || nR2 > nW2 || endR2) && !reset && nfull(s21) -> nW2++; s21!nW2 }
	:: atomic { !dead2 && fd == T && !end2 && (!answers || nR2 > nW2 || endR2) && !reset -> said2(); fins21() }
	:: atomic { !dead2 && fd == T && !endR2 && !reset && nempty(r12) -> r12?n; assert(n == nR2 + 1); nR2++; n = 0 }
	:: atomic { !dead2 && fd == T && !endR2 && !reset && empty(r12) && empty(s12) && fin12 -> assert(fin12 == nR2 + 1); over2() }
	:: atomic { !dead2 && fd == T && reset && !(end2 && endR2) -> assert(pardoned); said2(); over2() }

	:: atomic { !dead2 && fd == C && !end2 && nW2 < N && (!answers || nR2 > nW2 || endR2) && c1 && nfull(cin) -> nW2++; cin!nW2 }
	:: atomic { !dead2 && fd == C && !end2 && (!answers || nR2 > nW2 || endR2) -> said2(); shut2 = true }
	:: atomic { !dead2 && fd == C && !endR2 && nempty(cout) -> cout?n; assert(n == nR2 + 1); nR2++; n = 0 }
	:: atomic { !dead2 && fd == C && !endR2 && empty(cout) && (shut1 || !c1) ->
		if :: c1 || empty(cin) -> assert(dead1 || nW1 == nR2) :: !c1 && nempty(cin) -> assert(pardoned); said2() fi; over2() }

	/* the switch: nobody else of this process is inside of a call */
	:: atomic { !dead2 && fd == T && tries < TRIES && !ctlGone && !deadD && !end2 && !reset -> tries++; if :: !ctlGone -> tToD = true; toD!SWITCH :: else fi };
		if
		:: dead2
		:: atomic { !dead2 && toL?[STREAM] -> toL?STREAM; cToL = false; c2 = true };
			if
			:: dead2
			:: atomic { !dead2 && hand == OFFERED -> hand = TAKEN };
				if
				:: dead2
				:: atomic { !dead2 -> fd = C; t2 = false; t2Drop() };	/* dup3 */
					atomic { tell(SWITCHED) };
					if
					:: dead2
					:: atomic { !dead2 && toL?[ACK] -> toL?ACK }
					:: !dead2 && unheard
					:: atomic { !dead2 && slow -> dropControl() }
					fi
				fi
			:: atomic { !dead2 && (slow || hand != OFFERED) -> c2 = false; tell(ABANDON) }
			fi
		:: atomic { !dead2 && toL?[NO] -> toL?NO }
		:: !dead2 && unheard
		:: atomic { !dead2 && slow -> dropControl() }
		fi
	:: atomic { !dead2 && early && fd != CLOSED && !(end2 && endR2) -> pardoned = true; said2(); over2() }
	:: atomic { !dead2 && fd != CLOSED && end2 && endR2 -> if :: fd == T -> t2 = false; t2Drop() :: fd == C -> c2 = false fi; fd = CLOSED }
	:: atomic { fd == CLOSED -> fd = T; tries = 0; done2 = true; break }
	od
}

inline joined() { d = LOCAL; noted; cD = false }
inline relayAgain() { d = RELAY; noted; tD = false; t2Drop() }
inline over() { d = OVER; cD = false }

proctype Daemon()
{
	mtype d = RELAY;
	byte n;

	do
	:: atomic { deadD -> d = RELAY; break }
	/* the relay of 1 */
	:: atomic { relay12 && !deadD && !reset && nempty(cout) && nfull(s12) -> cout?n; s12!n; n = 0 }
	:: atomic { relay12 && !deadD && !reset && empty(cout) && (shut1 || !c1) && !fin12 && (c1 || empty(cin)) -> fins12() }
	:: atomic { (d == RELAY || d == JOINING) && !deadD && !reset && nempty(r21) && nfull(cin) && c1 -> r21?n; cin!n; n = 0 }
	:: atomic { (d == RELAY || d == JOINING) && !deadD && !reset && empty(s21) && empty(r21) && fin21 && !pageFin -> pageFin = true }
	:: atomic { d == RELAY && !deadD && !reset && !c1 && (nempty(cin) || nempty(r21)) -> reset = true; over() }
	:: atomic { d == RELAY && !deadD && !c1 && empty(cin) && empty(r21) && fin12 -> over() }	/* what the kernel does with T1 is its own */
	:: atomic { (d == RELAY || d == JOINING) && !deadD && reset ->
		if :: d == JOINING && !ctlGone -> toL!NO :: else fi; tD = false; over() }
	/* the join */
	:: atomic { toD?[SWITCH] && !deadD -> toD?SWITCH; tToD = false; tD = true;
		if
		:: d == RELAY && !fin12 && !fin21 && !ctlGone -> d = JOINING
		:: tD = false; t2Drop(); if :: !ctlGone -> toL!NO :: else fi
		fi }
	:: atomic { d == JOINING && !deadD && nothing12 && nothing21 && !fin12 && !fin21 && !ctlGone -> d = GRANTED; noted; hand = OFFERED; cToL = true; toL!STREAM;
#ifdef FAULT_LETS_GO
		cD = false;
#endif
		n = 0 }
	:: atomic { d == JOINING && !deadD && !mayWait && !ctlGone -> relayAgain(); toL!NO }
	:: atomic { toD?[SWITCHED] && !deadD -> toD?SWITCHED; assert(d == GRANTED); joined(); if :: !ctlGone -> toL!ACK :: else fi }
	:: atomic { toD?[ABANDON] && !deadD -> toD?ABANDON; assert(d == GRANTED); hand = VOID; relayAgain() }
	/* 2 is gone, or has given us up: what it said before has been read, the rest stands in the page */
	:: atomic { d == JOINING && !deadD && ctlGone && empty(toD) -> relayAgain() }
	:: atomic { d == GRANTED && !deadD && ctlGone && empty(toD) -> if :: taken -> joined() :: else -> hand = VOID; relayAgain() fi }
	/* the end */
	:: atomic { d == LOCAL && !deadD && !c1 && !c2 -> tD = false; over() }
	:: atomic { d == OVER && !deadD && empty(toD) && (done2 || dead2) -> d = RELAY; break }
	od
}

init {
	atomic {
		if :: answers = true :: skip fi;
		if :: skip :: slow = true :: early = true; slow = true :: mortal = true; slow = true fi;
		run App1(); run App2(); run Daemon()
	};
	/* TCP, and death */
end:	do
	:: atomic { nempty(s12) && nfull(r12) && !t2Gone -> s12?moved; r12!moved; moved = 0 }
	:: atomic { nempty(s12) && t2Gone -> s12?_; reset = true }
	:: atomic { nempty(s21) && nfull(r21) -> s21?moved; r21!moved; moved = 0 }
	:: atomic { slow && !ctlGone && !dead2 -> dropControl() }	/* another thread's request got no answer in time */
	:: atomic { mortal -> mortal = false; pardoned = true; deadD = true; cD = false; tD = false; tToD = false; reset = true;
		drain(toD); drain(s12); drain(r12); drain(s21); drain(r21); fin12 = 0; if :: pageFin :: else -> fin21 = 0 fi }
	:: atomic { mortal -> mortal = false; pardoned = true; dead1 = true; c1 = false; end1 = true; over1() }
	:: atomic { mortal -> mortal = false; pardoned = true; dead2 = true; c2 = false; t2 = false; dropControl(); t2Drop(); said2(); over2() }
	od
}
