/* SPDX-License-Identifier: MIT */
/*
 * The upgrade of the wire: two daemons relay plain octets on one TCP connection T and want MPA from agreed positions on (docs/upgrade.md). Either
 * may begin. The application and its carrier are one with their daemon here: an application that writes only after it read, or reads only after it
 * wrote, is what a hold may lock up. T is two queues, which count positions; a unit is an octet, half a Request or Reply, an octet of the ring
 * stream, or a FIN.
 *
 * Covered: several attempts, each with its nonce, of both ends, also at the same time, on sessions that are slow, break and are dialled anew,
 * at every step of everything else; HOLD refused or left unanswered; octets that begin an MPA key (M: data and the first half of a Request look
 * alike, and what a daemon does must not depend on which it is); half-close and close at every position, FIN first in line at a hold included;
 * T that takes no more, and applications that take no more; resets by either application and death of either daemon at any moment; RTR.
 * Left to others: how T came to the daemon and goes back, and its octets before (tests/switch.pml): T is in the daemons' hands alone for the
 * whole of this, which the rules for SWITCHED and BACK see to. The ring stream after its start is tested elsewhere; it is exact from its first
 * octet to its last, which is all that is asked of it here. Positions are TCP's, so both ends count alike; that a daemon counts right is what the
 * CRC in HOLD and HELD is for, and a CRC that differs is a refusal.
 *
 * The graph of states has no cycle (tests/models.t looks for one): whatever happens, everything comes to an end, and every end is a proper one.
 * The cut is in the sizes: two octets and a FIN each way, two units in T, two attempts. No rule looks at more than whether a position is before,
 * at or behind another one. N=3 with IW_LONG.
 * FAULT_*: ways to get it wrong, each of which must be found.
 */
#ifndef N
#define N 2		/* octets each way, at most, and then the FIN */
#endif
#define ROOM 2		/* units that T holds each way */
#define NONE 255

/* How the applications talk */
#define FREE 1		/* both read and write as they like */
#define ANSWER 2	/* that of 0 waits when two of its octets are not answered; the other answers each */
#define BULK 3		/* that of 0 reads nothing before it has written everything */
byte talk;

mtype = { D, M, F,	/* an octet; one that begins an MPA key; FIN */
	Q, R,		/* the other half of a Request, of a Reply (the first is an M), with the nonce */
	RTR, X, XF };	/* MPA: ready to receive; an octet of the ring stream; its FIN */
mtype = { HELD, NO };
mtype = { PLAIN, HOLDING, ASKED, WAIT, GIVEN, RESUMED, REPLYING, UP };

/* T and the sessions that 0 and 1 dialled, by who says it */
chan t0 = [ROOM] of { mtype, byte };	/* kind; number of the octet, or nonce */
chan t1 = [ROOM] of { mtype, byte };
chan hold0 = [1] of { byte, byte };	/* HOLD: nonce, position */
chan hold1 = [1] of { byte, byte };
chan held0 = [1] of { mtype, byte, byte };	/* the answer of 0, of 1: HELD or NO, nonce, position */
chan held1 = [1] of { mtype, byte, byte };
bool reset;			/* T is no more */
bool dead0;
bool mortal;			/* in this run: a wait that only a death would end is for ever */

/* The rules that FAULT_* break */
#ifdef FAULT_HOLD_EMPTY
#define mayHold (!hand || hand == D)
#else
#ifdef FAULT_HOLD_KEY
#define mayHold (hand == D || hand == M)
#else
#define mayHold (hand == D)		/* an octet in hand, of which the other can tell that it is no Request */
#endif
#endif
#ifdef FAULT_EARLY_REQUEST
#define mayAsk (rx <= q)
#else
#ifdef FAULT_LATE_REQUEST
#define mayAsk (rx >= q)
#else
#define mayAsk (rx == q && !finRx)	/* all that the other sent before it held has been read, and no more */
#endif
#endif
#ifdef FAULT_EARLY_HELD
#define mayGive true
#else
#define mayGive (rx == p && !rest)	/* all that the other sent before it held has been read */
#endif
#ifdef FAULT_RESUME_KEY
#define mayResume hand
#else
#define mayResume (hand == D || hand == F)
#endif
#ifdef FAULT_OVERTAKEN
#define mayWait (s == PLAIN || s == WAIT || undecided)
#else
#define mayWait (s == PLAIN || s == WAIT || s == HOLDING)	/* nothing of theirs is undecided; an attempt of ours that has not asked gives way */
#endif

#ifdef FAULT_REST
#define mayFollow true
#else
#define mayFollow !rest			/* a Request that was begun is sent to its end, whatever has become of the attempt */
#endif

#define undecided (s == GIVEN || s == RESUMED)
#define writes (talk != ANSWER || finRx || (me == 0 && nRx + 1 >= nTx) || (me == 1 && nRx > nTx))
#define reads (talk != BULK || me == 1 || hand == F || finTx)
#define head(kind) (nempty(in) && in?[kind,_])

inline say(ch, what, nonce, pos) { if :: nfull(ch) -> ch!what,nonce,pos :: full(ch) -> skip fi }	/* a session that is full may as well be broken */
inline sendHand() {	/* as a plain octet */
	out!hand,nTx+1;
	if :: hand == F -> finTx = true :: else -> nTx++; tx++ fi;
	hand = 0; sent = true; if :: finTx -> noMore() :: else fi
}
inline back() { s = PLAIN; p = NONE; q = NONE; theirs = 0 }
inline up() { s = UP; p = NONE; q = NONE; tx = 0; rx = 0; theirs = 0; half = false; nonce = 0; left = 0; sent = true }

/* What nobody looks at any more is forgotten where it was looked at last, in the same step: fewer states. */
inline noMore() { left = 0; sent = true }	/* attempts */
inline settled() { if :: talk == ANSWER && finRx && (finTx || hand == F) -> talk = FREE :: else fi }	/* how they talk, that is */
inline forget() {
	s = PLAIN; hand = 0; tx = 0; rx = 0; nTx = 0; nRx = 0; finTx = false; finRx = false; nonce = 0; left = 0; p = NONE; q = NONE; theirs = 0;
	sent = true; half = false; rest = false; rtr = false; first = false
}
inline drain2(ch) { do :: nempty(ch) -> ch?_,_ :: empty(ch) -> break od }
inline drain3(ch) { do :: nempty(ch) -> ch?_,_,_ :: empty(ch) -> break od }

proctype End(bit me; byte left; chan out, in, holdOut, heldIn, holdIn, heldOut)
{
	mtype s = PLAIN;
	mtype hand;		/* taken from the application and not yet sent; 0 nothing */
	byte tx, rx;		/* positions: what T got of us and we of it */
	byte nTx, nRx;		/* octets of the application */
	bool finTx, finRx;
	byte nonce = me * 8;	/* of our last attempt */
	byte p = NONE;		/* who holds first holds there */
	byte q = NONE;		/* where the other holds then; NONE: no HELD yet */
	byte theirs;		/* the nonce of their attempt */
	bool sent = true;	/* what was in hand at our last attempt, if it failed */
	bool half;		/* the first half of a Request or Reply was read, or sent */
	bool rest;		/* the second half of a Request is still to be sent, though the other has gone on */
	bool rtr, first;	/* UP: the other direction is open; we are the Initiator */
	byte n, k;

	do
	:: atomic { reset || (me == 0 && dead0) -> forget(); break }
	/* the application writes */
	:: atomic { !reset && !hand && !finTx && writes ->
		if :: nTx < N -> hand = D :: nTx < N -> hand = M :: hand = F; settled(); if :: talk == BULK && me == 0 -> talk = FREE :: else fi fi }
	:: atomic { !reset && (s == PLAIN || s == WAIT || s == RESUMED) && hand && mayFollow && nfull(out) -> sendHand() }

	/* our attempt */
	:: atomic { !reset && s == PLAIN && left > 0 && !finTx && !finRx && sent && !rest && mayHold ->
		nonce++; left--; p = tx; sent = (left == 0); s = HOLDING; if :: nfull(holdOut) -> holdOut!nonce,p :: full(holdOut) -> skip fi }
	:: !reset && s == HOLDING -> back()		/* had enough of waiting, for whatever reason */
	:: atomic { heldIn?HELD,n,k ->
#ifdef FAULT_NONCE
		if :: s == HOLDING && q == NONE -> q = k :: else fi;
#else
		if :: s == HOLDING && n == nonce -> q = k :: else fi;
#endif
		n = 0; k = 0 }
	:: atomic { heldIn?NO,n,k -> if :: s == HOLDING && n == nonce -> back() :: else fi; n = 0; k = 0 }
	:: atomic { !reset && s == HOLDING && q != NONE && nfull(out) && mayAsk -> out!M,0; half = true; s = ASKED }
	:: atomic { !reset && s == ASKED && half && tx == p && nfull(out) -> out!Q,nonce; tx = tx + 2; half = false }
#ifdef FAULT_TIMER
	:: !reset && s == ASKED && tx > p -> back()
#endif
	/* what stands at q */
	:: !reset && ((s == HOLDING && ((q != NONE && rx > q) || finRx)) || (s == ASKED && tx > p && !half && finRx)) -> back()
	:: atomic { !reset && s == ASKED && tx > p && rx == q && !half && (head(D) || head(F)) -> back() }	/* the other has gone on */
	:: atomic { !reset && s == ASKED && tx == p && half && rx == q && (head(D) || head(F)) -> back(); half = false; rest = true }
	:: atomic { !reset && rest && nfull(out) -> out!Q,nonce; tx = tx + 2; rest = false }
	:: atomic { !reset && s == ASKED && tx > p && rx == q && !half && head(M) -> in?M,n; half = true; n = 0 }
	:: atomic { !reset && s == ASKED && tx > p && half && nempty(in) -> in?R,n; assert(n == nonce); up(); first = true; n = 0 }
	:: atomic { !reset && s == UP && first && !rtr && nfull(out) -> out!RTR,0; rtr = true; first = false }

	/* their attempt: taken only when nothing is undecided */
	:: atomic { holdIn?n,k ->
		if
		:: mayWait && rx <= k && !finRx && !finTx -> back(); s = WAIT; theirs = n; p = k; half = false
		:: say(heldOut, NO, n, 0)	/* that, or another reason */
		fi; n = 0; k = 0 }
	:: atomic { !reset && s == WAIT && !finTx && !finRx && nfull(heldOut) && mayGive -> heldOut!HELD,theirs,tx; s = GIVEN }
	:: !reset && s == WAIT -> back()			/* the other has gone on, or we cannot, or do not want to */
	/* had enough of waiting: what is sent now says so, if the other can tell it from a Reply */
	:: atomic { !reset && s == GIVEN && nfull(out) && mayResume -> sendHand(); s = RESUMED }
#ifdef FAULT_BACK
	:: !reset && s == RESUMED && !half -> back()	/* T is given back before p is decided */
#endif
	/* what stands at p, whether the application reads or not */
	:: atomic { !reset && undecided && rx == p && !half && (head(D) || head(F)) -> back() }
	:: atomic { !reset && undecided && rx == p && !half && head(M) -> in?M,n; half = true; n = 0 }
	:: atomic { !reset && undecided && half && nempty(in) -> in?Q,n;
#ifndef FAULT_NONCE
		assert(n == theirs);
#endif
		half = false; rx = rx + 2; n = 0;
#ifdef FAULT_LATE_REPLY
		s = REPLYING
#else
		if :: s == GIVEN -> s = REPLYING :: else -> back() fi
#endif
		}
	:: atomic { !reset && s == REPLYING && !half && nfull(out) -> out!M,0; half = true }
	:: atomic { !reset && s == REPLYING && half && nfull(out) -> out!R,theirs; up() }
	:: atomic { !reset && s == UP && !first && head(RTR) -> in?RTR,_; rtr = true }

	/* the ring stream */
	:: atomic { !reset && s == UP && rtr && hand && nfull(out) ->
		if :: hand == F -> out!XF,nTx+1; finTx = true :: else -> out!X,nTx+1; nTx++ fi; hand = 0 }
	:: atomic { !reset && reads && s == UP && (head(X) || head(XF)) ->
		if :: in?X,n -> nRx++; assert(n == nRx) :: in?XF,n -> finRx = true; assert(n == nRx + 1); settled() fi; assert(rtr); n = 0 }
	/* plain octets to the application, who takes them when it likes */
	:: atomic { !reset && reads && !(s == ASKED && rx == q) && !(undecided && rx == p) && (head(D) || head(M) || head(F)) ->
		if :: in?D,n :: in?M,n :: in?F,n -> finRx = true; noMore(); settled() fi;
		assert(s != UP && s != REPLYING && n == nRx + 1);
		if :: finRx -> skip :: else -> nRx++; rx++ fi; n = 0 }
	/* what is not expected where it stands */
	:: atomic { !reset && nempty(in) && !(s == ASKED && half) && !(undecided && half) && (in?[Q,_] || in?[R,_]) -> assert(false) }
	:: atomic { !reset && s != UP && nempty(in) && (in?[RTR,_] || in?[X,_] || in?[XF,_]) -> assert(false) }
	:: atomic { !reset && finTx && finRx && !rest && (s == PLAIN || s == UP) -> forget(); drain2(holdIn); drain3(heldIn); break }
	od
}

init {
	atomic {
		if :: talk = BULK :: talk = ANSWER :: talk = FREE fi;
		if :: skip :: mortal = true fi;
		if	/* two attempts, of one or of either */
		:: run End(0, 2, t0, t1, hold0, held1, hold1, held0); run End(1, 0, t1, t0, hold1, held0, hold0, held1)
		:: run End(0, 1, t0, t1, hold0, held1, hold1, held0); run End(1, 1, t1, t0, hold1, held0, hold0, held1)
		fi
	}
	/* A session breaks, whatever is under way on it is lost; it is dialled anew. That ends with the messages. */
end:	do
	:: atomic { hold0?_,_ -> if :: held1?_,_,_ :: empty(held1) fi }
	:: atomic { held1?_,_,_ -> if :: hold0?_,_ :: empty(hold0) fi }
	:: atomic { hold1?_,_ -> if :: held0?_,_,_ :: empty(held0) fi }
	:: atomic { held0?_,_,_ -> if :: hold1?_,_ :: empty(hold1) fi }
	/* An application resets, or a daemon dies: its kernel resets T, since the daemon's T lingers for 0 s until both halves have ended. Who has not
	 * seen that yet goes on as in a run without it, so either may see it at once. */
#ifdef FAULT_FIN_OF_DEATH
	:: atomic { mortal && nfull(t0) && !dead0 -> dead0 = true; t0!F,NONE }
#else
	:: atomic { mortal && !reset -> reset = true; mortal = false; talk = FREE;
		drain2(t0); drain2(t1); drain2(hold0); drain2(hold1); drain3(held0); drain3(held1) }
#endif
	od
}
