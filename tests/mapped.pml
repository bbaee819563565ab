/* SPDX-License-Identifier: MIT */
/*
 * A queue pair mapped into an application (docs/mapped.md): whose it is, and what is known of it after a death. One end: an application of two
 * threads, or of one that does everything; its agent, the daemon; T as two queues towards a peer that numbers what it sends, gives a credit for
 * each octet and expects numbers; the carrier C as two queues. A unit of T is a head or a tail (the octet) of an FPDU, or FIN; towards us an
 * octet, a credit or FIN. The kernel counts what T took and gave.
 *
 * Covered: MAP with everything that may become of its messages, a second MAP; steps of two threads under the lock, asleep in poll; UNMAP at a fork, at
 * a close and because the agent wants it, while the other thread sleeps or stands before its lock; death of the process between any two steps, of
 * which the pidfd tells later than C does; death of the daemon, with T, C and the map kept for the next one or with nothing kept; a control
 * connection that is dropped at any step, after which UNMAP comes by another one, before what was said on the first or after it.
 * Left to others: who wakes whom within a process: tests/mapwake.pml. What is in a frame, and what an unsound map does: tests of proto. The agent's own
 * steps are one each here: its state is private and dies with it. The other end is any peer, since T is all that it shows.
 * Bursts (BURSTS): an application of one thread gathers octets in the map, by one compare-and-swap each, and may go away computing; the agent, told once, takes
 * what lies there. Nobody measures time: the agent may find a burst over at any moment.
 * Not here: a shutdown by the library itself while mapped; a C that is closed by a raw call while its owner lives; T that is reset by the peer.
 *
 * Every end in which something has not ended is an error. FEW: the runs in which nobody dies, to look for a cycle: there is none (tests/models.t).
 * The cuts: two octets out, one in, one unit in T and in C each way, and of what can go wrong one kind in a run: no rule counts anything but units of
 * T, of which one is under way at a time. What a thread does under the lock is one step, since nobody else may see it; its parts are steps with
 * FINE, for an application of one thread that may die between them (a death is the same for two). Where somebody may die the peer mostly sends no
 * octets, credits and FIN alone: octets that a dead program has not read are a reset, whatever else there is.
 * FAULT_*: ways to get it wrong, each of which must be found.
 */
#if defined(FAULT_READ_AFTER) || defined(FAULT_WRITE_AFTER) || defined(FAULT_COUNTERS) || defined(FAULT_FRAGMENT) || defined(FAULT_TORN) || \
    defined(FAULT_HANGUP)
#define FINE		/* the steps under the lock one by one, and the death of an application of one thread among them */
#endif
#if defined(FAULT_BURST_LOST) || defined(FAULT_BURST_NO_SWAP)
#define FINE
#define BURSTS
#endif
#if defined(FAULT_BURST_OVERTAKES) || defined(FAULT_BURST_SLEEP) || defined(FAULT_BURST_GIVEN) || defined(FAULT_BELL) || defined(FAULT_BELL_FIRST) || \
    defined(FAULT_BELL_UNSAID)
#define BURSTS
#endif
#define ROOM 1		/* units that T holds each way */
#define N 2		/* octets that the application sends, and then it closes */

mtype = { H, B, E };			/* head and tail of an FPDU; FIN */
mtype = { D, K, F };			/* octet, credit, FIN of the peer */
mtype = { READ, WRITE, FORK };
mtype = { MAP, SWITCHED, ABANDON, BELL, MAPPED, NO, ACK };
mtype = { OFFERED, TAKEN, VOID };
mtype = { PUMP, KEEPS, OFFER, AWAY, OVER };
mtype = { AGENT, LIBRARY, BURST };	/* BURST: the library's, in no step, with octets gathered: the agent may take it */

chan tout = [ROOM] of { mtype, byte };	/* kind and number of the unit */
chan tin = [ROOM] of { mtype, byte };
byte kSent, kRead;			/* the kernel's counts */
chan cout = [1] of { byte };
chan cin = [1] of { byte };
bool cFin, reset, over;			/* over: both directions of T have ended properly */
chan toD = [2] of { mtype };
chan toL = [2] of { mtype };
bool unmapSaid, unmapDone;		/* UNMAP, by whatever connection there is; its ACK */
#ifdef FAULT_LOOK_FIRST
bool deaf;				/* a new daemon has looked at the map, and does not listen yet */
#define heard	!deaf
#else
#define heard	true
#endif
bool ctlGone, noD;			/* noD: a daemon has died */
bool deadL, pidDead;			/* its files are closed; its pidfd tells */
byte gen;				/* of the daemon */

bool tL, tToL, tD = true;		/* who holds T; everybody with SO_LINGER { 1, 0 } */
bool cL = true, cD = true;

typedef Known {
	byte framed, took;		/* units: framed, taken by T as far as is noted */
	byte credit;
	byte ring;			/* octets gathered */
	byte rd, rx, got;		/* units read from T; octets among them; octets the application, or C, got of them */
	bool fin, peerFin;
	bool direct			/* the tail of the last frame lies in the caller's memory alone */
}
Known M;				/* the map */
Known P;				/* the agent's own */
mtype inK;				/* the map's read area: what the kernel put there last */
bool busy;				/* the map is being changed */
mtype hand = TAKEN, owner = AGENT;	/* whose: owner means something while hand says TAKEN. First it is the switch's word */
bool stored;				/* the next daemon gets T, the end of C and the map */
bool want;				/* the agent wants it back */
bool bell;				/* in the map: the agent was told of a burst, and looks */
byte octets;				/* that the peer has got */
byte inside;				/* nobody is told: threads of the library at a step on T or the map */

/* How a run goes */
bool single;		/* one thread does everything */
bool answers;		/* the peer sends its octet after it got one */
bool direct;		/* octets are sent from the caller's memory */
bool plainPeer;		/* sends no octet */
bool bursts;		/* octets may be gathered */
bool slow, wish, mortalL, mortalD, kept;
byte maxTries = 1, maxForks = 1;

/* the application */
bool mapped, lock, gate, slot[2], waits[2], readsEnd, writesEnd, unreadThen, computes;
byte nR, nW, accepted, tries, forks, left = 2;
bool pardoned;		/* a reset may be seen */

#define unread(S) (S.rx > S.got)
#define blocked(S) (S.framed > S.took)

inline copy(to, from) {
	to.framed = from.framed; to.took = from.took; to.credit = from.credit; to.ring = from.ring; to.rd = from.rd; to.rx = from.rx; to.got = from.got;
	to.fin = from.fin; to.peerFin = from.peerFin; to.direct = from.direct
}
inline forget(S) { S.framed = 0; S.took = 0; S.credit = 0; S.ring = 0; S.rd = 0; S.rx = 0; S.got = 0; S.fin = false; S.peerFin = false; S.direct = false }
/* What nobody looks at any more is forgotten where it was looked at last, in the same step: fewer states. */
inline drain(ch) { do :: nempty(ch) -> ch?_ :: empty(ch) -> break od }
inline readAll() { readsEnd = true; nR = 0 }
inline tDrop() { if :: !tL && !tToL && !tD && !over -> reset = true :: else fi }
inline give(S) {	/* by the kernel */
	if
	:: S.fin && S.took + 1 == S.framed -> tout!E,S.took+1
	:: else -> if :: S.took % 2 -> tout!B,S.took+1 :: else -> tout!H,S.took+1 fi
	fi;
	kSent++
}
inline parse(S, k) { if :: k == D -> S.rx++ :: k == K -> S.credit++ :: k == F -> S.peerFin = true fi }
inline dropControl() {
	ctlGone = true; tToL = false;
	do :: nempty(toL) -> toL?_ :: empty(toL) -> break od;
	tDrop()
}
#define tell(what) if :: !ctlGone -> toD!what :: else fi
#define unheard (ctlGone && empty(toL))

/* ---- the library ---- */

#ifdef FINE
#define ONE
#else
#define ONE atomic
#endif

#ifdef FAULT_NO_LOCK
#define free true
#else
#define free !lock
#endif
#ifdef FAULT_KICK
#define mayKick skip
#else
#define mayKick waits[1 - me] = false	/* another thread waits for what this one found in T */
#endif
#ifdef FAULT_READER
#define nobodyReads !word	/* a reader asleep in recv(T) has a word of its own */
bool word;
#else
#define nobodyReads true
#endif

inline enter() { inside++; assert(inside == 1 && hand == TAKEN && owner == LIBRARY) }
#define leave() inside--

/* recv(T) without waiting, under the lock */
inline taking() {
#ifdef FAULT_READ_AFTER
	atomic { nempty(tin) -> tin?k,n; kRead++; assert(n == kRead); inK = 0 };
	n = n; inK = k;		/* from a buffer of the process */
#else
	atomic { nempty(tin) -> tin?k,n; kRead++; assert(n == kRead); inK = k };
#endif
	atomic { busy = true; M.rd++; assert(n == M.rd) };
	atomic { parse(M, k); busy = false; inK = 0; k = 0; n = 0; mayKick }
}
inline sending() {	/* all that is framed, as far as T takes it */
	do
	:: atomic { blocked(M) && nfull(tout) -> give(M) };
		M.took++
	:: atomic { !blocked(M) || full(tout) -> M.direct = false; break }	/* the rest is copied into the map before the lock is let go */
	od
}
inline frame() {
#ifdef FAULT_WRITE_AFTER
	atomic { nfull(tout) -> tout!H,M.took+1; kSent++ };
	atomic { nW++; M.took++; M.framed = M.framed + 2; M.credit--; M.direct = direct }
#else
	atomic { busy = true; M.framed = M.framed + 2; nW++ };
	atomic { M.credit--; M.direct = direct; busy = false }
#endif
	assert(writesEnd || M.framed == 2 * nW)		/* the octets stay in their order */
}
inline flush() {	/* what is gathered goes before anything else */
	atomic { busy = true; M.framed = M.framed + 2; M.ring-- };
	atomic { M.credit--; busy = false };
	sending()
}
#ifdef FAULT_BURST_OVERTAKES
#define behind(S) true
#else
#define behind(S) !S.ring
#endif
#define stuck (bursts && blocked(M))
#define clean (!M.ring && !stuck)
#define remains (!reset && (M.ring || (stuck && full(tout))))
#ifdef FAULT_BURST_SLEEP
#define due false
#define held true
#else
#define due (M.ring && M.credit && !blocked(M))
#define held false
#endif

inline mapping() {
	tell(MAP);
	if
	:: atomic { toL?MAPPED -> tToL = false; tL = true };
		if
#ifdef FAULT_CAS
		:: hand == OFFERED -> hand = TAKEN;
#else
		:: atomic { hand == OFFERED -> hand = TAKEN };
#endif
#ifdef FAULT_OWNER_LATER
			owner = LIBRARY;
#endif
			mapped = true;
			atomic { tell(SWITCHED); if :: slow -> dropControl() :: true fi }
		:: atomic { hand != OFFERED || slow -> tL = false; tDrop(); tell(ABANDON) }
		fi
	:: toL?NO
	:: unheard
	:: atomic { slow -> dropControl() }
	fi
}

/* Behind the gate. For a close nobody waits for the answer. */
inline release() {
	atomic { !lock && nobodyReads -> lock = true; unreadThen = unread(M) || M.peerFin };
#ifdef FAULT_WAKE
	mapped = false;
#else
	atomic { mapped = false; waits[1 - me] = false };
#endif
#ifdef FAULT_BURST_GIVEN
	M.ring = 0;
#endif
	owner = AGENT;
	atomic { tL = false; tDrop() };
	lock = false
}
inline unmapping() {
	release();
	atomic { unmapDone = false; unmapSaid = heard };
	if
	:: atomic { unmapDone -> assert(!single || !unreadThen || nempty(cin) || cFin || reset); unreadThen = false; unmapDone = false }
	:: atomic { noD -> unreadThen = false; unmapDone = false }
	:: atomic { slow && !unmapDone -> unreadThen = false; if :: !ctlGone -> dropControl() :: else fi }
	fi
}

#define awake (!computes || reset || octets >= accepted || (noD && !kept))
#define mayRead (!readsEnd && (!single || !answers || nW > nR || writesEnd || nW == N))
#define mayWrite (!writesEnd && nW < N)

proctype Thread(bit me)
{
	mtype call, k;
	byte n;
#ifdef FAULT_BELL_FIRST
	bool rang;
#endif

	{
again:	do
	:: atomic { !gate && awake && me != single && mayWrite -> call = WRITE; slot[me] = true }; break
	:: atomic { !gate && awake && me == 0 && mayRead -> call = READ; slot[me] = true }; break
	:: atomic { !gate && awake && me != single && forks < maxForks && mapped -> call = FORK; slot[me] = true; forks++ }; break
	:: awake && ((me == 0 && readsEnd && (!single || !mayWrite)) || (me == 1 && (single || !mayWrite))) -> goto done
	od;
	/* it is time for something else first */
	if
	:: atomic { !gate && mapped && (call == FORK || want) -> gate = true };
		unmapping();
		atomic { gate = false; if :: call == FORK -> slot[me] = false; call = 0; goto again :: else fi }
	:: atomic { !gate && !mapped && call != FORK && tries < maxTries && !ctlGone && !slot[1 - me] && !reset -> gate = true; tries++ };
		mapping();
		gate = false
	:: !gate && call != FORK
	:: atomic { gate -> slot[me] = false; call = 0; goto again }
	:: atomic { !gate && !mapped && call == FORK -> slot[me] = false; call = 0; goto again }
	fi;
look:
#ifdef FAULT_BELL_FIRST
	rang = bell;
#endif
	ONE {
	atomic { free && !gate ->
		if
		:: mapped && owner != AGENT -> lock = true; owner = LIBRARY; enter()	/* a compare-and-swap */
		:: mapped && owner == AGENT -> goto lost
		:: bursts && mapped && owner != AGENT && call == WRITE && !reset && (owner == BURST || !ctlGone) ->
			M.ring++; nW++; accepted = nW; owner = BURST; goto out		/* another one: only its end is said, behind the octets */
		:: !mapped -> goto carrier
		fi };
	if
	:: !reset && due -> flush(); atomic { leave(); lock = false }; goto look
	:: bursts && !reset && blocked(M) && nfull(tout) -> sending(); atomic { leave(); lock = false }; goto look
	:: atomic { call == READ && !due && (unread(M) || M.peerFin) && remains -> leave(); lock = false }; goto lost	/* nobody would come back to send it */
	:: atomic { call == READ && (reset || clean) && unread(M) -> M.got++; nR++; leave(); lock = false }; goto out
	:: atomic { call == READ && (reset || clean) && !unread(M) && M.peerFin -> readAll(); leave(); lock = false }; goto out
	:: atomic { reset && (call == WRITE || (!unread(M) && !M.peerFin)) -> assert(pardoned); readAll(); writesEnd = true; leave(); lock = false }; goto out
	:: call == WRITE && !reset && M.credit && !blocked(M) && behind(M) -> frame(); goto rest
	:: call == READ && !reset && !due && !unread(M) && !M.peerFin && nempty(tin) -> taking(); atomic { leave(); lock = false }; goto look
	:: call == WRITE && !reset && !M.credit && !blocked(M) && nempty(tin) -> taking(); atomic { leave(); lock = false }; goto look
	:: atomic { !reset && !due && empty(tin) && ((call == READ && !unread(M) && !M.peerFin && (!stuck || full(tout))) ||
		(call == WRITE && ((!M.credit && !blocked(M)) || (stuck && full(tout))))) ->
		waits[me] = true; leave(); if :: held && M.ring -> owner = BURST :: else fi; lock = false }; goto asleep
	fi };
	/* a send that has framed its octet ends when T has taken it all, or somebody else has it */
rest:	ONE {
	sending();
	if
	:: atomic { !blocked(M) || reset -> if :: reset -> writesEnd = true :: else -> accepted = nW fi; leave(); lock = false }; goto out
	:: atomic { blocked(M) && !reset -> waits[me] = true; leave(); lock = false }
	fi };
	atomic { nfull(tout) || reset || !waits[me] -> waits[me] = false };
	atomic { free && !gate -> if :: mapped -> lock = true; enter(); goto rest :: else -> accepted = nW fi };
	goto out;
asleep:
#ifdef FAULT_READER
	if
	:: atomic { call == READ -> word = true }; (nempty(tin) || reset); word = false; goto look
	:: call == WRITE
	fi;
#endif
	atomic { nempty(tin) || reset || !waits[me] || (bursts && blocked(M) && nfull(tout)) -> waits[me] = false };
	goto look;
lost:	atomic { !gate -> if :: mapped -> gate = true :: else -> goto look fi };
	unmapping();
	atomic { gate = false; goto look };
carrier:
	if
	:: atomic { call == READ && nempty(cin) -> cin?n; nR++; assert(n == nR); n = 0 }
	:: atomic { call == READ && empty(cin) && cFin -> readAll() }
	:: atomic { call == READ && empty(cin) && !cFin && !cD -> assert(reset || pardoned); readAll(); writesEnd = true }
	:: atomic { call == WRITE && !cD -> assert(reset || pardoned); writesEnd = true }
	:: atomic { call == WRITE && cD && nfull(cout) -> nW++; accepted = nW; cout!nW }
	fi;
	/* one message tells the agent, who may have looked away just now */
out:	if
#ifdef FAULT_BELL_FIRST
	:: atomic { mapped && owner == BURST && !rang && !ctlGone -> bell = true; tell(BELL) }
#else
	:: atomic { mapped && owner == BURST && !bell && !ctlGone -> bell = true; tell(BELL) }
#endif
#ifndef FAULT_BELL_UNSAID
	:: atomic { mapped && owner == BURST && !bell && ctlGone -> gate = true };
		unmapping();
		gate = false
#endif
	:: else
	fi;
	atomic { if :: bursts -> computes = true :: computes = false fi; slot[me] = false; call = 0; goto again };
done:	atomic { left--; if :: left == 0 -> gate = true :: else -> goto gone fi };
	if
	:: mapped -> release()
	:: !mapped
	fi;
	atomic { cL = false; unreadThen = false; gate = false };
gone:	skip
	} unless { atomic { deadL -> call = 0; k = 0; n = 0 } }
}

/* ---- the agent ---- */

#ifdef FAULT_MAP_FRAMED
#define allSent true
#else
#define allSent (!blocked(P) && !P.ring)		/* T has taken what is framed: nobody in the library waits for room yet */
#endif
#ifdef FAULT_MAP_WET
#define dry empty(cout)
#else
#define dry (empty(cin) && empty(cout))	/* C is dry both ways; what is parsed and unread goes into the map */
#endif
#ifdef FAULT_PUMPS
#define pumps (d == PUMP || d == OFFER)
#else
#define pumps (d == PUMP)
#endif
#ifdef FAULT_STOPPED
#define patient (!want)
#else
#define patient true
#endif
#ifdef FAULT_ACK
#define mayAck true
#else
#define mayAck ((!unread(P) && empty(tin) && (cFin || !P.peerFin)) || full(cin))	/* what was unread lies in C, its FIN too */
#endif
inline taken() { d = AWAY; rung = bell; forget(P) }
inline ends() { cD = false; tD = false; d = OVER; want = false; wish = false; forget(P); drain(cout) }
inline kill() { reset = true; ends() }
inline import() {
	copy(P, M);
	want = false; unmapSaid = false; d = PUMP; rung = false; clears = false; bell = false;
#ifdef FAULT_BURST_LOST
	P.ring = 0;
#endif
#ifndef FAULT_LATE_VOID
	hand = VOID;
#ifndef FAULT_ADOPT
	forget(M)
#endif
#endif
}
inline recover() {	/* from a dead owner */
	copy(P, M);
	d = PUMP; hand = VOID; unmapSaid = false; want = false; rung = false; clears = false; bell = false;
#ifdef FAULT_BURST_LOST
	P.ring = 0;
#endif
#ifndef FAULT_COUNTERS
	P.took = kSent;
	if :: kRead > P.rd -> P.rd++; parse(P, inK) :: else fi;
#endif
#ifdef FAULT_FRAGMENT
	if :: P.direct -> P.framed = P.took :: else fi;
#else
	if :: P.direct && blocked(P) -> kill() :: else fi;
#endif
#ifndef FAULT_TORN
	if :: busy -> kill() :: else fi;
#endif
	busy = false; inK = 0; forget(M)
}

#ifdef FAULT_BURST_NO_SWAP
#define mayTake (owner == BURST || owner == LIBRARY)
#else
#define mayTake (owner == BURST)
#endif

proctype Daemon(byte mine)
{
	mtype d = PUMP;
	bool noticed, acks, rung, clears;	/* it was told of a burst, and looks at times; for the last time */
	mtype k;
	byte n;

	{
	if
	:: mine == 0
	:: atomic { mine > 0 -> noticed = true; acks = false;
		if
		:: !stored -> kill()
		:: stored && hand == TAKEN -> d = AWAY; rung = bursts; unmapSaid = (owner == AGENT)	/* said to nobody, perhaps */
#ifdef FAULT_LOOK_FIRST
			; deaf = true
#endif
		:: stored && hand == OFFERED -> hand = VOID; copy(P, M); forget(M)
#ifdef FAULT_ADOPT
		:: stored && hand == VOID -> copy(P, M)
#else
		:: stored && hand == VOID -> kill()	/* what the other one had of it is gone */
#endif
		fi }
	fi;
	do
	:: atomic { toD?MAP ->
		if
		:: d == PUMP && dry && allSent && !P.peerFin && cL && !reset && !ctlGone && !acks ->
#ifndef FAULT_EARLY_KEEP
			hand = VOID;
#endif
			stored = kept && !noD; d = KEEPS
		:: if :: !ctlGone -> toL!NO :: else fi
		fi };
		if
		:: atomic { d == KEEPS ->
			copy(M, P);
#ifndef FAULT_OWNER_LATER
			owner = LIBRARY;
#endif
			bell = false; hand = OFFERED; tToL = true; toL!MAPPED; d = OFFER }
		:: d != KEEPS
		fi
	:: atomic { toD?SWITCHED -> if :: d == OFFER -> assert(hand == TAKEN); taken() :: else fi }
	:: atomic { toD?ABANDON -> assert(d == OFFER); hand = VOID; d = PUMP; forget(M) }
	/* the client is gone: what it said has been read, the rest stands in the page */
#ifdef FAULT_CAS
	:: ctlGone && !noticed && empty(toD) && d == OFFER && hand == OFFERED -> hand = VOID; d = PUMP; noticed = true
	:: atomic { ctlGone && !noticed && empty(toD) && !(d == OFFER && hand == OFFERED) -> noticed = true; if :: d == OFFER -> taken() :: else fi }
#else
	:: atomic { ctlGone && !noticed && empty(toD) -> noticed = true;
		if
		:: d == OFFER && hand == TAKEN -> taken()
		:: d == OFFER && hand == OFFERED -> hand = VOID; d = PUMP; forget(M)
		:: else
		fi }
#endif
#ifdef FAULT_LOOK_FIRST
	:: atomic { deaf -> deaf = false }
#endif
	/* a hint to look at the map */
	:: atomic { unmapSaid && d == OFFER && hand == TAKEN -> taken() }
	:: atomic { unmapSaid && (d == OVER || (d == AWAY && owner != AGENT)) -> unmapSaid = false; unmapDone = true }
	:: atomic { unmapSaid && d == AWAY && owner == AGENT ->
		assert(M.took == kSent && M.rd == kRead && !busy && !M.direct); import(); acks = true }
	:: atomic { unmapSaid && bursts && d == PUMP -> unmapSaid = false; acks = true }	/* it was taken at the burst's end */
	/* a burst: its octets go as if they had been read from C */
	:: atomic { !clears && toD?[BELL] -> toD?BELL; if :: d == AWAY -> rung = true :: else fi }
	:: atomic { rung && d == AWAY && M.ring && mayTake && cL -> owner = AGENT;
		assert(M.took == kSent && M.rd == kRead && !busy && !M.direct && !inside); import() }
#ifdef FAULT_BELL
	:: atomic { rung && d == AWAY && owner != BURST && !clears -> clears = true };
	:: atomic { clears -> clears = false; rung = false; bell = false }
#else
	:: atomic { rung && d == AWAY && owner != BURST && !clears -> bell = false; clears = true }
	:: atomic { clears -> clears = false; if :: d == AWAY && owner == BURST -> bell = true :: else -> rung = false fi }
#endif
	:: atomic { acks && (mayAck || d == OVER) -> acks = false; unmapDone = true }
	/* C hangs up */
	:: atomic { !cL && d == OFFER && hand == TAKEN -> taken() }
	:: atomic { !cL && d == AWAY && owner == AGENT -> assert(M.took == kSent && M.rd == kRead && !busy && !M.direct); import() }
#ifdef FAULT_HANGUP
	:: atomic { !cL && d == AWAY && owner != AGENT -> import() }
#else
	:: atomic { !cL && d == AWAY && owner != AGENT && pidDead -> recover() }
#endif
	:: atomic { wish && d == AWAY && !want -> want = true; wish = false }
#ifdef FAULT_STOPPED
	:: atomic { want && d == AWAY && owner != AGENT -> import() }
#endif
	/* the relay */
	:: atomic { pumps && !reset && blocked(P) && nfull(tout) -> assert(!inside); give(P); P.took++ }
	:: atomic { pumps && !reset && P.ring && P.credit -> P.framed = P.framed + 2; P.ring--; P.credit-- }
	:: atomic { pumps && !reset && behind(P) && nempty(cout) && P.credit && !P.fin -> cout?n; P.framed = P.framed + 2; P.credit--; assert(P.framed == 2 * n); n = 0 }
	:: atomic { pumps && !reset && !unread(P) && !P.peerFin && nempty(tin) -> assert(!inside); tin?k,n; kRead++; P.rd++; assert(n == P.rd); parse(P, k); k = 0; n = 0 }
	:: atomic { pumps && !reset && P.peerFin && nempty(tin) -> assert(!inside); tin?k,n; kRead++; P.rd++; assert(n == P.rd); parse(P, k); k = 0; n = 0 }
	:: atomic { pumps && unread(P) && nfull(cin) && cL -> P.got++; cin!P.got }
	:: atomic { pumps && !unread(P) && P.peerFin && !cFin -> cFin = true }
	/* the application has closed */
	:: atomic { d == PUMP && !cL && !reset && (unread(P) || nempty(cin)) -> assert(pardoned); kill() }
	:: atomic { d == PUMP && !cL && !reset && empty(cout) && !P.ring && !P.fin -> P.fin = true; P.framed++ }
	:: atomic { d == PUMP && !cL && P.fin && P.peerFin && !blocked(P) -> over = true; tD = false; d = OVER; want = false; wish = false; forget(P) }
	:: atomic { d == PUMP && reset -> ends() }
	:: atomic { (left == 0 || deadL) && d == OVER && empty(toD) && !unmapSaid && !acks -> break }
	od
	} unless { atomic { gen != mine -> d = PUMP; noticed = false; acks = false; rung = false; clears = false } }
}

proctype Peer()
{
	mtype k;
	byte n, got, sent, owed, granted = 1;
	bool dSent = plainPeer, fSent, ended;

	do
	:: atomic { reset -> assert(pardoned); got = 0; sent = 0; owed = 0; granted = 0; dSent = true; fSent = true; ended = true; break }
	:: atomic { !reset && !dSent && !fSent && (!answers || octets > 0 || ended) && nfull(tin) -> sent++; tin!D,sent; dSent = true }
	:: atomic { !reset && dSent && !fSent && nfull(tin) -> sent++; tin!F,sent; fSent = true }
	:: atomic { !reset && owed && !ended && nfull(tin) -> owed--; granted++; sent++; tin!K,sent }
	:: atomic { !reset && nempty(tout) -> tout?k,n; got++; assert(n == got && !ended);
		if
		:: k == H -> assert(got % 2 == 1 && (got + 1) / 2 <= granted)
		:: k == B -> assert(got % 2 == 0); octets++; owed++
		:: k == E -> assert(got % 2 == 1 && octets >= accepted && !cL); ended = true; owed = 0; granted = 0
		fi; k = 0; n = 0 }
	:: atomic { ended && fSent -> got = 0; sent = 0; owed = 0; granted = 0; dSent = true; break }
	od
}

init {
	atomic {
		P.credit = 1;
#ifdef FINE
		single = true; plainPeer = true; mortalL = true;
#ifdef BURSTS
		bursts = true;
#else
		if :: direct = true :: skip fi;
#endif
#else
#ifdef BURSTS
		single = true; bursts = true;
#else
		if :: skip :: single = true fi;
#endif
		if
		:: answers = true
		:: wish = true; maxForks = 0
		:: maxTries = 2
#ifndef FEW
		:: slow = true
		:: !single; plainPeer = true; mortalL = true
		:: single; plainPeer = true; mortalD = true
		:: plainPeer = true; mortalD = true; kept = true
#endif
		fi;
#endif
		run Thread(0); if :: single -> left = 1 :: else -> run Thread(1) fi; run Daemon(0); run Peer()
	};
end:	if	/* where nothing goes wrong it stays here */
	:: slow
	:: atomic { slow && !ctlGone -> dropControl() }
	:: atomic { mortalL -> deadL = true; pardoned = true; tL = false; cL = false; inside = 0; dropControl();
		mapped = false; lock = false; gate = false; slot[0] = false; slot[1] = false; waits[0] = false; waits[1] = false; readAll(); writesEnd = true;
		unreadThen = false; computes = false; nW = 0; tries = 0; forks = 0; left = 0; unmapDone = false };
		pidDead = true
	:: atomic { mortalD -> noD = true; ctlGone = true; unmapSaid = false; pardoned = true; gen++; forget(P);
		do :: nempty(toD) -> toD?_ :: empty(toD) -> break od;
		if :: kept :: else -> tD = false; cD = false; tDrop() fi };
		if
		:: kept -> run Daemon(1)
		:: !kept
		fi
	fi
}
