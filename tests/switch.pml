/* SPDX-License-Identifier: MIT */
/*
 * One end of a connection: an application of two threads, its library and its daemon switch it from the kernel's socket T to the carrier C, relay,
 * and give T back (docs/upgrade.md). T and C are two queues each; who holds T (the application, the daemon, a message on its way) is counted as
 * the kernel counts, and what it does when the last one lets go: FIN, or RST when octets are unread or it lingers for 0 s.
 *
 * Covered: GO seen late or never; threads in blocked reads, polls and writes while another one wants to switch or to go back; a daemon that
 * refuses, is slow (the library drops the control connection, at any step when another thread waited) or dies, an application that dies, shuts
 * down its half or closes, a peer that resets or half-closes, each at every step; a thread that closes what another one is switching; unread
 * octets and full queues in T and C at the moment of the switch; switching again after BACK.
 * Left to others: what the other end is. It is a plain TCP peer here, which is all that a relay shows to anybody: the two ends switch without
 * needing each other, so one end with any peer is enough. The upgrade from the relay on: tests/upgrade.pml, tests/join.pml; both begin with a relay
 * and end it or leave it as it was. Proposals and matching decide only when GO is seen, and GO may be seen at any time here. Calls
 * that go past the library are not here: /proc tells of them, before and after dup3.
 *
 * Nobody waits for ever: every end in which something has not ended is an error, and there is no cycle but that of an application that does not
 * block, so that no fairness need be assumed. FEW: fewer runs, to look for that cycle (tests/models.t), and for FINE.
 * The cut is in the sizes: an octet in each queue, one or two each way, one or two switches, and of what can go wrong one kind in a run, two
 * with MORE. No rule counts anything: a queue is empty or it is not, full or not, and what was once may be again. FAULT_*: ways to get it wrong,
 * each of which must be found, and is in a run with one kind.
 */
#define ROOM 1		/* octets in each queue */
#define NONE 255

mtype = { T, C, CLOSED };
mtype = { READ, WRITE, SHUTDOWN };
mtype = { SWITCH, SWITCHED, SWITCHED_DRY, ABANDON, BACK, STREAM, TCP, NO, ACK };
mtype = { NOTHING, GRANTED, RELAY, GIVEN };
mtype = { OFFERED, TAKEN, VOID };

chan tin = [ROOM] of { byte };	/* octets, by their numbers */
chan tout = [ROOM] of { byte };
chan cin = [ROOM] of { byte };
chan cout = [ROOM] of { byte };
byte finIn, finOut;		/* FIN behind them: its number, 0 not yet */
bool reset;			/* T was reset, by whomever */
bool cShut, cFin;		/* the application shut its half of C; the daemon did, and the page says FIN */
mtype hand = VOID;		/* in the page: what was granted, or given back, is the library's to take, or the daemon's to take back */
chan toD = [3] of { mtype };	/* control connection; when one side is gone the other still reads what was said */
chan toL = [3] of { mtype };
bool ctlGone, deadD, deadL;

bool tL = true, tToD, tD, tToL;	/* who holds T */
bool tGone, linger;		/* nobody does; SO_LINGER { 1, 0 } */
bool cL, cToL, cD;		/* who holds an end of C */

/* How a run goes */
mtype = { READER, CLOSER, SINGLE, NONBLOCK };
mtype how;			/* one thread reads, another writes, or may close, too; or one does it all and may close at any time; or one reads without waiting */
byte maxIn = 1, maxOut = 1;	/* octets at most, and then the FIN */
byte maxTries = 1;		/* switches begun */
bool answers;			/* the peer writes an octet only for one it got */
bool slow;			/* waits for the daemon may time out */
bool mortal;

/* the application */
mtype fd = T;
bool lock, slot[2], readsEnd, writesEnd;
byte nR, nW, tries, left = 2;
bool pardoned;			/* a reset may be seen: somebody died, or closed early */

/* The rules that FAULT_* break; see also below */
#ifdef FAULT_FIN_OF_DEATH
#define mayLinger false
#else
#define mayLinger true			/* the kernel of a daemon that dies resets T */
#endif
#ifdef FAULT_UNREAD
#define mayAck true
#else
#define mayAck (empty(tin) || full(cin))	/* what was unread in T is in C */
#endif
#ifdef FAULT_BACK_WET
#define dry (empty(cout) && (!cShut || finOut))
#else
#ifdef FAULT_BACK_SHUT
#define dry (empty(cin) && empty(cout))
#else
#define dry (empty(cin) && empty(cout) && (!cShut || finOut))	/* a FIN in it, too, has been passed on */
#endif
#endif
#ifdef FAULT_UNDECIDED_SWITCH
#define taken false			/* who says nothing has not switched */
#else
#define taken (hand == TAKEN)
#endif
#ifdef FAULT_UNDECIDED_BACK
#define takenBack false
#else
#define takenBack (hand == TAKEN)
#endif
#ifdef FAULT_BACK_STOPS
#define stopped true
#else
#define stopped backing			/* T is read until the library asks */
#endif

#define appEnded (deadL || writesEnd)
#define unread(q) (len(q) > 0)

/* What nobody looks at any more is forgotten where it was looked at last, in the same step: fewer states. Who has read to the end counts no more, and
 * of a FIN that was read it is known that there is one. */
inline drain(ch) { do :: nempty(ch) -> ch?_ :: empty(ch) -> break od }
inline resets() { reset = true; drain(tout) }
inline readAll() { readsEnd = true; nR = 0; if :: finIn -> finIn = 1 :: else fi }

/* What the kernel does when the last holder of T lets go */
inline tDrop() {
	if
	:: !tL && !tToD && !tD && !tToL && !tGone ->
		tGone = true;
		if
		:: linger || unread(tin) -> resets()
		:: else -> if :: !finOut && !reset -> finOut = (appEnded -> nW + 1 : NONE) :: else fi
		fi
	:: else
	fi
}
inline dropControl() {	/* by the library, or the death of its process: what it has not read is lost */
	ctlGone = true; cToL = false; tToL = false;
	do :: nempty(toL) -> toL?_ :: empty(toL) -> break od;
	tDrop()
}

#ifdef FAULT_BUSY
#define quiet(me) true
#else
#define quiet(me) (!slot[1 - me])		/* nobody else is inside of a call */
#endif
#ifdef FINE
#define quietNow(me) true			/* first the lock, then a look at the slots */
#else
#define quietNow(me) quiet(me)
#endif

/* The beginning of an intercepted call, its slot taken: the switch, or the way back, if it is time. Any call may as well go on as it is. */
inline changing(me) {
	if
	:: atomic { call != SHUTDOWN && fd == T && tries < maxTries && !lock && !ctlGone && !writesEnd && !deadD && quietNow(me) ->
		lock = true; tries++ };
		if
		:: quiet(me) -> switching()
		:: !quiet(me)
		fi;
		atomic { lock = false; o = fd; assert(!served || call != READ || o != C || nempty(cin) || cFin || reset || deadD); served = false }
	:: atomic { call != SHUTDOWN && fd == C && !lock && !ctlGone && empty(cin) && !deadD && quietNow(me) -> lock = true };
		if
		:: quiet(me) -> goingBack()
		:: !quiet(me)
		fi;
		atomic { lock = false; o = fd }
	:: atomic { true -> o = fd }
	fi
}
#define tell(what) if :: !deadD && !ctlGone -> toD!what :: else fi
#define unheard ((deadD || ctlGone) && empty(toL))	/* nobody will answer */
inline switching() {
	atomic { if :: !deadD && !ctlGone -> tToD = true; toD!SWITCH :: else fi };
	if
	:: atomic { toL?STREAM -> cToL = false; cL = true };
		if
		:: atomic { hand == OFFERED -> hand = TAKEN; served = unread(tin);
#ifndef FAULT_LATE_LINGER
			linger = mayLinger
#endif
			};
			atomic { assert(fd == T); fd = C; tL = false; tDrop() };	/* dup3 */
			if
			:: atomic { !served -> tell(SWITCHED_DRY); if :: slow -> dropControl() :: true fi }
			:: atomic { served -> tell(SWITCHED) };
				if
				:: toL?ACK
				:: atomic { unheard -> served = false }
				:: atomic { slow -> served = false; dropControl() }
				fi
			fi
		:: atomic { (slow || hand != OFFERED) -> cL = false; tell(ABANDON) }	/* for whatever reason */
		fi
	:: toL?NO
	:: unheard
#ifdef FAULT_FORGET
	:: slow -> tries = maxTries
#else
	:: atomic { slow -> dropControl() }
#endif
	fi
}
inline goingBack() {
	atomic { tell(BACK) };
	if
	:: atomic { toL?TCP -> tToL = false; tL = true };
		if
		:: atomic { hand == OFFERED -> hand = TAKEN };
#ifndef FAULT_LINGERS
			linger = false;
#endif
			atomic { fd = T; cL = false };		/* dup3 */
			atomic { tell(SWITCHED) };
			if
			:: toL?ACK
			:: unheard
			:: atomic { slow -> dropControl() }
			fi
		:: atomic { (slow || hand != OFFERED) -> tL = false; tell(ABANDON) }	/* for whatever reason */
		fi
	:: toL?NO
	:: unheard
	:: atomic { slow -> dropControl() }
	fi
}

/* A call begins: first the slot, then a look at the lock. FINE: in two steps; in one, what is left out is a switch that is not done because of a
 * slot of which nothing comes. */
#ifdef FINE
#define mayCall (fd != CLOSED)
#else
#define mayCall (fd != CLOSED && !lock)
#endif
#ifdef FAULT_LOOK_FIRST
#define slotFirst false
#else
#define slotFirst true
#endif
#define mayRead (!readsEnd && (how != SINGLE || !answers || nW > nR || writesEnd))

/* A close takes the number's meaning and waits for the lock in one step; what another thread sleeps in is the kernel's affair. */
#ifdef FAULT_CLOSE_PASSES
#define mayClose (lock || me == 0 || !slot[0])
#else
#define mayClose (!lock && (me == 0 || !slot[0]))
#endif
inline closing() { pardoned = true; fd = CLOSED; tL = false; cL = false; writesEnd = true; readAll(); tDrop() }

proctype Thread(bit me)
{
	mtype call, o = CLOSED;	/* o: what the fd was when the kernel looked it up */
	byte n;
	bool served;

	{
again:	do
	:: atomic { mayCall && (me == 1 || how == SINGLE) && !writesEnd && nW < maxOut -> call = WRITE; slot[me] = slotFirst }; break
	:: atomic { mayCall && (me == 1 || how == SINGLE) && !writesEnd -> call = SHUTDOWN; slot[me] = slotFirst }; break
	:: atomic { mayCall && me == 0 && mayRead -> call = READ; slot[me] = slotFirst }; break
	:: atomic { ((me == 0 && how == SINGLE) || (me == 1 && how == CLOSER)) && fd != CLOSED && mayClose -> closing() }
	:: atomic { fd == CLOSED || (me == 0 && how != SINGLE && readsEnd) || (me == 1 && (how == SINGLE || (writesEnd && how != CLOSER))) -> goto done }
	od;
#ifdef FAULT_LOOK_FIRST
	slot[me] = true;
#endif
#ifdef FINE
	if
	:: !lock
	:: atomic { lock -> slot[me] = false; call = 0 }; !lock; goto again
	fi;
#endif
	changing(me);
	atomic {
	if
	:: o == CLOSED
	/* blocked, or not; a poll is a read that takes nothing */
	:: call == READ && o == T && nempty(tin) && !reset -> tin?n; assert(n == nR + 1); nR++
	:: call == READ && o == T && (reset || (empty(tin) && finIn)) -> assert(reset || finIn == nR + 1); readAll()
	:: call == READ && o == C && nempty(cin) -> cin?n; assert(n == nR + 1); nR++
	:: call == READ && o == C && empty(cin) && cFin -> assert(finIn == nR + 1); readAll()
	:: call == READ && o == C && empty(cin) && !cFin && !cD -> assert(reset || pardoned); readAll(); writesEnd = true
	:: call == READ && how == NONBLOCK && o == T && empty(tin) && !finIn
	:: call == READ && how == NONBLOCK && o == C && empty(cin) && !cFin && cD
	:: call == WRITE && o == T && reset -> writesEnd = true
	:: call == WRITE && o == T && !reset && !writesEnd && nfull(tout) -> nW++; tout!nW
	:: call == WRITE && o == C && !cD -> writesEnd = true
	:: call == WRITE && o == C && cD && !writesEnd && nfull(cout) -> nW++; cout!nW
	:: call == WRITE && writesEnd
	:: call == SHUTDOWN && o == T -> writesEnd = true; if :: !reset && !finOut -> finOut = nW + 1 :: else fi
	:: call == SHUTDOWN && o == C -> writesEnd = true; cShut = true
	fi;
	o = CLOSED; n = 0; call = 0; slot[me] = false; goto again
	};
done:	atomic {
		left--;
		if
		:: left == 0 -> fd = CLOSED; tL = false; cL = false; writesEnd = true; tDrop()	/* the process lives on */
		:: else
		fi
	}
	} unless { atomic { deadL -> call = 0; o = CLOSED; served = false } }
}

#define cOpen (cL || cToL)
inline over() { d = NOTHING; moving = false; cD = false; tD = false; tDrop() }

proctype Daemon()
{
	mtype d = NOTHING;
	bool moving, backing;
	byte n;

	{
	do
	:: atomic { toD?SWITCH -> tToD = false; tD = true;
		if
		:: ctlGone -> tD = false; tDrop()
		:: !ctlGone -> d = GRANTED; hand = OFFERED; cD = true; cToL = true; cShut = false; cFin = false; toL!STREAM
		:: !ctlGone -> tD = false; tDrop(); toL!NO
		fi }
#ifdef FAULT_EARLY_TOUCH
	:: atomic { d == GRANTED && nempty(tin) && nfull(cin) -> tin?n; cin!n; n = 0 }
#endif
	:: atomic { toD?SWITCHED_DRY -> assert(d == GRANTED); d = RELAY; linger = mayLinger }
	:: atomic { toD?SWITCHED -> assert(d == GRANTED || d == GIVEN);
		if
		:: d == GRANTED -> d = RELAY; moving = true; linger = mayLinger
		:: d == GIVEN -> over(); if :: !ctlGone -> toL!ACK :: else fi
		fi }
	:: atomic { d == RELAY && moving && mayAck -> moving = false; if :: !ctlGone -> toL!ACK :: else fi }
	:: atomic { toD?ABANDON -> assert(d == GRANTED || d == GIVEN); if :: d == GRANTED -> over() :: else -> d = RELAY fi }
	/* the process is gone, or has given us up; what it said before has been read, the rest stands in the page */
	:: atomic { ctlGone && empty(toD) && d == GRANTED ->
		if :: taken -> d = RELAY :: else -> hand = VOID; linger = false; over() fi }
	:: atomic { ctlGone && empty(toD) && d == GIVEN -> if :: takenBack -> over() :: else -> hand = VOID; d = RELAY fi }
	:: atomic { ctlGone && empty(toD) && backing -> backing = false }
	/* back */
	:: atomic { toD?BACK ->
		if :: d == RELAY && !moving -> backing = true :: if :: !ctlGone -> toL!NO :: else fi fi }
	:: atomic { backing && dry && !ctlGone -> backing = false; hand = OFFERED; tToL = true; toL!TCP; d = GIVEN;
#ifdef FAULT_LINGER_EARLY
		linger = false;
#endif
#ifdef FAULT_LETS_GO
		tD = false;
#endif
		n = 0 }
	:: atomic { backing && !ctlGone -> backing = false; toL!NO }
	/* the relay */
	:: atomic { d == RELAY && !reset && nempty(tin) && nfull(cin) && cOpen && !stopped -> tin?n; cin!n; n = 0 }
	:: atomic { d == RELAY && !reset && empty(tin) && finIn && !cFin && !stopped -> cFin = true }
	:: atomic { d == RELAY && !reset && nempty(cout) && nfull(tout) -> cout?n; tout!n; n = 0 }
	:: atomic { d == RELAY && !reset && empty(cout) && (cShut || !cOpen) && !finOut && (cOpen || empty(cin)) -> finOut = nW + 1 }
	/* the application has closed */
	:: atomic { d == RELAY && !reset && !cOpen && nempty(cin) -> over() }
	:: atomic { d == RELAY && !reset && !cOpen && empty(cin) && empty(cout) && finOut -> linger = false; over() }
	:: atomic { d == RELAY && reset ->
		if :: (moving || backing) && !ctlGone -> toL!(moving -> ACK : NO) :: else fi;
		backing = false; moving = false; over() }
	:: atomic { d == NOTHING && (left == 0 || deadL) && empty(toD) -> break }
	od
	} unless { atomic { deadD -> d = NOTHING; moving = false; backing = false } }
}

proctype Peer()
{
	byte n, got, sent;
	bool fin;

	do
	:: atomic { reset -> assert(pardoned); got = 0; sent = 0; fin = false; break }
	:: atomic { !reset && !finIn && sent < maxIn && (!answers || got > sent || fin) && nfull(tin) -> sent++; tin!sent; if :: tGone -> resets() :: else fi }
	:: atomic { !reset && !finIn && (!answers || got > sent || fin) -> finIn = (readsEnd -> 1 : sent + 1); sent = 0 }
	:: atomic { !reset && nempty(tout) -> tout?n; assert(n == got + 1); got++; n = 0 }
	:: atomic { !reset && empty(tout) && finOut && !fin -> assert(finOut == got + 1); fin = true; got = 0; finOut = 1 }
	:: atomic { fin && finIn -> fin = false; break }
	od
}

init {
	atomic {
#ifdef FEW
		if
		:: how = READER
		:: FEW != 2 -> how = CLOSER
		:: how = SINGLE
		fi;
		if
		:: FEW == 1 -> slow = true; answers = true
		:: FEW == 2
		:: FEW == 3 -> mortal = true
		fi;
#else
		if
		:: how = NONBLOCK; maxIn = 2
		:: how = READER
		:: how = CLOSER
		:: how = SINGLE
		fi;
		if
		:: slow = true
		:: how != NONBLOCK ->
			if
			:: maxIn = 2
			:: answers = true
			:: maxOut = 2
			:: maxTries = 2
			:: mortal = true
			fi
		fi;
#ifdef MORE
		if
		:: how == READER || how == CLOSER; slow = true
		:: maxIn = 2
		:: how != NONBLOCK; maxTries = 2
		:: how != NONBLOCK; mortal = true
		fi;
#endif
#endif
		run Thread(0); run Thread(1); run Daemon(); run Peer()
	};
end:	if	/* where nothing goes wrong it stays here */
	:: slow
	:: atomic { slow && !ctlGone -> dropControl() }	/* another thread's request got no answer in time */
	:: atomic { mortal && !deadD -> deadD = true; pardoned = true; cD = false; tD = false; tToD = false; tDrop(); drain(toD); drain(cout) }
	:: atomic { mortal -> deadL = true; pardoned = true; fd = CLOSED; cL = false; tL = false; lock = false; slot[0] = false; slot[1] = false; dropControl();
		writesEnd = true; readAll(); tries = 0; left = 0 }
	:: atomic { mortal && !tGone -> pardoned = true; resets() }
	fi
}
